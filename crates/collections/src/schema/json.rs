//! JSON as a stored value.
//!
//! For values without a Rust type, such as those that the REST API stores. An object is
//! stored as a CBOR map with texts for keys, so it is told apart from a record, whose
//! keys are numbers.

use minicbor::data::Type;
use serde_json::{Map, Number, Value};

use crate::schema::cbor::{CborReader, CborWriter};
use crate::schema::error::{Error, Result};
use crate::schema::record::{Record, Seal};

/// A JSON value that can be stored.
///
/// ```
/// use steadfast_collections::schema::{Json, WriteVersion, decode_value, encode_value};
///
/// let json = Json(serde_json::json!({"warmth": 21.5, "rooms": [1, 2]}));
/// let stored = encode_value(&json, WriteVersion::LATEST)?;
/// assert_eq!(decode_value::<Json>(&stored)?, json);
/// # Ok::<(), steadfast_collections::schema::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Json(pub Value);

impl Record for Json {
    const NULLABLE: bool = true;

    fn __seal() -> Seal {
        Seal::by_derive()
    }

    fn type_name() -> String {
        "json".to_owned()
    }

    fn encode(&self, to: &mut CborWriter) {
        write(&self.0, to);
    }

    fn decode(from: &mut CborReader<'_>) -> Result<Self> {
        read(from).map(Self)
    }
}

fn write(value: &Value, to: &mut CborWriter) {
    match value {
        Value::Null => to.null(),
        Value::Bool(value) => to.bool(*value),
        Value::Number(number) => write_number(number, to),
        Value::String(text) => to.text(text),
        Value::Array(list) => {
            if !to.enter() {
                return;
            }
            to.array(list.len());
            list.iter().for_each(|element| write(element, to));
            to.leave();
        }
        Value::Object(map) => {
            if !to.enter() {
                return;
            }
            let mut pairs: Vec<_> = map.iter().collect();
            // A feature of another crate in the build can keep objects unsorted.
            pairs.sort_unstable_by_key(|&(key, _)| key);
            to.map(pairs.len());
            for (key, value) in pairs {
                to.text(key);
                write(value, to);
            }
            to.leave();
        }
    }
}

fn write_number(number: &Number, to: &mut CborWriter) {
    if let Some(number) = number.as_u64() {
        to.unsigned(number);
    } else if let Some(number) = number.as_i64() {
        to.signed(number);
    } else if let Some(number) = number.as_f64() {
        to.f64(number);
    } else {
        to.fail(Error::malformed(format!(
            "{number} is no number that can be stored"
        )));
    }
}

fn read(from: &mut CborReader<'_>) -> Result<Value> {
    Ok(match from.kind()? {
        Type::Null => {
            from.take_null()?;
            Value::Null
        }
        Type::Bool => Value::Bool(from.bool()?),
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => Value::from(from.unsigned()?),
        Type::I8 | Type::I16 | Type::I32 | Type::I64 => Value::from(from.signed()?),
        Type::F16 | Type::F32 | Type::F64 => Number::from_f64(from.f64()?)
            .map(Value::Number)
            .ok_or_else(|| Error::malformed("JSON has no infinities"))?,
        Type::String => Value::from(from.text()?),
        Type::Array => from.nested(|from| {
            let length = from.array()?;
            let mut list = Vec::with_capacity(CborReader::reserve(length));
            for _ in 0..length {
                list.push(read(from)?);
            }
            Ok(Value::Array(list))
        })?,
        Type::Map => from.nested(|from| {
            let mut map = Map::new();
            for _ in 0..from.map()? {
                let key = from.text()?.to_owned();
                if map.insert(key, read(from)?).is_some() {
                    return Err(Error::malformed("a key of an object comes twice"));
                }
            }
            Ok(Value::Object(map))
        })?,
        other => return Err(Error::malformed(format!("{other} is not JSON"))),
    })
}
