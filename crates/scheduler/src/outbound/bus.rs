//! Messages to a queue or topic of a service bus.

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde_json::{Map, Value};
use steadfast_core::clock::Timestamp;
use steadfast_core::iso;
use steadfast_jobs::DeliveryRequest;
use steadfast_wire::sas;

use super::attempt_ids::AttemptIds;
use super::client_pool::Options;
use super::http::OutboundCall;
use super::queue::endpoint;
use crate::SecretOwner;

/// Default domain of namespaces.
pub(crate) const DOMAIN: &str = "servicebus.windows.net";

/// Lifetime of a signature: longer than any attempt.
const SIGNATURE_SECONDS: i64 = 600;

/// The names of properties in jobs and at the bus.
const PROPERTIES: [(&str, &str); 12] = [
    ("correlationId", "CorrelationId"),
    ("forcePersistence", "ForcePersistence"),
    ("label", "Label"),
    ("messageId", "MessageId"),
    ("partitionKey", "PartitionKey"),
    ("replyTo", "ReplyTo"),
    ("replyToSessionId", "ReplyToSessionId"),
    ("scheduledEnqueueTimeUtc", "ScheduledEnqueueTimeUtc"),
    ("sessionId", "SessionId"),
    ("timeToLive", "TimeToLive"),
    ("to", "To"),
    ("viaPartitionKey", "ViaPartitionKey"),
];

/// The request that sends a message to a queue or topic.
pub(crate) fn call(
    options: &Options,
    order: &DeliveryRequest,
    action: &Value,
    stamp: &AttemptIds,
    now: Timestamp,
) -> Result<OutboundCall, String> {
    let is_queue = action["type"] == "ServiceBusQueue";
    let (name, member, place) = if is_queue {
        ("ServiceBusQueue", "serviceBusQueueMessage", "queueName")
    } else {
        ("ServiceBusTopic", "serviceBusTopicMessage", "topicPath")
    };
    let message = &action[member];
    let text = |name: &str| message[name].as_str().unwrap_or_default();
    let endpoint = endpoint(options, text("namespace"), DOMAIN);
    let resource = format!("{endpoint}/{}", text(place));
    let url = Url::parse(&format!("{resource}/messages"));
    let url = url.map_err(|_| "the service bus has no valid address")?;
    let mut headers = HeaderMap::new();
    let custom = message["customMessageProperties"].as_object();
    for (name, value) in custom.into_iter().flatten() {
        // Texts are quoted, to distinguish them from numbers.
        let value = Value::from(value.as_str().unwrap_or_default()).to_string();
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&value)) {
            headers.insert(name, value);
        }
    }
    let brokered = &message["brokeredMessageProperties"];
    let kind = brokered["contentType"]
        .as_str()
        .unwrap_or("text/plain; charset=utf-8");
    put(&mut headers, CONTENT_TYPE, kind);
    let properties = properties(brokered, stamp);
    put(
        &mut headers,
        HeaderName::from_static("brokerproperties"),
        &properties,
    );
    let authentication = &message["authentication"];
    if let Some(key_name) = authentication["sasKeyName"].as_str() {
        let owner = SecretOwner::entity(&order.job, text("namespace"), text(place));
        let key = &authentication["sasKey"];
        let key = options.key.open(key, &owner.place("sasKey"));
        let key = key.ok_or("the key of the bus cannot be opened with the configured key")?;
        let expiry = now.0 / 1000 + SIGNATURE_SECONDS;
        let token = sas::token(&resource, expiry, key_name, &key);
        put(&mut headers, AUTHORIZATION, &token);
    }
    Ok(OutboundCall {
        name,
        method: Method::POST,
        url,
        headers,
        body: text("message").to_string(),
        tenure: stamp.tenure,
    })
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// The broker properties. A message without an id gets the tag of its occurrence, by
/// which the bus can drop duplicates.
fn properties(brokered: &Value, stamp: &AttemptIds) -> String {
    let mut out = Map::new();
    for (own, theirs) in PROPERTIES {
        let value = &brokered[own];
        if value.is_null() {
            continue;
        }
        let seconds = value
            .as_str()
            .filter(|_| own == "timeToLive")
            .and_then(iso::parse_duration);
        let value = seconds.map_or_else(|| value.clone(), |ttl| ttl.as_secs_f64().into());
        out.insert(theirs.into(), value);
    }
    out.entry("MessageId")
        .or_insert_with(|| stamp.tag.clone().into());
    Value::from(out).to_string()
}
