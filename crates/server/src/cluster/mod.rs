//! `steadfast cluster`: nodes, partitions, region pairs.

#[cfg(feature = "postgres")]
mod move_shard;
pub(crate) mod region;

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use crate::globals::Globals;
use crate::output::progress::wait_for;
use crate::output::{OutputFormat, Table, WatchArguments, out, print, print_value};
use crate::server_client::ServerClient;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show all nodes and how many partitions each serves
    #[command(after_help = "Examples:\n  steadfast cluster status")]
    Status(WatchArguments),
    /// Move a partition to another node
    ///
    /// The owner completes the work in flight and hands the partition over. The cluster
    /// may move it again when nodes join or leave.
    #[command(after_help = "Examples:\n  steadfast cluster move 3 --to node-b")]
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
    #[command(after_help = "\
Examples:
  steadfast cluster move-shard --data 'postgres://db1/one postgres://db2/two' --from 0 --to 1
  steadfast cluster move-shard --data 'postgres://db1/one postgres://db2/two' --partition 3 --to 1")]
    #[cfg(feature = "postgres")]
    MoveShard(move_shard::MoveShardArguments),
    /// Verify log, rows and events on every server of every database
    #[command(after_help = "Examples:\n  steadfast cluster scrub -o json")]
    Scrub,
    /// Show a region pair and move its jobs between the regions
    #[command(subcommand)]
    Region(region::Command),
}

/// The time limit of a scrub, which reads everything.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

pub(crate) fn run(command: &Command, globals: &Globals) -> Result<()> {
    let output = globals.output();
    let remote = || ServerClient::new(globals);
    match command {
        Command::Status(watch) => {
            let remote = remote()?;
            watch.run(|| status(&remote, output))
        }
        #[cfg(feature = "postgres")]
        Command::MoveShard(arguments) => move_shard::run(arguments, output),
        Command::Scrub => scrub(&remote()?, output),
        Command::Region(command) => region::run(command, globals),
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

/// Verifies all replicas; fails if one is not fit to be promoted.
fn scrub(remote: &ServerClient, output: OutputFormat) -> Result<()> {
    let found: Value = wait_for("verifying", || {
        remote.request_within(PATIENCE, Method::POST, "/v1/cluster/scrub", None)
    })?;
    let replicas = found["replicas"].as_array().cloned().unwrap_or_default();
    let findings = |replica: &Value| replica["findings"].as_array().map_or(0, Vec::len);
    let unfit = replicas.iter().filter(|one| findings(one) > 0).count();
    if output.is_structured() {
        print_value(&found, output)?;
    } else {
        print_replicas(&replicas, output)?;
    }
    match unfit {
        0 => Ok(()),
        unfit => bail!("{unfit} servers are not fit to be promoted"),
    }
}

/// Prints the replicas, then what is wrong with them.
fn print_replicas(replicas: &[Value], output: OutputFormat) -> Result<()> {
    const COLUMNS: &[&str] = &["shard", "server", "role", "partitions", "findings"];
    let mut table = Table::new("replicas", COLUMNS);
    let findings = |replica: &Value| replica["findings"].as_array().cloned().unwrap_or_default();
    for replica in replicas {
        let is_primary = replica["is_primary"] == true;
        table.row(json!({
            "shard": replica["shard"],
            "server": replica["server"],
            "role": if is_primary { "primary" } else { "standby" },
            "partitions": replica["partitions"],
            "findings": findings(replica).len(),
        }));
    }
    table.print(output)?;
    for replica in replicas {
        let server = replica["server"].as_str().unwrap_or_default();
        for finding in findings(replica) {
            let finding = finding.as_str().unwrap_or_default();
            out(&format!("{server}: {finding}"))?;
        }
    }
    Ok(())
}

fn status(remote: &ServerClient, output: OutputFormat) -> Result<()> {
    let mut status: Value = remote.request(Method::GET, "/v1/cluster", None)?;
    if output.is_structured() {
        return print_value(&status, output);
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
