//! The definition of a job.
//!
//! The submitted document is kept for the REST API only; these types hold what the
//! service itself needs. They are stored, so fields never change their meaning.

use steadfast_collections::schema::Record;

use crate::id::JobId;
use crate::recurrence::JobTiming;

/// A job without its state.
#[derive(Record, Clone, PartialEq, Debug)]
#[record(crate = "steadfast_collections", name = "Definition", closed)]
pub struct JobDefinition {
    /// With the spelling used at creation.
    #[n(0)]
    pub id: JobId,
    /// The document as submitted, for the REST API.
    #[n(1)]
    pub document: String,
    #[n(2)]
    pub timing: JobTiming,
    #[n(3)]
    pub main: JobAction,
    /// The action after all attempts at `main` have failed.
    #[n(4)]
    pub error: Option<JobAction>,
    /// The dead-letter target of an occurrence whose actions have all failed.
    #[n(5)]
    pub dead_letter: Option<Target>,
    #[record(default)]
    #[n(6)]
    pub policy: JobPolicy,
    /// Counts changes.
    #[n(7)]
    pub version: u64,
}

/// A target and its retry policy.
#[derive(Record, Clone, PartialEq, Debug)]
#[record(crate = "steadfast_collections", name = "Action", closed)]
pub struct JobAction {
    #[n(0)]
    pub target: Target,
    #[n(1)]
    pub retry: JobRetry,
}

/// The target of an action.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub enum Target {
    /// External: a document that the deliverer reads. Delivered at least once, or at most
    /// once if the policy says so.
    #[n(0)]
    Outside(String),
    /// To an instance of another service, in the commit that claims the
    /// occurrence. Delivered exactly once.
    #[n(1)]
    Inside {
        #[n(0)]
        kind: u16,
        #[n(1)]
        name: String,
        #[n(2)]
        key: String,
        #[n(3)]
        body: Vec<u8>,
        /// Offsets of placeholders in the body for the time of the occurrence, as
        /// `2030-01-01T05:00:00Z`.
        #[record(default)]
        #[n(4)]
        times: Vec<u32>,
    },
}

/// How often and when a failed attempt is retried.
#[derive(Record, Clone, Copy, PartialEq, Debug)]
#[record(crate = "steadfast_collections", name = "Retry", closed)]
pub struct JobRetry {
    #[n(0)]
    pub count: u32,
    #[n(1)]
    pub interval_ms: u64,
    /// The factor from one wait to the next.
    #[record(default = 1.0)]
    #[n(2)]
    pub factor: f64,
    /// The longest wait.
    #[record(default)]
    #[n(3)]
    pub longest_ms: Option<u64>,
}

impl Default for JobRetry {
    /// Four more attempts, thirty seconds apart.
    fn default() -> Self {
        Self {
            count: 4,
            interval_ms: 30_000,
            factor: 1.0,
            longest_ms: None,
        }
    }
}

impl JobRetry {
    /// One attempt only.
    pub const NONE: Self = Self {
        count: 0,
        interval_ms: 0,
        factor: 1.0,
        longest_ms: None,
    };

    /// How long to wait after failed attempt number `attempt`, from 0.
    pub(crate) fn wait_ms(&self, attempt: u32) -> u64 {
        let grown = self.interval_ms as f64 * self.factor.max(1.0).powi(attempt as i32);
        let longest = self.longest_ms.unwrap_or(u64::MAX).max(self.interval_ms);
        (grown as u64).min(longest)
    }
}

/// What happens when an occurrence is due while another is running.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[record(crate = "steadfast_collections", closed)]
pub enum Overlap {
    /// One waits, and further ones merge into it.
    #[default]
    #[n(0)]
    BufferOne,
    /// It is skipped.
    #[n(1)]
    Skip,
    /// They run concurrently.
    #[n(2)]
    AllowAll,
    /// The running one is cancelled.
    #[n(3)]
    CancelOther,
}

/// What happens to missed occurrences.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[record(crate = "steadfast_collections", closed)]
pub enum Misfire {
    /// Recent ones run late, one after the other; older ones merge into one.
    #[default]
    #[n(0)]
    CatchUp,
    /// All merge into one.
    #[n(1)]
    RunOnce,
    /// They are skipped.
    #[n(2)]
    Skip,
}

/// What happens to an attempt that was started and whose result was not recorded,
/// because its node or region was lost.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[record(crate = "steadfast_collections", closed)]
pub enum InFlight {
    /// It is repeated: at least once.
    #[default]
    #[n(0)]
    Rerun,
    /// It is recorded as failed and not retried: at most once.
    #[n(1)]
    Skip,
}

/// How occurrences follow one another.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", name = "Policy", closed)]
pub struct JobPolicy {
    #[n(0)]
    pub overlap: Overlap,
    #[n(1)]
    pub misfire: Misfire,
    /// The maximum age of a missed occurrence that runs separately.
    #[n(2)]
    pub catch_up_ms: u64,
    /// After this many consecutive faulted occurrences the job is faulted.
    #[n(3)]
    pub faults: Option<u32>,
    /// The time-out of an attempt; `None` means the deliverer's default.
    #[n(4)]
    pub timeout_ms: Option<u64>,
    #[record(default)]
    #[n(5)]
    pub in_flight: InFlight,
}

impl Default for JobPolicy {
    fn default() -> Self {
        Self {
            overlap: Overlap::default(),
            misfire: Misfire::default(),
            catch_up_ms: 600_000,
            faults: None,
            timeout_ms: None,
            in_flight: InFlight::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_their_limit() {
        let retry = JobRetry {
            factor: 2.0,
            longest_ms: Some(70_000),
            ..JobRetry::default()
        };
        let waits: Vec<_> = (0..4).map(|attempt| retry.wait_ms(attempt)).collect();
        assert_eq!(waits, [30_000, 60_000, 70_000, 70_000]);
        assert_eq!(JobRetry::default().wait_ms(3), 30_000);
        let endless = JobRetry {
            factor: 10.0,
            longest_ms: None,
            ..JobRetry::default()
        };
        assert!(endless.wait_ms(u32::MAX) > 0);
    }
}
