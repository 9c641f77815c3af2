//! Timers: how late they are, and what a pending one costs.
//!
//! Every timer repeats after a cycle in which each timer fires once, so the number of
//! pending timers is constant and they are due at a steady rate.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use steadfast_core::clock::{Clock, SystemClock};

use super::caller::is_throttled;
use super::load::{LoadCommand, instance, millis};
use super::session::Session;
use super::settings::Settings;
use crate::child::Child;
use crate::disk::taken_bytes;
use crate::process::settle;
use crate::report::{GoalBound, Report};
use crate::samples::Samples;

/// Timers of one instance.
const TAGS: u64 = 50;

/// Time to become idle before timers are counted.
const REST: Duration = Duration::from_millis(100);

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    measure_cost(settings, report)?;
    measure_lateness(settings, report)
}

fn measure_lateness(settings: &Settings, report: &mut Report) -> Result<()> {
    let folder = settings.temporary()?;
    let session = Session::open(&folder.path().join("data"))?;
    let start = now() + millis(settings.lead) as i64;
    schedule_all(settings, &session, start)?;
    session.flush()?;
    let from = start.max(now());
    std::thread::sleep(Duration::from_millis((from - now()).max(0) as u64) + REST);
    for _ in 0..settings.rounds {
        session.take_longest();
        session.meter.count_from(now());
        std::thread::sleep(settings.duration);
        session.meter.count_from(i64::MAX);
        // Timers that were due have fired by now, or are far too late anyway.
        std::thread::sleep(REST);
        let mut lateness = session.meter.take();
        let longest = session.take_longest();
        let fired = lateness.performed.len() as f64;
        let p99 = lateness.performed.percentile_us(99.0) / 1e3;
        let (name, bound) = ("timer_lateness_p99", GoalBound::Below(20.0));
        report.goals.record(name, "ms", bound, p99);
        record(report, "timer_handled_late", &mut lateness.handled);
        record(report, "timer_durable_late", &mut lateness.performed);
        let figures = &mut report.figures;
        figures.record("timers_per_s", fired / settings.duration.as_secs_f64());
        longest.record("timers", figures);
    }
    Ok(())
}

fn record(report: &mut Report, name: &str, samples: &mut Samples) {
    for (part, percent) in [("p50", 50.0), ("p99", 99.0), ("max", 100.0)] {
        let late = samples.percentile_us(percent) / 1e3;
        report.figures.record(format!("{name}_ms_{part}"), late);
    }
}

/// The memory of a node with timers, beyond that of one without.
fn measure_cost(settings: &Settings, report: &mut Report) -> Result<()> {
    let folder = settings.temporary()?;
    let (empty, full) = (folder.path().join("empty"), folder.path().join("full"));
    drop(Session::open(&empty)?);
    let session = Session::open(&full)?;
    let in_an_hour = now() + 3_600_000;
    schedule_all(settings, &session, in_an_hour)?;
    session.flush()?;
    settle()?;
    drop(session);
    let disk = taken_bytes(&full.join("tables"))? as f64;
    let disk = disk - taken_bytes(&empty.join("tables"))? as f64;
    let timers = settings.timers as f64;
    let figures = &mut report.figures;
    figures.record("pending_timers", timers);
    figures.record("disk_bytes_per_pending_timer", disk / timers);
    for _ in 0..settings.rounds {
        let without = resident(settings, &empty)?;
        let with = resident(settings, &full)?;
        let each = (with - without) * 1e6 / timers;
        figures.record("resident_bytes_per_pending_timer", each);
        figures.record("resident_mb_without_timers", without);
    }
    Ok(())
}

/// Memory of a node that serves a folder and does nothing, in MB.
fn resident(settings: &Settings, data: &Path) -> Result<f64> {
    let arguments = [OsStr::new("runtime-child"), data.as_os_str()];
    Child::start(&settings.executable, arguments)?.resident_mb()
}

/// Schedules all timers from `start` on, those of one moment in many partitions.
fn schedule_all(settings: &Settings, session: &Session, start: i64) -> Result<()> {
    const CALLERS: u64 = 256;
    let instances = settings.timers / TAGS;
    let per_s = settings.due_per_s;
    let every = settings.timers * 1000 / per_s;
    let due = move |number: u64| start + (number * 1000 / per_s) as i64;
    let schedule = |caller: u64| {
        let handle = session.handle();
        session.tasks.spawn(async move {
            for number in (caller..instances).step_by(CALLERS as usize) {
                let ask = || {
                    let due = (0..TAGS).map(|tag| due(tag * instances + number));
                    LoadCommand::Schedule {
                        due: due.collect(),
                        every,
                    }
                };
                while let Err(error) = handle.call(instance(number), ask()).await {
                    if !is_throttled(&error) {
                        return Err(error);
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            Ok(())
        })
    };
    let callers: Vec<_> = (0..CALLERS).map(schedule).collect();
    session.tasks.block_on(async {
        for caller in callers {
            caller.await??;
        }
        Ok(())
    })
}

fn now() -> i64 {
    SystemClock::new().now().0
}
