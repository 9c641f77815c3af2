//! Rust programs with third-party clients, built separately.

use std::path::Path;

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

/// Builds the program in `source`, which has a lock file of its own, to
/// `rust/debug/` among the tools.
pub(crate) fn build(workspace: &Workspace, source: &Path) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--quiet", "--locked", "--manifest-path"]);
    cargo.arg(source.join("Cargo.toml"));
    cargo
        .arg("--target-dir")
        .arg(workspace.tools().join("rust"));
    process::run(&mut cargo)
}
