//! The development tasks behind `cargo xtask`.
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
mod lanes;
mod mutants;
mod outcome;
mod process;
mod protos;
mod soak;
mod test;
mod tools;
mod upstream;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// The development tasks of the project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run all groups of tests, or only those named.
    Test(test::Options),
    /// Run the tests of an area's checklist and print item, test and result.
    Conformance(conformance::Options),
    /// Write the tables of docs/reference/clients.md from versions and tests.
    Clients,
    /// Generate the messages and services of Durable Task from their interface.
    Protos,
    /// Run one long test.
    Soak(soak::Options),
    /// Plant faults one by one and require that the tests find them.
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

/// Runs a task; false if it found problems.
fn run(arguments: Arguments) -> Result<bool> {
    let workspace = Workspace::find()?;
    match arguments.command {
        Chore::Test(options) => test::run(&workspace, &options),
        Chore::Conformance(options) => conformance::run(&workspace, &options),
        Chore::Clients => clients::write_page(&workspace),
        Chore::Protos => protos::write(&workspace),
        Chore::Soak(options) => soak::run(&workspace, &options),
        Chore::Mutants(options) => mutants::run(&workspace, &options),
    }
}
