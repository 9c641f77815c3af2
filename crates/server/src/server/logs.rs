//! `steadfast logs`: the log of a running server.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use reqwest::Method;
use serde_json::Value;

use crate::globals::Globals;
use crate::listing::rows;
use crate::output::{display_value, out};
use crate::server_client::ServerClient;

/// How long the server waits for a line, in seconds.
const WAIT: u64 = 20;

/// Time that is added to the server's wait for the response.
const MARGIN: Duration = Duration::from_secs(15);

#[derive(Args)]
pub(crate) struct LogsArguments {
    /// Follow the log until interrupted
    #[arg(short, long)]
    follow: bool,
    /// Number of lines to begin with
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,
    /// Show only lines of this level or a more severe one: error, warn, info, debug or trace
    #[arg(long, value_parser = ["error", "warn", "info", "debug", "trace"], hide_possible_values = true)]
    level: Option<String>,
}

/// Prints the last lines, and new ones if requested.
pub(crate) fn run(arguments: &LogsArguments, globals: &Globals) -> Result<()> {
    let remote = ServerClient::new(globals)?;
    let level = arguments.level.as_ref();
    let level = level.map_or_else(String::new, |level| format!("&level={level}"));
    let mut path = format!("/v1/logs?limit={}{level}", arguments.limit);
    let limit = Duration::from_secs(WAIT) + MARGIN;
    loop {
        let page: Value = remote.request_within(limit, Method::GET, &path, None)?;
        for entry in rows(&page, "lines")? {
            // A stream has one line per entry, also as YAML, of which JSON is a part.
            if globals.output().is_structured() {
                out(entry)?;
            } else {
                out(&line(entry))?;
            }
        }
        if !arguments.follow {
            return Ok(());
        }
        let next = page["next"].as_u64();
        let next = next.context("the server's response has no next number")?;
        path = format!("/v1/logs?after={next}&wait={WAIT}&limit=1000{level}");
    }
}

/// An entry in one line: time, level, event, message, fields.
fn line(entry: &Value) -> String {
    let level = display_value(&entry["level"]).to_uppercase();
    let mut line = format!("{} {level:5}", display_value(&entry["time"]));
    for part in ["event", "message"] {
        if let Some(text) = entry[part].as_str() {
            line += &format!(" {text}");
        }
    }
    for (name, value) in entry["fields"].as_object().into_iter().flatten() {
        line += &format!(" {name}={}", display_value(value));
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_is_one_line() {
        let entry = json!({"number": 1, "time": "T", "level": "warn", "event": "a.b",
            "fields": {"count": 3}});
        assert_eq!(line(&entry), "T WARN  a.b count=3");
    }
}
