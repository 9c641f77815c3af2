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
mod runner;
mod section;
mod shared;
mod typed;

pub use activity::ActivityContext;
pub use calls::{Call, Retry};
pub use context::Context;
pub use entity::EntityContext;
pub use functions::Functions;
pub use host::Host;
pub use lock::Section;
pub use payload::BoxFuture;
pub use runner::{Ran, Runner};
pub use section::CriticalSection;
pub use typed::{Caller, EntityType};
#[doc(hidden)]
pub use typed::{call_typed, signal_typed};
