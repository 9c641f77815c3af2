//! A burst of jobs beside one that runs every second.

use std::time::Duration;

use anyhow::{Result, ensure};
use steadfast_core::clock::{Clock, SystemClock};

use super::receiver::CallReceiver;
use super::registry::{collections, register};
use super::session::Session;
use super::settings::Settings;
use crate::report::{GoalBound, Report};
use crate::samples::Samples;

/// The time-out of a burst.
const PATIENCE: Duration = Duration::from_secs(120);

/// Measures a burst; returns the jobs dispatched per second.
pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<f64> {
    let folder = settings.temporary()?;
    let session = Session::open(&folder.path().join("data"))?;
    let receiver = session.tasks.block_on(CallReceiver::start())?;
    collections(&session)?;
    let clock = SystemClock::new();
    let start = clock.now().0 + settings.lead.as_millis() as i64;
    let spread = settings.burst;
    let when = move |number: u64| (start + (number * 1000 / spread) as i64, None);
    let registering = clock.monotonic();
    register(&session, "b", settings.burst, &receiver.url(false), when)?;
    let took = (clock.monotonic() - registering).as_secs_f64();
    report
        .figures
        .record("registered_per_s", settings.burst as f64 / took);
    ensure!(
        clock.now().0 < start,
        "the burst was due before all of it was registered"
    );
    register(&session, "canary", 1, &receiver.url(true), move |_| {
        (start - 2000, Some(1))
    })?;
    let end = clock.monotonic() + settings.lead + PATIENCE;
    while (receiver.len() as u64) < settings.burst && clock.monotonic() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(100));
    let calls = receiver.take();
    let burst = calls.iter().filter(|call| !call.is_canary);
    let last = burst
        .clone()
        .map(|call| call.came)
        .max()
        .unwrap_or(i64::MAX);
    let count = burst.count() as f64;
    let drained = (last - start) as f64 / 1000.0;
    let rate = count / drained;
    let goals = &mut report.goals;
    goals.record("dispatches", "per_s", GoalBound::AtLeast(5000.0), rate);
    goals.record("burst_drained", "s", GoalBound::AtMost(20.0), drained);
    let mut late = Samples::default();
    let canary = calls
        .iter()
        .filter(|call| call.is_canary && call.due >= start);
    for call in canary {
        late.push(Duration::from_millis((call.came - call.due).max(0) as u64));
    }
    let p99 = late.percentile_us(99.0) / 1e3;
    goals.record("canary_late_p99", "ms", GoalBound::AtMost(250.0), p99);
    report.figures.record("burst_jobs", count);
    Ok(rate)
}
