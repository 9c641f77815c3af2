//! The audit: key changes, refusals and revocations.

use std::sync::Arc;

use axum::Json;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use steadfast_core::iso::format_time;
use steadfast_core::limits;
use steadfast_net::access::AuditEvent;
use steadfast_net::http::Problem;

use super::interface::{Interface, on};
use super::node::operation;
use super::page::foreign_cursor;

/// Default number of events of a page.
const PAGE: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AuditQuery {
    limit: Option<usize>,
    /// The cursor from the previous page.
    cursor: Option<String>,
}

/// Adds the route of the audit.
pub fn audit_routes(interface: Interface) -> Interface {
    let audit = Arc::clone(interface.access().audit());
    let list = async move |query: Result<Query<AuditQuery>, QueryRejection>| {
        let Query(wanted) = query.map_err(|error| Problem::bad_request(error.body_text()))?;
        let limit = wanted.limit.unwrap_or(PAGE);
        if !(1..=limits::AUDIT_PAGE).contains(&limit) {
            let message = format!("limit is 1 to {}", limits::AUDIT_PAGE);
            return Err(Problem::bad_request(message));
        }
        let before = wanted.cursor.as_deref().map(str::parse).transpose();
        let before = before.map_err(|_| foreign_cursor())?;
        let (events, next) = audit.page(before, limit);
        let events: Vec<_> = events.iter().map(shown).collect();
        Ok(Json(json!({"events": events, "cursor": next})))
    };
    interface.with(
        operation(
            Method::GET,
            "/v1/audit",
            "Key changes, refusals and revoked connections, the newest first: \
             ?limit events, before the ?cursor of the page before",
            (200, "Events, and the cursor of the next page"),
            None,
        ),
        on(&Method::GET, list),
    )
}

fn shown(event: &AuditEvent) -> Value {
    let mut shown = json!(event);
    shown["time"] = json!(format_time(event.time));
    shown["last"] = json!(format_time(event.last));
    shown
}
