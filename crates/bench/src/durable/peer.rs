//! Restate's server with the same counter, if installed.
//!
//! Node 22, `@restatedev/restate-server` and `@restatedev/restate-sdk` are found as Node
//! finds them, by `NODE_PATH`. The clients and the counter share one Node process, as
//! users of Restate would write it.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::settings::Settings;
use crate::report::{GoalBound, Report};

const LOAD: &str = include_str!("peer.mjs");
const FIGURE: &str = "restate_operations_per_s_1000_keys";
const KEYS: u64 = 1000;
const CLIENTS: usize = 64;

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let Some(packages) = packages() else {
        return Ok(());
    };
    let folder = settings.temporary()?;
    let script = folder.path().join("peer.mjs");
    std::fs::write(&script, LOAD)?;
    for _ in 0..settings.rounds {
        let data = settings.temporary()?;
        let run = Command::new("node")
            .arg(&script)
            .arg(data.path())
            .args([KEYS.to_string(), CLIENTS.min(settings.clients).to_string()])
            .arg(settings.duration.as_secs_f64().to_string())
            .current_dir(&packages)
            .env("RESTATE_LOGGING", "ERROR")
            .stdin(Stdio::null())
            .output()
            .context("run node")?;
        let said = String::from_utf8_lossy(&run.stdout);
        let error = String::from_utf8_lossy(&run.stderr);
        ensure!(run.status.success(), "Restate ended early: {error}");
        let last = said.lines().last().unwrap_or_default();
        let rate: f64 = last.parse().context("Restate said no number")?;
        report.figures.record(FIGURE, rate);
    }
    Ok(())
}

/// Adds the goal if Restate was measured.
pub(super) fn compare(report: &mut Report) {
    let other = report.figures.largest(FIGURE);
    let own = report.figures.largest("calls_per_s_1000_keys");
    if other.is_finite() {
        let bound = GoalBound::AtLeast(20.0);
        report
            .goals
            .record("operations_of_restate", "x", bound, own / other);
    }
}

/// The parent of the module folder that contains Restate.
fn packages() -> Option<std::path::PathBuf> {
    let modules = std::env::var_os("NODE_PATH")?;
    let folders = std::env::split_paths(&modules);
    let mut found = folders.filter(|folder| {
        let own = folder.join("@restatedev");
        own.join("restate-server").is_dir() && own.join("restate-sdk").is_dir()
    });
    // Its SDK needs Node 22.
    let has_node = Command::new("node")
        .args(["-e", "Promise.withResolvers()"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    found
        .next()
        .filter(|_| has_node.is_ok_and(|status| status.success()))?
        .parent()
        .map(Into::into)
}
