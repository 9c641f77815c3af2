//! `steadfast cluster`: nodes and their partitions.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};
use steadfast::id::Partition;
use steadfast::storage::backup::{self, RelocationRequest};
use steadfast::storage::postgres;

use crate::context::Target;
use crate::out::out;
use crate::progress::show;
use crate::result::{print, timed};
use crate::server_client::ServerClient;
use crate::storage_address::DurabilityArgument;
use crate::table::{OutputFormat, Table};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show all nodes and how many partitions each serves
    Status,
    /// Move a partition to another node
    ///
    /// The owner completes the work in flight and hands the partition over. The cluster
    /// may move it again when nodes join or leave.
    Move {
        /// Index of the partition
        partition: u16,
        /// Name of the node
        #[arg(long, value_name = "NAME")]
        to: String,
    },
    /// Move partitions to another database, while no node runs
    ///
    /// The copy is compared before a partition switches to the new database. The next
    /// run completes an interrupted one. A new database at the end of the addresses
    /// joins the store; all nodes must then name it, too.
    MoveShard(MoveShardArguments),
    /// Verify log, rows and events on every server of every database
    Scrub,
}

#[derive(Args)]
pub(crate) struct MoveShardArguments {
    /// All databases in order, separated by spaces
    #[arg(long, value_name = "ADDRESSES")]
    data: String,
    /// How the database keeps the second copy of an acknowledged commit
    #[arg(long, value_enum, default_value_t = DurabilityArgument::Quorum)]
    durability: DurabilityArgument,
    /// Index of a partition to move; may be repeated
    #[arg(long, value_name = "INDEX", required_unless_present = "from")]
    partition: Vec<u16>,
    /// Move all partitions off this database, by its index in the addresses from 0
    #[arg(long, value_name = "PLACE", conflicts_with = "partition")]
    from: Option<u16>,
    /// The database to move them to
    #[arg(long, value_name = "PLACE")]
    to: u16,
}

/// The time limit of a scrub, which reads everything.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

pub(crate) fn run(command: &Command, target: &Target, output: OutputFormat) -> Result<()> {
    let remote = || ServerClient::new(target);
    match command {
        Command::Status => status(&remote()?, output),
        Command::MoveShard(arguments) => move_shard(arguments, output),
        Command::Scrub => scrub(&remote()?, output),
        Command::Move { partition, to } => {
            let remote = remote()?;
            let body = json!({"partition": partition, "node": to});
            let _: Value = remote.request(Method::POST, "/v1/cluster/move", Some(&body))?;
            print(
                &[("partition", json!(partition)), ("node", json!(to))],
                output,
            )
        }
    }
}

fn move_shard(arguments: &MoveShardArguments, output: OutputFormat) -> Result<()> {
    let mut options = postgres::Options::new(&arguments.data);
    options.durability = arguments.durability.into();
    let index = |index: &u16| Partition::new(0, *index);
    let order = RelocationRequest {
        partitions: arguments.partition.iter().map(index).collect(),
        from: arguments.from,
        to: arguments.to,
    };
    let (moved, seconds) = timed(async |progress| {
        let moved = Box::pin(backup::relocate(&options, &order, progress));
        show(progress, moved).await
    })?;
    let facts = [
        ("to", json!(arguments.to)),
        ("partitions", json!(moved.partitions)),
        ("resumed", json!(moved.resumed)),
        ("rows", json!(moved.rows)),
        ("bytes", json!(moved.bytes)),
        ("compared", json!(true)),
        ("seconds", json!(seconds)),
    ];
    print(&facts, output)
}

/// Verifies all replicas; fails if one is not fit to be promoted.
fn scrub(remote: &ServerClient, output: OutputFormat) -> Result<()> {
    let found: Value = remote.request_within(PATIENCE, Method::POST, "/v1/cluster/scrub", None)?;
    let replicas = found["replicas"].as_array().cloned().unwrap_or_default();
    let findings = |replica: &Value| replica["findings"].as_array().map_or(0, Vec::len);
    let unfit = replicas.iter().filter(|one| findings(one) > 0).count();
    match output {
        OutputFormat::Json => out(&serde_json::to_string_pretty(&found)?)?,
        OutputFormat::Table => {
            const COLUMNS: &[&str] = &["shard", "server", "role", "partitions", "findings"];
            let mut table = Table::new("replicas", COLUMNS);
            for replica in &replicas {
                let is_primary = replica["is_primary"] == true;
                table.row(json!({
                    "shard": replica["shard"],
                    "server": replica["server"],
                    "role": if is_primary { "primary" } else { "standby" },
                    "partitions": replica["partitions"],
                    "findings": findings(replica),
                }));
            }
            table.print(output)?;
            for replica in &replicas {
                for finding in replica["findings"].as_array().into_iter().flatten() {
                    let server = replica["server"].as_str().unwrap_or_default();
                    out(&format!(
                        "{server}: {}",
                        finding.as_str().unwrap_or_default()
                    ))?;
                }
            }
        }
    }
    match unfit {
        0 => Ok(()),
        unfit => bail!("{unfit} servers are not fit to be promoted"),
    }
}

fn status(remote: &ServerClient, output: OutputFormat) -> Result<()> {
    let mut status: Value = remote.request(Method::GET, "/v1/cluster", None)?;
    if output == OutputFormat::Json {
        return out(&serde_json::to_string_pretty(&status)?);
    }
    const COLUMNS: &[&str] = &["node", "state", "partitions", "address", "version", "seen"];
    let mut table = Table::new("nodes", COLUMNS);
    let nodes = status["nodes"].take();
    for node in nodes.as_array().into_iter().flatten() {
        let count = node["partitions"].as_array().map_or(0, Vec::len);
        table.row(json!({
            "node": node["name"],
            "state": node["state"],
            "partitions": count,
            "address": node["address"],
            "version": format!("{}.{}", node["protocol"], node["schema"]),
            "seen": format!("{} ms ago", node["seen_ms"]),
        }));
    }
    table.print(output)?;
    let idle = status["idle"].as_array().map_or(0, Vec::len);
    print(
        &[
            ("cluster", status["cluster"].take()),
            ("asked", status["node"].take()),
            ("without an owner", json!(idle)),
        ],
        output,
    )
}
