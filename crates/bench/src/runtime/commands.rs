//! Commands that each put one row.

use anyhow::Result;
use bytes::Bytes;
use fastrand::Rng;
use steadfast_core::id::Partition;
use steadfast_partition::Address;

use super::caller::{CallPlan, CallTotals, call_for};
use super::load::{LoadCommand, ROW_BYTES, VALUE_BYTES, instance};
use super::session::{PARTITIONS, Session};
use super::settings::Settings;
use crate::process::{cpu_seconds, settle};
use crate::report::{GoalBound, Report};

const GOAL: f64 = 150_000.0;

pub(super) fn measure(settings: &Settings, report: &mut Report, disk: f64) -> Result<()> {
    let folder = settings.temporary()?;
    let session = Session::open(&folder.path().join("data"))?;
    let one = Some(Partition::new(0, 0));
    for _ in 0..settings.rounds {
        measure_through(settings, &session, one, "1_partition", report, disk)?;
        let all = format!("{PARTITIONS}_partitions");
        measure_through(settings, &session, None, &all, report, disk)?;
    }
    Ok(())
}

fn measure_through(
    settings: &Settings,
    session: &Session,
    place: Option<Partition>,
    through: &str,
    report: &mut Report,
    disk: f64,
) -> Result<()> {
    settle()?;
    session.engine.take_appends();
    let flushes = session.engine.flushes();
    session.take_longest();
    let processor = cpu_seconds()?;
    let plan = CallPlan {
        next: put,
        instances: settings.instances,
        place,
        open_calls: settings.open_calls,
        duration: settings.duration,
    };
    let CallTotals {
        mut latencies,
        seconds,
    } = call_for(session, plan)?;
    let count = latencies.len() as f64;
    let rate = count / seconds;
    let name = format!("commands_per_s_{through}");
    let bound = GoalBound::AtLeast(GOAL);
    report.goals.record(name, "1/s", bound, rate);

    let processor = cpu_seconds()? - processor;
    let groups = session.engine.take_appends();
    let longest = session.take_longest();
    let flushes = session.engine.flushes() - flushes;
    let mut figure = |name: &str, value| {
        let name = format!("{name}_{through}");
        report.figures.record(name, value);
    };
    figure("command_p50_us", latencies.percentile_us(50.0));
    figure("command_p99_us", latencies.percentile_us(99.0));
    figure("processor_us_per_command", processor * 1e6 / count);
    figure("commands_per_sync", count / groups.len().max(1) as f64);
    figure("rows_over_sequential_write", rate * ROW_BYTES as f64 / disk);
    figure("flushes", flushes as f64);
    longest.record(through, &mut report.figures);
    Ok(())
}

fn put(random: &mut Rng, instances: u64) -> (Address, LoadCommand) {
    let to = instance(random.u64(..instances));
    (to, LoadCommand::Put(value(random)))
}

/// A value that does not compress and is never the same.
pub(super) fn value(random: &mut Rng) -> Bytes {
    let mut value = [0; VALUE_BYTES];
    random.fill(&mut value);
    Bytes::copy_from_slice(&value)
}
