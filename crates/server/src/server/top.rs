//! `steadfast top`: the busiest partitions of a server.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use reqwest::Method;
use serde_json::json;
use steadfast::admin::NodeStatus;
use steadfast::clock::{Clock, SystemClock};

use crate::globals::Globals;
use crate::output::{Table, out, units};
use crate::server_client::ServerClient;

/// Clears the terminal and moves to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

#[derive(Args)]
pub(crate) struct TopArguments {
    /// Seconds between two measurements
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=60))]
    interval: u64,
    /// Stop after this many measurements
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Number of partitions to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

/// What a partition had processed at the last measurement.
type Counts = BTreeMap<String, u64>;

/// Measures until interrupted, or as often as requested.
pub(crate) fn run(arguments: &TopArguments, globals: &Globals) -> Result<()> {
    let remote = ServerClient::new(globals)?;
    let clock = SystemClock::new();
    let is_terminal = std::io::stdout().is_terminal() && !globals.output().is_structured();
    let (mut status, mut began) = (measure(&remote)?, clock.monotonic());
    let mut before = counts(&status);
    let mut left = arguments.count.unwrap_or(u64::MAX);
    while left > 0 {
        std::thread::sleep(Duration::from_secs(arguments.interval));
        status = measure(&remote)?;
        let now = clock.monotonic();
        let seconds = (now - began).as_secs_f64();
        if is_terminal {
            out(&CLEAR)?;
        }
        show(&status, &before, seconds, arguments.limit, globals)?;
        (before, began) = (counts(&status), now);
        left -= 1;
    }
    Ok(())
}

fn measure(remote: &ServerClient) -> Result<NodeStatus> {
    remote.request(Method::GET, "/v1/status", None)
}

fn counts(status: &NodeStatus) -> Counts {
    let partitions = status.partitions.iter();
    let counts = partitions.map(|one| (one.partition.to_string(), one.commands));
    counts.collect()
}

fn show(
    status: &NodeStatus,
    before: &Counts,
    seconds: f64,
    limit: usize,
    globals: &Globals,
) -> Result<()> {
    let rate = |count: u64| (count as f64 / seconds).round() as u64;
    let mut rows: Vec<_> = status
        .partitions
        .iter()
        .map(|one| {
            let name = one.partition.to_string();
            // A partition that was acquired again counts from zero.
            let known = before.get(&name).copied().unwrap_or(one.commands);
            let commands = rate(one.commands.saturating_sub(known));
            (Reverse((commands, one.backlog)), name)
        })
        .collect();
    rows.sort();
    if !globals.output().is_structured() {
        let sum: u64 = rows
            .iter()
            .map(|(Reverse((commands, _)), _)| commands)
            .sum();
        let backlog: u64 = rows.iter().map(|(Reverse((_, backlog)), _)| backlog).sum();
        let uptime = units::elapsed(status.uptime_s);
        out(&format!(
            "{} {}, up {uptime}: {sum} commands/s, backlog {backlog}\n",
            status.node, status.state
        ))?;
    }
    let mut table = Table::new(
        "partitions",
        &["partition", "commands_per_second", "backlog"],
    );
    for (Reverse((commands, backlog)), partition) in rows.into_iter().take(limit) {
        table.row(json!({
            "partition": partition,
            "commands_per_second": commands,
            "backlog": backlog,
        }));
    }
    table.print(globals.output())
}
