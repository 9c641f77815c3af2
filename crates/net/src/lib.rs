//! Shared by all protocols: listeners, access, frames.
//!
//! The siblings above it, one crate per protocol, use this one and never each other. No state
//! in these crates outlives a connection; protocol types end there: the services below know
//! nothing of HTTP or AMQP.
//!
//! # One request, from socket to answer
//!
//! 1. `listen/listener.rs`: the listener takes a permit (connections are bounded;
//!    `listen/stream.rs` holds it until the connection closes, also after an upgrade to a
//!    WebSocket), accepts the connection and, with a `Certificate` (`listen/certificate.rs`),
//!    encrypts it within a time limit. When descriptors run out the listener waits, and
//!    continues.
//! 2. `http/serve.rs`: HTTP/1.1 or 2, with its limits. An idle client is disconnected.
//! 3. The middleware of all routes, from outside in: `http/forwarded.rs` (the client's
//!    address, and which proxies are trusted), `http/span.rs` (a span under the caller's
//!    `traceparent`), `http/metrics.rs`, `http/cors.rs`.
//! 4. `crates/admin/src/interface.rs`: the guard of the route passes the proof and the demand
//!    of the route (`access/demand.rs`: rights, area, entity, audience) to `access/verify.rs`,
//!    the one place that verifies secrets, signatures and web tokens; it returns a
//!    `Principal`. Only then is the body read, within limits.
//! 5. `crates/admin/src/node.rs`: the handler calls `NodeAdmin`, which the node implements:
//!    `crates/steadfast/src/node/admin.rs`. Services are reached by a `Handle` (documentation
//!    of `crates/partition/src/lib.rs`).
//! 6. Back: `http/problem.rs` is the one form of errors and the one table from codes to
//!    statuses.
//!
//! # Outbound calls
//!
//! `egress/guard.rs` resolves the target of a call, judges its addresses by
//! `egress/policy.rs`, and lets the client of `egress/connect.rs` connect to those only.
//!
//! # Tests
//!
//! - `tests/net/log_ring.rs`: what the log of a node keeps, and how it is paged.
//! - `tests/net/traceparent.rs`: spans continue the trace of their caller.
//! - `cargo xtask mutants access` plants faults in proofs and rights.

pub mod access;
pub mod connection_string;
pub mod egress;
pub mod grpc;
pub mod http;
pub mod listen;
pub mod log_ring;
pub mod network;
pub mod sealing;
pub mod telemetry;
