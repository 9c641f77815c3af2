//! One committer for each independent log of the engine.
//!
//! A log that answers late, or not at all, keeps only its own partitions waiting.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use steadfast_core::task::name_task;
use tokio::task::JoinHandle;

use crate::commit;
use crate::node_context::NodeContext;
use crate::partition_state::PartitionState;
use crate::queue::NotifyQueue;

/// Queue of partitions with transactions to commit.
pub(crate) type CommitQueue = Arc<NotifyQueue<Arc<PartitionState>>>;

/// The committers of a store, by shard.
#[derive(Default)]
pub(crate) struct Committers(Mutex<BTreeMap<u16, ShardCommitter>>);

struct ShardCommitter {
    ready: CommitQueue,
    task: JoinHandle<()>,
}

impl Committers {
    /// The queue of a shard; the first call starts its committer.
    pub(crate) fn of(&self, shard: u16, node: &Arc<NodeContext>) -> CommitQueue {
        let mut lanes = self.0.lock();
        let lane = lanes.entry(shard).or_insert_with(|| {
            let ready = Arc::new(NotifyQueue::new());
            let task = tokio::spawn(name_task(commit::run(Arc::clone(node), Arc::clone(&ready))));
            ShardCommitter { ready, task }
        });
        Arc::clone(&lane.ready)
    }

    /// Aborts all committers; queued partitions are dropped.
    pub(crate) fn stop(&self) -> Vec<JoinHandle<()>> {
        let lanes = std::mem::take(&mut *self.0.lock());
        let stop = |lane: ShardCommitter| {
            lane.task.abort();
            lane.ready.close();
            lane.task
        };
        lanes.into_values().map(stop).collect()
    }
}
