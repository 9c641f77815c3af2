//! Node packages, one folder per lock file.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{marker, system};
use crate::process;
use crate::workspace::Workspace;

/// A folder with the packages of `source`'s lock file, and with its scripts: modules
/// are looked for beside the script that wants them.
pub(crate) fn install(workspace: &Workspace, name: &str, source: &Path) -> Result<PathBuf> {
    let lock = source.join("package-lock.json");
    let text = std::fs::read_to_string(&lock)
        .with_context(|| format!("cannot read {}", lock.display()))?;
    let folder = workspace.tools().join("packages").join(name);
    let what = format!("packages {name} {}", marker::digest(&text));
    marker::once(&folder, &what, || {
        if process::on_path("npm").is_none() {
            system::install("npm")?;
        }
        for file in ["package.json", "package-lock.json"] {
            std::fs::copy(source.join(file), folder.join(file))?;
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
        process::run(npm.current_dir(&folder))
    })?;
    for entry in std::fs::read_dir(source)? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "mjs") {
            let name = file.file_name().context("a file has a name")?;
            std::fs::copy(&file, folder.join(name))?;
        }
    }
    Ok(folder)
}
