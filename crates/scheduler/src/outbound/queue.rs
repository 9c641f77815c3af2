//! Messages to a storage queue.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quick_xml::escape::escape;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde_json::Value;
use steadfast_jobs::DeliveryRequest;

use super::attempt_ids::AttemptIds;
use super::client_pool::Options;
use super::http::OutboundCall;
use crate::SecretOwner;

/// Default domain of storage accounts.
pub(crate) const DOMAIN: &str = "queue.core.windows.net";

/// The request that puts a message into a queue.
pub(crate) fn call(
    options: &Options,
    order: &DeliveryRequest,
    action: &Value,
    stamp: &AttemptIds,
) -> Result<OutboundCall, String> {
    let message = &action["queueMessage"];
    let text = |name: &str| message[name].as_str().unwrap_or_default();
    let owner = SecretOwner::entity(&order.job, text("storageAccount"), text("queueName"));
    let token = options
        .key
        .open(&message["sasToken"], &owner.place("sasToken"));
    let token = token.ok_or("the token of the queue cannot be opened with the configured key")?;
    let endpoint = endpoint(options, text("storageAccount"), DOMAIN);
    let address = format!(
        "{endpoint}/{}/messages?{}",
        text("queueName"),
        token.trim_start_matches('?')
    );
    let url = Url::parse(&address).map_err(|_| "the queue has no valid address")?;
    let payload = STANDARD.encode(payload(stamp, &options.region, text("message")));
    let body = format!("<QueueMessage><MessageText>{payload}</MessageText></QueueMessage>");
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    headers.insert("x-ms-version", HeaderValue::from_static("2019-12-12"));
    Ok(OutboundCall {
        name: "StorageQueue",
        method: Method::POST,
        url,
        headers,
        body,
        tenure: stamp.tenure,
    })
}

/// The address of an account or a namespace: as configured, or in the default domain.
pub(crate) fn endpoint(options: &Options, name: &str, domain: &str) -> String {
    match options.endpoints.get(name) {
        Some(url) => url.trim_end_matches('/').to_string(),
        None => format!("https://{name}.{domain}"),
    }
}

/// The message in the form that consumers of Azure Scheduler expect.
fn payload(stamp: &AttemptIds, region: &str, message: &str) -> String {
    let fields = [
        ("ExecutionTag", stamp.tag.as_str()),
        ("ClientRequestId", &stamp.request),
        ("ExpectedExecutionTime", &stamp.expected),
        ("SchedulerJobId", &stamp.job),
        ("SchedulerJobCollectionId", &stamp.collection),
        ("Region", region),
        ("Message", message),
    ];
    let fields = fields.map(|(name, value)| format!("<{name}>{}</{name}>", escape(value)));
    let schema = r#"xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance""#;
    format!(
        r#"<?xml version="1.0" encoding="utf-8"?><StorageQueueMessage {schema}>{}</StorageQueueMessage>"#,
        fields.concat()
    )
}
