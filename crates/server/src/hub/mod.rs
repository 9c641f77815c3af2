//! `steadfast hub`: SignalR hubs, their clients and app servers.

pub(crate) mod app_server;
pub(crate) mod client;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use crate::globals::Globals;
use crate::listing::rows_by_page;
use crate::output::{PageArguments, Table, WatchArguments, out, print, print_value};
use crate::server_client::{ServerClient, segment};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List hubs with their clients and app servers
    #[command(after_help = "Examples:\n  steadfast hub list")]
    List {
        #[command(flatten)]
        page: PageArguments,
        #[command(flatten)]
        watch: WatchArguments,
    },
    /// Call a method of clients
    #[command(after_help = "\
Examples:
  steadfast hub send chat message 'good morning'
  steadfast hub send chat message '{\"text\": \"hi\"}' --user alice")]
    Send(SendArguments),
    /// Create a token for a client, signed with the key of this command
    #[command(after_help = "Examples:\n  steadfast hub token chat --user alice")]
    Token(TokenArguments),
    /// List and close client connections
    #[command(subcommand)]
    Client(client::Command),
    /// List and drain app servers
    #[command(subcommand)]
    Server(app_server::Command),
}

/// A call of clients.
#[derive(Args)]
pub(crate) struct SendArguments {
    /// Name of the hub
    hub: String,
    /// Name of the method
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
}

/// A token for a client.
#[derive(Args)]
pub(crate) struct TokenArguments {
    /// Name of the hub
    hub: String,
    /// User id of the client
    #[arg(long)]
    user: Option<String>,
    /// Lifetime of the token, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    lifetime: u64,
}

/// Runs the command.
pub(crate) fn run(command: &Command, globals: &Globals) -> Result<()> {
    match command {
        Command::List { page, watch } => {
            let remote = ServerClient::new(globals)?;
            watch.run(|| {
                let page = rows_by_page(&remote, "/v1/hubs", "hubs", page)?;
                let table = Table::new("hubs", &["name", "clients", "servers"]);
                table.page(page).print(globals.output())
            })
        }
        Command::Send(arguments) => send(arguments, globals),
        Command::Token(arguments) => token(arguments, globals),
        Command::Client(command) => client::run(command, globals),
        Command::Server(command) => app_server::run(command, globals),
    }
}

/// Calls a method of clients.
pub(crate) fn send(send: &SendArguments, globals: &Globals) -> Result<()> {
    let remote = ServerClient::new(globals)?;
    let arguments: Vec<_> = send.arguments.iter().map(|text| value(text)).collect();
    let body = json!({
        "target": send.method, "arguments": arguments,
        "user": send.user, "group": send.group, "connection": send.connection,
    });
    let path = format!("{}/send", hub_path(&send.hub)?);
    let _: Value = remote.request(Method::POST, &path, Some(&body))?;
    print(&[("sent", json!(send.method))], globals.output())
}

/// Creates a token.
pub(crate) fn token(token: &TokenArguments, globals: &Globals) -> Result<()> {
    let remote = ServerClient::new(globals)?;
    let body = json!({"user": token.user, "lifetime_s": token.lifetime});
    let path = format!("{}/tokens", hub_path(&token.hub)?);
    let answer: Value = remote.request(Method::POST, &path, Some(&body))?;
    if globals.output().is_structured() {
        return print_value(&answer, globals.output());
    }
    let token = answer["token"].as_str();
    out(&token.context("the server's response has no token")?)
}

/// The path of a hub.
pub(crate) fn hub_path(hub: &str) -> Result<String> {
    Ok(format!("/v1/hubs/{}", segment(hub)?))
}

/// Parses JSON; any other text is a string.
fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}
