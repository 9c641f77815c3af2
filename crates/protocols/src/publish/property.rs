//! An application property, from JSON.

use serde_json::Value;
use steadfast_wire::amqp::compose::Simple;

/// The property that a JSON value stands for: a text, a number or a boolean.
pub(crate) fn simple(value: &Value) -> Option<Simple> {
    match value {
        Value::String(text) => Some(Simple::String(text.clone())),
        Value::Bool(value) => Some(Simple::Bool(*value)),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Some(Simple::Long(whole)),
            None => number.as_f64().map(Simple::Double),
        },
        _ => None,
    }
}
