//! `steadfast completions`: for shells.

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

#[derive(Args)]
pub(crate) struct Completions {
    /// Which shell
    shell: Shell,
}

/// Prints the completions of a command.
pub(crate) fn run<C: CommandFactory>(arguments: &Completions) -> Result<()> {
    let mut command = C::command();
    let mut out = std::io::stdout();
    clap_complete::generate(arguments.shell, &mut command, "steadfast", &mut out);
    Ok(())
}
