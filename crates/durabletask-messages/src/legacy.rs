//! Messages to entities that are written as events.
//!
//! Older workers and Durable Functions hosts send `op`, `op@<time>` and `release` to
//! `@name@key`, with a JSON text. The history shows them as they were sent, and the
//! responses are events too, named after the request.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use steadfast_core::iso::parse_time;
use steadfast_durable::{
    ActionKind, EntityOperation, FailureDetails, LegacyMessage, LockRequest, Moment, UnlockRequest,
};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::history_event::EventType;

use super::error::{ConvertError, payload};

/// The result of a granted lock.
const GRANTED: &str = "Lock Acquisition Completed";

/// A request. Unknown members are ignored.
#[derive(Deserialize)]
struct Request {
    op: Option<String>,
    #[serde(default)]
    signal: bool,
    input: Option<String>,
    #[serde(default)]
    id: String,
    parent: Option<String>,
    #[serde(rename = "parentExecution")]
    parent_execution: Option<String>,
    due: Option<String>,
    lockset: Option<Vec<LegacyEntity>>,
    #[serde(default)]
    pos: i32,
}

#[derive(Deserialize)]
struct LegacyEntity {
    name: String,
    key: String,
}

#[derive(Deserialize)]
struct LegacyRelease {
    parent: Option<String>,
    id: String,
}

