//! `steadfast completions` and `steadfast man`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
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
    let mut command = C::command();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "steadfast", &mut script);
    out(&String::from_utf8(script)?.trim_end())
}

/// Writes a manual page for each command.
pub(crate) fn man<C: CommandFactory>(arguments: &ManArguments, globals: &Globals) -> Result<()> {
    let folder = &arguments.folder;
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(C::command(), folder))
        .with_context(|| format!("write {}", folder.display()))?;
    print(&[("written", json!(folder))], globals.output())
}
