//! When a checkpoint is due.

use std::time::Duration;

/// When a processor writes checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointPolicy {
    /// After this many events.
    pub events: Option<u64>,
    /// This long after the first event since the last checkpoint.
    pub time: Option<Duration>,
}

impl CheckpointPolicy {
    /// Only when the handler requests it.
    pub const BY_HAND: Self = Self {
        events: None,
        time: None,
    };

    /// After this many events.
    pub const fn events(count: u64) -> Self {
        Self {
            events: Some(count),
            time: None,
        }
    }

    /// After this much time.
    pub const fn time(time: Duration) -> Self {
        Self {
            events: None,
            time: Some(time),
        }
    }
}

impl Default for CheckpointPolicy {
    /// After a thousand events, or a second.
    fn default() -> Self {
        Self {
            events: Some(1000),
            time: Some(Duration::from_secs(1)),
        }
    }
}

/// The progress of a partition's handler since the last checkpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckpointProgress {
    every: CheckpointPolicy,
    /// The sequence number of the checkpoint; -1 if there is none.
    pub(crate) checkpoint: i64,
    /// Sequence number and offset of the last event that was handled since.
    pub(crate) handled: Option<(i64, i64)>,
    count: u64,
    /// When the first of them was handled, in monotonic time.
    since: Duration,
}

impl CheckpointProgress {
    pub(crate) fn new(every: CheckpointPolicy, checkpoint: i64) -> Self {
        Self {
            every,
            checkpoint,
            handled: None,
            count: 0,
            since: Duration::ZERO,
        }
    }

    /// Events up to this one were handled.
    pub(crate) fn handled(&mut self, last: (i64, i64), count: u64, now: Duration) {
        if self.handled.is_none() {
            self.since = now;
        }
        self.handled = Some(last);
        self.count += count;
    }

    /// The checkpoint to write now, if one is due.
    pub(crate) fn due(&self, now: Duration) -> Option<(i64, i64)> {
        let is_over = self.every.events.is_some_and(|most| self.count >= most)
            || self.due_in(now) == Some(Duration::ZERO);
        self.handled.filter(|_| is_over)
    }

    /// How long until a checkpoint is due by time.
    pub(crate) fn due_in(&self, now: Duration) -> Option<Duration> {
        self.handled?;
        Some(
            self.since
                .saturating_add(self.every.time?)
                .saturating_sub(now),
        )
    }

    /// The checkpoint to write when the partition is released.
    pub(crate) fn last(&self) -> Option<(i64, i64)> {
        self.handled
            .filter(|_| self.every != CheckpointPolicy::BY_HAND)
    }

    /// A checkpoint was written.
    pub(crate) fn written(&mut self, sequence: i64) {
        self.checkpoint = sequence;
        if self.handled.is_some_and(|(handled, _)| handled <= sequence) {
            self.handled = None;
            self.count = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_checkpoint_is_due_by_count_or_by_time() {
        let mut progress = CheckpointProgress::new(
            CheckpointPolicy {
                events: Some(10),
                time: Some(SECOND),
            },
            -1,
        );
        assert_eq!(progress.due(SECOND * 9), None);
        progress.handled((3, 30), 4, SECOND * 9);
        assert_eq!(progress.due(SECOND * 9), None);
        assert_eq!(progress.due_in(SECOND * 9), Some(SECOND));
        assert_eq!(progress.due(SECOND * 10), Some((3, 30)));
        progress.handled((9, 90), 6, SECOND * 9);
        assert_eq!(progress.due(SECOND * 9), Some((9, 90)));
        progress.written(9);
        assert_eq!((progress.due(SECOND * 20), progress.last()), (None, None));
    }

    #[test]
    fn by_hand_nothing_is_ever_due() {
        let mut progress = CheckpointProgress::new(CheckpointPolicy::BY_HAND, -1);
        progress.handled((3, 30), 4000, SECOND);
        assert_eq!((progress.due(SECOND * 99), progress.last()), (None, None));
    }
}
