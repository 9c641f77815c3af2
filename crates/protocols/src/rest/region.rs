//! How a pair of regions stands, and moving its jobs.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::interface::{Interface, on, read};
use super::node::operation;
use super::operator::Operator;
use crate::http::Problem;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failover {
    #[serde(default)]
    accept_loss: bool,
}

/// Adds the routes of regions.
pub fn region_routes(interface: Interface, operator: &Arc<dyn Operator>) -> Interface {
    let own = Arc::clone(operator);
    let status = async move || own.region().map(Json);
    let own = Arc::clone(operator);
    let failover = async move |body: Result<Json<Failover>, JsonRejection>| {
        let Failover { accept_loss } = read(body)?;
        own.fail_over(accept_loss).await?;
        Ok::<_, Problem>(StatusCode::NO_CONTENT)
    };
    let own = Arc::clone(operator);
    let failback = async move || {
        own.fail_back().await?;
        Ok::<_, Problem>(StatusCode::NO_CONTENT)
    };
    interface
        .with(
            operation(
                Method::GET,
                "/v1/region",
                "How the pair of regions stands, as this server sees it",
                (200, "Owner, epoch, mode and lag"),
                None,
            ),
            on(&Method::GET, status),
        )
        .with(
            operation(
                Method::POST,
                "/v1/region/failover",
                "Have the region that does not own the jobs own them",
                (204, "It owns them"),
                Some(json!({"type": "object", "properties": {
                    "accept_loss": {"type": "boolean"},
                }})),
            ),
            on(&Method::POST, failover),
        )
        .with(
            operation(
                Method::POST,
                "/v1/region/failback",
                "Have the home region own the jobs",
                (204, "It owns them"),
                None,
            ),
            on(&Method::POST, failback),
        )
}
