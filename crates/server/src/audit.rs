//! `steadfast audit`: key changes, refusals, revocations.

use anyhow::{Context as _, Result};
use clap::Subcommand;
use reqwest::Method;
use serde_json::Value;

use crate::context::Target;
use crate::server_client::ServerClient;
use crate::table::{OutputFormat, Table};

const COLUMNS: &[&str] = &[
    "number", "time", "event", "count", "key", "by", "client", "code", "detail",
];

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show the latest audit events, newest first
    List {
        /// Number of events
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
}

/// Runs the command.
pub(crate) fn run(command: &Command, target: &Target, output: OutputFormat) -> Result<()> {
    let Command::List { limit } = command;
    let remote = ServerClient::new(target)?;
    let mut table = Table::new("events", COLUMNS);
    let (mut left, mut cursor) = (*limit, None::<u64>);
    while left > 0 {
        let mut path = format!("/v1/audit?limit={}", left.min(PAGE));
        if let Some(cursor) = cursor {
            path.push_str(&format!("&cursor={cursor}"));
        }
        let page: Value = remote.request(Method::GET, &path, None)?;
        let events = page["events"].as_array();
        let events = events.context("the server's response has no list of events")?;
        left -= events.len().min(left);
        for event in events {
            table.row(event.clone());
        }
        cursor = page["cursor"].as_u64();
        if cursor.is_none() || events.is_empty() {
            break;
        }
    }
    table.print(output)
}

/// Events per request.
const PAGE: usize = 1000;
