//! `steadfast eventhub`: event hubs and what they hold.

pub(crate) mod container;
pub(crate) mod dead_letter;
pub(crate) mod group;
mod path;
mod position;
pub(crate) mod send;
pub(crate) mod tail;

use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Map, Value, json};
use steadfast::config::{duration, size};

use crate::confirm::confirm;
use crate::globals::Globals;
use crate::listing::{delete, rows};
use crate::output::{
    Facts, OutputFormat, PageArguments, Table, display_value, out, print, print_value, units,
};
use crate::server_client::{ServerClient, segment};
use path::hub_path;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Create an event hub and show its connection strings
    #[command(after_help = "\
Examples:
  steadfast eventhub create houses
  steadfast eventhub create readings --partitions 8 --group reports --retention 7d")]
    Create {
        /// Name of the event hub
        name: String,
        /// Number of partitions; cannot be changed later
        #[arg(long, value_name = "N", default_value_t = 4)]
        partitions: u32,
        /// A consumer group beside `$Default`; may be repeated
        #[arg(long = "group", value_name = "NAME")]
        groups: Vec<String>,
        /// Retention time of events, such as 1d; unlimited by default
        #[arg(long, value_name = "TIME", value_parser = seconds)]
        retention: Option<u64>,
        /// Retention size of each partition, such as 1GiB; unlimited by default
        #[arg(long, value_name = "SIZE", value_parser = bytes)]
        retention_size: Option<u64>,
    },
    /// List event hubs
    #[command(after_help = "Examples:\n  steadfast eventhub list --limit 10")]
    List(PageArguments),
    /// Show an event hub, its partitions and connection strings
    #[command(after_help = "Examples:\n  steadfast eventhub show houses")]
    Show {
        /// Name of the event hub
        name: String,
    },
    /// Change the retention of an event hub; other options keep their value
    #[command(after_help = "\
Examples:
  steadfast eventhub update houses --retention 14d --retention-size 1GiB
  steadfast eventhub update houses --retention unlimited")]
    Update {
        /// Name of the event hub
        name: String,
        /// Retention time of events, such as 7d, or `unlimited`
        #[arg(long, value_name = "TIME", value_parser = new_seconds)]
        retention: Option<RetentionLimit>,
        /// Retention size of each partition, such as 1GiB, or `unlimited`
        #[arg(long, value_name = "SIZE", value_parser = new_bytes)]
        retention_size: Option<RetentionLimit>,
    },
    /// Create a policy and show its connection string, or change its rights
    #[command(after_help = "Examples:\n  steadfast eventhub put-policy houses sender --right send")]
    PutPolicy {
        /// Name of the event hub
        hub: String,
        /// Name of the policy; an existing one keeps its keys
        policy: String,
        /// A right: send, listen or manage; may be repeated
        #[arg(long = "right", value_name = "RIGHT", required = true)]
        rights: Vec<String>,
    },
    /// Delete a policy and revoke its keys
    #[command(after_help = "Examples:\n  steadfast eventhub delete-policy houses sender --yes")]
    DeletePolicy {
        /// Name of the event hub
        hub: String,
        /// Name of the policy
        policy: String,
    },
    /// Delete an event hub with its events, groups and checkpoints
    #[command(after_help = "Examples:\n  steadfast eventhub delete readings --yes")]
    Delete {
        /// Name of the event hub
        name: String,
    },
    /// Send an event, or one for each line of a file or of standard input
    #[command(after_help = "\
Examples:
  steadfast eventhub send houses 'door open' --key house-42 --property floor=2
  printf 'one\\ntwo\\n' | steadfast eventhub send houses --partition 0")]
    Send(send::SendArguments),
    /// Show events and follow new ones
    #[command(after_help = "\
Examples:
  steadfast eventhub tail houses --from start --wait 0
  steadfast eventhub tail houses --partition 0 --from start --count 2 --format json")]
    Tail(tail::TailArguments),
    /// Manage consumer groups and their checkpoints
    #[command(subcommand)]
    Group(group::Command),
    /// List and replay dead letters: events that processors could not handle
    #[command(subcommand)]
    DeadLetter(dead_letter::Command),
    /// Manage containers for checkpoints and other blobs
    #[command(subcommand)]
    Container(container::Command),
}

/// A limit of the retention; `None` is unlimited.
#[derive(Clone, Copy)]
pub(crate) struct RetentionLimit(Option<u64>);

/// Runs the command.
pub(crate) fn run(command: &Command, globals: &Globals) -> Result<()> {
    match command {
        Command::Send(arguments) => return send::run(arguments, globals),
        Command::Tail(arguments) => return tail::run(arguments, globals),
        Command::Group(command) => return group::run(command, globals),
        Command::DeadLetter(command) => return dead_letter::run(command, globals),
        Command::Container(command) => return container::run(command, globals),
        _ => {}
    }
    let (remote, output) = (ServerClient::new(globals)?, globals.output());
    match command {
        Command::List(page) => list(&remote, page, output),
        Command::Show { name } => show(&remote, name, output),
        Command::DeletePolicy { hub, policy } => {
            confirm(globals, &format!("delete the policy '{policy}' of '{hub}'"))?;
            delete(&remote, &policy_path(hub, policy)?)?;
            print(&[("deleted", json!(policy))], output)
        }
        Command::Delete { name } => {
            confirm(
                globals,
                &format!("delete the event hub '{name}' with all its events"),
            )?;
            delete(&remote, &hub_path(name)?)?;
            print(&[("deleted", json!(name))], output)
        }
        other => change(&remote, other, output),
    }
}

