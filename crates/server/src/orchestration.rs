//! `steadfast orchestration`: starts and controls them.

use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use crate::context::Target;
use crate::exit::CommandError;
use crate::out::out;
use crate::result::{Facts, print};
use crate::table::{OutputFormat, Table, display_value};
use crate::taskhub::{TaskHubArguments, TaskHubHttpClient, payload};

const START_CODES: &str = "\
Exit codes with --wait:
  0  it has completed; its output is printed
  4  it has not ended in time; it goes on
  5  it has ended otherwise: failed, terminated or canceled; its status is printed";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start an orchestration
    #[command(after_help = START_CODES)]
    Start {
        /// Its name in the worker
        name: String,
        /// Its input, as JSON
        #[arg(long, value_name = "JSON")]
        input: Option<String>,
        /// Its id; generated unless set
        #[arg(long, value_name = "ID")]
        id: Option<String>,
        /// Wait up to this many seconds for its end and print the output
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=230))]
        wait: Option<u64>,
    },
    /// Show orchestrations, oldest first
    List {
        /// Show only these states, such as Running,Failed
        #[arg(long, value_name = "STATES")]
        status: Option<String>,
        /// Show only ids that begin with this
        #[arg(long, value_name = "TEXT")]
        prefix: Option<String>,
        /// Maximum number to show
        #[arg(long, value_name = "N", default_value_t = 100)]
        top: usize,
    },
    /// Show an orchestration and the timeline of its history
    Show {
        /// Its id
        id: String,
    },
    /// Show what an orchestration waits for
    Why {
        /// Its id
        id: String,
    },
    /// Raise an event for an orchestration
    Raise {
        /// Its id
        id: String,
        /// The name of the event
        event: String,
        /// Payload of the event, as JSON
        #[arg(long, value_name = "JSON", default_value = "null")]
        data: String,
    },
    /// Terminate an orchestration
    Terminate {
        /// Its id
        id: String,
        /// The reason, which becomes its output
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Terminate its children too
        #[arg(long)]
        recursive: bool,
    },
    /// Suspend an orchestration
    Suspend(ReasonArguments),
    /// Resume an orchestration
    Resume(ReasonArguments),
    /// Rewind a failed orchestration to before its failures
    Rewind(ReasonArguments),
    /// Purge an orchestration that has ended
    Purge {
        /// Its id
        id: String,
        /// Purge its children too
        #[arg(long)]
        recursive: bool,
    },
    /// Print an orchestration with its history and all payloads, as JSON
    Export {
        /// Its id
        id: String,
    },
}

