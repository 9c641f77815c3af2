//! Stored bytes as JSON, without their Rust types.
//!
//! For tools and REST. A record is an object with field numbers for names. A key is a
//! text, number, truth value, or a list of its fields; a value without a JSON form is an
//! object with one name that starts with `$`. [`key_to_json`] and [`json_to_key`] are
//! each other's inverse; the JSON of values is for display only.

use minicbor::data::Type;
use serde_json::{Value, json};
use steadfast_core::limits::RECORD_DEPTH;

use crate::schema::calendar;
use crate::schema::cbor::CborReader;
use crate::schema::envelope::open;
use crate::schema::error::{Error, ErrorKind, Result};
use crate::schema::key_types::TAG_KEY;
use crate::schema::msgpack::TAG_MSGPACK;
use crate::schema::ordered::{Element, KeyReader, KeyWriter};
use crate::schema::record::Record;
use crate::schema::scalar::{TAG_DURATION, TAG_TIME, TAG_UUID};

/// A stored value as JSON.
pub fn value_to_json(stored: &[u8]) -> Result<Value> {
    let (_, body) = open(stored)?;
    let mut from = CborReader::new(body);
    let value = item(&mut from)?;
    from.finish()?;
    Ok(value)
}

/// A stored key as JSON.
pub fn key_to_json(bytes: &[u8]) -> Result<Value> {
    let mut from = KeyReader::new(bytes);
    let elements = from.elements()?;
    from.finish()?;
    let lone = matches!(&elements[..], [element] if !matches!(element, Element::Row(_)));
    let mut shown: Vec<Value> = elements.into_iter().map(element).collect();
    match shown.pop() {
        Some(only) if lone => Ok(only),
        last => {
            shown.extend(last);
            Ok(Value::Array(shown))
        }
    }
}

/// The stored bytes of a key that [`key_to_json`] shows as `json`.
pub fn json_to_key(json: &Value) -> Result<Vec<u8>> {
    let mut to = KeyWriter::new();
    match json {
        Value::Array(elements) => {
            for element in elements {
                write_element(element, &mut to)?;
            }
        }
        Value::Null => return Err(no_key("null")),
        lone => write_element(lone, &mut to)?,
    }
    to.finish()
}

fn item(from: &mut CborReader<'_>) -> Result<Value> {
    Ok(match from.kind()? {
        Type::Null | Type::Undefined => {
            from.skip()?;
            Value::Null
        }
        Type::Bool => Value::Bool(from.bool()?),
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => Value::from(from.unsigned()?),
        Type::I8 | Type::I16 | Type::I32 | Type::I64 => Value::from(from.signed()?),
        Type::F16 | Type::F32 | Type::F64 => float(from.f64()?),
        Type::String => Value::from(from.text()?),
        Type::Bytes => hex(from.bytes()?),
        Type::Array => from.nested(|from| {
            let mut list = Vec::new();
            for _ in 0..from.array()? {
                list.push(item(from)?);
            }
            Ok(Value::Array(list))
        })?,
        Type::Map => from.nested(|from| {
            let mut map = serde_json::Map::new();
            for _ in 0..from.map()? {
                let name = name(&item(from)?);
                map.insert(name, item(from)?);
            }
            Ok(Value::Object(map))
        })?,
        Type::Tag => from.nested(tagged)?,
        // Written by something else than this crate; shown as it is.
        _ => hex(from.skip()?),
    })
}

