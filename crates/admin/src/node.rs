//! The routes of node status, drain and keys.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Path;
use axum::extract::rejection::JsonRejection;
use axum::http::{Method, StatusCode};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};
use steadfast_core::limits;
use steadfast_net::access::{AuditClient, Principal, Right, ServiceArea};
use steadfast_net::http::Problem;

use super::interface::{ApiOperation, Interface, on, read};
use super::node_admin::NodeAdmin;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DrainNodeRequest {
    limit_s: Option<u64>,
    node: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateKeyRequest {
    name: String,
    rights: Vec<String>,
}

/// Adds the routes of the node, and describes those that need no key.
pub fn routes(interface: Interface, operator: &Arc<dyn NodeAdmin>) -> Interface {
    let interface = state(interface, operator);
    let interface = keys(interface, operator);
    let text = "text/plain";
    interface
        .open("/", "Landing page for browsers", "text/html")
        .open("/livez", "Liveness of the process", text)
        .open(
            "/readyz",
            "Readiness; 503 while the node starts or drains",
            text,
        )
        .open(
            "/healthz",
            "Health checks; 503 if any fails",
            "application/json",
        )
        .open(
            "/metrics",
            "Metrics for Prometheus",
            "application/openmetrics-text",
        )
}

fn state(interface: Interface, operator: &Arc<dyn NodeAdmin>) -> Interface {
    let own = Arc::clone(operator);
    let status = async move || Json(own.status());
    let own = Arc::clone(operator);
    let drain = async move |body: Result<Json<DrainNodeRequest>, JsonRejection>| {
        let DrainNodeRequest { limit_s, node } = read(body)?;
        let here = own.status().node;
        if let Some(node) = node.filter(|node| *node != here) {
            let message = format!("there is no node '{node}' here: this is '{here}'");
            return Err(Problem::not_found(message));
        }
        let limit = limit_s.map(Duration::from_secs);
        if limit.is_some_and(|limit| limit > limits::DRAIN_TIME) {
            let most = limits::DRAIN_TIME.as_secs();
            return Err(Problem::bad_request(format!("limit_s is {most} at most")));
        }
        own.drain(limit).await.map(Json)
    };
    let own = Arc::clone(operator);
    let reload = async move || {
        let read = beside(&own, |own| own.reload()).await?;
        Ok::<_, Problem>(Json(json!({"reloaded": read})))
    };
    interface
        .with(
            operation(
                Method::GET,
                "/v1/status",
                "Show node status",
                (200, "The status"),
                None,
            ),
            on(&Method::GET, status),
        )
        .with(
            operation(
                Method::POST,
                "/v1/drain",
                "Drain the node: finish in-flight work, hand over partitions, exit",
                (200, "The drain report"),
                Some(json!({"type": "object", "properties": {
                    "limit_s": {"type": "integer"}, "node": {"type": "string"},
                }})),
            ),
            on(&Method::POST, drain),
        )
        .with(
            operation(
                Method::POST,
                "/v1/reload",
                "Reload keys, certificate and log level",
                (200, "The reloaded items"),
                None,
            ),
            on(&Method::POST, reload),
        )
}

fn keys(interface: Interface, operator: &Arc<dyn NodeAdmin>) -> Interface {
    let own = Arc::clone(operator);
    let list = async move || Json(own.keys());
    let own = Arc::clone(operator);
    let show = async move |Path(name): Path<String>| {
        let found = own.keys().into_iter().find(|key| key.name == name);
        let found = found.ok_or_else(|| Problem::not_found(format!("there is no key '{name}'")));
        found.map(Json)
    };
    let own = Arc::clone(operator);
    let create = async move |Extension(pass): Extension<Principal>,
                             body: Result<Json<CreateKeyRequest>, JsonRejection>| {
        let CreateKeyRequest { name, rights } = read(body)?;
        let made = beside(&own, move |own| own.create_key(&pass, &name, &rights)).await?;
        Ok::<_, Problem>((StatusCode::CREATED, Json(made)))
    };
    let own = Arc::clone(operator);
    let rotate = async move |Extension(pass): Extension<Principal>, Path(name): Path<String>| {
        let made = beside(&own, move |own| own.rotate_key(&pass, &name)).await?;
        Ok::<_, Problem>(Json(made))
    };
    let own = Arc::clone(operator);
    let delete = async move |Path(name): Path<String>| {
        let deleted = beside(&own, move |own| own.delete_key(&name)).await;
        deleted.map(|()| StatusCode::NO_CONTENT)
    };
    let all = "/v1/keys";
    interface
        .with(
            operation(
                Method::GET,
                all,
                "All keys, without secrets",
                (200, "The keys"),
                None,
            ),
            on(&Method::GET, list),
        )
        .with(
            operation(
                Method::GET,
                "/v1/keys/{name}",
                "One key, without its secrets",
                (200, "The key"),
                None,
            ),
            on(&Method::GET, show),
        )
        .with(
            operation(
                Method::POST,
                all,
                "Create a key",
                (201, "Its secret, shown this once"),
                Some(
                    json!({"type": "object", "required": ["name", "rights"], "properties": {
                        "name": {"type": "string"},
                        "rights": {"type": "array", "items": {"type": "string"}},
                    }}),
                ),
            ),
            on(&Method::POST, create),
        )
        .with(
            operation(
                Method::POST,
                "/v1/keys/{name}/rotate",
                "Rotate the secret of a key; the previous one stays valid until the next rotation",
                (200, "The new secret, shown this once"),
                None,
            ),
            on(&Method::POST, rotate),
        )
        .with(
            operation(
                Method::DELETE,
                "/v1/keys/{name}",
                "Delete a key",
                (204, "Removed"),
                None,
            ),
            on(&Method::DELETE, delete),
        )
}

/// A route of the node: a `GET` needs `read`, everything else `manage`.
pub(super) fn operation(
    method: Method,
    path: &'static str,
    summary: &'static str,
    success: (u16, &'static str),
    body: Option<Value>,
) -> ApiOperation {
    ApiOperation {
        path,
        summary,
        rights: match method {
            Method::GET => &[Right::Read],
            _ => &[Right::Manage],
        },
        method,
        area: ServiceArea::Node,
        body,
        success,
    }
}

/// Runs blocking disk work on a thread of its own.
async fn beside<T: Send + 'static>(
    operator: &Arc<dyn NodeAdmin>,
    work: impl FnOnce(&dyn NodeAdmin) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let (operator, asker) = (Arc::clone(operator), AuditClient::current());
    let done = tokio::task::spawn_blocking(move || asker.sync_scope(|| work(&*operator))).await;
    done.expect("an operator does not panic")
}

/// The response to a request with an unsupported method.
pub async fn no_method(method: Method, uri: axum::http::Uri) -> Problem {
    Problem::no_method(format!(
        "{} cannot be asked by {method}: see /openapi.json",
        uri.path()
    ))
}

/// The response to a request without a route.
pub async fn no_route(uri: axum::http::Uri) -> Problem {
    Problem::not_found(format!(
        "there is nothing at {}: see /openapi.json",
        uri.path()
    ))
}