#[derive(clap::Args)]
pub(crate) struct ReasonArguments {
    /// Its id
    id: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Runs the command.
pub(crate) fn run(
    command: &Command,
    hub: &TaskHubArguments,
    target: &Target,
    output: OutputFormat,
) -> Result<()> {
    let hub = TaskHubHttpClient::new(hub, target)?;
    match command {
        Command::Start {
            name,
            input,
            id,
            wait,
        } => start(&hub, name, input.as_ref(), id.as_deref(), *wait, output),
        Command::List {
            status,
            prefix,
            top,
        } => list(&hub, status.as_ref(), prefix.as_ref(), *top, output),
        Command::Show { id } => show(&hub, id, output),
        Command::Why { id } => {
            let why = hub.quick(Method::GET, &["instances", id, "why"], &[], None)?;
            match output {
                OutputFormat::Json => out(&serde_json::to_string_pretty(&why)?),
                OutputFormat::Table => out(&display_value(&why["text"])),
            }
        }
        Command::Raise { id, event, data } => {
            let data = payload(Some(data))?;
            let path = ["instances", id, "raiseEvent", event];
            hub.quick(Method::POST, &path, &[], data.as_ref())?;
            print(&[("raised", json!(event)), ("at", json!(id))], output)
        }
        Command::Terminate {
            id,
            reason,
            recursive,
        } => {
            let query = [("recursive", recursive.to_string())];
            steer(&hub, id, "terminate", reason.as_ref(), &query, output)
        }
        Command::Suspend(ReasonArguments { id, reason }) => {
            steer(&hub, id, "suspend", reason.as_ref(), &[], output)
        }
        Command::Resume(ReasonArguments { id, reason }) => {
            steer(&hub, id, "resume", reason.as_ref(), &[], output)
        }
        Command::Rewind(ReasonArguments { id, reason }) => {
            steer(&hub, id, "rewind", reason.as_ref(), &[], output)
        }
        Command::Purge { id, recursive } => {
            let query = [("recursive", recursive.to_string())];
            let purged = hub.quick(Method::DELETE, &["instances", id], &query, None)?;
            print(&[("purged", purged["instancesDeleted"].clone())], output)
        }
        Command::Export { id } => out(&serde_json::to_string_pretty(&whole(&hub, id)?)?),
    }
}

fn start(
    hub: &TaskHubHttpClient,
    name: &str,
    input: Option<&String>,
    id: Option<&str>,
    wait: Option<u64>,
    output: OutputFormat,
) -> Result<()> {
    let input = payload(input)?;
    let path: Vec<_> = ["orchestrators", name].into_iter().chain(id).collect();
    let said = hub.quick(Method::POST, &path, &[], input.as_ref())?;
    match wait {
        Some(seconds) => wait_for(hub, &display_value(&said["id"]), seconds, output),
        None => print(&[("started", said["id"].clone())], output),
    }
}

/// Waits for the end of an orchestration and prints its output, or its status if it did
/// not complete.
fn wait_for(hub: &TaskHubHttpClient, id: &str, seconds: u64, output: OutputFormat) -> Result<()> {
    let query = [("timeout", seconds.to_string())];
    let patience = Duration::from_secs(seconds);
    let found = hub.request(patience, Method::GET, &["instances", id], &query, None)?;
    let status = display_value(&found["runtimeStatus"]);
    match status.as_str() {
        "Completed" => out(&serde_json::to_string_pretty(&found["output"])?),
        "Failed" | "Terminated" | "Canceled" => {
            out(&serde_json::to_string_pretty(&found)?)?;
            let message = format!("the orchestration {id:?} did not complete: it is {status}");
            Err(CommandError::Incomplete(message).into())
        }
        _ => {
            print(&[("started", json!(id))], output)?;
            let message = format!(
                "the orchestration {id:?} has not ended within {seconds} s: it is {status} and \
                 goes on; ask for it with `steadfast orchestration show {id}`"
            );
            Err(CommandError::TimedOut(message).into())
        }
    }
}

fn list(
    hub: &TaskHubHttpClient,
    status: Option<&String>,
    prefix: Option<&String>,
    top: usize,
    output: OutputFormat,
) -> Result<()> {
    let mut query = vec![("top", top.to_string()), ("showInput", "false".to_owned())];
    query.extend(status.map(|status| ("runtimeStatus", status.clone())));
    query.extend(prefix.map(|prefix| ("instanceIdPrefix", prefix.clone())));
    let answer = hub.quick(Method::GET, &["instances"], &query, None)?;
    let columns = &[
        "instanceId",
        "name",
        "runtimeStatus",
        "createdTime",
        "lastUpdatedTime",
    ];
    let mut table = Table::new("orchestrations", columns);
    for row in answer.as_array().into_iter().flatten() {
        table.row(row.clone());
    }
    table.print(output)
}

fn whole(hub: &TaskHubHttpClient, id: &str) -> Result<Value> {
    let yes = || "true".to_owned();
    let query = [("showHistory", yes()), ("showHistoryOutput", yes())];
    hub.quick(Method::GET, &["instances", id], &query, None)
}

fn show(hub: &TaskHubHttpClient, id: &str, output: OutputFormat) -> Result<()> {
    let mut found = whole(hub, id)?;
    if output == OutputFormat::Json {
        return out(&serde_json::to_string_pretty(&found)?);
    }
    let events = found["historyEvents"].take();
    let mut facts: Facts = Vec::new();
    for name in [
        "instanceId",
        "name",
        "runtimeStatus",
        "createdTime",
        "lastUpdatedTime",
        "input",
        "customStatus",
        "output",
    ] {
        facts.push((name, found[name].clone()));
    }
    print(&facts, output)?;
    let lines: Vec<_> = events.as_array().into_iter().flatten().map(line).collect();
    if lines.is_empty() {
        Ok(())
    } else {
        out(&format!("\n{}", lines.join("\n")))
    }
}

/// An event in one line: time, type and details.
fn line(event: &Value) -> String {
    let mut told = Vec::new();
    for (name, value) in event.as_object().into_iter().flatten() {
        let is_head = matches!(name.as_str(), "Timestamp" | "EventType" | "EventId");
        if !is_head && !value.is_null() {
            told.push(format!("{name}={}", display_value(value)));
        }
    }
    let time = display_value(&event["Timestamp"]);
    let line = format!(
        "{time:<25} {} {}",
        display_value(&event["EventType"]),
        told.join(" ")
    );
    line.trim_end().to_owned()
}

fn steer(
    hub: &TaskHubHttpClient,
    id: &str,
    verb: &'static str,
    reason: Option<&String>,
    query: &[(&str, String)],
    output: OutputFormat,
) -> Result<()> {
    let mut query = query.to_vec();
    query.extend(reason.map(|reason| ("reason", reason.clone())));
    hub.quick(Method::POST, &["instances", id, verb], &query, None)?;
    print(&[(verb, json!(id))], output)
}
