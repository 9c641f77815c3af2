//! `steadfast cluster`: nodes, and who serves what.

use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use crate::context::Target;
use crate::out::out;
use crate::remote::Remote;
use crate::result::print;
use crate::table::{Output, Table};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show all nodes, and how many partitions each serves
    Status,
    /// Have a node take a partition
    ///
    /// The owner completes what is under way and hands it over. The plan may move it
    /// again when nodes come or go.
    Move {
        /// Index of the partition
        partition: u16,
        /// Name of the node
        #[arg(long, value_name = "NAME")]
        to: String,
    },
}

pub(crate) fn run(command: &Command, target: &Target, output: Output) -> Result<()> {
    let remote = Remote::new(target)?;
    match command {
        Command::Status => status(&remote, output),
        Command::Move { partition, to } => {
            let body = json!({"partition": partition, "node": to});
            let _: Value = remote.ask(Method::POST, "/v1/cluster/move", Some(&body))?;
            print(
                &[("partition", json!(partition)), ("node", json!(to))],
                output,
            )
        }
    }
}

fn status(remote: &Remote, output: Output) -> Result<()> {
    let mut status: Value = remote.ask(Method::GET, "/v1/cluster", None)?;
    if output == Output::Json {
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
