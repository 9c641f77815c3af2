//! `steadfast parked`: dead letters of consumer groups.

use anyhow::{Result, bail};
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use crate::context::Target;
use crate::eventhub::rows;
use crate::group::group_path;
use crate::server_client::ServerClient;
use crate::table::{OutputFormat, Table};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show the dead letters of a group with their errors
    List {
        /// Which event hub
        hub: String,
        /// Which group
        #[arg(default_value = "$Default")]
        group: String,
        /// Use only this partition
        #[arg(long, value_name = "N")]
        partition: Option<u32>,
    },
    /// Replay dead letters to the group's processors
    Replay {
        /// Which event hub
        hub: String,
        /// Which group
        #[arg(default_value = "$Default")]
        group: String,
        /// Use only this partition
        #[arg(long, value_name = "N")]
        partition: Option<u32>,
    },
}

/// Runs the command.
pub(crate) fn run(command: &Command, target: &Target, output: OutputFormat) -> Result<()> {
    let remote = ServerClient::new(target)?;
    match command {
        Command::List {
            hub,
            group,
            partition,
        } => {
            let which = partition.map(|partition| format!("?partition={partition}"));
            let path = format!(
                "{}/parked{}",
                group_path(hub, group)?,
                which.unwrap_or_default()
            );
            let answer: Value = remote.request(Method::GET, &path, None)?;
            let columns = &["partition", "sequence", "key", "attempts", "reason", "body"];
            let mut table = Table::new("parked", columns);
            for row in rows(&answer, "parked")? {
                table.row(row.clone());
            }
            table.print(output)?;
            if answer["has_more"] == json!(true) {
                eprintln!("steadfast: there are more; name a --partition, or replay these first");
            }
            Ok(())
        }
        Command::Replay {
            hub,
            group,
            partition,
        } => {
            let path = format!("{}/parked/replay", group_path(hub, group)?);
            let body = json!({"partition": partition});
            let answer: Value = remote.request(Method::POST, &path, Some(&body))?;
            let partitions = rows(&answer, "partitions")?;
            let columns = &["partition", "parked", "has_processor"];
            let mut table = Table::new("partitions", columns);
            for row in partitions {
                table.row(row.clone());
            }
            table.print(output)?;
            if partitions
                .iter()
                .all(|row| row["has_processor"] == json!(true))
            {
                Ok(())
            } else {
                bail!("some partitions have no processor on this node: start one")
            }
        }
    }
}
