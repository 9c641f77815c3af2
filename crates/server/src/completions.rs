//! `steadfast completions`: shell completions.

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::out::out;

#[derive(Args)]
pub(crate) struct CompletionsArguments {
    /// Which shell
    shell: Shell,
}

/// Prints the completions of a command.
pub(crate) fn run<C: CommandFactory>(arguments: &CompletionsArguments) -> Result<()> {
    let mut command = C::command();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "steadfast", &mut script);
    out(&String::from_utf8(script)?.trim_end())
}
