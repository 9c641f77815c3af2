//! A service with a number in a slot of every partition.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Caller, PARTITIONS};

/// The names of all slots.
pub(crate) fn names() -> impl Iterator<Item = String> {
    (0..PARTITIONS).map(|slot| format!("s{slot}"))
}

/// Makes the service, with 0 in each slot.
pub(crate) fn fill(server: &Caller, service: &str) {
    let scheme = json!({"scheme": {"named": names().collect::<Vec<_>>()}});
    let path = format!("/v1/state/{service}");
    let (status, answer) = server.ask(Method::PUT, &path, Some(scheme));
    assert_eq!(status, StatusCode::NO_CONTENT, "{answer}");
    for slot in names() {
        write(server, service, &slot, 0);
    }
}

pub(crate) fn write(server: &Caller, service: &str, slot: &str, number: u64) {
    let (status, answer) = try_write(server, service, slot, number);
    assert_eq!(status, StatusCode::OK, "{answer}");
}

pub(crate) fn try_write(
    server: &Caller,
    service: &str,
    slot: &str,
    number: u64,
) -> (StatusCode, Value) {
    let step = json!({"op": "put", "collection": "texts", "key": "n", "value": number});
    let body = json!({"slot": slot, "steps": [step]});
    server.ask(Method::POST, &format!("/v1/state/{service}"), Some(body))
}

/// The question for the number in a slot.
pub(crate) fn question(slot: &str) -> Value {
    let step = json!({"op": "get", "collection": "texts", "key": "n"});
    json!({"slot": slot, "steps": [step]})
}

pub(crate) fn read(server: &Caller, service: &str, slot: &str) -> (StatusCode, Value) {
    let path = format!("/v1/state/{service}");
    let (status, answer) = server.ask(Method::POST, &path, Some(question(slot)));
    (status, answer["results"][0]["value"].clone())
}
