//! What has become of a job so far.
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
    /// Whether nothing will change it any more.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Faulted | Self::Completed)
    }
}

/// The state of a job. Times are milliseconds since 1970.
#[derive(Record, Clone, PartialEq, Eq, Debug, Default)]
#[record(crate = "steadfast_collections", closed)]
pub struct Status {
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
    /// When its timer rings.
    #[n(6)]
    pub(crate) due: Option<i64>,
    /// Scheduled occurrences that were begun.
    #[n(7)]
    pub(crate) dispatched: u64,
    #[n(8)]
    pub(crate) faults_in_a_row: u32,
    /// Counts what was begun, of any source.
    #[n(9)]
    pub(crate) ordinal: u64,
    #[n(10)]
    pub(crate) runs: Vec<Run>,
    /// What runs as soon as nothing else does, in order.
    #[n(11)]
    pub(crate) queue: Vec<Waiting>,
    /// An occurrence that came while another was under way.
    #[n(12)]
    pub(crate) held: Option<i64>,
    #[n(13)]
    pub(crate) history: Span,
    /// Why the job is paused, if it is.
    #[n(14)]
    pub paused: Option<String>,
    /// When it came to its final state.
    #[n(15)]
    pub finished: Option<i64>,
    /// The last moment that a run by hand was given as its occurrence.
    #[n(16)]
    pub(crate) last_manual: i64,
}

/// The numbers of a job's history items: from `first` to before `next`.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct Span {
    #[n(0)]
    pub(crate) first: u64,
    #[n(1)]
    pub(crate) next: u64,
    /// When the first one started.
    #[n(2)]
    pub(crate) oldest: i64,
}

/// Why an occurrence runs.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub enum Source {
    /// It was due.
    #[n(0)]
    Schedule,
    /// Somebody asked for it.
    #[n(1)]
    Manual,
    /// Somebody asked for what lies in the past.
    #[n(2)]
    Backfill,
}

/// What of an occurrence is being done.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub enum Phase {
    #[n(0)]
    Main,
    #[n(1)]
    Error,
    #[n(2)]
    DeadLetter,
}

/// An occurrence that waits for its turn.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct Waiting {
    #[n(0)]
    pub(crate) occurrence: i64,
    #[n(1)]
    pub(crate) source: Source,
}

/// An occurrence that is under way.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct Run {
    /// Which one it is, from 1; also the name of its claim.
    #[n(0)]
    pub(crate) ordinal: u64,
    #[n(1)]
    pub(crate) occurrence: i64,
    #[n(2)]
    pub(crate) source: Source,
    #[n(3)]
    pub(crate) phase: Phase,
    /// From 0 in each phase.
    #[n(4)]
    pub(crate) attempt: u32,
    /// When it is tried again, if it waits for that.
    #[n(5)]
    pub(crate) retry_at: Option<i64>,
    /// All attempts at the main action have failed.
    #[n(6)]
    pub(crate) is_faulted: bool,
    /// What the last attempt said, for a dead letter.
    #[n(7)]
    pub(crate) last: String,
    /// When its attempt was begun, if that must not be made twice.
    #[record(default)]
    #[n(8)]
    pub(crate) begun: Option<i64>,
}

/// Which attempt of a job.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct Claim {
    /// Which run it is of.
    #[n(0)]
    pub ordinal: u64,
    #[n(1)]
    pub phase: Phase,
    /// From 0.
    #[n(2)]
    pub attempt: u32,
}

impl Run {
    /// The attempt that it is at.
    pub(crate) fn claim(&self) -> Claim {
        Claim {
            ordinal: self.ordinal,
            phase: self.phase,
            attempt: self.attempt,
        }
    }
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
