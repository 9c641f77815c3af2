//! How a processor works.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::{Clock, SystemClock};
use steadfast_ownership::strategy::{Strategy, Timing};
use steadfast_partition::Replicas;

use crate::position::Position;
use crate::processor::progress::Every;

/// What a crash may do to the effects of a handler.
#[derive(Clone)]
pub enum Guarantee {
    /// They may happen again, for events after the last checkpoint.
    AtLeastOnce,
    /// What the handler writes to collections in its transaction happens once:
    /// the checkpoint is part of the same commit.
    ExactlyOnce(Arc<Replicas>),
}

/// How a processor works; every value has a default.
#[derive(Clone)]
pub struct ProcessorOptions {
    /// Who it is among the members of its group; drawn at random unless set.
    pub owner: String,
    /// How eagerly it takes partitions: `Strategy::BALANCED`, `Strategy::GREEDY` ..
    pub strategy: Strategy,
    /// How often it looks at the group, and when a silent member counts as gone.
    pub timing: Timing,
    pub guarantee: Guarantee,
    /// When it writes checkpoints; with exactly-once, each batch does.
    pub checkpoint: Every,
    /// Events that a handler gets at a time; 1 for one by one.
    pub batch: usize,
    /// Where to start in a partition without a checkpoint.
    pub start: Position,
    /// The same for single partitions.
    pub starts: BTreeMap<u32, Position>,
    /// After so many failed attempts an event is parked; `None`: never.
    pub attempts: Option<u32>,
    /// How long to wait after a failed attempt at first; then longer.
    pub pause: Duration,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
}

impl Default for ProcessorOptions {
    fn default() -> Self {
        Self {
            owner: format!("{:032x}", fastrand::u128(..)),
            strategy: Strategy::GREEDY,
            timing: Timing::new(Duration::from_secs(10), Duration::from_secs(30)),
            guarantee: Guarantee::AtLeastOnce,
            checkpoint: Every::default(),
            batch: 256,
            start: Position::Earliest,
            starts: BTreeMap::new(),
            attempts: None,
            pause: Duration::from_millis(100),
            clock: Arc::new(SystemClock::new()),
        }
    }
}

impl ProcessorOptions {
    /// Where to start in a partition without a checkpoint.
    pub(crate) fn start_of(&self, partition: u32) -> Position {
        self.starts.get(&partition).copied().unwrap_or(self.start)
    }

    /// How long to wait after so many failed attempts.
    pub(crate) fn pause_after(&self, attempts: u32) -> Duration {
        const LONGEST: Duration = Duration::from_secs(30);
        let doubled = self
            .pause
            .saturating_mul(1 << attempts.saturating_sub(1).min(10));
        doubled.min(LONGEST)
    }
}
