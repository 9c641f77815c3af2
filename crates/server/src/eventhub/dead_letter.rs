//! `steadfast eventhub dead-letter`.

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use super::path::group_path;
use crate::globals::Globals;
use crate::listing::{rows, rows_by_page};
use crate::output::{PageArguments, Table, WatchArguments};
use crate::server_client::ServerClient;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the dead letters of a group with their errors
    #[command(after_help = "Examples:\n  steadfast eventhub dead-letter list houses billing")]
    List {
        #[command(flatten)]
        scope: Scope,
        #[command(flatten)]
        page: PageArguments,
        #[command(flatten)]
        watch: WatchArguments,
    },
    /// Replay dead letters to the group's processors
    #[command(after_help = "Examples:\n  steadfast eventhub dead-letter replay houses billing")]
    Replay(Scope),
}

/// The dead letters of a group, or of one partition.
#[derive(Args)]
pub(crate) struct Scope {
    /// Name of the event hub
    hub: String,
    /// Name of the consumer group
    #[arg(default_value = "$Default")]
    group: String,
    /// Use only this partition
    #[arg(long, value_name = "N")]
    partition: Option<u32>,
}

/// Runs the command.
pub(crate) fn run(command: &Command, globals: &Globals) -> Result<()> {
    let remote = ServerClient::new(globals)?;
    match command {
        Command::List { scope, page, watch } => watch.run(|| list(&remote, scope, page, globals)),
        Command::Replay(scope) => replay(&remote, scope, globals),
    }
}

fn list(
    remote: &ServerClient,
    scope: &Scope,
    page: &PageArguments,
    globals: &Globals,
) -> Result<()> {
    const COLUMNS: &[&str] = &["partition", "sequence", "key", "attempts", "reason", "body"];
    let only = scope.partition.map(|number| format!("?partition={number}"));
    let path = group_path(&scope.hub, &scope.group)?;
    let path = format!("{path}/parked{}", only.unwrap_or_default());
    let page = rows_by_page(remote, &path, "parked", page)?;
    Table::new("dead_letters", COLUMNS)
        .page(page)
        .print(globals.output())
}

fn replay(remote: &ServerClient, scope: &Scope, globals: &Globals) -> Result<()> {
    let path = group_path(&scope.hub, &scope.group)?;
    let body = json!({"partition": scope.partition});
    let path = format!("{path}/parked/replay");
    let answer: Value = remote.request(Method::POST, &path, Some(&body))?;
    let partitions = rows(&answer, "partitions")?;
    let columns = &["partition", "dead_letters", "has_processor"];
    let mut table = Table::new("partitions", columns);
    for row in partitions {
        table.row(json!({
            "partition": row["partition"],
            "dead_letters": row["parked"],
            "has_processor": row["has_processor"],
        }));
    }
    table.print(globals.output())?;
    let is_served = |row: &Value| row["has_processor"] == json!(true);
    if partitions.iter().all(is_served) {
        Ok(())
    } else {
        bail!("some partitions have no processor on this node: start one")
    }
}
