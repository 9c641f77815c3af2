//! `steadfast status`, `drain` and `reload`.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};
use steadfast::admin::{DrainReport, NodeStatus};

use crate::exit::CommandError;
use crate::globals::Globals;
use crate::output::progress::follow;
use crate::output::{Facts, display_value, print, print_value, units};
use crate::server_client::ServerClient;
use crate::status_poll::StatusPoll;

/// Time that is added to the limit of a drain for its response.
const MARGIN: Duration = Duration::from_secs(15);

#[derive(Args)]
pub(crate) struct DrainArguments {
    /// The node to drain; by default the one that receives the request
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Time limit, in seconds; the server's own limit by default
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=86_400))]
    limit: Option<u64>,
}

/// Shows the status of a server.
pub(crate) fn status(globals: &Globals) -> Result<()> {
    let (remote, output) = (ServerClient::new(globals)?, globals.output());
    let status: NodeStatus = remote.request(Method::GET, "/v1/status", None)?;
    if output.is_structured() {
        return print_value(&serde_json::to_value(&status)?, output);
    }
    let sum = |value: fn(&steadfast::admin::StatusPartition) -> u64| {
        status.partitions.iter().map(value).sum::<u64>()
    };
    let mut facts: Facts = vec![
        ("node", json!(status.node)),
        ("version", json!(status.version)),
        ("state", json!(status.state)),
        ("uptime", json!(units::elapsed(status.uptime_s))),
        ("engine", json!(status.engine)),
    ];
    if let Some(data) = &status.data {
        facts.push(("data", json!(data)));
    }
    facts.push(("partitions", json!(status.partitions.len())));
    facts.push(("commands", json!(sum(|partition| partition.commands))));
    facts.push(("backlog", json!(sum(|partition| partition.backlog))));
    for (name, url) in &status.addresses {
        facts.push(("listens", json!(format!("{name}  {url}"))));
    }
    print(&facts, output)
}

/// Drains a server and shows the report.
pub(crate) fn drain(arguments: &DrainArguments, globals: &Globals) -> Result<()> {
    let remote = ServerClient::new(globals)?;
    let body = json!({"limit_s": arguments.limit, "node": arguments.node});
    let limit = arguments
        .limit
        .map_or(Duration::from_secs(600), Duration::from_secs);
    let mut look = StatusPoll::of(&remote)?;
    let is_addressed = arguments.node.is_none();
    if is_addressed {
        // How many partitions there are, before the first is handed over.
        look.handed_over();
    }
    let look = move || is_addressed.then(|| look.handed_over()).flatten();
    let sheet: DrainReport = follow("draining", look, || {
        remote.request_within(limit + MARGIN, Method::POST, "/v1/drain", Some(&body))
    })?;
    print(&facts(&sheet), globals.output())?;
    match (sheet.cut_off, sheet.left) {
        (0, 0) => Ok(()),
        (commands, partitions) => Err(CommandError::TimedOut(format!(
            "at the limit {commands} commands and {partitions} partitions were cut off; \
             nothing durable is lost"
        ))
        .into()),
    }
}

/// Reloads keys, certificate and log level of a server.
pub(crate) fn reload(globals: &Globals) -> Result<()> {
    let remote = ServerClient::new(globals)?;
    let read: Value = remote.request(Method::POST, "/v1/reload", None)?;
    let reloaded = display_value(&read["reloaded"]);
    print(&[("reloaded", json!(reloaded))], globals.output())
}

/// The report of a drain, as it is printed.
pub(crate) fn facts(sheet: &DrainReport) -> Facts {
    vec![
        ("moved", json!(sheet.moved)),
        ("completed", json!(sheet.completed)),
        ("cut off", json!(sheet.cut_off)),
        ("left", json!(sheet.left)),
        ("clients", json!(sheet.clients)),
        ("dropped", json!(sheet.dropped)),
        ("no answer", json!(sheet.unanswered)),
        ("lost", json!(sheet.lost)),
        ("took", json!(format!("{} ms", sheet.took_ms))),
    ]
}
