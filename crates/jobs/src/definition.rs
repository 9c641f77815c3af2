//! What a job is told to do.
//!
//! What its author wrote is kept as a document that only the face of the service
//! reads; here stands what the service itself must know. Stored, so fields never
//! change their meaning.

use steadfast_collections::schema::Record;

use crate::id::JobId;
use crate::recurrence::Timing;

/// A job without its state.
#[derive(Record, Clone, PartialEq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct Definition {
    /// In the spelling in which it was made.
    #[n(0)]
    pub id: JobId,
    /// What its author wrote, for the face of the service.
    #[n(1)]
    pub document: String,
    #[n(2)]
    pub timing: Timing,
    #[n(3)]
    pub main: Action,
    /// What is done when all attempts at `main` have failed.
    #[n(4)]
    pub error: Option<Action>,
    /// Where an occurrence goes for which nothing has helped.
    #[n(5)]
    pub dead_letter: Option<Target>,
    #[record(default)]
    #[n(6)]
    pub policy: Policy,
    /// Counts changes.
    #[n(7)]
    pub version: u64,
}

/// What is done, and how often it is tried.
#[derive(Record, Clone, PartialEq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct Action {
    #[n(0)]
    pub target: Target,
    #[n(1)]
    pub retry: Retry,
}

/// Where an action goes.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub enum Target {
    /// Outside: a document that the deliverer reads. Done at least once, or at most once
    /// if the policy says so.
    #[n(0)]
    Outside(String),
    /// To an instance of another service, in the commit that claims the
    /// occurrence. Done exactly once.
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
        /// Where in the body the time of the occurrence goes, as
        /// `2030-01-01T05:00:00Z`: whoever made the body has left room for it.
        #[record(default)]
        #[n(4)]
        times: Vec<u32>,
    },
}

/// How often and when a failed attempt is repeated.
#[derive(Record, Clone, Copy, PartialEq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct Retry {
    #[n(0)]
    pub count: u32,
    #[n(1)]
    pub interval_ms: u64,
    /// Each wait is so many times the one before.
    #[record(default = 1.0)]
    #[n(2)]
    pub factor: f64,
    /// No wait is longer.
    #[record(default)]
    #[n(3)]
    pub longest_ms: Option<u64>,
}

impl Default for Retry {
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

impl Retry {
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

/// What happens when an occurrence is due while another is under way.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[record(crate = "steadfast_collections", closed)]
pub enum Overlap {
    /// One waits, and further ones merge into it.
    #[default]
    #[n(0)]
    BufferOne,
    /// It is left out.
    #[n(1)]
    Skip,
    /// They run side by side.
    #[n(2)]
    AllowAll,
    /// The one under way is given up.
    #[n(3)]
    CancelOther,
}

/// What happens to occurrences that were missed.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[record(crate = "steadfast_collections", closed)]
pub enum Misfire {
    /// Recent ones run late, one after the other; older ones become one.
    #[default]
    #[n(0)]
    CatchUp,
    /// All become one.
    #[n(1)]
    RunOnce,
    /// They are left out.
    #[n(2)]
    Skip,
}

/// What happens to an attempt that was begun and whose end nobody has recorded,
/// because its node or region was lost.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[record(crate = "steadfast_collections", closed)]
pub enum InFlight {
    /// It is made again: at least once.
    #[default]
    #[n(0)]
    Rerun,
    /// It is recorded as failed and not tried again: at most once.
    #[n(1)]
    Skip,
}

/// How occurrences follow one another.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct Policy {
    #[n(0)]
    pub overlap: Overlap,
    #[n(1)]
    pub misfire: Misfire,
    /// How old a missed occurrence may be to run by itself.
    #[n(2)]
    pub catch_up_ms: u64,
    /// After so many faulted occurrences in a row the job is faulted.
    #[n(3)]
    pub faults: Option<u32>,
    /// How long an attempt may take; `None` is what the deliverer allows.
    #[n(4)]
    pub timeout_ms: Option<u64>,
    #[record(default)]
    #[n(5)]
    pub in_flight: InFlight,
}

impl Default for Policy {
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
        let retry = Retry {
            factor: 2.0,
            longest_ms: Some(70_000),
            ..Retry::default()
        };
        let waits: Vec<_> = (0..4).map(|attempt| retry.wait_ms(attempt)).collect();
        assert_eq!(waits, [30_000, 60_000, 70_000, 70_000]);
        assert_eq!(Retry::default().wait_ms(3), 30_000);
        let endless = Retry {
            factor: 10.0,
            longest_ms: None,
            ..Retry::default()
        };
        assert!(endless.wait_ms(u32::MAX) > 0);
    }
}
