//! The commands of orchestrations, entities and task hubs.

use anyhow::Result;
use clap::Subcommand;

use crate::globals::Globals;
use crate::{entity, taskhub, workflow};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start, show, diagnose and control orchestrations
    #[command(visible_alias = "orchestration")]
    Workflow {
        #[command(subcommand)]
        command: workflow::Command,
        #[command(flatten)]
        hub: taskhub::TaskHubArguments,
    },
    /// List, call and signal entities, and manage their locks
    Entity {
        #[command(subcommand)]
        command: entity::Command,
        #[command(flatten)]
        hub: taskhub::TaskHubArguments,
    },
    /// Show task hubs and their workers
    #[command(name = "taskhub", subcommand)]
    TaskHub(taskhub::Command),
    /// The former name of `entity lock`
    #[command(hide = true)]
    Lock {
        #[command(subcommand)]
        command: entity::lock::Command,
        #[command(flatten)]
        hub: taskhub::TaskHubArguments,
    },
}

/// Runs the command.
pub(crate) fn run(command: &Command, globals: &Globals) -> Result<()> {
    match command {
        Command::Workflow { command, hub } => workflow::run(command, hub, globals),
        Command::Entity { command, hub } => entity::run(command, hub, globals),
        Command::TaskHub(command) => taskhub::run(command, globals),
        Command::Lock { command, hub } => entity::lock::run(command, hub, globals),
    }
}
