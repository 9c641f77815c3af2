//! Event hubs as targets of jobs.
//!
//! `{"eventHub": "houses", "body": "..", ..}` publishes an event: exactly once per
//! occurrence, because the message is part of the commit that claims the occurrence.

use serde_json::{Map, Value};
use steadfast_events::{EventDataBatch, publish_message};
use steadfast_jobs::{JobId, Target};
use steadfast_wire::amqp::compose::{MessageParts, PropertyValue, compose};
use uuid::Uuid;

/// Known members of a target.
const MEMBERS: [&str; 6] = [
    "eventHub",
    "body",
    "partition",
    "partitionKey",
    "contentType",
    "properties",
];

/// Property names of every event that a job publishes.
const JOB: &str = "steadfast-job";
const OCCURRENCE: &str = "steadfast-occurrence";

/// Length of the time of an occurrence: `2030-01-01T05:00:00Z`.
pub const OCCURRENCE_BYTES: usize = 20;

/// The event hub that a target names, and the message for each occurrence.
pub fn publication(job: &JobId, target: &Value) -> Result<(String, Target), String> {
    let map = target.as_object().ok_or("an object is expected")?;
    if let Some(other) = map.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
        return Err(format!(
            "'{other}' is not known here: {}",
            MEMBERS.join(", ")
        ));
    }
    let hub = text(map, "eventHub")?.ok_or("'eventHub' is required")?;
    let partition = match map.get("partition").filter(|value| !value.is_null()) {
        Some(value) => {
            let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
            Some(number.ok_or("'partition' is a number")?)
        }
        None => None,
    };
    let key = text(map, "partitionKey")?;
    // A random placeholder marks where the time of the occurrence is inserted.
    let mark = Uuid::new_v4().simple().to_string()[..OCCURRENCE_BYTES].to_owned();
    let mut properties = own_properties(map)?;
    properties.push((JOB.to_owned(), PropertyValue::String(shown(job))));
    properties.push((OCCURRENCE.to_owned(), PropertyValue::String(mark.clone())));
    let parts = MessageParts {
        key,
        content_type: text(map, "contentType")?,
        message_id: None,
        body: text(map, "body")?.unwrap_or("").as_bytes(),
    };
    let mut message = Vec::new();
    let named = properties.iter();
    compose(
        &mut message,
        &parts,
        named.map(|(name, value)| (name.as_str(), value)),
    );
    let batch = match key {
        Some(key) => EventDataBatch::keyed(key),
        None => Ok(EventDataBatch::new()),
    };
    let mut batch = batch.map_err(|error| error.message().to_owned())?;
    let pushed = batch.push(&message);
    pushed.map_err(|error| error.message().to_owned())?;
    let letter =
        publish_message(hub, partition, batch).map_err(|error| error.message().to_owned())?;
    let body = letter.body.to_vec();
    let place = body
        .windows(OCCURRENCE_BYTES)
        .position(|part| part == mark.as_bytes());
    let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let target = Target::Inside {
        kind: letter.to.kind.0,
        name: words(&letter.to.name),
        key: words(&letter.to.key),
        body,
        times: place.map(|place| place as u32).into_iter().collect(),
    };
    Ok((hub.to_owned(), target))
}

/// `subscription/group/collection/job`.
fn shown(job: &JobId) -> String {
    let home = &job.collection;
    [&home.subscription, &home.group, &home.name, &job.name]
        .map(String::as_str)
        .join("/")
}

fn text<'a>(map: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, String> {
    match map.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("'{name}' is a text")),
    }
}

fn own_properties(map: &Map<String, Value>) -> Result<Vec<(String, PropertyValue)>, String> {
    let own = match map.get("properties") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(own)) => own,
        Some(_) => return Err("'properties' is an object".into()),
    };
    let own = own
        .iter()
        .map(|(name, value)| match PropertyValue::from_json(value) {
            _ if [JOB, OCCURRENCE].contains(&name.as_str()) => {
                Err(format!("the property '{name}' is ours"))
            }
            Some(value) => Ok((name.clone(), value)),
            None => Err(format!(
                "the property '{name}' is not a text, number or boolean"
            )),
        });
    own.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job() -> JobId {
        let home = steadfast_jobs::CollectionId::new("main", "default", "jc").unwrap();
        home.job("nightly").unwrap()
    }

    #[test]
    fn there_is_room_for_the_time_and_it_is_found() {
        let target = json!({"eventHub": "houses", "body": "b", "properties": {"n": 1}});
        let (hub, target) = publication(&job(), &target).unwrap();
        let Target::Inside { body, times, .. } = target else {
            panic!("it is inside");
        };
        assert_eq!((hub.as_str(), times.len()), ("houses", 1));
        let before = &body[..times[0] as usize];
        assert!(
            before
                .windows(OCCURRENCE.len())
                .any(|part| part == OCCURRENCE.as_bytes())
        );
    }

    #[test]
    fn what_cannot_be_published_is_said_at_once() {
        for (target, words) in [
            (json!("houses"), "object"),
            (json!({}), "'eventHub' is required"),
            (
                json!({"eventHub": "a", "entity": "b"}),
                "'entity' is not known",
            ),
            (json!({"eventHub": "a", "partition": -1}), "'partition'"),
            (json!({"eventHub": "a", "body": 5}), "'body' is a text"),
            (json!({"eventHub": "a", "properties": {"x": []}}), "'x'"),
            (
                json!({"eventHub": "a", "properties": {JOB: "x"}}),
                "is ours",
            ),
            (
                json!({"eventHub": "a", "body": "x".repeat(1_100_000)}),
                "bytes at most",
            ),
        ] {
            let why = publication(&job(), &target).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
