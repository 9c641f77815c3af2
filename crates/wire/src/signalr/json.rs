//! Reads hub messages in JSON.

use std::fmt;

use bytes::Bytes;
use serde::de::{Error as _, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::error::{Result, SignalRDecodeError};
use super::message::{ARGUMENTS, Invocation, Message, Outcome, kind};

/// All fields of all messages.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonFields<'a> {
    r#type: i64,
    #[serde(default)]
    invocation_id: Option<String>,
    #[serde(default)]
    target: Option<String>,
    #[serde(default, borrow, deserialize_with = "some_raws")]
    arguments: Vec<&'a RawValue>,
    #[serde(default, deserialize_with = "some_texts")]
    stream_ids: Vec<String>,
    // A null result is a result; absence means a void call.
    #[serde(default, borrow, deserialize_with = "present")]
    item: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    allow_reconnect: Option<bool>,
    #[serde(default)]
    sequence_id: Option<u64>,
}

pub(super) fn read(body: &Bytes) -> Result<Message> {
    let wrong = |_| SignalRDecodeError::new("the JSON of a hub message");
    let fields: JsonFields<'_> = serde_json::from_slice(body).map_err(wrong)?;
    let raw = |value: &RawValue| body.slice_ref(value.get().as_bytes());
    let id =
        |id: Option<String>| id.ok_or(SignalRDecodeError::new("a message without invocationId"));
    Ok(match fields.r#type {
        own @ (kind::INVOCATION | kind::STREAM_INVOCATION) => Message::Invocation(Invocation {
            is_stream: own == kind::STREAM_INVOCATION,
            id: fields.invocation_id,
            target: fields
                .target
                .ok_or(SignalRDecodeError::new("a call without target"))?,
            arguments: fields.arguments.into_iter().map(raw).collect(),
            streams: fields.stream_ids,
        }),
        kind::ITEM => Message::Item {
            id: id(fields.invocation_id)?,
            item: raw(fields
                .item
                .ok_or(SignalRDecodeError::new("an item without value"))?),
        },
        kind::COMPLETION => Message::Completion {
            id: id(fields.invocation_id)?,
            outcome: match (fields.error, fields.result) {
                (Some(_), Some(_)) => {
                    return Err(SignalRDecodeError::new(
                        "a completion with result and error",
                    ));
                }
                (Some(error), None) => Outcome::Error(error),
                (None, Some(result)) => Outcome::Value(raw(result)),
                (None, None) => Outcome::Void,
            },
        },
        kind::CANCEL => Message::Cancel {
            id: id(fields.invocation_id)?,
        },
        kind::PING => Message::Ping,
        kind::CLOSE => Message::Close {
            error: fields.error,
            allow_reconnect: fields.allow_reconnect.unwrap_or_default(),
        },
        kind::ACK => Message::Ack(number(fields.sequence_id)?),
        kind::SEQUENCE => Message::Sequence(number(fields.sequence_id)?),
        other => Message::Unknown(other),
    })
}

pub(super) fn look(body: &Bytes) -> Result<(i64, Option<String>)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct MessageType {
        r#type: i64,
        #[serde(default)]
        invocation_id: Option<String>,
    }
    let wrong = |_| SignalRDecodeError::new("the JSON of a hub message");
    let look: MessageType = serde_json::from_slice(body).map_err(wrong)?;
    Ok((look.r#type, look.invocation_id))
}

fn number(number: Option<u64>) -> Result<u64> {
    number.ok_or(SignalRDecodeError::new("a message without sequenceId"))
}

fn present<'de, D>(deserializer: D) -> std::result::Result<Option<&'de RawValue>, D::Error>
where
    D: Deserializer<'de>,
{
    <&RawValue>::deserialize(deserializer).map(Some)
}

fn some_raws<'de, D>(deserializer: D) -> std::result::Result<Vec<&'de RawValue>, D::Error>
where
    D: Deserializer<'de>,
{
    deserializer.deserialize_seq(BoundedVisitor(Vec::new()))
}

fn some_texts<'de, D>(deserializer: D) -> std::result::Result<Vec<String>, D::Error>
where
    D: Deserializer<'de>,
{
    let texts = Option::<BoundedVec<String>>::deserialize(deserializer)?;
    Ok(texts.map(|texts| texts.0).unwrap_or_default())
}

struct BoundedVec<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for BoundedVec<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer
            .deserialize_seq(BoundedVisitor(Vec::new()))
            .map(Self)
    }
}

/// A list with a bounded number of values.
struct BoundedVisitor<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for BoundedVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ARGUMENTS} values at most")
    }

    fn visit_seq<A: SeqAccess<'de>>(
        mut self,
        mut values: A,
    ) -> std::result::Result<Vec<T>, A::Error> {
        while self.0.len() < ARGUMENTS {
            match values.next_element()? {
                Some(value) => self.0.push(value),
                None => return Ok(self.0),
            }
        }
        match values.next_element::<IgnoredAny>()? {
            Some(_) => Err(A::Error::custom("too many values")),
            None => Ok(self.0),
        }
    }
}
