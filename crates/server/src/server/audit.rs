//! `steadfast audit`: key changes, refusals, revocations.

use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;
use serde_json::Value;

use crate::globals::Globals;
use crate::listing::rows;
use crate::output::{Page, PageArguments, Table};
use crate::server_client::ServerClient;

const COLUMNS: &[&str] = &[
    "number", "time", "event", "count", "key", "by", "client", "code", "detail",
];

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List audit events, newest first
    #[command(after_help = "Examples:\n  steadfast audit list --limit 20")]
    List(PageArguments),
}

/// Runs the command.
pub(crate) fn run(command: &Command, globals: &Globals) -> Result<()> {
    let Command::List(page) = command;
    let remote = ServerClient::new(globals)?;
    let page = page.fetch(|cursor, limit| {
        let cursor = cursor.map(|cursor| format!("&cursor={cursor}"));
        let path = format!("/v1/audit?limit={limit}{}", cursor.unwrap_or_default());
        let answer: Value = remote.request(Method::GET, &path, None)?;
        Ok(Page {
            rows: rows(&answer, "events")?.clone(),
            next: answer["cursor"].as_u64().map(|cursor| cursor.to_string()),
        })
    })?;
    Table::new("events", COLUMNS)
        .page(page)
        .print(globals.output())
}
