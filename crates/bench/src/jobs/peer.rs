//! BullMQ on Redis, where both are installed.
//!
//! The load is the same: jobs that are due within one second, as durable as ours,
//! because Redis syncs every write. A worker makes 64 calls at a time to the same
//! receiver. BullMQ and ioredis are found as Node finds them, also by `NODE_PATH`.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::receiver::CallReceiver;
use super::settings::Settings;
use crate::redis::Redis;
use crate::report::{GoalBound, Report};

const LOAD: &str = include_str!("peer.js");

/// Measures BullMQ and compares it with Steadfast's rate in the same round.
pub(super) fn measure(settings: &Settings, own: f64, report: &mut Report) -> Result<()> {
    if !has_bullmq() {
        return Ok(());
    }
    let folder = settings.temporary()?;
    let Some(redis) = Redis::start(folder.path())? else {
        return Ok(());
    };
    let tasks = tokio::runtime::Runtime::new()?;
    let receiver = tasks.block_on(CallReceiver::start())?;
    let run = Command::new("node")
        .args(["-e", LOAD, "--", &redis.port.to_string()])
        .args([&receiver.url(false), &settings.burst.to_string()])
        .arg(settings.lead.as_millis().to_string())
        .stdin(Stdio::null())
        .output()
        .context("run node")?;
    let said = String::from_utf8_lossy(&run.stdout);
    let error = String::from_utf8_lossy(&run.stderr);
    ensure!(run.status.success(), "BullMQ ended early: {error}");
    let rate: f64 = said.trim().parse().context("BullMQ said no number")?;
    report.figures.record("bullmq_dispatches_per_s", rate);
    let bound = GoalBound::AtLeast(2.0);
    report
        .goals
        .record("dispatches_of_bullmq", "x", bound, own / rate);
    Ok(())
}

/// Whether Node is installed and finds BullMQ and its Redis client.
fn has_bullmq() -> bool {
    let mut node = Command::new("node");
    node.args(["-e", "require('bullmq'); require('ioredis')"]);
    node.stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    node.status().is_ok_and(|status| status.success())
}
