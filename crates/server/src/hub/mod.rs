//! `steadfast hub`: SignalR hubs.

pub(crate) mod app_server;
mod call;
pub(crate) mod client;
mod path;
mod token;

use anyhow::Result;
use clap::Subcommand;

use crate::globals::Globals;
use crate::listing::rows_by_page;
use crate::output::{PageArguments, Table, WatchArguments};
use crate::server_client::ServerClient;

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
    Send(call::CallArguments),
    /// Create a token for a client, signed with the key of this command
    #[command(after_help = "Examples:\n  steadfast hub token chat --user alice")]
    Token(token::TokenArguments),
    /// List and close client connections
    #[command(subcommand)]
    Client(client::Command),
    /// List and drain app servers
    #[command(subcommand)]
    Server(app_server::Command),
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
        Command::Send(arguments) => call::run(arguments, globals),
        Command::Token(arguments) => token::run(arguments, globals),
        Command::Client(command) => client::run(command, globals),
        Command::Server(command) => app_server::run(command, globals),
    }
}
