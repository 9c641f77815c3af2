//! What has become of a job so far.
//!
//! One row per job, beside its definition, because it changes with every
//! occurrence and the definition hardly ever.

use serde::{Deserialize, Serialize};

/// Whether a job runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum State {
    #[default]
    Enabled,
    Disabled,
    Faulted,
    Completed,
}

impl State {
    /// Whether nothing will change it any more.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Faulted | Self::Completed)
    }
}

/// The state of a job. Times are milliseconds since 1970.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    pub state: State,
    pub executions: u64,
    /// Failed attempts at the main action.
    pub failures: u64,
    /// Occurrences all of whose attempts failed.
    pub faults: u64,
    pub last_execution: Option<i64>,
    /// The next occurrence.
    pub next: Option<i64>,
    /// When its timer rings.
    pub(crate) due: Option<i64>,
    /// Scheduled occurrences that were begun.
    pub(crate) dispatched: u64,
    pub(crate) faults_in_a_row: u32,
    /// Counts what was begun, of any source.
    pub(crate) ordinal: u64,
    pub(crate) runs: Vec<Run>,
    /// What runs as soon as nothing else does, in order.
    pub(crate) queue: Vec<Waiting>,
    /// An occurrence that came while another was under way.
    pub(crate) held: Option<i64>,
    pub(crate) history: Span,
    /// Why the job is paused, if it is.
    pub paused: Option<String>,
    /// When it came to its final state.
    pub finished: Option<i64>,
    /// The last moment that a run by hand was given as its occurrence.
    pub(crate) last_manual: i64,
}

/// The numbers of a job's history items: from `first` to before `next`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Span {
    pub(crate) first: u64,
    pub(crate) next: u64,
    /// When the first one started.
    pub(crate) oldest: i64,
}

/// Why an occurrence runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Source {
    /// It was due.
    Schedule,
    /// Somebody asked for it.
    Manual,
    /// Somebody asked for what lies in the past.
    Backfill,
}

/// What of an occurrence is being done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Phase {
    Main,
    Error,
    DeadLetter,
}

/// An occurrence that waits for its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Waiting {
    pub(crate) occurrence: i64,
    pub(crate) source: Source,
}

/// An occurrence that is under way.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    /// Which one it is, from 1; also the name of its claim.
    pub(crate) ordinal: u64,
    pub(crate) occurrence: i64,
    pub(crate) source: Source,
    pub(crate) phase: Phase,
    /// From 0 in each phase.
    pub(crate) attempt: u32,
    /// When it is tried again, if it waits for that.
    pub(crate) retry_at: Option<i64>,
    /// All attempts at the main action have failed.
    pub(crate) is_faulted: bool,
    /// What the last attempt said, for a dead letter.
    pub(crate) last: String,
}

impl Status {
    /// Whether an occurrence that is due now has to wait.
    pub(crate) fn is_busy(&self) -> bool {
        let is_own = |run: &Run| run.source != Source::Manual;
        self.runs.iter().any(is_own) || !self.queue.is_empty() || self.held.is_some()
    }

    /// Whether nothing is under way or waits.
    pub(crate) fn is_quiet(&self) -> bool {
        self.runs.is_empty() && self.queue.is_empty() && self.held.is_none()
    }

    /// How many scheduled occurrences have been taken up, begun or not.
    pub(crate) fn taken(&self) -> u64 {
        let is_scheduled = |waiting: &&Waiting| waiting.source == Source::Schedule;
        let queued = self.queue.iter().filter(is_scheduled).count() as u64;
        self.dispatched + queued + u64::from(self.held.is_some())
    }
}
