//! Options of a processor.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use steadfast_core::backoff::Backoff;
use steadfast_core::clock::{Clock, SystemClock};
use steadfast_ownership::strategy::{GroupTiming, Strategy};
use steadfast_partition::CollectionReplicas;

use crate::position::EventPosition;
use crate::processor::checkpoint_policy::CheckpointPolicy;

/// The delivery guarantee for the effects of a handler.
#[derive(Clone)]
pub enum Guarantee {
    /// After a crash, events after the last checkpoint are handled again.
    AtLeastOnce,
    /// The handler's writes to collections in its transaction happen once:
    /// the checkpoint is part of the same commit.
    ExactlyOnce(Arc<CollectionReplicas>),
}

/// Options of a processor; every value has a default.
#[derive(Clone)]
pub struct ProcessorOptions {
    /// Its member name in the group; random unless set.
    pub owner: String,
    /// How eagerly it claims partitions: `Strategy::BALANCED`, `Strategy::GREEDY` ..
    pub strategy: Strategy,
    /// The interval of the balancing cycle, and when ownerships expire.
    pub timing: GroupTiming,
    pub guarantee: Guarantee,
    /// When it writes checkpoints; with exactly-once, each batch does.
    pub checkpoint: CheckpointPolicy,
    /// Maximum events per call of the handler; 1 for one by one.
    pub batch: usize,
    /// Where to start in a partition without a checkpoint.
    pub start: EventPosition,
    /// The start position of individual partitions.
    pub starts: BTreeMap<u32, EventPosition>,
    /// After this many failed attempts an event becomes a dead letter; `None`: never.
    pub attempts: Option<u32>,
    /// The wait after the first failed attempt; it doubles with each further one.
    pub pause: Duration,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

impl Default for ProcessorOptions {
    fn default() -> Self {
        Self {
            owner: format!("{:032x}", fastrand::u128(..)),
            strategy: Strategy::GREEDY,
            timing: GroupTiming::new(Duration::from_secs(10), Duration::from_secs(30)),
            guarantee: Guarantee::AtLeastOnce,
            checkpoint: CheckpointPolicy::default(),
            batch: 256,
            start: EventPosition::Earliest,
            starts: BTreeMap::new(),
            attempts: None,
            pause: Duration::from_millis(100),
            clock: Arc::new(SystemClock::new()),
        }
    }
}

impl ProcessorOptions {
    /// Where to start in a partition without a checkpoint.
    pub(crate) fn start_of(&self, partition: u32) -> EventPosition {
        self.starts.get(&partition).copied().unwrap_or(self.start)
    }

    /// How long to wait after this many failed attempts.
    pub(crate) fn pause_after(&self, attempts: u32) -> Duration {
        const LONGEST: Duration = Duration::from_secs(30);
        Backoff::new(self.pause, LONGEST).after(attempts)
    }
}
