//! `steadfast group`: consumer groups and their checkpoints.

use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use crate::context::Target;
use crate::eventhub::{delete, rows};
use crate::position::PositionArgument;
use crate::result::print;
use crate::server_client::{ServerClient, segment};
use crate::table::{OutputFormat, Table};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show the consumer groups of an event hub
    List {
        /// Which event hub
        hub: String,
    },
    /// Show owner, checkpoint and lag of each partition
    Show {
        /// Which event hub
        hub: String,
        /// Which group
        #[arg(default_value = "$Default")]
        group: String,
    },
    /// Create a consumer group, unless it exists
    Create {
        /// Which event hub
        hub: String,
        /// The group
        group: String,
    },
    /// Delete a consumer group with its ownerships and checkpoints
    Delete {
        /// Which event hub
        hub: String,
        /// Which group
        group: String,
    },
    /// Move checkpoints forward or back
    Reset {
        /// Which event hub
        hub: String,
        /// Which group
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
pub(crate) fn run(command: &Command, target: &Target, output: OutputFormat) -> Result<()> {
    let remote = ServerClient::new(target)?;
    match command {
        Command::List { hub } => {
            let path = format!("/v1/eventhubs/{}/groups", segment(hub)?);
            let answer: Value = remote.request(Method::GET, &path, None)?;
            let columns = &["name", "partitions", "owned", "lag", "created"];
            show(Table::new("groups", columns), &answer, output)
        }
        Command::Show { hub, group } => {
            let answer: Value = remote.request(Method::GET, &group_path(hub, group)?, None)?;
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
        Command::Create { hub, group } => {
            let made: Value = remote.request(Method::PUT, &group_path(hub, group)?, None)?;
            let facts = [
                ("group", made["name"].clone()),
                ("created", made["created"].clone()),
            ];
            print(&facts, output)
        }
        Command::Delete { hub, group } => {
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

/// The path of a group.
pub(crate) fn group_path(hub: &str, group: &str) -> Result<String> {
    let (hub, group) = (segment(hub)?, segment(group)?);
    Ok(format!("/v1/eventhubs/{hub}/groups/{group}"))
}

fn show(mut table: Table, answer: &Value, output: OutputFormat) -> Result<()> {
    for row in rows(answer, table.name())? {
        table.row(row.clone());
    }
    table.print(output)
}
