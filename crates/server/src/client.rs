//! `steadfast client`: clients of SignalR hubs.

use anyhow::{Context, Result};
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use crate::context::Target;
use crate::eventhub::rows;
use crate::out::out;
use crate::server_client::{ServerClient, segment};
use crate::table::{OutputFormat, Table};

const COLUMNS: &[&str] = &[
    "id",
    "user",
    "server",
    "protocol",
    "groups",
    "waiting_bytes",
];

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show the clients of a hub
    List {
        /// Which hub
        hub: String,
    },
    /// Show one client
    Show {
        /// Which hub
        hub: String,
        /// Which client
        id: String,
    },
    /// Close a client connection; the client may not reconnect automatically
    Close {
        /// Which hub
        hub: String,
        /// Which client
        id: String,
    },
    /// Call a method of clients
    Send {
        /// Which hub
        hub: String,
        /// Which method
        method: String,
        /// Arguments, as JSON or as text
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
    },
    /// Create a token for a client, signed with the key of this command
    Token {
        /// Which hub
        hub: String,
        /// User id of the client
        #[arg(long)]
        user: Option<String>,
        /// Lifetime of the token, in seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
        lifetime: u64,
    },
}

/// Runs the command.
pub(crate) fn run(command: &Command, target: &Target, output: OutputFormat) -> Result<()> {
    let remote = ServerClient::new(target)?;
    match command {
        Command::List { hub } => {
            let path = format!("/v1/hubs/{}/clients", segment(hub)?);
            let answer: Value = remote.request(Method::GET, &path, None)?;
            let mut table = Table::new("clients", COLUMNS);
            for row in rows(&answer, "clients")? {
                table.row(row.clone());
            }
            table.print(output)
        }
        Command::Show { hub, id } => {
            let answer: Value = remote.request(Method::GET, &place(hub, id)?, None)?;
            out(&serde_json::to_string_pretty(&answer)?)
        }
        Command::Close { hub, id } => {
            let _: Value = remote.request(Method::DELETE, &place(hub, id)?, None)?;
            Ok(())
        }
        Command::Send {
            hub,
            method,
            arguments,
            user,
            group,
            connection,
        } => {
            let arguments: Vec<_> = arguments.iter().map(|text| value(text)).collect();
            let body = json!({
                "target": method, "arguments": arguments,
                "user": user, "group": group, "connection": connection,
            });
            let path = format!("/v1/hubs/{}/send", segment(hub)?);
            let _: Value = remote.request(Method::POST, &path, Some(&body))?;
            Ok(())
        }
        Command::Token {
            hub,
            user,
            lifetime,
        } => {
            let body = json!({"user": user, "lifetime_s": lifetime});
            let path = format!("/v1/hubs/{}/tokens", segment(hub)?);
            let answer: Value = remote.request(Method::POST, &path, Some(&body))?;
            if output == OutputFormat::Json {
                return out(&serde_json::to_string_pretty(&answer)?);
            }
            let token = answer["token"]
                .as_str()
                .context("the server's response has no token")?;
            out(&token)
        }
    }
}

fn place(hub: &str, id: &str) -> Result<String> {
    Ok(format!(
        "/v1/hubs/{}/clients/{}",
        segment(hub)?,
        segment(id)?
    ))
}

/// Parses JSON; any other text is a string.
fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}
