//! Orchestrations, activities and entities in Rust, in this process.
//!
//! An orchestration is an async function that is replayed from its history: it
//! awaits only what its [`Context`] gives. What it asked for once is never asked
//! for twice, so its code must do the same again for the same history; time, ids
//! and randomness come from the context.

mod activity;
mod calls;
mod context;
mod entity;
mod functions;
mod host;
mod replay;
mod section;
mod shared;

use std::future::Future;
use std::pin::Pin;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use activity::ActivityContext;
pub use calls::{Call, Retry};
pub use context::Context;
pub use entity::EntityContext;
pub use functions::Functions;
pub use host::Host;
pub use section::{CriticalSection, Section};

use crate::failure::Failure;

/// A future that somebody else runs.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A payload as it is stored: JSON.
pub(crate) fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<Option<String>, Failure> {
    let text = serde_json::to_string(value);
    text.map(Some).map_err(|error| {
        let what = std::any::type_name::<T>();
        Failure::lasting(
            "Serialization",
            format!("{what} cannot be written as JSON: {error}"),
        )
    })
}

/// The value in a payload; no payload is `null`.
pub(crate) fn from_json<T: DeserializeOwned>(text: Option<&str>) -> Result<T, Failure> {
    serde_json::from_str(text.unwrap_or("null")).map_err(|error| {
        let what = std::any::type_name::<T>();
        Failure::lasting(
            "Deserialization",
            format!("a payload is no {what}: {error}"),
        )
    })
}

/// What a panic said.
pub(crate) fn panicked(payload: &(dyn std::any::Any + Send)) -> Failure {
    let said = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned());
    Failure::new("Panic", said.unwrap_or_else(|| "the code panicked".into()))
}
