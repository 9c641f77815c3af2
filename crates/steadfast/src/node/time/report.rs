//! What happened while the time was moved.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use steadfast_core::clock::Timestamp;
use steadfast_core::iso::format_time;
use steadfast_core::limits;
use steadfast_durable::WorkCounts;
use steadfast_partition::FiredTimer;

/// How the time is moved.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use steadfast::testing::{AdvanceOptions, TestNode};
///
/// let world = TestNode::builder().start().await?;
/// let options = AdvanceOptions {
///     limit: Duration::from_secs(5),
///     ..AdvanceOptions::default()
/// };
/// world.advance_with(Duration::from_secs(3600), options).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvanceOptions {
    /// The real time that the call may take; 30 s by default.
    pub limit: Duration,
    /// Do not wait for activities and for calls of jobs: they go on while the time is
    /// moved. For tests of time-outs, in which an activity is meant to hang.
    pub leaves_activities: bool,
}

impl Default for AdvanceOptions {
    fn default() -> Self {
        Self {
            limit: limits::TIME_MOVE_WAIT,
            leaves_activities: false,
        }
    }
}

/// What happened while the time was moved.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use steadfast::testing::TestNode;
///
/// let world = TestNode::builder().start().await?;
/// let report = world.advance(Duration::from_secs(3600)).await?;
/// assert_eq!(report.now, world.now());
/// assert_eq!((report.moments, report.fired_count), (0, 0)); // nothing was due
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeReport {
    /// The time that was reached.
    pub now: Timestamp,
    /// The number of moments at which timers were due.
    pub moments: u64,
    /// The timers that have fired, in order of their due times: the first 1,000.
    pub fired: Vec<TimerEvent>,
    /// The number of all of them.
    pub fired_count: u64,
}

/// A timer that has fired; see [`TimeReport`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerEvent {
    /// When it was due.
    pub at: Timestamp,
    /// The service that had set it: `durable`, `jobs`, `events`, `blobs`, `realtime` or
    /// `application`.
    pub service: &'static str,
    /// The group of the instance, such as the task hub or the job collection.
    pub name: String,
    /// The instance, such as the orchestration or the job.
    pub key: String,
}

/// Work that was due and has not ended; see
/// [`ErrorKind::Unsettled`](crate::testing::ErrorKind::Unsettled).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenWork {
    /// Turns of orchestrations, activities and entities that wait for a worker.
    pub queued: WorkCounts,
    /// Those that a worker has, and those whose results are being committed.
    pub running: WorkCounts,
    /// Attempts of jobs that wait for their host or are running.
    pub attempts: u64,
}

impl OpenWork {
    pub(super) fn is_empty(&self) -> bool {
        self.queued.total() + self.running.total() + self.attempts == 0
    }
}

impl fmt::Display for OpenWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = |work: &WorkCounts, state: &'static str| {
            [
                (work.orchestrations, "turn of an orchestration", state),
                (work.activities, "activity", state),
                (work.entities, "batch of an entity", state),
            ]
        };
        let mut parts = kinds(&self.queued, "waiting for a worker").to_vec();
        parts.extend(kinds(&self.running, "running"));
        parts.push((self.attempts, "call of a job", "running"));
        let shown = parts.iter().filter(|(count, ..)| *count > 0);
        let shown = shown.map(|(count, what, state)| format!("{count} x {what} {state}"));
        let shown: Vec<_> = shown.collect();
        if shown.is_empty() {
            f.write_str("a partition was still busy")
        } else {
            write!(f, "not ended: {},", shown.join(", "))
        }
    }
}

impl TimeReport {
    /// Adds the timers of a partition.
    pub(super) fn add(&mut self, fired: &[FiredTimer], count: u64) {
        self.fired_count += count;
        let room = limits::FIRED_TIMERS.saturating_sub(self.fired.len());
        self.fired.extend(fired.iter().take(room).map(event));
    }

    /// The report in the form of the REST interface.
    pub(crate) fn to_json(&self) -> Value {
        let timer = |timer: &TimerEvent| {
            json!({
                "at": format_time(timer.at),
                "service": timer.service,
                "name": timer.name,
                "key": timer.key,
            })
        };
        json!({
            "now": format_time(self.now),
            "moments": self.moments,
            "fired": self.fired.iter().map(timer).collect::<Vec<_>>(),
            "fired_count": self.fired_count,
        })
    }
}

fn event(timer: &FiredTimer) -> TimerEvent {
    // Names of several parts, such as that of a job collection, are joined by zeros.
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('\0', "/");
    TimerEvent {
        at: timer.due,
        service: match timer.to.kind {
            steadfast_durable::KIND => "durable",
            steadfast_jobs::KIND => "jobs",
            steadfast_events::BLOB => "blobs",
            steadfast_realtime::PUSHES => "realtime",
            kind if kind.0 < 16 => "application",
            _ => "events",
        },
        name: text(&timer.to.name),
        key: text(&timer.to.key),
    }
}
