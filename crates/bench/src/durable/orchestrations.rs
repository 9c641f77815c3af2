//! Locked transfers, activities in a row, fan-outs.

use std::sync::Arc;

use anyhow::{Result, ensure};
use steadfast_durable::{InstanceStatus, NewInstance, Task, TaskHub};

use super::session::Session;
use super::settings::Settings;
use crate::process::settle;
use crate::report::{GoalBound, Report};
use crate::stopwatch::Stopwatch;

/// Orchestrations in flight.
const AT_A_TIME: usize = 512;
/// Activities of a fan-out.
const WIDTH: u64 = 100;

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    for _ in 0..settings.rounds {
        let accounts = settings.accounts;
        let transfers = rate(settings, "transfer", AT_A_TIME, move || {
            let from = fastrand::u64(..accounts);
            let to = (from + fastrand::u64(1..accounts)) % accounts;
            format!("[{from},{to},1]")
        })?;
        let goals = &mut report.goals;
        goals.record(
            "transfers_per_s",
            "1/s",
            GoalBound::AtLeast(5000.0),
            transfers,
        );
        let sequences = rate(settings, "sequence", AT_A_TIME, || "0".into())?;
        let figures = &mut report.figures;
        figures.record("five_activity_sequences_per_s", sequences);
        // A start, six turns and five activities.
        figures.record("sequence_work_items_per_s", sequences * 11.0);
        let fans = rate(settings, "fan", AT_A_TIME / 16, || WIDTH.to_string())?;
        figures.record("fan_outs_of_100_per_s", fans);
    }
    Ok(())
}

/// The number of instances that complete per second.
fn rate(
    settings: &Settings,
    name: &'static str,
    at_a_time: usize,
    input: impl Fn() -> String + Clone + Send + 'static,
) -> Result<f64> {
    let folder = settings.temporary()?;
    let session = Session::open(&folder.path().join("data"))?;
    settle()?;
    let watch = Arc::new(Stopwatch::start());
    let run = async {
        let mut clients = tokio::task::JoinSet::new();
        for _ in 0..at_a_time.min(settings.clients) {
            let (hub, watch, input) = (session.hub.clone(), Arc::clone(&watch), input.clone());
            let duration = settings.duration;
            clients.spawn(async move {
                let mut done = 0u64;
                while watch.elapsed() < duration {
                    one(&hub, name, input()).await?;
                    done += 1;
                }
                anyhow::Ok(done)
            });
        }
        let mut done = 0;
        while let Some(client) = clients.join_next().await {
            done += client??;
        }
        anyhow::Ok(done)
    };
    let done = session.tasks.block_on(run)?;
    Ok(done as f64 / watch.seconds())
}

async fn one(hub: &TaskHub, name: &str, input: String) -> Result<()> {
    let task = Task {
        name: name.to_owned(),
        input: Some(input),
        ..Task::default()
    };
    let id = hub.start(NewInstance::of(task)).await?;
    let end = hub.ended(&id, false).await?;
    ensure!(
        end.status == InstanceStatus::Completed,
        "{name}: {:?}",
        end.failure
    );
    Ok(())
}
