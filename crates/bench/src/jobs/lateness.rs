//! How late jobs are, with very many registered.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use steadfast_core::clock::{Clock, SystemClock};

use super::receiver::CallReceiver;
use super::registry::{collections, register};
use super::session::Session;
use super::settings::Settings;
use crate::process::settle;
use crate::report::{GoalBound, Report};
use crate::samples::Samples;

/// Time to become idle before calls are counted.
const REST: Duration = Duration::from_secs(2);

/// Registers the jobs in a folder, which is kept, and measures.
pub(super) fn measure(settings: &Settings, report: &mut Report, data: &Path) -> Result<()> {
    let session = Session::open(data)?;
    let receiver = session.tasks.block_on(CallReceiver::start())?;
    collections(&session)?;
    let clock = SystemClock::new();
    let (count, per_s) = (settings.registered, settings.due_per_s);
    // Every job runs again after all others have run.
    let cycle_s = count.div_ceil(per_s);
    let begin = clock.now().0 + 1000;
    let when = move |number: u64| {
        let start = begin + (number * 1000 / per_s) as i64;
        (start, Some(cycle_s as u32))
    };
    register(&session, "j", count, &receiver.url(false), when)?;
    session.flush()?;
    settle()?;
    std::thread::sleep(REST);
    receiver.take();
    let from = clock.now().0;
    std::thread::sleep(settings.duration);
    let calls = receiver.take();
    let mut late = Samples::default();
    for call in calls.iter().filter(|call| call.due >= from) {
        late.push(Duration::from_millis((call.came - call.due).max(0) as u64));
    }
    let rate = late.len() as f64 / settings.duration.as_secs_f64();
    report.figures.record("due_per_s", rate);
    report.figures.record("registered_jobs", count as f64);
    let p50 = late.percentile_us(50.0) / 1e3;
    let p99 = late.percentile_us(99.0) / 1e3;
    report
        .goals
        .record("late_p50", "ms", GoalBound::AtMost(5.0), p50);
    report
        .goals
        .record("late_p99", "ms", GoalBound::AtMost(50.0), p99);
    Ok(())
}
