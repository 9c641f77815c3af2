//! One committer for each independent log of the engine.
//!
//! A log that answers late, or not at all, keeps only its own partitions waiting.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use steadfast_core::task::named;
use tokio::task::JoinHandle;

use crate::commit;
use crate::node::Node;
use crate::queue::Queue;
use crate::shared::Shared;

/// Queue of partitions with transactions to commit.
pub(crate) type Ready = Arc<Queue<Arc<Shared>>>;

/// The committers of a store, by shard.
#[derive(Default)]
pub(crate) struct Lanes(Mutex<BTreeMap<u16, Lane>>);

struct Lane {
    ready: Ready,
    task: JoinHandle<()>,
}

impl Lanes {
    /// The queue of a shard; the first call starts its committer.
    pub(crate) fn of(&self, shard: u16, node: &Arc<Node>) -> Ready {
        let mut lanes = self.0.lock();
        let lane = lanes.entry(shard).or_insert_with(|| {
            let ready = Arc::new(Queue::new());
            let task = tokio::spawn(named(commit::run(Arc::clone(node), Arc::clone(&ready))));
            Lane { ready, task }
        });
        Arc::clone(&lane.ready)
    }

    /// Aborts all committers; queued partitions are dropped.
    pub(crate) fn stop(&self) -> Vec<JoinHandle<()>> {
        let lanes = std::mem::take(&mut *self.0.lock());
        let stop = |lane: Lane| {
            lane.task.abort();
            lane.ready.close();
            lane.task
        };
        lanes.into_values().map(stop).collect()
    }
}
