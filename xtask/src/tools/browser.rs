//! Chromium, from the system's package.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{marker, scratch, system};
use crate::process;
use crate::workspace::Workspace;

const PROGRAM: &str = "/usr/bin/chromium";

/// Quiet, alone, and without a sandbox, which containers do not grant.
const FLAGS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

const PAGE: &str = r#"<!doctype html><p id="p">before</p>
<script>document.getElementById("p").textContent = "six times seven is " + 6 * 7;</script>
"#;

/// The program `<tools>/browser/chromium`.
pub(crate) fn install(workspace: &Workspace) -> Result<PathBuf> {
    if !Path::new(PROGRAM).is_file() {
        system::install("chromium")?;
    }
    let folder = workspace.tools().join("browser");
    let program = folder.join("chromium");
    marker::once(&folder, PROGRAM, || {
        symlink(PROGRAM, &program).context("cannot link chromium")
    })?;
    Ok(program)
}

/// Installs the browser and lets it run a page's script.
pub(crate) fn try_out(workspace: &Workspace) -> Result<()> {
    let program = install(workspace)?;
    let folder = scratch::folder(workspace, "browser-")?;
    let page = folder.path().join("page.html");
    std::fs::write(&page, PAGE)?;
    let profile = folder.path().join("profile");
    // A browser that hangs must not hang the tests.
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", "60"])
        .arg(program)
        .args(FLAGS)
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()));
    let text = process::output(&mut command)?;
    if !text.contains(">six times seven is 42<") {
        bail!("the script did not run: {text}");
    }
    Ok(())
}
