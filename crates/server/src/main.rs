//! The `steadfast` command.
//!
//! Exit codes: 0 if it did what was asked, 1 if it failed, 2 if it was not
//! understood, 3 if there is no such thing.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool"
)]

mod backup;
mod bench;
mod inspect;
mod migrate;
mod place;
mod progress;
mod result;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Durable state, event streams and messaging in one server.
#[derive(Parser)]
#[command(name = "steadfast", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Back a data folder or database up, in full or what has changed
    ///
    /// A backup is a folder inside DIR, and an incremental one builds on the newest
    /// that is there. Nobody else may use the data meanwhile.
    Backup(backup::Backup),
    /// Bring a backup back into a data folder or database
    ///
    /// Everything is verified before anything is written, and compared after it. An
    /// unfinished restore cannot be opened: run it again.
    Restore(backup::Restore),
    /// Move a store between a data folder and PostgreSQL
    ///
    /// A full copy into an empty place, which is then read back and compared. Nobody
    /// may use either place meanwhile. The old state stays as it is.
    Migrate(migrate::Migrate),
    /// Show what a data folder holds, as JSON
    ///
    /// Without a name: its partitions. Nobody else may have the data folder open.
    Inspect(inspect::Inspect),
    /// Measure this machine, a peer and Steadfast side by side
    #[command(subcommand)]
    Bench(bench::Area),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.command {
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Restore(arguments) => backup::run_restore(&arguments),
        Command::Migrate(arguments) => migrate::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Bench(area) => bench::run(&area),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("steadfast: {error:#}");
            match error.is::<inspect::NotFound>() {
                true => ExitCode::from(3),
                false => ExitCode::FAILURE,
            }
        }
    }
}
