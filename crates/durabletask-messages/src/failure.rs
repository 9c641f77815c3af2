//! Converts failures and their JSON properties.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value as Json};
use steadfast_core::limits;
use steadfast_durable::FailureDetails;
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::well_known;
use steadfast_wire::durabletask::well_known::value::Kind;

/// Encodes a failure.
pub fn encode_failure(failure: &FailureDetails) -> wire::TaskFailureDetails {
    let properties = failure.properties.iter();
    wire::TaskFailureDetails {
        error_type: failure.kind.clone(),
        error_message: failure.message.clone(),
        stack_trace: failure.stack.clone(),
        inner_failure: failure.inner.first().map(encode_failure).map(Box::new),
        is_non_retriable: failure.is_final,
        properties: properties
            .map(|(name, text)| (name.clone(), value_sent(text)))
            .collect(),
    }
}

/// Decodes a worker's failure. Inner failures are kept to a depth that can be stored.
pub fn decode_failure(failure: wire::TaskFailureDetails) -> FailureDetails {
    taken(failure, limits::FAILURE_DEPTH)
}

fn taken(failure: wire::TaskFailureDetails, depth: usize) -> FailureDetails {
    let inner = failure.inner_failure.filter(|_| depth > 0);
    let properties = failure.properties.into_iter();
    FailureDetails {
        kind: failure.error_type,
        message: failure.error_message,
        stack: failure.stack_trace,
        is_final: failure.is_non_retriable,
        properties: properties
            .map(|(name, value)| (name, json(value).to_string()))
            .collect(),
        inner: inner
            .map(|inner| taken(*inner, depth - 1))
            .into_iter()
            .collect(),
    }
}

/// A JSON text as a value. Invalid JSON becomes a string.
fn value_sent(text: &str) -> well_known::Value {
    let read = serde_json::from_str(text);
    value(read.unwrap_or_else(|_| Json::String(text.to_owned())))
}

fn value(json: Json) -> well_known::Value {
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(is) => Kind::BoolValue(is),
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Json::String(text) => Kind::StringValue(text),
        Json::Array(values) => Kind::ListValue(well_known::ListValue {
            values: values.into_iter().map(value).collect(),
        }),
        Json::Object(fields) => Kind::StructValue(well_known::Struct {
            fields: fields
                .into_iter()
                .map(|(name, json)| (name, value(json)))
                .collect(),
        }),
    };
    well_known::Value { kind: Some(kind) }
}

fn json(value: well_known::Value) -> Json {
    match value.kind {
        None | Some(Kind::NullValue(_)) => Json::Null,
        Some(Kind::BoolValue(is)) => Json::Bool(is),
        Some(Kind::NumberValue(number)) => {
            Number::from_f64(number).map_or(Json::Null, Json::Number)
        }
        Some(Kind::StringValue(text)) => Json::String(text),
        Some(Kind::ListValue(list)) => Json::Array(list.values.into_iter().map(json).collect()),
        Some(Kind::StructValue(fields)) => Json::Object(object(fields.fields)),
    }
}

fn object(fields: BTreeMap<String, well_known::Value>) -> Map<String, Json> {
    let fields = fields.into_iter();
    fields.map(|(name, value)| (name, json(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_comes_back_as_it_was() {
        let failure = FailureDetails {
            kind: "ValueError".into(),
            message: "no".into(),
            stack: Some(String::new()),
            is_final: true,
            properties: [("a".into(), r#"{"b":[1.5,null,true,"x",{}]}"#.into())].into(),
            inner: vec![FailureDetails::new("OSError", "disk")],
        };
        assert_eq!(decode_failure(encode_failure(&failure)), failure);
    }

    #[test]
    fn causes_are_kept_to_a_depth() {
        let mut failure = FailureDetails::new("a", "b");
        for _ in 0..80 {
            failure = FailureDetails {
                inner: vec![failure],
                ..FailureDetails::new("a", "b")
            };
        }
        let mut kept = &decode_failure(encode_failure(&failure));
        let mut depth = 0;
        while let Some(inner) = kept.inner.first() {
            (kept, depth) = (inner, depth + 1);
        }
        assert_eq!(depth, limits::FAILURE_DEPTH);
    }
}
