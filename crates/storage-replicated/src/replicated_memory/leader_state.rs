//! The owner's state of a replicated partition.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::id::{EntryNumber, Epoch, Owner, Partition};
use steadfast_storage::engine::Entry;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use super::quorum::majority;
use super::replica_set::ReplicaSet;

/// Most bytes queued for one holder; one that is further behind gets a full copy.
const WAITING_BYTES: usize = 64 * 1024 * 1024;

/// The owner's state of a partition in one epoch.
pub(super) struct LeaderState {
    pub(super) partition: Partition,
    pub(super) epoch: Epoch,
    pub(super) state: Mutex<State>,
    /// Changes when replicas advance or the holders change.
    progress: watch::Sender<u64>,
    /// Wakes the reconciliation of the holders.
    pub(super) bell: Notify,
    tasks: Mutex<Vec<AbortHandle>>,
}

pub(super) struct State {
    /// The record, and its version.
    pub(super) replica_set: ReplicaSet,
    pub(super) version: u64,
    /// The holders that are about to be recorded: until the outcome is known, an entry
    /// needs a majority of both sets.
    pub(super) next: Option<Vec<Owner>>,
    pub(super) streams: Vec<ReplicationStream>,
    /// The time before which a failed holder is not retried.
    pub(super) pauses: Vec<(Owner, Duration)>,
    pub(super) is_deposed: bool,
}

/// The replication stream to one holder.
pub(super) struct ReplicationStream {
    pub(super) to: Owner,
    /// The last entry that the holder has acknowledged.
    pub(super) acked: EntryNumber,
    /// From this entry on its replica is complete; unknown until the copy is sent.
    pub(super) whole_from: Option<EntryNumber>,
    pub(super) is_broken: bool,
    waiting: VecDeque<(EntryNumber, Bytes)>,
    bytes: usize,
    pub(super) bell: Arc<Notify>,
}

impl ReplicationStream {
    pub(super) fn new(to: Owner, begins_after: EntryNumber, log: &[Entry]) -> Self {
        let mut line = Self {
            to,
            acked: begins_after,
            whole_from: None,
            is_broken: false,
            waiting: VecDeque::new(),
            bytes: 0,
            bell: Arc::default(),
        };
        log.iter().for_each(|entry| line.push(entry));
        line
    }

    pub(super) fn push(&mut self, entry: &Entry) {
        if self.is_broken {
            return;
        }
        self.bytes += entry.body.len();
        self.waiting.push_back((entry.number, entry.body.clone()));
        if self.bytes > WAITING_BYTES {
            self.break_off();
        }
        self.bell.notify_one();
    }

    /// Takes the next entries to send, up to about `max_bytes`.
    pub(super) fn take(&mut self, max_bytes: usize) -> Vec<(EntryNumber, Bytes)> {
        let mut taken = Vec::new();
        let mut bytes = 0;
        while let Some((_, body)) = self.waiting.front() {
            if bytes > 0 && bytes + body.len() > max_bytes {
                break;
            }
            bytes += body.len();
            taken.extend(self.waiting.pop_front());
        }
        self.bytes -= bytes;
        taken
    }

    pub(super) fn break_off(&mut self) {
        self.is_broken = true;
        self.waiting = VecDeque::new();
        self.bytes = 0;
        self.bell.notify_one();
    }

    /// Whether the holder's replica is complete.
    pub(super) fn is_ready(&self) -> bool {
        let is_whole = self.whole_from.is_some_and(|from| self.acked >= from);
        is_whole && !self.is_broken
    }
}

impl State {
    pub(super) fn stream(&mut self, to: Owner) -> Option<&mut ReplicationStream> {
        self.streams.iter_mut().find(|line| line.to == to)
    }

    /// Whether an entry is on a majority of the holders.
    pub(super) fn is_replicated(&self, me: Owner, number: EntryNumber) -> bool {
        let has = |holder: &&Owner| {
            **holder == me
                || self.streams.iter().any(|line| {
                    line.to == **holder && line.whole_from.is_some() && line.acked >= number
                })
        };
        let suffices = |set: &Vec<Owner>| set.iter().filter(has).count() >= majority(set.len());
        suffices(&self.replica_set.holders) && self.next.as_ref().is_none_or(suffices)
    }
}

impl LeaderState {
    pub(super) fn new(partition: Partition, charter: ReplicaSet, version: u64) -> Self {
        Self {
            partition,
            epoch: charter.epoch,
            state: Mutex::new(State {
                replica_set: charter,
                version,
                next: None,
                streams: Vec::new(),
                pauses: Vec::new(),
                is_deposed: false,
            }),
            progress: watch::channel(0).0,
            bell: Notify::new(),
            tasks: Mutex::default(),
        }
    }

    /// Marks the partition as taken by another owner.
    pub(super) fn depose(&self) {
        self.state.lock().is_deposed = true;
        self.notify_progress();
    }

    pub(super) fn is_deposed(&self) -> bool {
        self.state.lock().is_deposed
    }

    /// Wakes tasks that wait for replicas or holders to change.
    pub(super) fn notify_progress(&self) {
        self.progress.send_modify(|count| *count += 1);
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.progress.subscribe()
    }

    /// Aborts `task` when the leader state ends.
    pub(super) fn adopt_task(&self, task: AbortHandle) {
        let mut tasks = self.tasks.lock();
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
        drop(tasks);
        if self.is_deposed() {
            // The leader state may have ended while the task was being started.
            self.stop();
        }
    }

    /// Stops all replication streams.
    pub(super) fn stop(&self) {
        self.tasks.lock().drain(..).for_each(|task| task.abort());
        self.depose();
    }
}
