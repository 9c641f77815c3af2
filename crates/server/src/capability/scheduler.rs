//! The commands of jobs.

use anyhow::Result;
use clap::Subcommand;

use crate::globals::Globals;
use crate::job;

#[derive(Subcommand)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one, for as long as the process runs"
)]
pub(crate) enum Command {
    /// Create, run, show and preview jobs, and manage their collections
    Job {
        #[command(subcommand)]
        command: job::Command,
        #[command(flatten)]
        scope: job::scope::CollectionScope,
    },
    /// The former name of `job collection`
    #[command(hide = true)]
    Collection {
        #[command(subcommand)]
        command: job::collection::Command,
        #[command(flatten)]
        scope: job::scope::CollectionScope,
    },
}

/// Runs the command.
pub(crate) fn run(command: &Command, globals: &Globals) -> Result<()> {
    match command {
        Command::Job { command, scope } => job::run(command, scope, globals),
        Command::Collection { command, scope } => job::collection::run(command, scope, globals),
    }
}
