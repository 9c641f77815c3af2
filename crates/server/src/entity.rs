//! `steadfast entity` and `steadfast lock`.

use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use crate::context::Target;
use crate::out::out;
use crate::result::print;
use crate::table::{OutputFormat, Table};
use crate::taskhub::{TaskHubArguments, TaskHubHttpClient, payload};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Send an operation to an entity without waiting for the result
    Signal {
        #[command(flatten)]
        asked: OperationArguments,
        /// Earliest time, such as 2026-01-31T12:00:00Z
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
    },
    /// Call an operation of an entity and print its result
    Call {
        #[command(flatten)]
        asked: OperationArguments,
        /// Time-out, in seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(..=230))]
        wait: u64,
    },
    /// Print the state of an entity
    Get {
        /// The name of the entity
        name: String,
        /// The key of the entity; $ is the empty key
        key: String,
    },
    /// Show entities
    List {
        /// Show only entities of this name
        name: Option<String>,
        /// Maximum number to show
        #[arg(long, value_name = "N", default_value_t = 100)]
        top: usize,
    },
}

#[derive(clap::Args)]
pub(crate) struct OperationArguments {
    /// The name of the entity
    name: String,
    /// The key of the entity; $ is the empty key
    key: String,
    /// The operation
    operation: String,
    /// Input of the operation, as JSON
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum LockSubcommand {
    /// Show all locks with holder, time and number of waiters
    List,
    /// Release a lock that its holder cannot release
    ///
    /// The holder is not notified and continues: use it only for locks that nothing else
    /// releases. The critical section is the one that `lock list` shows, so that a lock
    /// that has changed hands since is not released.
    Release {
        /// The name of the entity
        name: String,
        /// The key of the entity; $ is the empty key
        key: String,
        /// The critical section that holds the lock
        #[arg(long, value_name = "ID")]
        section: String,
    },
}

/// Runs a command on entities.
pub(crate) fn run(
    command: &Command,
    hub: &TaskHubArguments,
    target: &Target,
    output: OutputFormat,
) -> Result<()> {
    let hub = TaskHubHttpClient::new(hub, target)?;
    match command {
        Command::Signal { asked, at } => {
            let mut query = vec![("op", asked.operation.clone())];
            query.extend(at.as_ref().map(|at| ("scheduledTime", at.clone())));
            let input = payload(asked.input.as_ref())?;
            let path = ["entities", &asked.name, &asked.key];
            hub.quick(Method::POST, &path, &query, input.as_ref())?;
            print(
                &[("signalled", json!(format!("@{}@{}", asked.name, asked.key)))],
                output,
            )
        }
        Command::Call { asked, wait } => {
            let query = [
                ("op", asked.operation.clone()),
                ("timeout", wait.to_string()),
            ];
            let input = payload(asked.input.as_ref())?;
            let path = ["entities", &asked.name, &asked.key, "call"];
            let patience = Duration::from_secs(*wait);
            let result = hub.request(patience, Method::POST, &path, &query, input.as_ref())?;
            out(&serde_json::to_string_pretty(&result)?)
        }
        Command::Get { name, key } => {
            let state = hub.quick(Method::GET, &["entities", name, key], &[], None)?;
            out(&serde_json::to_string_pretty(&state)?)
        }
        Command::List { name, top } => list(&hub, name.as_deref(), *top, output),
    }
}

fn list(
    hub: &TaskHubHttpClient,
    name: Option<&str>,
    top: usize,
    output: OutputFormat,
) -> Result<()> {
    let path: Vec<_> = ["entities"].into_iter().chain(name).collect();
    let query = [("top", top.to_string()), ("fetchState", "true".to_owned())];
    let answer = hub.quick(Method::GET, &path, &query, None)?;
    let columns = &[
        "name",
        "key",
        "state",
        "backlog",
        "lockedBy",
        "lastOperationTime",
    ];
    let mut table = Table::new("entities", columns);
    for row in answer.as_array().into_iter().flatten() {
        let mut row = row.clone();
        let id = row["entityId"].take();
        row["name"] = id["name"].clone();
        row["key"] = id["key"].clone();
        table.row(row);
    }
    table.print(output)
}

/// Runs a command on locks.
pub(crate) fn locks(
    command: &LockSubcommand,
    hub: &TaskHubArguments,
    target: &Target,
    output: OutputFormat,
) -> Result<()> {
    let hub = TaskHubHttpClient::new(hub, target)?;
    match command {
        LockSubcommand::List => {
            let answer = hub.quick(Method::GET, &["locks"], &[], None)?;
            let columns = &[
                "entityId",
                "holder",
                "since",
                "waiting",
                "criticalSectionId",
            ];
            let mut table = Table::new("locks", columns);
            for row in answer.as_array().into_iter().flatten() {
                table.row(row.clone());
            }
            table.print(output)
        }
        LockSubcommand::Release { name, key, section } => {
            let query = [("section", section.clone())];
            let path = ["locks", name, key];
            let Value::Null = hub.quick(Method::DELETE, &path, &query, None)? else {
                anyhow::bail!("the server answered more than it should");
            };
            print(&[("released", json!(format!("@{name}@{key}")))], output)
        }
    }
}
