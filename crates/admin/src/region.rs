//! The routes of region status, failover and failback.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;
use steadfast_net::http::Problem;

use super::interface::{Interface, on, read};
use super::node::operation;
use super::node_admin::NodeAdmin;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FailoverRequest {
    /// The jobs of this home, or all.
    #[serde(default)]
    home: Option<String>,
    #[serde(default)]
    accept_loss: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FailbackRequest {
    #[serde(default)]
    home: Option<String>,
}

/// Adds the routes of regions.
pub fn region_routes(interface: Interface, operator: &Arc<dyn NodeAdmin>) -> Interface {
    let own = Arc::clone(operator);
    let status = async move || own.region().map(Json);
    let own = Arc::clone(operator);
    let failover = async move |body: Result<Json<FailoverRequest>, JsonRejection>| {
        let FailoverRequest { home, accept_loss } = read(body)?;
        own.fail_over(home.as_deref(), accept_loss).await?;
        Ok::<_, Problem>(StatusCode::NO_CONTENT)
    };
    let own = Arc::clone(operator);
    let failback = async move |body: Result<Option<Json<FailbackRequest>>, JsonRejection>| {
        let body = read(body.map(|body| body.unwrap_or_default()))?;
        own.fail_back(body.home.as_deref()).await?;
        Ok::<_, Problem>(StatusCode::NO_CONTENT)
    };
    interface
        .with(
            operation(
                Method::GET,
                "/v1/region",
                "Show the status of the region pair, as this server sees it",
                (200, "Owner, epoch, mode and lag of the jobs of each home"),
                None,
            ),
            on(&Method::GET, status),
        )
        .with(
            operation(
                Method::POST,
                "/v1/region/failover",
                "Make this server's region the owner of a home's jobs, or of both homes'",
                (204, "The region owns the jobs"),
                Some(json!({"type": "object", "properties": {
                    "home": {"type": "string"},
                    "accept_loss": {"type": "boolean"},
                }})),
            ),
            on(&Method::POST, failover),
        )
        .with(
            operation(
                Method::POST,
                "/v1/region/failback",
                "Make each home, or this one, the owner of its jobs again",
                (204, "The homes own their jobs"),
                Some(json!({"type": "object", "properties": {
                    "home": {"type": "string"},
                }})),
            ),
            on(&Method::POST, failback),
        )
}