/// Decodes an event to an entity.
pub(super) fn deed(
    entity: String,
    name: &str,
    data: Option<String>,
) -> Result<ActionKind, ConvertError> {
    let data = payload("the message", data)?;
    let text = data.clone().unwrap_or_default();
    let legacy = Some(LegacyMessage {
        name: name.to_owned(),
        data,
    });
    if name == "release" {
        let LegacyRelease { parent, id } = read(&text)?;
        return Ok(ActionKind::Unlock(UnlockRequest {
            section: id,
            target: entity,
            parent,
            legacy,
        }));
    }
    let suffix = match name.strip_prefix("op") {
        Some("") => None,
        Some(rest) if rest.starts_with('@') => Some(&rest[1..]),
        _ => {
            let why = format!(
                "an entity does not know the message '{}'",
                name.escape_debug()
            );
            return Err(ConvertError::new(why));
        }
    };
    let request: Request = read(&text)?;
    let due = request.due.as_deref().or(suffix);
    let scheduled = due.map(time).transpose()?;
    if request.lockset.is_some() || request.op.is_none() {
        let set = request.lockset.unwrap_or_default().into_iter();
        return Ok(ActionKind::Lock(LockRequest {
            section: request.id,
            set: set
                .map(|entity| format!("@{}@{}", entity.name, entity.key))
                .collect(),
            position: request.pos,
            parent: request.parent,
            legacy,
        }));
    }
    let operation = EntityOperation {
        request: request.id,
        name: request.op.unwrap_or_default(),
        input: request.input,
        scheduled,
        target: entity,
        parent: request.parent,
        parent_execution: request.parent_execution,
        legacy,
        trace: None,
    };
    Ok(if request.signal {
        ActionKind::Signal(operation)
    } else {
        ActionKind::Call(operation)
    })
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, ConvertError> {
    serde_json::from_str(text)
        .map_err(|error| ConvertError::new(format!("a message to an entity: {error}")))
}

fn time(text: &str) -> Result<Moment, ConvertError> {
    let time = parse_time(text);
    let time = time.ok_or_else(|| ConvertError::new("a message to an entity: 'due' is no time"))?;
    Ok(time.into())
}

/// Encodes a message as its sender wrote it.
pub(super) fn sent(target: &str, legacy: Option<&LegacyMessage>) -> EventType {
    let legacy = legacy.cloned().unwrap_or_default();
    EventType::EventSent(wire::EventSentEvent {
        instance_id: target.to_owned(),
        name: legacy.name,
        input: legacy.data,
    })
}

/// The response to a call.
pub(super) fn completed(request: &str, output: Option<&str>) -> EventType {
    raised(request, &json!({"result": output}))
}

/// The response to a failed call.
pub(super) fn failed(request: &str, failure: &FailureDetails) -> EventType {
    let answer = json!({
        "result": failure.message,
        "exceptionType": failure.kind,
        "failureDetails": details(failure),
    });
    raised(request, &answer)
}

/// The response to a lock request.
pub(super) fn granted(section: &str) -> EventType {
    raised(section, &json!({"result": GRANTED}))
}

fn raised(request: &str, answer: &Value) -> EventType {
    EventType::EventRaised(wire::EventRaisedEvent {
        name: request.to_lowercase(),
        input: Some(answer.to_string()),
    })
}

fn details(failure: &FailureDetails) -> Value {
    let property = |text: &String| {
        let read = serde_json::from_str(text);
        read.unwrap_or_else(|_| Value::String(text.clone()))
    };
    let properties = failure.properties.iter();
    let properties: Map<_, _> = properties
        .map(|(name, text)| (name.clone(), property(text)))
        .collect();
    json!({
        "ErrorType": failure.kind,
        "ErrorMessage": failure.message,
        "StackTrace": failure.stack,
        "InnerFailure": failure.inner.first().map(details),
        "IsNonRetriable": failure.is_final,
        "Properties": if properties.is_empty() { Value::Null } else { Value::Object(properties) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

    fn parsed(name: &str, data: &Value) -> Result<ActionKind, ConvertError> {
        deed("@counter@A".into(), name, Some(data.to_string()))
    }

    #[test]
    fn calls_signals_locks_and_releases_are_told_apart() {
        let call = json!({"op": "get", "id": GUID, "parent": "p", "parentExecution": "e",
            "$type": "x", "Timestamp": "2026-01-01T00:00:00Z"});
        let Ok(ActionKind::Call(call)) = parsed("op", &call) else {
            panic!("no call")
        };
        assert_eq!(
            (call.name.as_str(), call.target.as_str()),
            ("get", "@counter@A")
        );
        assert_eq!(call.parent_execution.as_deref(), Some("e"));
        assert_eq!(call.legacy.unwrap().name, "op");
        let signal = json!({"op": "add", "signal": true, "input": "1", "id": GUID});
        let later = "op@2026-01-31T12:00:00.1234567Z";
        let Ok(ActionKind::Signal(signal)) = parsed(later, &signal) else {
            panic!("no signal")
        };
        assert_eq!(signal.scheduled.map(|at| at.seconds), Some(1_769_860_800));
        let lock = json!({"op": null, "id": GUID, "parent": "p",
            "lockset": [{"name": "counter", "key": "A"}, {"name": "counter", "key": "@B"}]});
        let Ok(ActionKind::Lock(lock)) = parsed("op", &lock) else {
            panic!("no lock")
        };
        assert_eq!(lock.set, ["@counter@A", "@counter@@B"]);
        let Ok(ActionKind::Unlock(unlock)) = parsed("release", &json!({"parent": "p", "id": GUID}))
        else {
            panic!("no release")
        };
        assert_eq!(
            (unlock.section.as_str(), unlock.target.as_str()),
            (GUID, "@counter@A")
        );
    }

    #[test]
    fn what_is_no_message_to_an_entity_is_refused() {
        assert!(parsed("hello", &json!({})).is_err());
        assert!(parsed("opera", &json!({"op": "a"})).is_err());
        assert!(parsed("op", &json!([])).is_err());
        assert!(parsed("op@soon", &json!({"op": "a", "signal": true})).is_err());
        assert!(parsed("release", &json!({})).is_err());
        assert!(deed("@a@b".into(), "op", None).is_err());
    }

    #[test]
    fn answers_are_events_with_the_name_of_the_request() {
        let EventType::EventRaised(raised) = completed(&GUID.to_uppercase(), Some("5")) else {
            panic!("no event")
        };
        assert_eq!(raised.name, GUID);
        assert_eq!(raised.input.as_deref(), Some(r#"{"result":"5"}"#));
        let failure = FailureDetails::new("ValueError", "no");
        let EventType::EventRaised(raised) = failed(GUID, &failure) else {
            panic!("no event")
        };
        let answer: Value = serde_json::from_str(&raised.input.unwrap()).unwrap();
        assert_eq!(answer["exceptionType"], "ValueError");
        assert_eq!(answer["failureDetails"]["ErrorMessage"], "no");
        let EventType::EventRaised(raised) = granted(GUID) else {
            panic!("no event")
        };
        let answer = r#"{"result":"Lock Acquisition Completed"}"#;
        assert_eq!(raised.input.as_deref(), Some(answer));
    }
}
