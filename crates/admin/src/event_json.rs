//! Events as JSON, both ways.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use steadfast_core::clock::Timestamp;
use steadfast_core::iso::format_time;
use steadfast_core::limits;
use steadfast_net::http::Problem;
use steadfast_wire::amqp::compose::{MessageParts, PropertyValue, compose};
use steadfast_wire::amqp::error::AmqpDecodeError;
use steadfast_wire::amqp::event::KEY;
use steadfast_wire::amqp::message::{MessageSections, SectionKind};
use steadfast_wire::amqp::value::{AmqpValue as Amqp, ItemReader};

/// An event in a send request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventRequest {
    /// A text is sent unchanged, anything else as JSON.
    body: Value,
    /// `base64` if the text of the body encodes bytes.
    encoding: Option<String>,
    content_type: Option<String>,
    message_id: Option<String>,
    #[serde(default)]
    properties: Map<String, Value>,
}

impl EventRequest {
    /// The message that is stored.
    pub(super) fn encode(&self, key: Option<&str>) -> Result<Vec<u8>, Problem> {
        let (body, own_type) = self.bytes()?;
        let mut properties = Vec::with_capacity(self.properties.len());
        for (name, value) in &self.properties {
            let Some(value) = PropertyValue::from_json(value) else {
                let words = format!("the property '{name}' is not a string, number or boolean");
                return Err(Problem::bad_request(words));
            };
            properties.push((name.as_str(), value));
        }
        let parts = MessageParts {
            key,
            content_type: self.content_type.as_deref().or(own_type),
            message_id: self.message_id.as_deref(),
            body: &body,
        };
        let mut message = Vec::with_capacity(body.len() + 128);
        let properties = properties
            .iter()
            .map(|(name, value): &(&str, PropertyValue)| (*name, value));
        compose(&mut message, &parts, properties);
        Ok(message)
    }

    fn bytes(&self) -> Result<(Vec<u8>, Option<&'static str>), Problem> {
        match (&self.body, self.encoding.as_deref()) {
            (Value::String(text), None | Some("text")) => Ok((text.clone().into_bytes(), None)),
            (Value::String(text), Some("base64")) => match STANDARD.decode(text) {
                Ok(bytes) => Ok((bytes, None)),
                Err(_) => Err(Problem::bad_request("the body is not base64")),
            },
            (value, None | Some("json")) => {
                Ok((value.to_string().into_bytes(), Some("application/json")))
            }
            _ => Err(Problem::bad_request(
                "the encoding of a body is 'text' or 'base64', and the body a string; or 'json'",
            )),
        }
    }
}

/// The metadata of a stored event.
pub(super) struct EventMetadata<'a> {
    pub(super) partition: u32,
    pub(super) sequence: i64,
    pub(super) offset: i64,
    pub(super) time: Timestamp,
    pub(super) key: Option<&'a str>,
}

/// The bytes are not a message.
struct MessageFormatError;

impl From<AmqpDecodeError> for MessageFormatError {
    fn from(_: AmqpDecodeError) -> Self {
        Self
    }
}

/// An event as JSON.
pub(super) fn shown(place: &EventMetadata<'_>, stored: &Bytes) -> Map<String, Value> {
    let mut shown = Map::new();
    let mut put = |name: &str, value: Value| shown.insert(name.to_owned(), value);
    put("partition", json!(place.partition));
    put("sequence", json!(place.sequence));
    put("offset", json!(place.offset));
    put("enqueued_time", json!(format_time(place.time)));
    // An event that a program stored through the library need not be a message.
    let read = content(stored).unwrap_or_else(|_| {
        let mut raw = Map::new();
        put_body(&mut raw, stored);
        raw
    });
    shown.extend(read);
    if let Some(key) = place.key {
        shown.insert("key".to_owned(), json!(key));
    }
    shown
}

fn content(stored: &[u8]) -> Result<Map<String, Value>, MessageFormatError> {
    let mut shown = Map::new();
    let mut data: Option<Vec<u8>> = None;
    let mut values = Vec::new();
    let mut sections = MessageSections::new(stored);
    while let Some(section) = sections.next()? {
        match section.part {
            SectionKind::MessageAnnotations => {
                if let Some(key) = section.map()?.find(KEY)? {
                    shown.insert("key".to_owned(), value(key, 0)?);
                }
            }
            SectionKind::Properties => {
                let mut fields = section.list()?;
                for index in 0..7 {
                    let field = fields.next()?;
                    let name = match index {
                        0 => "message_id",
                        5 => "correlation_id",
                        6 => "content_type",
                        _ => continue,
                    };
                    if field != Amqp::Null {
                        shown.insert(name.to_owned(), value(field, 0)?);
                    }
                }
            }
            SectionKind::ApplicationProperties => {
                let properties = map(section.map()?, 0)?;
                shown.insert("properties".to_owned(), properties);
            }
            SectionKind::Data => data
                .get_or_insert_default()
                .extend_from_slice(section.data()?),
            SectionKind::Sequence | SectionKind::Value => {
                values.push(value(section.value.value()?, 0)?)
            }
            _ => {}
        }
    }
    match (data, values.pop()) {
        (Some(data), _) => put_body(&mut shown, &data),
        (None, Some(last)) => {
            values.push(last);
            let body = match values.len() {
                1 => values.remove(0),
                _ => Value::Array(values),
            };
            shown.insert("body".to_owned(), body);
            shown.insert("encoding".to_owned(), json!("value"));
        }
        (None, None) => return Err(MessageFormatError),
    }
    Ok(shown)
}

