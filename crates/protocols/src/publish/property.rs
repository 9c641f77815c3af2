//! An application property, from JSON.

use serde_json::Value;
use steadfast_wire::amqp::compose::PropertyValue;

/// The property that a JSON value stands for: a text, a number or a boolean.
pub(crate) fn simple(value: &Value) -> Option<PropertyValue> {
    match value {
        Value::String(text) => Some(PropertyValue::String(text.clone())),
        Value::Bool(value) => Some(PropertyValue::Bool(*value)),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Some(PropertyValue::Long(whole)),
            None => number.as_f64().map(PropertyValue::Double),
        },
        _ => None,
    }
}
