//! Logs and traces of what sessions share.
#![allow(clippy::unwrap_used, reason = "tests")]

mod log_ring;
mod traceparent;
