//! Payloads as JSON, and failures of user code.

use std::future::Future;
use std::pin::Pin;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failure::FailureDetails;

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A payload as it is stored: JSON.
pub(crate) fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<Option<String>, FailureDetails> {
    let text = serde_json::to_string(value);
    text.map(Some).map_err(|error| {
        let what = std::any::type_name::<T>();
        FailureDetails::lasting(
            "Serialization",
            format!("{what} cannot be written as JSON: {error}"),
        )
    })
}

/// The value in a payload; no payload is `null`.
pub(super) fn from_json<T: DeserializeOwned>(text: Option<&str>) -> Result<T, FailureDetails> {
    serde_json::from_str(text.unwrap_or("null")).map_err(|error| {
        let what = std::any::type_name::<T>();
        FailureDetails::lasting(
            "Deserialization",
            format!("a payload is not a valid {what}: {error}"),
        )
    })
}

/// The failure for a panic, with its message.
pub(super) fn panicked(payload: &(dyn std::any::Any + Send)) -> FailureDetails {
    let said = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned());
    FailureDetails::new("Panic", said.unwrap_or_else(|| "the code panicked".into()))
}