/// The name of a field or of a key in a map.
fn name(key: &Value) -> String {
    match key {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn float(value: f64) -> Value {
    // Infinities and NaN have no form in JSON.
    serde_json::Number::from_f64(value)
        .map_or_else(|| json!({"$float": value.to_string()}), Value::Number)
}

fn tagged(from: &mut CborReader<'_>) -> Result<Value> {
    let start = from.position();
    let tag = from.tag()?;
    match tag {
        TAG_UUID => {
            from.rewind(start);
            let uuid = uuid::Uuid::decode(from)?;
            Ok(json!(uuid.to_string()))
        }
        TAG_TIME => {
            from.rewind(start);
            let moment = steadfast_core::clock::Timestamp::decode(from)?;
            Ok(calendar::to_text(moment.0)
                .map_or_else(|| json!({"$millis": moment.0}), Value::from))
        }
        TAG_DURATION => {
            from.rewind(start);
            let duration = std::time::Duration::decode(from)?;
            Ok(json!({"$duration": [duration.as_secs(), duration.subsec_nanos()]}))
        }
        TAG_KEY => key_to_json(from.bytes()?),
        TAG_MSGPACK => Ok(packed(from.bytes()?)),
        _ => Ok(json!({"$tag": tag, "value": item(from)?})),
    }
}

/// MessagePack as JSON, or as bytes if it has no JSON form.
fn packed(bytes: &[u8]) -> Value {
    let mut from = rmp_serde::Deserializer::from_read_ref(bytes);
    from.set_max_depth(RECORD_DEPTH);
    serde::Deserialize::deserialize(&mut from).unwrap_or_else(|_| hex(bytes))
}

fn hex(bytes: &[u8]) -> Value {
    json!({ "$hex": steadfast_core::hex::encode(bytes) })
}

fn element(element: Element) -> Value {
    match element {
        Element::Absent => Value::Null,
        Element::Bool(value) => Value::Bool(value),
        Element::Integer(value) => match u64::try_from(value) {
            Ok(value) => Value::from(value),
            // The reader has checked the lower end.
            Err(_) => Value::from(value as i64),
        },
        Element::Text(text) => Value::String(text),
        Element::Bytes(bytes) => hex(&bytes),
        Element::Uuid(bytes) => json!({"$uuid": uuid::Uuid::from_bytes(bytes).to_string()}),
        Element::Time(millis) => match calendar::to_text(millis) {
            Some(text) => json!({ "$time": text }),
            None => json!({ "$millis": millis }),
        },
        Element::Duration(seconds, nanos) => json!({"$duration": [seconds, nanos]}),
        Element::Row(elements) => elements.into_iter().map(self::element).collect(),
    }
}

fn write_element(json: &Value, to: &mut KeyWriter) -> Result<()> {
    match json {
        Value::Null => to.absent(),
        Value::Bool(value) => to.bool(*value),
        Value::String(text) => to.text(text),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(value), _) => to.unsigned(value),
            (None, Some(value)) => to.signed(value),
            (None, None) => return Err(no_key(&format!("the float {number}"))),
        },
        Value::Array(elements) => {
            let mut result = Ok(());
            to.row(|to| {
                result = elements
                    .iter()
                    .try_for_each(|element| write_element(element, to));
            });
            return result;
        }
        Value::Object(map) => {
            let special = match map.iter().next() {
                Some((name, value)) if map.len() == 1 => write_special(name, value, to),
                _ => None,
            };
            return special.ok_or_else(|| no_key("an object"));
        }
    }
    Ok(())
}

/// Writes a value without a JSON form of its own; `None` if the object is not one.
fn write_special(name: &str, value: &Value, to: &mut KeyWriter) -> Option<()> {
    match name {
        "$hex" => to.bytes(&from_hex(value.as_str()?)?),
        "$uuid" => to.uuid(uuid::Uuid::parse_str(value.as_str()?).ok()?.as_bytes()),
        "$time" => to.time(calendar::from_text(value.as_str()?)?),
        "$millis" => to.time(value.as_i64()?),
        "$duration" => {
            let [seconds, nanos] = value.as_array()?.as_slice() else {
                return None;
            };
            let nanos = u32::try_from(nanos.as_u64()?).ok()?;
            if nanos >= 1_000_000_000 {
                return None;
            }
            to.duration(seconds.as_u64()?, nanos);
        }
        _ => return None,
    }
    Some(())
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs
        .map(|pair| {
            let high = char::from(pair[0]).to_digit(16)?;
            let low = char::from(pair[1]).to_digit(16)?;
            u8::try_from(high * 16 + low).ok()
        })
        .collect()
}

#[cold]
fn no_key(what: &str) -> Error {
    Error::new(ErrorKind::JsonKey {
        what: what.to_owned(),
    })
}
