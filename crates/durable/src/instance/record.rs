//! The row of an instance.

use std::collections::BTreeMap;

use steadfast_collections::schema::Record;
use steadfast_core::clock::Timestamp;

use crate::event::{Parent, Tags, Trace};
use crate::failure::FailureDetails;
use crate::moment::Moment;
use crate::status::InstanceStatus;
use crate::work::{HistoryPosition, OrchestrationSpan};

/// The row of an instance. Payloads, history and inbox have rows of their own:
/// this one is written by every turn.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct InstanceRecord {
    #[n(0)]
    pub(crate) name: String,
    #[n(1)]
    pub(crate) version: Option<String>,
    #[n(2)]
    pub(crate) execution: String,
    #[n(3)]
    pub(crate) status: InstanceStatus,
    #[n(4)]
    pub(crate) created: Timestamp,
    #[n(5)]
    pub(crate) updated: Timestamp,
    #[n(6)]
    pub(crate) completed: Option<Timestamp>,
    #[n(7)]
    pub(crate) scheduled: Option<Moment>,
    #[n(8)]
    pub(crate) custom_status: Option<String>,
    #[n(9)]
    pub(crate) failure: Option<FailureDetails>,
    #[n(10)]
    pub(crate) parent: Option<Parent>,
    /// Whether its result is sent to the parent.
    #[n(11)]
    pub(crate) is_reported: bool,
    #[n(12)]
    pub(crate) tags: Tags,
    #[n(13)]
    pub(crate) span: Option<OrchestrationSpan>,
    /// The time of the last turn. Times of turns of one id always rise, even if the
    /// clock goes back, because workers derive ids from them.
    #[n(14)]
    pub(crate) clock: Timestamp,
    /// The number of history rows.
    #[n(15)]
    pub(crate) turns: u64,
    /// The inbox: the first number, and the one after the last.
    #[n(16)]
    pub(crate) inbox: u64,
    #[n(17)]
    pub(crate) inbox_end: u64,
    /// Activities of this execution: the first number, and the one after the last.
    #[n(18)]
    pub(crate) tasks: u64,
    #[n(19)]
    pub(crate) tasks_end: u64,
    /// Critical sections that were requested and not left, with the entities that were
    /// not unlocked.
    #[n(20)]
    pub(crate) sections: BTreeMap<String, SectionRecord>,
    /// The number of dispatches.
    #[n(21)]
    pub(crate) generation: u64,
    /// Whether a turn was requested from a worker.
    #[n(22)]
    pub(crate) is_open: bool,
    /// A turn is due even if the inbox is empty.
    #[n(23)]
    pub(crate) is_turn_due: bool,
    /// The number of continue-as-new restarts.
    #[n(24)]
    pub(crate) rounds: u64,
    /// Retention after the end, in milliseconds; 0: no limit.
    #[n(25)]
    pub(crate) kept_ms: u64,
    /// Counts how often rows of the history were replaced.
    #[n(26)]
    pub(crate) rewrites: u64,
    #[n(27)]
    pub(crate) trace: Option<Trace>,
    /// The number of history events.
    #[n(28)]
    #[record(default)]
    pub(crate) events: u64,
}

impl InstanceRecord {
    /// The end of the history.
    pub(crate) fn past(&self) -> HistoryPosition {
        HistoryPosition {
            events: self.events,
            turn: Moment::from(self.clock),
        }
    }
}

/// A critical section.
#[derive(Record, Clone, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct SectionRecord {
    /// In the order in which they are locked.
    #[n(0)]
    pub(crate) set: Vec<String>,
    /// Entities that were not unlocked.
    #[n(1)]
    pub(crate) held: Vec<String>,
}

/// An activity under way.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct ActivityRecord {
    #[n(0)]
    pub(crate) id: i32,
}
