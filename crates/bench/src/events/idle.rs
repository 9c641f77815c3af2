//! The cost of consumers that wait for events.

use std::time::Duration;

use anyhow::Result;

use super::link::{IDLE_HUB, IDLE_PARTITIONS, ReceiverClient};
use super::server::EventServer;
use super::settings::Settings;
use crate::report::{GoalBound, Report};

/// Time to become idle.
const REST: Duration = Duration::from_secs(2);

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let folder = settings.temporary()?;
    let server = EventServer::start(settings, &folder.path().join("data"))?;
    let tasks = tokio::runtime::Runtime::new()?;
    // The one-time cost of a partition's first consumer is not counted.
    let warm = IDLE_PARTITIONS.min(settings.idle);
    let mut consumers = Vec::new();
    for number in 0..warm {
        consumers.push(tasks.block_on(ReceiverClient::open(server.port, IDLE_HUB, number))?);
    }
    drop(std::mem::take(&mut consumers));
    std::thread::sleep(REST);
    let before = server.child.resident_mb()?;
    for number in 0..settings.idle {
        let partition = number % IDLE_PARTITIONS;
        consumers.push(tasks.block_on(ReceiverClient::open(server.port, IDLE_HUB, partition))?);
    }
    std::thread::sleep(REST);
    let after = server.child.resident_mb()?;
    let busy = server.child.cpu_seconds()?;
    std::thread::sleep(settings.duration);
    let busy = server.child.cpu_seconds()? - busy;
    drop(consumers);
    let each = (after - before).max(0.0) * 1e3 / f64::from(settings.idle);
    let share = busy / settings.duration.as_secs_f64() * 100.0;
    let goals = &mut report.goals;
    goals.record("idle_consumers_cpu", "%", GoalBound::Below(1.0), share);
    goals.record(
        "resident_per_idle_consumer",
        "KB",
        GoalBound::Below(20.0),
        each,
    );
    report
        .figures
        .record("idle_consumers", f64::from(settings.idle));
    Ok(())
}
