//! Event properties from request headers.

use axum::http::HeaderMap;
use serde_json::Value;
use steadfast_wire::amqp::compose::PropertyValue;

use super::error::PublishError;

/// Headers that belong to the request and not to the event; and every header that
/// begins with one of the prefixes.
const OWN: [&str; 29] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "authorization",
    "brokerproperties",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "date",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "origin",
    "pragma",
    "referer",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
    "warning",
];
const OWN_PREFIXES: [&str; 4] = ["sec-", "proxy-", "x-forwarded-", "access-control-"];

/// Custom headers, as properties of the event.
pub(super) fn properties(
    headers: &HeaderMap,
) -> Result<Vec<(String, PropertyValue)>, PublishError> {
    let mut properties = Vec::new();
    for (name, value) in headers {
        let name = name.as_str();
        if OWN.contains(&name) || OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let text = std::str::from_utf8(value.as_bytes())
            .map_err(|_| PublishError::malformed(format!("the header '{name}' is not UTF-8")))?;
        let bare = text
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'));
        let text = bare.unwrap_or(text).to_owned();
        properties.push((name.to_owned(), PropertyValue::String(text)));
    }
    Ok(properties)
}

/// A header as text.
pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The partition key in `BrokerProperties`, if there is one.
pub(super) fn key(headers: &HeaderMap) -> Result<Option<String>, PublishError> {
    match text(headers, "brokerproperties") {
        Some(text) => {
            let value = serde_json::from_str(text)
                .map_err(|error| PublishError::malformed(format!("BrokerProperties: {error}")))?;
            key_of(&value)
        }
        None => Ok(None),
    }
}

/// The partition key among broker properties.
pub(super) fn key_of(properties: &Value) -> Result<Option<String>, PublishError> {
    let bad = || PublishError::malformed("BrokerProperties is an object; PartitionKey is a string");
    let map = properties.as_object().ok_or_else(bad)?;
    match map.get("PartitionKey") {
        Some(Value::String(key)) => Ok(Some(key.clone())),
        None | Some(Value::Null) => Ok(None),
        Some(_) => Err(bad()),
    }
}
