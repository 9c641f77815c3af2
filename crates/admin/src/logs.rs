//! The route of the server's own log.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::Method;
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};
use steadfast_core::iso::format_time;
use steadfast_core::limits;
use steadfast_net::access::{AccessControl, Principal, Right, ServiceArea};
use steadfast_net::http::Problem;
use steadfast_net::log_ring::{LogLine, LogPage, LogRing};
use tokio_util::sync::CancellationToken;
use tracing::Level;

use super::events::queried;
use super::interface::{Interface, on};
use super::node::operation;
use super::page::page_limit;

/// The log of a node.
pub struct NodeLog {
    /// `None`: the process keeps no lines.
    pub ring: Option<Arc<LogRing>>,
    /// The name of the node.
    pub node: String,
    /// Ends pending waits for lines at shutdown.
    pub leaving: CancellationToken,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogQuery {
    after: Option<u64>,
    limit: Option<usize>,
    /// In seconds.
    wait: Option<u64>,
    level: Option<String>,
}

/// Adds the route of the log.
pub fn log_routes(interface: Interface, log: &Arc<NodeLog>) -> Interface {
    let own = Arc::clone(log);
    let list = async move |Extension(pass): Extension<Principal>,
                           Extension(access): Extension<Arc<AccessControl>>,
                           query: Result<Query<LogQuery>, QueryRejection>| {
        let query = queried(query)?;
        let rights = &[Right::Read];
        let mut follow = access.watch_proof("HTTP wait", &pass, rights, ServiceArea::Node, None);
        tokio::select! {
            page = own.page(&query) => page.map(Json),
            denied = follow.proof_ended() => Err(denied.into()),
        }
    };
    interface.with(
        operation(
            Method::GET,
            "/v1/logs",
            "The last lines of the log of this node: ?limit, ?level; with ?after those that \
             follow, and ?wait for the first one, in seconds",
            (200, "Lines, and the number to continue after"),
            None,
        ),
        on(&Method::GET, list),
    )
}

impl NodeLog {
    async fn page(&self, query: &LogQuery) -> Result<Value, Problem> {
        let ring = self.ring.as_ref();
        let ring = ring
            .ok_or_else(|| Problem::not_found("the program of this node keeps no log in memory"))?;
        let limit = page_limit(query.limit)?;
        let least = query.level.as_deref().map_or(Ok(Level::TRACE), level)?;
        let wait = Duration::from_secs(query.wait.unwrap_or(0));
        if wait > limits::TAIL_WAIT {
            let most = limits::TAIL_WAIT.as_secs();
            return Err(Problem::bad_request(format!("wait is {most} at most")));
        }
        let late = tokio::time::sleep(wait);
        tokio::pin!(late);
        let mut newest = ring.follow();
        let mut page = ring.page(query.after, limit, least);
        let mut dropped = page.dropped;
        while page.lines.is_empty() {
            let next = page.next;
            tokio::select! {
                biased;
                () = &mut late => break,
                () = self.leaving.cancelled() => break,
                // The ring outlives this.
                _ = newest.changed() => {}
            }
            page = ring.page(Some(next), limit, least);
            dropped += page.dropped;
        }
        Ok(self.shown(&page, dropped))
    }

    fn shown(&self, page: &LogPage, dropped: u64) -> Value {
        let lines: Vec<_> = page.lines.iter().map(|line| shown(line)).collect();
        json!({
            "node": self.node,
            "lines": lines,
            "next": page.next,
            "dropped": dropped,
        })
    }
}

fn shown(line: &LogLine) -> Value {
    let mut shown = json!({
        "number": line.number,
        "time": format_time(line.time),
        "level": line.level.as_str().to_lowercase(),
        "target": line.target,
        "fields": line.fields,
    });
    if let Some(event) = &line.event {
        shown["event"] = json!(event);
    }
    if let Some(message) = &line.message {
        shown["message"] = json!(message);
    }
    if line.is_cut {
        shown["truncated"] = json!(true);
    }
    shown
}

fn level(text: &str) -> Result<Level, Problem> {
    let levels = [
        Level::ERROR,
        Level::WARN,
        Level::INFO,
        Level::DEBUG,
        Level::TRACE,
    ];
    let found = levels
        .into_iter()
        .find(|level| level.as_str().eq_ignore_ascii_case(text));
    found.ok_or_else(|| Problem::bad_request("level is error, warn, info, debug or trace"))
}
