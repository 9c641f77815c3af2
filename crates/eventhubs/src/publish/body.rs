//! Parses the body of a request into events.

use axum::http::HeaderMap;
use serde_json::{Map, Value};
use steadfast_events::EventDataBatch;
use steadfast_wire::amqp::compose::{MessageParts, PropertyValue, compose};

use super::error::PublishError;
use super::headers;

/// The content type of a body that holds many events.
const MANY: &str = "application/vnd.microsoft.servicebus.json";

/// The publication of a request; `publisher` is the partition key if the address names
/// one.
pub(super) fn publication(
    headers: &HeaderMap,
    body: &[u8],
    publisher: Option<&str>,
) -> Result<EventDataBatch, PublishError> {
    let content_type = headers::text(headers, "content-type");
    let key = match publisher {
        Some(name) => Some(name.to_owned()),
        None => headers::key(headers)?,
    };
    let is_many = content_type.is_some_and(|text| {
        let kind = text.split(';').next().unwrap_or("");
        kind.trim().eq_ignore_ascii_case(MANY)
    });
    if is_many {
        return many(body, key);
    }
    let properties = headers::properties(headers)?;
    let mut batch = empty(key.as_deref())?;
    let parts = MessageParts {
        key: key.as_deref(),
        content_type,
        message_id: None,
        body,
    };
    push(&mut batch, &parts, &properties)?;
    Ok(batch)
}

fn empty(key: Option<&str>) -> Result<EventDataBatch, PublishError> {
    Ok(match key {
        Some(key) => EventDataBatch::keyed(key)?,
        None => EventDataBatch::new(),
    })
}

fn push(
    batch: &mut EventDataBatch,
    parts: &MessageParts<'_>,
    properties: &[(String, PropertyValue)],
) -> Result<(), PublishError> {
    let mut message = Vec::with_capacity(parts.body.len() + 128);
    let properties = properties
        .iter()
        .map(|(name, value)| (name.as_str(), value));
    compose(&mut message, parts, properties);
    batch.push(&message)?;
    Ok(())
}

/// `[{"Body": "..", "UserProperties": {..}, "BrokerProperties": {..}}]`: all events
/// go to one partition, so they have one key.
fn many(body: &[u8], mut key: Option<String>) -> Result<EventDataBatch, PublishError> {
    let items: Vec<Map<String, Value>> = serde_json::from_slice(body).map_err(|error| {
        PublishError::malformed(format!("the batch is not a list of objects: {error}"))
    })?;
    for item in &items {
        let Some(properties) = item
            .get("BrokerProperties")
            .filter(|value| !value.is_null())
        else {
            continue;
        };
        match (&key, headers::key_of(properties)?) {
            (Some(key), Some(other)) if *key != other => {
                return Err(PublishError::malformed(
                    "a batch has one PartitionKey; send the rest apart",
                ));
            }
            (None, Some(other)) => key = Some(other),
            _ => {}
        }
    }
    let mut batch = empty(key.as_deref())?;
    for item in &items {
        let Some(Value::String(text)) = item.get("Body") else {
            return Err(PublishError::malformed(
                "every event of a batch has a Body, a string",
            ));
        };
        let parts = MessageParts {
            key: key.as_deref(),
            body: text.as_bytes(),
            ..MessageParts::default()
        };
        push(&mut batch, &parts, &user_properties(item)?)?;
    }
    Ok(batch)
}

fn user_properties(
    item: &Map<String, Value>,
) -> Result<Vec<(String, PropertyValue)>, PublishError> {
    let map = match item.get("UserProperties") {
        Some(Value::Object(map)) => map,
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(_) => return Err(PublishError::malformed("UserProperties is an object")),
    };
    let mut properties = Vec::with_capacity(map.len());
    for (name, value) in map {
        let Some(value) = PropertyValue::from_json(value) else {
            let words = format!("the property '{name}' is not a string, number or boolean");
            return Err(PublishError::malformed(words));
        };
        properties.push((name.clone(), value));
    }
    Ok(properties)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_batch_is_one_publication_with_one_key() {
        let many = [(
            "content-type",
            "application/vnd.microsoft.servicebus.json; charset=utf-8",
        )];
        let body = br#"[{"Body":"a","BrokerProperties":{"PartitionKey":"k"}},
                        {"Body":"b","UserProperties":{"n":1,"x":1.5,"t":"s","y":true}}]"#;
        let batch = publication(&headers(&many), body, None).unwrap();
        assert_eq!((batch.count(), batch.key()), (2, Some("k")));
        for wrong in [
            &br#"{"Body":"a"}"#[..],
            br#"[{"Body":1}]"#,
            br#"[{"Body":"a","UserProperties":{"n":[]}}]"#,
            br#"[{"Body":"a","BrokerProperties":{"PartitionKey":"k"}},
                {"Body":"a","BrokerProperties":{"PartitionKey":"l"}}]"#,
        ] {
            assert!(publication(&headers(&many), wrong, None).is_err());
        }
    }

    #[test]
    fn the_publisher_is_the_key_and_broker_properties_must_be_readable() {
        let own = [("brokerproperties", r#"{"PartitionKey":"mine"}"#)];
        let batch = publication(&headers(&own), b"x", None).unwrap();
        assert_eq!(batch.key(), Some("mine"));
        let batch = publication(&headers(&own), b"x", Some("device")).unwrap();
        assert_eq!(batch.key(), Some("device"));
        let bad = [("brokerproperties", "PartitionKey=mine")];
        assert!(publication(&headers(&bad), b"x", None).is_err());
    }
}
