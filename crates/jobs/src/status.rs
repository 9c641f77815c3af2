//! The status of a job.
//!
//! One row per job, beside its definition, because it changes with every
//! occurrence and the definition hardly ever.

use steadfast_collections::schema::Record;

/// Whether a job runs.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[record(crate = "steadfast_collections", closed)]
pub enum State {
    #[default]
    #[n(0)]
    Enabled,
    #[n(1)]
    Disabled,
    #[n(2)]
    Faulted,
    #[n(3)]
    Completed,
}

impl State {
    /// Whether the state is final.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Faulted | Self::Completed)
    }
}

/// The status of a job. Times are milliseconds since 1970.
#[derive(Record, Clone, PartialEq, Eq, Debug, Default)]
#[record(crate = "steadfast_collections", name = "Status", closed)]
pub struct JobStatus {
    #[n(0)]
    pub state: State,
    #[n(1)]
    pub executions: u64,
    /// Failed attempts at the main action.
    #[n(2)]
    pub failures: u64,
    /// Occurrences all of whose attempts failed.
    #[n(3)]
    pub faults: u64,
    #[n(4)]
    pub last_execution: Option<i64>,
    /// The next occurrence.
    #[n(5)]
    pub next: Option<i64>,
    /// When its timer fires.
    #[n(6)]
    pub(crate) due: Option<i64>,
    /// Scheduled occurrences that were started.
    #[n(7)]
    pub(crate) dispatched: u64,
    #[n(8)]
    pub(crate) faults_in_a_row: u32,
    /// Counts started occurrences of any source.
    #[n(9)]
    pub(crate) ordinal: u64,
    #[n(10)]
    pub(crate) runs: Vec<OccurrenceRun>,
    /// Occurrences that run when no other does, in order.
    #[n(11)]
    pub(crate) queue: Vec<QueuedOccurrence>,
    /// An occurrence that was due while another was running.
    #[n(12)]
    pub(crate) held: Option<i64>,
    #[n(13)]
    pub(crate) history: HistoryRange,
    /// Why the job is paused, if it is.
    #[n(14)]
    pub paused: Option<String>,
    /// When it reached its final state.
    #[n(15)]
    pub finished: Option<i64>,
    /// The occurrence time of the last manual run.
    #[n(16)]
    pub(crate) last_manual: i64,
}

/// The numbers of a job's history items: from `first` to before `next`.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct HistoryRange {
    #[n(0)]
    pub(crate) first: u64,
    #[n(1)]
    pub(crate) next: u64,
    /// When the oldest one started.
    #[n(2)]
    pub(crate) oldest: i64,
}

/// Why an occurrence runs.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", name = "Source", closed)]
pub enum OccurrenceSource {
    /// The schedule.
    #[n(0)]
    Schedule,
    /// A manual run.
    #[n(1)]
    Manual,
    /// A backfill of past occurrences.
    #[n(2)]
    Backfill,
}

/// The phase of an occurrence.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", name = "Phase", closed)]
pub enum RunPhase {
    #[n(0)]
    Main,
    #[n(1)]
    Error,
    #[n(2)]
    DeadLetter,
}

/// A queued occurrence.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct QueuedOccurrence {
    #[n(0)]
    pub(crate) occurrence: i64,
    #[n(1)]
    pub(crate) source: OccurrenceSource,
}

/// A running occurrence.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct OccurrenceRun {
    /// Its number, from 1; also part of its attempt id.
    #[n(0)]
    pub(crate) ordinal: u64,
    #[n(1)]
    pub(crate) occurrence: i64,
    #[n(2)]
    pub(crate) source: OccurrenceSource,
    #[n(3)]
    pub(crate) phase: RunPhase,
    /// From 0 in each phase.
    #[n(4)]
    pub(crate) attempt: u32,
    /// When it is retried, if it waits for a retry.
    #[n(5)]
    pub(crate) retry_at: Option<i64>,
    /// All attempts at the main action have failed.
    #[n(6)]
    pub(crate) is_faulted: bool,
    /// The message of the last attempt, for a dead letter.
    #[n(7)]
    pub(crate) last: String,
    /// When its at-most-once attempt was started.
    #[record(default)]
    #[n(8)]
    pub(crate) begun: Option<i64>,
}

/// The id of an attempt of a job.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", name = "Claim", closed)]
pub struct AttemptId {
    /// The number of its run.
    #[n(0)]
    pub ordinal: u64,
    #[n(1)]
    pub phase: RunPhase,
    /// From 0.
    #[n(2)]
    pub attempt: u32,
}

impl OccurrenceRun {
    /// The id of the current attempt.
    pub(crate) fn attempt_id(&self) -> AttemptId {
        AttemptId {
            ordinal: self.ordinal,
            phase: self.phase,
            attempt: self.attempt,
        }
    }
}

impl JobStatus {
    /// Whether an occurrence that is due now has to wait.
    pub(crate) fn is_busy(&self) -> bool {
        let is_own = |run: &OccurrenceRun| run.source != OccurrenceSource::Manual;
        self.runs.iter().any(is_own) || !self.queue.is_empty() || self.held.is_some()
    }

    /// Whether nothing is running or waiting.
    pub(crate) fn is_quiet(&self) -> bool {
        self.runs.is_empty() && self.queue.is_empty() && self.held.is_none()
    }

    /// The number of scheduled occurrences that were claimed, started or not.
    pub(crate) fn taken(&self) -> u64 {
        let is_scheduled =
            |waiting: &&QueuedOccurrence| waiting.source == OccurrenceSource::Schedule;
        let queued = self.queue.iter().filter(is_scheduled).count() as u64;
        self.dispatched + queued + u64::from(self.held.is_some())
    }
}
