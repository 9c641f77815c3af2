//! `steadfast status`, `drain` and `reload`.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};
use steadfast::protocols::rest::{DrainReport, NodeStatus};

use crate::context::Target;
use crate::exit::CommandError;
use crate::out::out;
use crate::result::{Facts, print};
use crate::server_client::ServerClient;
use crate::table::OutputFormat;

/// Time that is added to the limit of a drain for its response.
const MARGIN: Duration = Duration::from_secs(15);

#[derive(Args)]
pub(crate) struct DrainArguments {
    #[command(flatten)]
    target: Target,
    /// The node to drain; by default the one that receives the request
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Time limit, in seconds; the server's own limit by default
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=86_400))]
    limit: Option<u64>,
}

/// Shows the status of a server.
pub(crate) fn status(target: &Target, output: OutputFormat) -> Result<()> {
    let remote = ServerClient::new(target)?;
    let status: NodeStatus = remote.request(Method::GET, "/v1/status", None)?;
    if output == OutputFormat::Json {
        return out(&serde_json::to_string_pretty(&status)?);
    }
    let sum = |value: fn(&steadfast::protocols::rest::StatusPartition) -> u64| {
        status.partitions.iter().map(value).sum::<u64>()
    };
    let mut facts: Facts = vec![
        ("node", json!(status.node)),
        ("version", json!(status.version)),
        ("state", json!(status.state)),
        ("uptime", json!(format!("{} s", status.uptime_s))),
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
pub(crate) fn drain(arguments: &DrainArguments, output: OutputFormat) -> Result<()> {
    let remote = ServerClient::new(&arguments.target)?;
    let body = json!({"limit_s": arguments.limit, "node": arguments.node});
    let limit = arguments
        .limit
        .map_or(Duration::from_secs(600), Duration::from_secs);
    let sheet: DrainReport =
        remote.request_within(limit + MARGIN, Method::POST, "/v1/drain", Some(&body))?;
    print(&facts(&sheet), output)?;
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
pub(crate) fn reload(target: &Target, output: OutputFormat) -> Result<()> {
    let remote = ServerClient::new(target)?;
    let read: Value = remote.request(Method::POST, "/v1/reload", None)?;
    print(
        &[(
            "reloaded",
            json!(crate::table::display_value(&read["reloaded"])),
        )],
        output,
    )
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
