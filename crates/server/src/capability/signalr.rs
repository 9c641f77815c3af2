//! The commands of SignalR hubs.

use anyhow::Result;
use clap::Subcommand;

use crate::globals::Globals;
use crate::hub;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Manage SignalR hubs, their clients and app servers
    #[command(subcommand)]
    Hub(hub::Command),
    /// The former name of `hub client`, `hub send` and `hub token`
    #[command(hide = true, subcommand)]
    Client(hub::client::Command),
    /// The former name of `hub server`
    #[command(name = "appserver", hide = true, subcommand)]
    AppServer(hub::app_server::Command),
}

/// Runs the command.
pub(crate) fn run(command: &Command, globals: &Globals) -> Result<()> {
    match command {
        Command::Hub(command) => hub::run(command, globals),
        Command::Client(command) => hub::client::run(command, globals),
        Command::AppServer(command) => hub::app_server::run(command, globals),
    }
}
