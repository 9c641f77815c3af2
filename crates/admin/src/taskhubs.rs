//! The routes of task hubs and their workers.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query};
use axum::http::Method;
use axum::{Extension, Json};
use serde_json::{Value, json};
use steadfast_core::iso::format_time;
use steadfast_durable::{
    ConnectedWorker, Error, ErrorKind, TaskHubCounts, TaskHubs, WorkCounts, WorkFilter, WorkFilters,
};
use steadfast_net::access::{Principal, ServiceArea};
use steadfast_net::http::Problem;

use super::events::queried;
use super::interface::{ApiOperation, Interface, LOOK, on};
use super::page::{PageQuery, may, page};

/// The task hubs of a node.
pub struct TaskHubAdmin {
    pub hubs: TaskHubs,
    /// The name of the node.
    pub node: String,
}

/// Adds the routes below `/v1/taskhubs`.
pub fn task_hub_routes(interface: Interface, admin: &Arc<TaskHubAdmin>) -> Interface {
    let own = Arc::clone(admin);
    let list = async move |Extension(pass): Extension<Principal>,
                           query: Result<Query<PageQuery>, QueryRejection>| {
        let query = queried(query)?;
        let after = query.cursor.as_deref().unwrap_or_default();
        let is_visible = |hub: &str| may(&pass, LOOK, ServiceArea::Durable, hub);
        let found = own.hubs.page(after, query.limit()?, is_visible).await;
        let found = found.map_err(problem)?;
        let shown = found.hubs.iter().map(|(name, counts)| {
            let mut shown = totals(counts);
            shown["name"] = json!(name);
            shown
        });
        Ok::<_, Problem>(Json(page(
            "taskhubs",
            shown.collect(),
            found.next,
            &found.missing,
        )))
    };
    let own = Arc::clone(admin);
    let show = async move |Path(hub): Path<String>| own.show(&hub).await.map(Json);
    let own = Arc::clone(admin);
    let workers = async move |Path(hub): Path<String>,
                              query: Result<Query<PageQuery>, QueryRejection>| {
        let query = queried(query)?;
        let found = own
            .hubs
            .workers(&hub, &own.node, query.cursor.as_deref(), query.limit()?);
        let found = found.await.map_err(problem)?;
        let found = found.ok_or_else(|| absent(&hub))?;
        let shown = found.workers.iter().map(worker).collect();
        Ok::<_, Problem>(Json(page("workers", shown, found.next, &found.missing)))
    };
    interface
        .with(
            operation(
                "/v1/taskhubs",
                "The task hubs that the key may read, with workers and work items of all \
                 nodes: ?limit, ?cursor",
                "A page of task hubs",
            ),
            on(&Method::GET, list),
        )
        .with(
            operation(
                "/v1/taskhubs/{name}",
                "Workers and work items of a task hub, by kind and by node",
                "The task hub",
            ),
            on(&Method::GET, show),
        )
        .with(
            operation(
                "/v1/taskhubs/{name}/workers",
                "The connected workers of a task hub, on all nodes: ?limit, ?cursor",
                "A page of workers",
            ),
            on(&Method::GET, workers),
        )
}

fn operation(path: &'static str, summary: &'static str, found: &'static str) -> ApiOperation {
    ApiOperation {
        method: Method::GET,
        path,
        summary,
        rights: LOOK,
        area: ServiceArea::Durable,
        body: None,
        success: (200, found),
    }
}

impl TaskHubAdmin {
    async fn show(&self, hub: &str) -> Result<Value, Problem> {
        let found = self.hubs.details(hub, &self.node).await.map_err(problem)?;
        let found = found.ok_or_else(|| absent(hub))?;
        let mut all = TaskHubCounts::default();
        let mut nodes = Vec::with_capacity(found.nodes.len());
        for (node, counts) in &found.nodes {
            all += *counts;
            let mut shown = totals(counts);
            shown["node"] = json!(node);
            nodes.push(shown);
        }
        let mut shown = totals(&all);
        shown["name"] = json!(hub);
        shown["queued_by_kind"] = by_kind(all.queued);
        shown["nodes"] = json!(nodes);
        if let Some(retention) = found.retention {
            shown["retention_s"] = json!(retention.as_secs());
        }
        if !found.missing.is_empty() {
            shown["missing"] = json!(found.missing);
        }
        Ok(shown)
    }
}

fn totals(counts: &TaskHubCounts) -> Value {
    json!({
        "workers": counts.workers,
        "queued": counts.queued.total(),
        "in_progress": counts.in_progress.total(),
    })
}

fn by_kind(counts: WorkCounts) -> Value {
    json!({
        "orchestrations": counts.orchestrations,
        "activities": counts.activities,
        "entities": counts.entities,
    })
}

fn worker(worker: &ConnectedWorker) -> Value {
    let options = &worker.options;
    let mut shown = json!({
        "id": format!("{}:{}", worker.node, worker.number),
        "node": worker.node,
        "since": format_time(worker.since),
        "in_progress": by_kind(worker.in_progress),
        "limits": {
            "orchestrations": options.turns,
            "activities": options.activities,
            "entities": options.batches,
        },
    });
    if !options.name.is_empty() {
        shown["name"] = json!(options.name);
    }
    if let Some(address) = &options.address {
        shown["address"] = json!(address);
    }
    if let Some(filters) = &options.filters {
        shown["filters"] = shown_filters(filters);
    }
    shown
}

fn shown_filters(filters: &WorkFilters) -> Value {
    let named = |filters: &[WorkFilter]| {
        let named = filters.iter();
        let named = named.map(|own| json!({"name": own.name, "versions": own.versions}));
        named.collect::<Vec<_>>()
    };
    json!({
        "orchestrations": named(&filters.orchestrations),
        "activities": named(&filters.activities),
        "entities": filters.entities,
    })
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn problem(error: Error) -> Problem {
    match error.kind() {
        ErrorKind::Invalid => Problem::bad_request(error.message()),
        _ => Problem::new(error.code(), error.message()),
    }
}

fn absent(hub: &str) -> Problem {
    Problem::not_found(format!("there is no task hub '{hub}'"))
}
