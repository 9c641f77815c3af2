//! `steadfast hub send`: calls of clients.

use anyhow::Result;
use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};

use super::path::hub_path;
use crate::globals::Globals;
use crate::output::print;
use crate::server_client::ServerClient;

/// A call of clients.
#[derive(Args)]
pub(crate) struct CallArguments {
    /// Name of the hub
    hub: String,
    /// Name of the method
    method: String,
    /// Arguments, as JSON or as text
    #[arg(allow_negative_numbers = true)]
    arguments: Vec<String>,
    /// Call only connections of this user
    #[arg(long, conflicts_with_all = ["group", "connection"])]
    user: Option<String>,
    /// Call only connections of this group
    #[arg(long, conflicts_with = "connection")]
    group: Option<String>,
    /// Call only this connection
    #[arg(long)]
    connection: Option<String>,
}

/// Calls a method of clients.
pub(crate) fn run(call: &CallArguments, globals: &Globals) -> Result<()> {
    let remote = ServerClient::new(globals)?;
    let arguments: Vec<_> = call.arguments.iter().map(|text| value(text)).collect();
    let body = json!({
        "target": call.method, "arguments": arguments,
        "user": call.user, "group": call.group, "connection": call.connection,
    });
    let path = format!("{}/send", hub_path(&call.hub)?);
    let _: Value = remote.request(Method::POST, &path, Some(&body))?;
    print(&[("sent", json!(call.method))], globals.output())
}

/// Parses JSON; any other text is a string.
fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}
