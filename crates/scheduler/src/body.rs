//! JSON request bodies, without duplicate names.
//!
//! JSON does not define duplicate names in an object. A parser that takes the last one
//! may accept another job than its author intended, so such a body is rejected with the
//! name.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::error::SchedulerError;

/// Reads a body.
pub(crate) fn read(body: &[u8]) -> Result<Value, SchedulerError> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let read = StrictValue.deserialize(&mut deserializer);
    let read = read.and_then(|value| deserializer.end().map(|()| value));
    read.map_err(|error| SchedulerError::bad(format!("the body is not JSON: {error}")))
}

/// Builds a value, and rejects duplicate names in an object.
struct StrictValue;

impl<'de> DeserializeSeed<'de> for StrictValue {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(StrictValue)? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if map.contains_key(&name) {
                let message = format!("the name '{name}' stands twice in one object");
                return Err(A::Error::custom(message));
            }
            let value = members.next_value_seed(StrictValue)?;
            map.insert(name, value);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_what_serde_json_reads_unless_a_name_stands_twice() {
        let text = r#"{"a": [1, -2, 1.5, 18446744073709551615, null, true, "x"], "b": {"a": {}}}"#;
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(read(text.as_bytes()).unwrap(), expected);
        for (text, message) in [
            (r#"{"a": {"b": 1, "c": 2, "b": 1}}"#, "'b' stands twice"),
            (r#"{"a": 1} {}"#, "trailing characters"),
            ("{", "EOF"),
        ] {
            let fault = read(text.as_bytes()).unwrap_err();
            assert!(fault.message.contains(message), "{}", fault.message);
        }
    }
}
