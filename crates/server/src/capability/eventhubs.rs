//! The commands of event hubs and blobs.

use anyhow::Result;
use clap::Subcommand;

use crate::globals::Globals;
use crate::{blob, eventhub};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Manage event hubs, their events, groups and dead letters
    #[command(name = "eventhub", subcommand)]
    EventHub(eventhub::Command),
    /// List and delete blobs
    #[command(subcommand)]
    Blob(blob::Command),
    /// The former name of `eventhub send` and `eventhub tail`
    #[command(hide = true, subcommand)]
    Event(FormerEventCommand),
    /// The former name of `eventhub group`
    #[command(hide = true, subcommand)]
    Group(eventhub::group::Command),
    /// The former name of `eventhub dead-letter`
    #[command(hide = true, subcommand)]
    Parked(eventhub::dead_letter::Command),
}

#[derive(Subcommand)]
pub(crate) enum FormerEventCommand {
    /// The former name of `eventhub send`
    Send(eventhub::send::SendArguments),
    /// The former name of `eventhub tail`
    Tail(eventhub::tail::TailArguments),
}

/// Runs the command.
pub(crate) fn run(command: &Command, globals: &Globals) -> Result<()> {
    match command {
        Command::EventHub(command) => eventhub::run(command, globals),
        Command::Blob(command) => blob::run(command, globals),
        Command::Event(FormerEventCommand::Send(arguments)) => {
            eventhub::send::run(arguments, globals)
        }
        Command::Event(FormerEventCommand::Tail(arguments)) => {
            eventhub::tail::run(arguments, globals)
        }
        Command::Group(command) => eventhub::group::run(command, globals),
        Command::Parked(command) => eventhub::dead_letter::run(command, globals),
    }
}
