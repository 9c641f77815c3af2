//! The command of benchmarks.

use anyhow::Result;
use clap::Subcommand;

use crate::bench;
use crate::globals::Globals;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Measure this machine, a peer and Steadfast side by side
    #[command(
        subcommand,
        after_help = "Examples:\n  steadfast bench collections --quick"
    )]
    Bench(bench::Benchmark),
}

/// Runs the command.
pub(crate) fn run(command: &Command, globals: &Globals) -> Result<()> {
    let Command::Bench(area) = command;
    bench::run(area, globals.output())
}
