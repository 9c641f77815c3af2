//! `steadfast hub client`: client connections of SignalR hubs.

use anyhow::Result;
use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use super::path::hub_path;
use super::{call, token};
use crate::globals::Globals;
use crate::listing::{delete, rows};
use crate::output::{OutputFormat, PageArguments, Table, WatchArguments, print, print_value};
use crate::server_client::{ServerClient, segment};

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
    /// List the client connections of a hub
    #[command(after_help = "Examples:\n  steadfast hub client list chat")]
    List {
        /// Name of the hub
        hub: String,
        #[command(flatten)]
        page: PageArguments,
        #[command(flatten)]
        watch: WatchArguments,
    },
    /// Show a client connection
    Show {
        /// Name of the hub
        hub: String,
        /// Id of the connection
        id: String,
    },
    /// Close a client connection; the client may not reconnect automatically
    Close {
        /// Name of the hub
        hub: String,
        /// Id of the connection
        id: String,
    },
    /// The former name of `hub send`.
    #[command(hide = true)]
    Send(call::CallArguments),
    /// The former name of `hub token`.
    #[command(hide = true)]
    Token(token::TokenArguments),
}

/// Runs the command.
pub(crate) fn run(command: &Command, globals: &Globals) -> Result<()> {
    let output = globals.output();
    match command {
        Command::Send(arguments) => call::run(arguments, globals),
        Command::Token(arguments) => token::run(arguments, globals),
        Command::List { hub, page, watch } => {
            let remote = ServerClient::new(globals)?;
            let path = format!("{}/clients", hub_path(hub)?);
            watch.run(|| list(&remote, &path, page, output))
        }
        Command::Show { hub, id } => {
            let path = client_path(hub, id)?;
            let remote = ServerClient::new(globals)?;
            let found: Value = remote.request(Method::GET, &path, None)?;
            print_value(&found, output)
        }
        Command::Close { hub, id } => {
            delete(&ServerClient::new(globals)?, &client_path(hub, id)?)?;
            print(&[("closed", json!(id))], output)
        }
    }
}

fn list(
    remote: &ServerClient,
    path: &str,
    page: &PageArguments,
    output: OutputFormat,
) -> Result<()> {
    let answer: Value = remote.request(Method::GET, path, None)?;
    let page = page.cut(rows(&answer, "clients")?.clone(), "id")?;
    Table::new("clients", COLUMNS).page(page).print(output)
}

fn client_path(hub: &str, id: &str) -> Result<String> {
    Ok(format!("{}/clients/{}", hub_path(hub)?, segment(id)?))
}
