//! Negotiates the transport of a client.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use steadfast_realtime::ClientTransport;

use super::admit::{AuthorizedClient, admit};
use super::context::Context;
use super::error::ClientRequestError;
use super::query::QueryString;

/// Transports by their protocol names, with their transfer formats.
const TRANSPORTS: [(ClientTransport, &str, &[&str]); 3] = [
    (
        ClientTransport::WebSockets,
        "WebSockets",
        &["Text", "Binary"],
    ),
    (
        ClientTransport::ServerSentEvents,
        "ServerSentEvents",
        &["Text"],
    ),
    (
        ClientTransport::LongPolling,
        "LongPolling",
        &["Text", "Binary"],
    ),
];

/// Answers a negotiation. Errors have status 200, as clients expect, except for an
/// invalid token.
pub(super) fn negotiate(
    context: &Context,
    hub: &str,
    parts: &Parts,
    query: &QueryString,
) -> Result<Response, ClientRequestError> {
    let admitted = admit(context, hub, parts, query)?;
    if context.realtime.is_leaving() {
        let text = "The server is going away.";
        return Err(ClientRequestError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            text,
        ));
    }
    let version = match query.get("negotiateVersion").map(str::parse::<i64>) {
        None => 0,
        Some(Ok(version)) => version.clamp(0, 1),
        Some(Err(_)) => {
            let words = "The client requested an invalid protocol version.";
            return Ok(answer(json!({ "error": words })));
        }
    };
    let wants_state = admitted.wishes.is_stateful;
    let transports = transports(&admitted);
    let AuthorizedClient { caller, wishes, .. } = admitted;
    let may_return = wants_state && context.realtime.options(hub).is_stateful;
    let ticket = context
        .realtime
        .negotiate(hub, caller, wishes, version == 1)?;
    let mut told = json!({
        "negotiateVersion": version,
        "connectionId": &*ticket.id,
        "availableTransports": transports,
    });
    if version == 1 {
        told["connectionToken"] = json!(ticket.token);
    }
    // Clients that did not request it fail on it.
    if may_return {
        told["useStatefulReconnect"] = json!(true);
    }
    Ok(answer(told))
}

fn transports(admitted: &AuthorizedClient) -> Vec<Value> {
    let allowed = TRANSPORTS.iter().filter(|(own, ..)| admitted.may_use(*own));
    allowed
        .map(|(_, name, formats)| json!({"transport": name, "transferFormats": formats}))
        .collect()
}

fn answer(told: Value) -> Response {
    ([(CACHE_CONTROL, "no-cache, no-store")], Json(told)).into_response()
}
