//! Runs `cargo deny`, after building it once.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;

const VERSION: &str = "0.20.2";

/// The manifests with their own lock file. The fuzzer's needs settings of unstable cargo;
/// an outdated lock file is an error.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "fuzz/Cargo.toml"];

/// Checks licences, banned crates and sources against `deny.toml`.
///
/// The advisory database is on the network: it is used only if `STEADFAST_ADVISORIES` is set.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let program = install(workspace)?;
    for manifest in MANIFESTS {
        let mut command = Command::new(&program);
        command
            .current_dir(&workspace.root)
            .env("RUSTC_BOOTSTRAP", "1")
            .args(["--config", "deny.toml", "--manifest-path", manifest])
            .args(["--locked", "check", "bans", "licenses", "sources"]);
        if std::env::var_os("STEADFAST_ADVISORIES").is_some() {
            command.arg("advisories");
        }
        process::run(&mut command)?;
    }
    Ok(())
}

fn install(workspace: &Workspace) -> Result<PathBuf> {
    let tools = workspace.tools();
    let program = tools.join("bin/cargo-deny");
    if is_current(&program) {
        return Ok(program);
    }
    // A separate folder, removed afterwards: no other build can reuse its output.
    let build = tools.join("build");
    let mut command = workspace.cargo();
    command
        .args(["install", "cargo-deny", "--version", VERSION, "--locked"])
        .arg("--root")
        .arg(&tools)
        .env("CARGO_TARGET_DIR", &build);
    process::run(&mut command)?;
    std::fs::remove_dir_all(&build)
        .with_context(|| format!("cannot remove {}", build.display()))?;
    Ok(program)
}

fn is_current(program: &Path) -> bool {
    process::output(Command::new(program).arg("--version"))
        .is_ok_and(|text| text.trim() == format!("cargo-deny {VERSION}"))
}
