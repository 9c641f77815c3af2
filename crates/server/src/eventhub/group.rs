//! `steadfast eventhub group`: groups and checkpoints.

use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use super::path::{group_path, hub_path};
use super::position::PositionArgument;
use crate::confirm::confirm;
use crate::globals::Globals;
use crate::listing::{delete, rows};
use crate::output::{OutputFormat, PageArguments, Table, WatchArguments, print};
use crate::server_client::ServerClient;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the consumer groups of an event hub
    #[command(after_help = "Examples:\n  steadfast eventhub group list houses")]
    List {
        /// Name of the event hub
        hub: String,
        #[command(flatten)]
        page: PageArguments,
        #[command(flatten)]
        watch: WatchArguments,
    },
    /// Show owner, checkpoint and lag of each partition
    #[command(after_help = "\
Examples:
  steadfast eventhub group show houses
  steadfast eventhub group show houses billing")]
    Show {
        /// Name of the event hub
        hub: String,
        /// Name of the consumer group
        #[arg(default_value = "$Default")]
        group: String,
        #[command(flatten)]
        watch: WatchArguments,
    },
    /// Create a consumer group, unless it exists
    #[command(after_help = "Examples:\n  steadfast eventhub group create houses billing")]
    Create {
        /// Name of the event hub
        hub: String,
        /// Name of the consumer group
        group: String,
    },
    /// Delete a consumer group with its ownerships and checkpoints
    #[command(after_help = "Examples:\n  steadfast eventhub group delete houses billing --yes")]
    Delete {
        /// Name of the event hub
        hub: String,
        /// Name of the consumer group
        group: String,
    },
    /// Move checkpoints forward or back
    #[command(after_help = "\
Examples:
  steadfast eventhub group reset houses billing --to start
  steadfast eventhub group reset houses billing --to 1 --partition 0")]
    Reset {
        /// Name of the event hub
        hub: String,
        /// Name of the consumer group
        group: String,
        /// The next event to read: start, end, a sequence number, or a time
        #[arg(long)]
        to: PositionArgument,
        /// Reset only this partition
        #[arg(long, value_name = "N")]
        partition: Option<u32>,
    },
}

/// Runs the command.
pub(crate) fn run(command: &Command, globals: &Globals) -> Result<()> {
    let (remote, output) = (ServerClient::new(globals)?, globals.output());
    match command {
        Command::List { hub, page, watch } => {
            let path = format!("{}/groups", hub_path(hub)?);
            watch.run(|| {
                let answer: Value = remote.request(Method::GET, &path, None)?;
                let columns = &["name", "partitions", "owned", "lag", "created"];
                let page = page.cut(rows(&answer, "groups")?.clone(), "name")?;
                Table::new("groups", columns).page(page).print(output)
            })
        }
        Command::Show { hub, group, watch } => {
            let path = group_path(hub, group)?;
            watch.run(|| show_group(&remote, &path, output))
        }
        Command::Create { hub, group } => {
            let made: Value = remote.request(Method::PUT, &group_path(hub, group)?, None)?;
            let facts = [
                ("group", made["name"].clone()),
                ("created", made["created"].clone()),
            ];
            print(&facts, output)
        }
        Command::Delete { hub, group } => {
            confirm(
                globals,
                &format!("delete the group '{group}' with its checkpoints"),
            )?;
            delete(&remote, &group_path(hub, group)?)?;
            print(&[("deleted", json!(group))], output)
        }
        Command::Reset {
            hub,
            group,
            to,
            partition,
        } => {
            let mut body = match to {
                PositionArgument::Start => json!({"to": "start"}),
                PositionArgument::End => json!({"to": "end"}),
                PositionArgument::Sequence(sequence) => json!({"sequence": sequence}),
                PositionArgument::Time(time) => json!({"time": time}),
            };
            body["partition"] = json!(partition);
            let path = format!("{}/reset", group_path(hub, group)?);
            let answer: Value = remote.request(Method::POST, &path, Some(&body))?;
            let columns = &["partition", "next_sequence"];
            show(Table::new("partitions", columns), &answer, output)
        }
    }
}

fn show_group(remote: &ServerClient, path: &str, output: OutputFormat) -> Result<()> {
    let answer: Value = remote.request(Method::GET, path, None)?;
    let columns = &[
        "partition",
        "store",
        "owner",
        "checkpoint",
        "last_sequence",
        "lag",
        "checkpoint_time",
    ];
    show(Table::new("partitions", columns), &answer, output)
}

fn show(mut table: Table, answer: &Value, output: OutputFormat) -> Result<()> {
    for row in rows(answer, table.name())? {
        table.row(row.clone());
    }
    table.print(output)
}
