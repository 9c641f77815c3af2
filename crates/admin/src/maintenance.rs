//! The routes of backup, restore and inspection.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use steadfast_net::access::{Right, ServiceArea};
use steadfast_net::http::Problem;

use super::interface::{ApiOperation, Interface, on, read};
use super::node_admin::{NodeAdmin, NodeBackupRequest, NodeRestoreRequest};

/// Adds the routes of backup, restore and inspection.
pub fn maintenance_routes(interface: Interface, operator: &Arc<dyn NodeAdmin>) -> Interface {
    let own = Arc::clone(operator);
    let back_up = async move |body: Result<Json<NodeBackupRequest>, JsonRejection>| {
        Ok::<_, Problem>(Json(own.back_up(read(body)?).await?))
    };
    let own = Arc::clone(operator);
    let restore = async move |body: Result<Json<NodeRestoreRequest>, JsonRejection>| {
        let number = own.restore(read(body)?).await?;
        Ok::<_, Problem>((StatusCode::ACCEPTED, Json(json!({"number": number}))))
    };
    let own = Arc::clone(operator);
    let inspect = async move |body: Result<Json<Value>, JsonRejection>| {
        Ok::<_, Problem>(Json(own.inspect(read(body)?).await?))
    };
    let operation = |path, summary, success, body| ApiOperation {
        method: Method::POST,
        path,
        summary,
        rights: &[Right::Manage],
        area: ServiceArea::Node,
        body: Some(body),
        success,
    };
    interface
        .with(
            operation(
                "/v1/backup",
                "Back up the server into a folder of its machine",
                (200, "The contents of the backup"),
                json!({"type": "object", "required": ["to"], "properties": {
                    "to": {"type": "string"}, "incremental": {"type": "boolean"},
                }}),
            ),
            on(&Method::POST, back_up),
        )
        .with(
            operation(
                "/v1/restore",
                "Drain, restore a backup, and restart",
                (
                    202,
                    "The number of the restore, under which the status shows its outcome",
                ),
                json!({"type": "object", "required": ["from"], "properties": {
                    "from": {"type": "string"}, "force": {"type": "boolean"},
                }}),
            ),
            on(&Method::POST, restore),
        )
        .with(
            operation(
                "/v1/inspect",
                "Show the contents of collections as JSON",
                (200, "Rows of one kind"),
                json!({"type": "object", "properties": {
                    "what": {"type": "string"}, "key": {}, "limit": {"type": "integer"},
                    "partition": {"type": "string"},
                }}),
            ),
            on(&Method::POST, inspect),
        )
}
