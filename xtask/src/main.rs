//! The chores of the project, behind `cargo xtask`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool"
)]

mod clients;
mod conformance;
mod deny;
mod fuse;
mod fuzz;
mod groups;
mod house;
mod mutants;
mod process;
mod soak;
mod test;
mod tools;
mod upstream;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// The chores of the project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Runs every group of tests, or only those named.
    Test(test::Options),
    /// Runs the tests of an area's checklist and prints item, test, result.
    Conformance(conformance::Options),
    /// Writes the tables of docs/reference/clients.md from versions and tests.
    Clients,
    /// Runs one long test.
    Soak(soak::Options),
    /// Plants faults, one by one, and demands that the tests find them.
    Mutants(mutants::Options),
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the chore found everything in order.
fn run(arguments: Arguments) -> Result<bool> {
    let workspace = Workspace::find()?;
    match arguments.command {
        Chore::Test(options) => test::run(&workspace, &options),
        Chore::Conformance(options) => conformance::run(&workspace, &options),
        Chore::Clients => clients::write_page(&workspace),
        Chore::Soak(options) => soak::run(&workspace, &options),
        Chore::Mutants(options) => mutants::run(&workspace, &options),
    }
}
