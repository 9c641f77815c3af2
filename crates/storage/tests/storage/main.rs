//! The seam's questions to engines in memory, and the store.
#![expect(clippy::unwrap_used, reason = "tests")]

mod conformance;
#[path = "../model/mod.rs"]
mod model;
#[path = "../seam/mod.rs"]
mod seam;
mod store;
mod store_lease;
