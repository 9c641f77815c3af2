//! `steadfast entity`: entities of a task hub.

pub(crate) mod lock;

use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use crate::confirm::confirm;
use crate::globals::Globals;
use crate::output::{OutputFormat, PageArguments, Table, WatchArguments, print, print_value};
use crate::taskhub::{TaskHubArguments, TaskHubHttpClient, payload};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List entities
    #[command(after_help = "Examples:\n  steadfast entity list counter")]
    List {
        /// Show only entities of this name
        name: Option<String>,
        #[command(flatten)]
        page: PageArguments,
        #[command(flatten)]
        watch: WatchArguments,
    },
    /// Print the state of an entity
    #[command(after_help = "Examples:\n  steadfast entity get counter house-42")]
    Get {
        /// Name of the entity
        name: String,
        /// Key of the entity; $ is the empty key
        key: String,
    },
    /// Call an operation of an entity and print its result
    #[command(after_help = "Examples:\n  steadfast entity call counter house-42 add --input 5")]
    Call {
        #[command(flatten)]
        operation: OperationArguments,
        /// Time-out, in seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(..=230))]
        wait: u64,
    },
    /// Send an operation to an entity without waiting for the result
    #[command(after_help = "\
Examples:
  steadfast entity signal counter house-42 add --input 1
  steadfast entity signal counter house-42 add --at 2030-01-01T00:00:00Z")]
    Signal {
        #[command(flatten)]
        operation: OperationArguments,
        /// Earliest time, such as 2030-01-31T12:00:00Z
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
    },
    /// Delete the state of an entity
    #[command(after_help = "Examples:\n  steadfast entity delete counter house-42 --yes")]
    Delete {
        /// Name of the entity
        name: String,
        /// Key of the entity; $ is the empty key
        key: String,
    },
    /// List and release locks of entities
    #[command(subcommand)]
    Lock(lock::Command),
}

#[derive(clap::Args)]
pub(crate) struct OperationArguments {
    /// Name of the entity
    name: String,
    /// Key of the entity; $ is the empty key
    key: String,
    /// Name of the operation
    operation: String,
    /// Input of the operation, as JSON
    #[arg(long, value_name = "JSON", allow_negative_numbers = true)]
    input: Option<String>,
}

/// Runs a command on entities.
pub(crate) fn run(command: &Command, hub: &TaskHubArguments, globals: &Globals) -> Result<()> {
    if let Command::Lock(command) = command {
        return lock::run(command, hub, globals);
    }
    let hub = TaskHubHttpClient::new(hub, globals)?;
    let output = globals.output();
    match command {
        Command::Signal { operation, at } => signal(&hub, operation, at.as_ref(), output),
        Command::Call { operation, wait } => call(&hub, operation, *wait, output),
        Command::Get { name, key } => {
            let state = hub.quick(Method::GET, &["entities", name, key], &[], None)?;
            print_value(&state, output)
        }
        Command::List { name, page, watch } => {
            watch.run(|| list(&hub, name.as_deref(), page, output))
        }
        Command::Delete { name, key } => {
            confirm(
                globals,
                &format!("delete the state of the entity '@{name}@{key}'"),
            )?;
            hub.quick(Method::DELETE, &["entities", name, key], &[], None)?;
            print(&[("deleted", json!(format!("@{name}@{key}")))], output)
        }
        Command::Lock(_) => Ok(()),
    }
}

fn signal(
    hub: &TaskHubHttpClient,
    signal: &OperationArguments,
    at: Option<&String>,
    output: OutputFormat,
) -> Result<()> {
    let mut query = vec![("op", signal.operation.clone())];
    query.extend(at.map(|at| ("scheduledTime", at.clone())));
    let input = payload(signal.input.as_ref())?;
    let OperationArguments { name, key, .. } = signal;
    hub.quick(
        Method::POST,
        &["entities", name, key],
        &query,
        input.as_ref(),
    )?;
    print(&[("signalled", json!(format!("@{name}@{key}")))], output)
}

fn call(
    hub: &TaskHubHttpClient,
    call: &OperationArguments,
    wait: u64,
    output: OutputFormat,
) -> Result<()> {
    let query = [
        ("op", call.operation.clone()),
        ("timeout", wait.to_string()),
    ];
    let input = payload(call.input.as_ref())?;
    let path = ["entities", &call.name, &call.key, "call"];
    let patience = Duration::from_secs(wait);
    let result = hub.request(patience, Method::POST, &path, &query, input.as_ref())?;
    print_value(&result, output)
}

fn list(
    hub: &TaskHubHttpClient,
    name: Option<&str>,
    page: &PageArguments,
    output: OutputFormat,
) -> Result<()> {
    let path: Vec<_> = ["entities"].into_iter().chain(name).collect();
    let query = [("fetchState", "true".to_owned())];
    let page = hub.pages(&path, &query, page, row)?;
    let columns = &[
        "name",
        "key",
        "state",
        "backlog",
        "locked_by",
        "last_operation",
    ];
    Table::new("entities", columns).page(page).print(output)
}

fn row(mut found: Value) -> Value {
    let id = found["entityId"].take();
    let mut take = |name: &str| found[name].take();
    json!({
        "name": id["name"],
        "key": id["key"],
        "state": take("state"),
        "backlog": take("backlog"),
        "locked_by": take("lockedBy"),
        "last_operation": take("lastOperationTime"),
    })
}
