//! Responses and the links in them.

use axum::Json;
use axum::http::header::{HeaderValue, LOCATION, RETRY_AFTER};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::request::{CONTINUATION, DurableHttpRequest, encoded};

/// A status with a body and some headers.
pub(super) fn with(
    status: StatusCode,
    body: Value,
    headers: impl IntoIterator<Item = (HeaderName, String)>,
) -> Response {
    let mut response = (status, Json(body)).into_response();
    let headers = headers.into_iter();
    let headers =
        headers.filter_map(|(name, text)| Some((name, HeaderValue::try_from(text).ok()?)));
    response.headers_mut().extend(headers);
    response
}

/// A page of a list with its continuation token.
pub(super) fn page(items: Vec<Value>, next: Option<String>) -> Response {
    let next = next.map(|next| (HeaderName::from_static(CONTINUATION), next));
    with(StatusCode::OK, Value::Array(items), next)
}

/// The response to a start: the management links of the instance, and why it has not ended
/// in time, if that is known.
pub(super) fn begun(asked: &DurableHttpRequest, instance: &str, why: Option<Value>) -> Response {
    let mut links = links(asked, instance);
    let place = links["statusQueryGetUri"].as_str().unwrap_or_default();
    let headers = [(LOCATION, place.to_owned()), (RETRY_AFTER, "10".to_owned())];
    if let Some(why) = why {
        links["why"] = why;
    }
    with(StatusCode::ACCEPTED, links, headers)
}

/// The status URL of an instance.
pub(super) fn status_link(asked: &DurableHttpRequest, instance: &str) -> String {
    asked.link(&format!("/instances/{}", encoded(instance)), "")
}

fn links(asked: &DurableHttpRequest, instance: &str) -> Value {
    let own = format!("/instances/{}", encoded(instance));
    let verb = |verb: &str| asked.link(&format!("{own}/{verb}"), "reason={text}&");
    json!({
        "id": instance,
        "statusQueryGetUri": asked.link(&own, ""),
        "sendEventPostUri": asked.link(&format!("{own}/raiseEvent/{{eventName}}"), ""),
        "terminatePostUri": verb("terminate"),
        "rewindPostUri": verb("rewind"),
        "purgeHistoryDeleteUri": asked.link(&own, ""),
        "restartPostUri": asked.link(&format!("{own}/restart"), ""),
        "suspendPostUri": verb("suspend"),
        "resumePostUri": verb("resume"),
    })
}
