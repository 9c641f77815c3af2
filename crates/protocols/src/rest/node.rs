//! Status, drain, keys.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::Path;
use axum::extract::rejection::JsonRejection;
use axum::http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::interface::{Interface, Operation, on, read};
use super::operator::Operator;
use crate::access::{Area, Right};
use crate::http::Problem;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Drain {
    limit_s: Option<u64>,
    node: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    name: String,
    rights: Vec<String>,
}

/// Adds the routes of the node itself.
pub fn routes(interface: Interface, operator: &Arc<dyn Operator>) -> Interface {
    let interface = state(interface, operator);
    keys(interface, operator)
}

fn state(interface: Interface, operator: &Arc<dyn Operator>) -> Interface {
    let own = Arc::clone(operator);
    let status = async move || Json(own.status());
    let own = Arc::clone(operator);
    let drain = async move |body: Result<Json<Drain>, JsonRejection>| {
        let Drain { limit_s, node } = read(body)?;
        let here = own.status().node;
        if let Some(node) = node.filter(|node| *node != here) {
            let message = format!("there is no node '{node}' here: this is '{here}'");
            return Err(Problem::not_found(message));
        }
        own.drain(limit_s.map(Duration::from_secs)).await.map(Json)
    };
    let own = Arc::clone(operator);
    let reload = async move || own.reload().map(|read| Json(json!({"reloaded": read})));
    interface
        .with(
            operation(
                Method::GET,
                "/v1/status",
                "How the node is",
                (200, "The status"),
                None,
            ),
            on(&Method::GET, status),
        )
        .with(
            operation(
                Method::POST,
                "/v1/drain",
                "Leave: complete or hand over everything, then end",
                (200, "The balance sheet"),
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
                "Read keys, certificate and log level again",
                (200, "What was read"),
                None,
            ),
            on(&Method::POST, reload),
        )
}

fn keys(interface: Interface, operator: &Arc<dyn Operator>) -> Interface {
    let own = Arc::clone(operator);
    let list = async move || Json(own.keys());
    let own = Arc::clone(operator);
    let create = async move |body: Result<Json<Create>, JsonRejection>| {
        let Create { name, rights } = read(body)?;
        let made = own.create_key(&name, &rights)?;
        Ok::<_, Problem>((StatusCode::CREATED, Json(made)))
    };
    let own = Arc::clone(operator);
    let rotate = async move |Path(name): Path<String>| own.rotate_key(&name).map(Json);
    let own = Arc::clone(operator);
    let delete = async move |Path(name): Path<String>| {
        own.delete_key(&name).map(|()| StatusCode::NO_CONTENT)
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
                Method::POST,
                all,
                "Make a key",
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
                "Give a key a new secret; the former one counts until the next time",
                (200, "The new secret, shown this once"),
                None,
            ),
            on(&Method::POST, rotate),
        )
        .with(
            operation(
                Method::DELETE,
                "/v1/keys/{name}",
                "Remove a key",
                (204, "Removed"),
                None,
            ),
            on(&Method::DELETE, delete),
        )
}

fn operation(
    method: Method,
    path: &'static str,
    summary: &'static str,
    success: (u16, &'static str),
    body: Option<Value>,
) -> Operation {
    Operation {
        method,
        path,
        summary,
        right: Right::Manage,
        area: Area::Node,
        body,
        success,
    }
}

/// Answers what no route knows.
pub async fn no_route(uri: axum::http::Uri) -> Problem {
    Problem::not_found(format!(
        "there is nothing at {}: see /openapi.json",
        uri.path()
    ))
}
