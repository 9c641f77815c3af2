//! The `steadfast` command.
//!
//! Exit codes: 0 if it did what was asked, 1 if it failed, 2 if it was not
//! understood.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool"
)]

mod bench;

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
    /// Measure this machine, a peer and Steadfast side by side
    #[command(subcommand)]
    Bench(bench::Area),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.command {
        Command::Bench(area) => bench::run(&area),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("steadfast: {error:#}");
            ExitCode::FAILURE
        }
    }
}
