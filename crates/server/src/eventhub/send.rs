//! `steadfast eventhub send`: send events.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::path::hub_path;
use crate::globals::Globals;
use crate::output::{OutputFormat, print};
use crate::server_client::ServerClient;

/// Maximum number of lines in one publication.
const LINES: usize = 1000;

/// Maximum bytes of lines in one publication; leaves room for the properties.
const LINE_BYTES: usize = 512 * 1024;

#[derive(Args)]
pub(crate) struct SendArguments {
    /// Name of the event hub
    hub: String,
    /// Body of the event; without it, each line of the file is an event
    body: Option<String>,
    /// Read the lines from this file; standard input by default
    #[arg(long, value_name = "FILE", conflicts_with = "body")]
    file: Option<PathBuf>,
    /// Send to this partition
    #[arg(long, value_name = "N", conflicts_with = "key")]
    partition: Option<u32>,
    /// Partition key of the events
    #[arg(long)]
    key: Option<String>,
    /// An application property; may be repeated
    #[arg(long = "property", value_name = "NAME=VALUE", value_parser = parse_property)]
    properties: Vec<(String, Value)>,
    /// Content type of the body, such as application/json
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
}

/// Sends the events.
pub(crate) fn run(send: &SendArguments, globals: &Globals) -> Result<()> {
    send.run(&ServerClient::new(globals)?, globals.output())
}

impl SendArguments {
    fn run(&self, remote: &ServerClient, output: OutputFormat) -> Result<()> {
        if let Some(body) = &self.body {
            let sent = self.publish(remote, &[body])?;
            return print(
                &[
                    ("sent", sent["count"].clone()),
                    ("partition", sent["partition"].clone()),
                    ("sequence", sent["sequence"].clone()),
                ],
                output,
            );
        }
        let text = lines(self.file.as_deref())?;
        let lines: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
        if lines.is_empty() {
            bail!("there is nothing to send: pass a body or lines");
        }
        let mut rest = lines.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(batch(rest));
            self.publish(remote, now)?;
            rest = later;
        }
        print(&[("sent", json!(lines.len()))], output)
    }

    fn publish(&self, remote: &ServerClient, bodies: &[impl AsRef<str>]) -> Result<Value> {
        let properties: Map<_, _> = self.properties.iter().cloned().collect();
        let event = |body: &str| json!({"body": body, "content_type": self.content_type, "properties": properties});
        let events: Vec<_> = bodies.iter().map(|body| event(body.as_ref())).collect();
        let body = json!({"partition": self.partition, "key": self.key, "events": events});
        let path = format!("{}/events", hub_path(&self.hub)?);
        remote.request(Method::POST, &path, Some(&body))
    }
}

/// The number of lines that fit into one publication.
fn batch(lines: &[&str]) -> usize {
    let mut bytes = 0;
    let fits = |line: &&&str| {
        bytes += line.len();
        bytes <= LINE_BYTES
    };
    let count = lines.iter().take(LINES).take_while(fits).count();
    count.max(1)
}

fn lines(file: Option<&Path>) -> Result<String> {
    match file {
        Some(file) => {
            let text = std::fs::read_to_string(file);
            text.with_context(|| format!("read {}", file.display()))
        }
        None => {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            read.context("read standard input")?;
            Ok(text)
        }
    }
}

/// Parses numbers and booleans; any other value is a string.
fn parse_property(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    let parsed = serde_json::from_str(value).ok();
    let parsed = parsed.filter(|parsed: &Value| parsed.is_number() || parsed.is_boolean());
    let value = parsed.unwrap_or_else(|| json!(value));
    Ok((name.to_owned(), value))
}
