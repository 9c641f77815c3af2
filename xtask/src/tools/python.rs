//! Python environments, one per file of requirements.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{marker, system};
use crate::process;
use crate::workspace::Workspace;

/// The Python of `<tools>/python/<name>`, with the packages of this file of requirements.
pub(crate) fn install(workspace: &Workspace, name: &str, requirements: &Path) -> Result<PathBuf> {
    let text = std::fs::read_to_string(requirements)
        .with_context(|| format!("cannot read {}", requirements.display()))?;
    let folder = workspace.tools().join("python").join(name);
    let python = folder.join("bin/python");
    let what = format!("python {name} {}", marker::digest(&text));
    marker::once(&folder, &what, || {
        create(&folder)?;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--requirement"]);
        process::run(
            pip.arg(requirements)
                .env("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
        )
    })?;
    Ok(python)
}

/// Installs the smallest environment and imports its package.
pub(crate) fn try_out(workspace: &Workspace) -> Result<()> {
    let requirements = workspace.root.join("xtask/tools/python.txt");
    let python = install(workspace, "smoke", &requirements)?;
    let code = "import six; print(six.__version__)";
    let text = process::output(Command::new(python).args(["-c", code]))?;
    if text.trim() != "1.17.0" {
        bail!("six is {}", text.trim());
    }
    Ok(())
}

fn create(folder: &Path) -> Result<()> {
    if process::on_path("python3").is_none() {
        system::install("python3")?;
    }
    // Debian ships the module apart.
    if process::output(Command::new("python3").args(["-c", "import ensurepip, venv"])).is_err() {
        system::install("python3-venv")?;
    }
    let mut venv = Command::new("python3");
    process::run(venv.args(["-m", "venv"]).arg(folder))
}
