//! An HTTP client of a task hub.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde_json::Value;

use crate::context::Target;
use crate::server_client::ServerClient;

/// The base path of the interface.
const BASE: &str = "/runtime/webhooks/durabletask";

/// Time that is added to the server's time-out.
const MARGIN: Duration = Duration::from_secs(10);

/// The task hub to use.
#[derive(Args)]
pub(crate) struct TaskHubArguments {
    /// The task hub
    #[arg(long, value_name = "NAME", default_value = "default", global = true)]
    hub: String,
}

/// A task hub of a running server.
pub(crate) struct TaskHubHttpClient {
    remote: ServerClient,
    name: String,
}

impl TaskHubHttpClient {
    /// Creates a client of the task hub, without connecting.
    pub(crate) fn new(hub: &TaskHubArguments, target: &Target) -> Result<Self> {
        Ok(Self {
            remote: ServerClient::new(target)?,
            name: hub.hub.clone(),
        })
    }

    /// Sends a request with the time-out `patience`. The segments of the path may contain any
    /// characters.
    pub(crate) fn request(
        &self,
        patience: Duration,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        body: Option<&Value>,
    ) -> Result<Value> {
        let mut address = BASE.to_owned();
        for part in path {
            address += &format!("/{}", encoded(part));
        }
        address += &format!("?taskHub={}", encoded(&self.name));
        for (name, value) in query {
            address += &format!("&{name}={}", encoded(value));
        }
        let limit = patience + MARGIN;
        self.remote.request_within(limit, method, &address, body)
    }

    /// Sends a request with a short time-out.
    pub(crate) fn quick(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        body: Option<&Value>,
    ) -> Result<Value> {
        self.request(Duration::ZERO, method, path, query, body)
    }
}

/// Percent-encodes a text for a path or a query.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// Parses a payload from the command line.
pub(crate) fn payload(text: Option<&String>) -> Result<Option<Value>> {
    let read = text.map(|text| serde_json::from_str(text));
    read.transpose()
        .context("a payload is JSON: a text stands in quotes, '\"like this\"'")
}
