//! Builds messages from the fields of other protocols.

use serde_json::Value;

use super::code::descriptor;
use super::event::KEY;
use super::write;

/// The parts of a message. Empty parts are left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessageParts<'a> {
    pub key: Option<&'a str>,
    pub content_type: Option<&'a str>,
    pub message_id: Option<&'a str>,
    pub body: &'a [u8],
}

/// The value of an application property.
#[derive(Clone, Debug, PartialEq)]
pub enum PropertyValue {
    Bool(bool),
    Long(i64),
    Double(f64),
    String(String),
}

impl PropertyValue {
    /// The property that a JSON value stands for: a text, a number or a boolean.
    pub fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::String(text.clone())),
            Value::Bool(value) => Some(Self::Bool(*value)),
            Value::Number(number) => match number.as_i64() {
                Some(whole) => Some(Self::Long(whole)),
                None => number.as_f64().map(Self::Double),
            },
            _ => None,
        }
    }
}

/// Appends the message.
pub fn compose<'a>(
    out: &mut Vec<u8>,
    parts: &MessageParts<'_>,
    properties: impl ExactSizeIterator<Item = (&'a str, &'a PropertyValue)>,
) {
    if let Some(key) = parts.key {
        write::descriptor(out, descriptor::MESSAGE_ANNOTATIONS);
        write::map(out, 1, |out| {
            write::symbol(out, KEY);
            write::string(out, key);
        });
    }
    if parts.content_type.is_some() || parts.message_id.is_some() {
        write::descriptor(out, descriptor::PROPERTIES);
        write::list(out, 7, |out| {
            write::optional(out, parts.message_id, write::string);
            for _ in 0..5 {
                write::null(out);
            }
            write::optional(out, parts.content_type, write::symbol);
        });
    }
    if properties.len() > 0 {
        write::descriptor(out, descriptor::APPLICATION_PROPERTIES);
        write::map(out, properties.len() as u32, |out| {
            for (name, value) in properties {
                write::string(out, name);
                match value {
                    PropertyValue::Bool(value) => write::boolean(out, *value),
                    PropertyValue::Long(value) => write::long(out, *value),
                    PropertyValue::Double(value) => write::double(out, value.to_bits()),
                    PropertyValue::String(text) => write::string(out, text),
                }
            }
        });
    }
    write::descriptor(out, descriptor::DATA);
    write::binary(out, parts.body);
}