fn put_body(shown: &mut Map<String, Value>, bytes: &[u8]) {
    let (encoding, body) = match std::str::from_utf8(bytes) {
        Ok(text) => ("text", text.to_owned()),
        Err(_) => ("base64", STANDARD.encode(bytes)),
    };
    shown.insert("body".to_owned(), json!(body));
    shown.insert("encoding".to_owned(), json!(encoding));
}

fn map(mut items: ItemReader<'_>, depth: usize) -> Result<Value, MessageFormatError> {
    let mut object = Map::new();
    while let Some((name, raw)) = items.next_pair()? {
        let name = match name.as_text() {
            Some(text) => text.to_owned(),
            None => value(name, depth + 1)?.to_string(),
        };
        object.insert(name, value(raw.value()?, depth + 1)?);
    }
    Ok(Value::Object(object))
}

fn value(of: Amqp<'_>, depth: usize) -> Result<Value, MessageFormatError> {
    if depth > limits::AMQP_DEPTH {
        return Err(MessageFormatError);
    }
    Ok(match of {
        Amqp::Null => Value::Null,
        Amqp::Bool(value) => json!(value),
        Amqp::Ulong(value) => json!(value),
        Amqp::Timestamp(ms) => json!(ms),
        Amqp::Float(bits) => json!(f32::from_bits(bits)),
        Amqp::Double(bits) => json!(f64::from_bits(bits)),
        Amqp::Char(number) => json!(char::from_u32(number)),
        Amqp::Uuid(bytes) => json!(uuid::Uuid::from_bytes(bytes).to_string()),
        Amqp::Binary(bytes) | Amqp::Decimal(bytes) => json!(STANDARD.encode(bytes)),
        Amqp::String(text) | Amqp::Symbol(text) => json!(text),
        Amqp::List(mut items) => {
            let mut list = Vec::new();
            for _ in 0..items.count() {
                list.push(value(items.next()?, depth + 1)?);
            }
            Value::Array(list)
        }
        Amqp::Map(items) => map(items, depth)?,
        Amqp::Array(array) => {
            let read = array.map(|item| value(item?, depth + 1));
            Value::Array(read.collect::<Result<_, _>>()?)
        }
        Amqp::Described(_, raw) => value(raw.value()?, depth + 1)?,
        number => json!(number.as_i64()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(draft: Value) -> Map<String, Value> {
        let draft: EventRequest = serde_json::from_value(draft).unwrap();
        let stored = draft.encode(Some("k")).unwrap();
        let place = EventMetadata {
            partition: 1,
            sequence: 2,
            offset: 3,
            time: Timestamp(0),
            key: None,
        };
        shown(&place, &stored.into())
    }

    #[test]
    fn an_event_comes_back_as_it_was_sent() {
        let properties = json!({"a": 1, "b": true, "c": "x", "d": 1.5});
        let text = there_and_back(json!({"body": "hello", "properties": properties,
            "message_id": "m", "content_type": "text/plain"}));
        assert_eq!(text["body"], "hello");
        assert_eq!(text["encoding"], "text");
        assert_eq!(text["properties"], properties);
        assert_eq!(
            (&text["message_id"], &text["key"]),
            (&json!("m"), &json!("k"))
        );
        assert_eq!(text["enqueued_time"], "1970-01-01T00:00:00Z");
        let bytes = there_and_back(json!({"body": "/w==", "encoding": "base64"}));
        assert_eq!(
            (&bytes["body"], &bytes["encoding"]),
            (&json!("/w=="), &json!("base64"))
        );
        let object = there_and_back(json!({"body": {"n": [1, null]}}));
        assert_eq!(object["body"], r#"{"n":[1,null]}"#);
        assert_eq!(object["content_type"], "application/json");
    }

    #[test]
    fn what_is_no_message_is_shown_as_bytes() {
        let place = EventMetadata {
            partition: 0,
            sequence: 0,
            offset: 0,
            time: Timestamp(0),
            key: None,
        };
        let raw = shown(&place, &Bytes::from_static(b"plain"));
        assert_eq!(
            (&raw["body"], &raw["encoding"]),
            (&json!("plain"), &json!("text"))
        );
    }
}
