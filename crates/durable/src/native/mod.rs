//! Orchestrations and entities in Rust.
//!
//! An orchestration is an async function that is replayed from its history: it awaits
//! only futures of its [`Context`]. A replay does not repeat earlier actions, so the code
//! must be deterministic for the same history; time, ids and randomness come from the
//! context.

mod activity;
mod calls;
mod context;
mod entity;
mod functions;
mod host;
mod lock;
mod payload;
mod replay;
mod replay_state;
mod runner;
mod section;
mod typed;

pub use activity::ActivityContext;
pub use calls::{RetryOptions, TaskFuture};
pub use context::Context;
pub use entity::EntityContext;
pub use functions::Functions;
pub use host::FunctionHost;
pub use lock::SectionGuard;
pub use payload::BoxFuture;
pub(crate) use payload::to_json;
pub use runner::{FunctionRunner, RunResult};
pub use section::CriticalSectionError;
pub use typed::{EntityCaller, EntityType};
#[doc(hidden)]
pub use typed::{call_typed, signal_typed};
