//! `steadfast completions` and `steadfast man`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use serde_json::json;

use crate::globals::Globals;
use crate::output::{out, print};

#[derive(Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

#[derive(Args)]
pub(crate) struct ManArguments {
    /// The folder to write to, created if missing
    folder: PathBuf,
}

/// Prints the completions of a command.
pub(crate) fn completions<C: CommandFactory>(arguments: &CompletionsArguments) -> Result<()> {
    let mut command = visible(&C::command());
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "steadfast", &mut script);
    out(&String::from_utf8(script)?.trim_end())
}

/// A command without what its help hides: former names, and options that are refused.
fn visible(command: &Command) -> Command {
    let arguments = command.get_arguments().filter(|one| !one.is_hide_set());
    let children = command.get_subcommands().filter(|one| !one.is_hide_set());
    // clap takes names that live as long as the process, which ends after this.
    let forever = |name: &str| -> &'static str { name.to_owned().leak() };
    let aliases = command.get_visible_aliases().map(forever);
    let about = command.get_about().cloned().unwrap_or_default();
    Command::new(forever(command.get_name()))
        .about(about)
        .visible_aliases(aliases.collect::<Vec<_>>())
        .args(arguments)
        .subcommands(children.map(visible))
}

/// Writes a manual page for each command.
pub(crate) fn man<C: CommandFactory>(arguments: &ManArguments, globals: &Globals) -> Result<()> {
    let folder = &arguments.folder;
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(C::command(), folder))
        .with_context(|| format!("write {}", folder.display()))?;
    print(&[("written", json!(folder))], globals.output())
}
