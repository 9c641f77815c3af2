//! Entities as rows: a state, a queue in front of it, a lock.
//!
//! A request waits in one of two lanes. The front lane is for the lock holder; the main
//! lane is for all other callers, and is blocked while the lock is held. A lock request
//! waits in the main lane like any request, and is granted at its head.

mod batch;
mod inline;
mod lock;
mod outcome;
mod queue;
mod record;

pub(crate) use batch::{batch_done, direct, log_failure};
pub(crate) use lock::{lock, release, unlock};
pub use outcome::Outcome;
pub(crate) use queue::{due, empty, erase, forget, request};
pub(crate) use record::{EntityRecord, FRONT, LockHolder, MAIN, QueueRecord};