/// Creates or changes an event hub or a policy.
fn change(remote: &ServerClient, command: &Command, output: OutputFormat) -> Result<()> {
    match command {
        Command::Create {
            name,
            partitions,
            groups,
            retention,
            retention_size,
        } => {
            let body = json!({
                "name": name,
                "partitions": partitions,
                "groups": groups,
                "retention_s": retention,
                "retention_bytes": retention_size,
            });
            print_hub(
                &remote.request(Method::POST, "/v1/eventhubs", Some(&body))?,
                output,
            )
        }
        Command::Update {
            name,
            retention,
            retention_size,
        } => {
            let mut body = Map::new();
            let limits = [
                ("retention_s", retention),
                ("retention_bytes", retention_size),
            ];
            for (field, limit) in limits {
                if let Some(RetentionLimit(limit)) = limit {
                    body.insert(field.to_owned(), json!(limit));
                }
            }
            let body = Value::Object(body);
            print_hub(
                &remote.request(Method::PATCH, &hub_path(name)?, Some(&body))?,
                output,
            )
        }
        Command::PutPolicy {
            hub,
            policy,
            rights,
        } => put_policy(remote, hub, policy, rights, output),
        _ => Ok(()),
    }
}

fn policy_path(hub: &str, policy: &str) -> Result<String> {
    Ok(format!("{}/policies/{}", hub_path(hub)?, segment(policy)?))
}

fn put_policy(
    remote: &ServerClient,
    hub: &str,
    policy: &str,
    rights: &[String],
    output: OutputFormat,
) -> Result<()> {
    let body = json!({"rights": rights});
    let made: Value = remote.request(Method::PUT, &policy_path(hub, policy)?, Some(&body))?;
    if output.is_structured() {
        return print_value(&made, output);
    }
    let facts: Facts = vec![
        ("policy", made["name"].clone()),
        ("rights", json!(display_value(&made["rights"]))),
        ("connect", made["connection_string"].clone()),
    ];
    print(&facts, output)
}

fn list(remote: &ServerClient, page: &PageArguments, output: OutputFormat) -> Result<()> {
    let answer: Value = remote.request(Method::GET, "/v1/eventhubs", None)?;
    let columns = &[
        "name",
        "partitions",
        "groups",
        "retention_s",
        "retention_bytes",
        "created",
    ];
    let page = page.cut(rows(&answer, "eventhubs")?.clone(), "name")?;
    Table::new("eventhubs", columns).page(page).print(output)
}

fn show(remote: &ServerClient, name: &str, output: OutputFormat) -> Result<()> {
    let hub: Value = remote.request(Method::GET, &hub_path(name)?, None)?;
    if output.is_structured() {
        return print_value(&hub, output);
    }
    print(&facts(&hub), output)?;
    out(&"")?;
    let columns = &[
        "partition",
        "events",
        "first_sequence",
        "last_sequence",
        "last_time",
    ];
    let mut table = Table::new("partitions", columns);
    for state in rows(&hub, "partition_states")? {
        table.row(state.clone());
    }
    table.print(output)
}

fn print_hub(hub: &Value, output: OutputFormat) -> Result<()> {
    if output.is_structured() {
        print_value(hub, output)
    } else {
        print(&facts(hub), output)
    }
}

fn facts(hub: &Value) -> Facts {
    let mut facts: Facts = vec![
        ("name", hub["name"].clone()),
        ("partitions", hub["partitions"].clone()),
        ("groups", json!(display_value(&hub["groups"]))),
        ("created", hub["created"].clone()),
    ];
    if let Some(seconds) = hub["retention_s"].as_u64() {
        facts.push(("retention", json!(units::seconds(seconds))));
    }
    if let Some(bytes) = hub["retention_bytes"].as_u64() {
        let size = units::size(bytes);
        facts.push(("retention size", json!(format!("{size} per partition"))));
    }
    for (policy, text) in hub["connection_strings"].as_object().into_iter().flatten() {
        facts.push(("policy", json!(policy)));
        facts.push(("connect", text.clone()));
    }
    facts
}

fn seconds(text: &str) -> Result<u64, String> {
    // Retention is often given in days.
    let days = text
        .strip_suffix('d')
        .and_then(|days| days.trim().parse::<u64>().ok());
    let days = days.and_then(|days| days.checked_mul(24 * 60 * 60));
    let found = days.or_else(|| duration(text).map(|time| time.as_secs()));
    found.ok_or_else(|| "write a time such as 90s, 12h or 7d".to_owned())
}

fn new_seconds(text: &str) -> Result<RetentionLimit, String> {
    match text {
        "unlimited" | "forever" => Ok(RetentionLimit(None)),
        text => seconds(text).map(|found| RetentionLimit(Some(found))),
    }
}

fn new_bytes(text: &str) -> Result<RetentionLimit, String> {
    match text {
        "unlimited" | "all" => Ok(RetentionLimit(None)),
        text => bytes(text).map(|found| RetentionLimit(Some(found))),
    }
}

fn bytes(text: &str) -> Result<u64, String> {
    size(text).ok_or_else(|| "write a size such as 64MiB or 1GiB".to_owned())
}
