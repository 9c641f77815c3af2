//! The commands of clusters and region pairs.

use anyhow::Result;
use clap::Subcommand;

use crate::cluster;
use crate::globals::Globals;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show nodes, move partitions, verify databases, manage region pairs
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// The former name of `cluster region`
    #[command(hide = true, subcommand)]
    Region(cluster::region::Command),
}

/// Runs the command.
pub(crate) fn run(command: &Command, globals: &Globals) -> Result<()> {
    match command {
        Command::Cluster(command) => cluster::run(command, globals),
        Command::Region(command) => cluster::region::run(command, globals),
    }
}
