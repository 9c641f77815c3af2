//! The routes of cluster status and of moving partitions.

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
struct MovePartitionRequest {
    partition: u16,
    node: String,
}

/// Adds the routes of the cluster.
pub fn cluster_routes(interface: Interface, operator: &Arc<dyn NodeAdmin>) -> Interface {
    let own = Arc::clone(operator);
    let status = async move || own.cluster().map(Json);
    let own = Arc::clone(operator);
    let transfer = async move |body: Result<Json<MovePartitionRequest>, JsonRejection>| {
        let MovePartitionRequest { partition, node } = read(body)?;
        own.move_partition(partition, &node).await?;
        Ok::<_, Problem>(StatusCode::NO_CONTENT)
    };
    let own = Arc::clone(operator);
    let scrub = async move || own.scrub().await.map(Json);
    interface
        .with(
            operation(
                Method::POST,
                "/v1/cluster/scrub",
                "Check log, rows and events on every server of every database",
                (200, "The findings of each server"),
                None,
            ),
            on(&Method::POST, scrub),
        )
        .with(
            operation(
                Method::GET,
                "/v1/cluster",
                "Show cluster status, as this node sees it",
                (200, "Nodes and partitions"),
                None,
            ),
            on(&Method::GET, status),
        )
        .with(
            operation(
                Method::POST,
                "/v1/cluster/move",
                "Move a partition to a node",
                (204, "The node serves the partition"),
                Some(
                    json!({"type": "object", "required": ["partition", "node"], "properties": {
                        "partition": {"type": "integer"}, "node": {"type": "string"},
                    }}),
                ),
            ),
            on(&Method::POST, transfer),
        )
}
