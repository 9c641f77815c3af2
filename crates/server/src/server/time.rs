//! `steadfast time`: the time of a server on virtual time.

use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use crate::globals::Globals;
use crate::output::{Facts, display_value, print, print_value};
use crate::server_client::ServerClient;

/// Time that is added to the limit of a move for its response.
const MARGIN: Duration = Duration::from_secs(15);

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show the time of a server, and whether it is virtual
    #[command(after_help = "Examples:\n  steadfast time show")]
    Show,
    /// Move virtual time on, and wait for everything that becomes due
    ///
    /// The server was started by `steadfast dev --virtual-time`. The time goes from one
    /// moment at which a timer is due to the next, and stops at each until orchestrations,
    /// activities and calls of jobs have ended.
    #[command(after_help = "\
Examples:
  steadfast time advance --by P3D
  steadfast time advance --to 2030-01-31T05:00:00Z")]
    Advance(AdvanceArguments),
}

#[derive(Args)]
pub(crate) struct AdvanceArguments {
    /// How far: milliseconds, or a duration such as PT90M or P3D
    #[arg(long, value_name = "DURATION", required_unless_present = "to")]
    by: Option<String>,
    /// To which moment
    #[arg(long, value_name = "TIME", conflicts_with = "by")]
    to: Option<String>,
    /// Real time that the move may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
        value_parser = clap::value_parser!(u64).range(..=600))]
    limit: u64,
    /// Let activities and calls of jobs go on while time passes
    #[arg(long)]
    leave_activities: bool,
}

/// Runs the command.
pub(crate) fn run(command: &Command, globals: &Globals) -> Result<()> {
    let (remote, output) = (ServerClient::new(globals)?, globals.output());
    match command {
        Command::Show => {
            let time: Value = remote.request(Method::GET, "/v1/time", None)?;
            let facts = [
                ("now", time["now"].clone()),
                ("virtual", time["is_virtual"].clone()),
            ];
            print(&facts, output)
        }
        Command::Advance(arguments) => {
            let mut body = json!({
                "limit_s": arguments.limit,
                "leave_activities": arguments.leave_activities,
            });
            match &arguments.by {
                Some(by) => body["by"] = by.parse::<u64>().map_or(json!(by), |ms| json!(ms)),
                None => body["to"] = json!(arguments.to),
            }
            let limit = Duration::from_secs(arguments.limit) + MARGIN;
            let path = "/v1/time/advance";
            let report: Value = remote.request_within(limit, Method::POST, path, Some(&body))?;
            if output.is_structured() {
                return print_value(&report, output);
            }
            let mut facts: Facts = vec![
                ("now", report["now"].clone()),
                ("moments", report["moments"].clone()),
                ("fired", report["fired_count"].clone()),
            ];
            for timer in report["fired"].as_array().into_iter().flatten() {
                let parts =
                    ["at", "service", "name", "key"].map(|part| display_value(&timer[part]));
                facts.push(("timer", json!(parts.join("  "))));
            }
            print(&facts, output)
        }
    }
}
