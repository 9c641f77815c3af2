//! Performs the work requests of the service.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use steadfast_core::clock::Clock;
use steadfast_core::id::Partition;
use steadfast_core::limits;
use steadfast_partition::{Effect, Performer, Router, ServiceKind};

use super::counts::TaskHubCounts;
use super::delivery::DeliveryOptions;
use super::histories::{self, SharedHistories};
use super::state_cache::{self, SharedStates};
use super::waiters::Waiters;
use super::work_queue::WorkQueue;
use crate::command::WorkRequest;
use crate::id::KIND;
use crate::inline::InlineExecutors;
use crate::rows::{key_of, marked};

/// Performs the work requests of instances. Clones share one state.
#[derive(Clone)]
pub struct Dispatcher {
    inner: Arc<Inner>,
}

struct Inner {
    router: Arc<Router>,
    clock: Arc<dyn Clock>,
    delivery: DeliveryOptions,
    histories: SharedHistories,
    states: SharedStates,
    queues: RwLock<HashMap<String, Arc<WorkQueue>>>,
    waiters: Arc<Waiters>,
    inline_executors: InlineExecutors,
}

impl Dispatcher {
    /// A dispatcher for the partitions of a router.
    pub fn new(router: Arc<Router>, clock: Arc<dyn Clock>, delivery: DeliveryOptions) -> Self {
        let inner = Inner {
            router,
            inline_executors: InlineExecutors::new(Arc::clone(&clock)),
            clock,
            delivery,
            histories: histories::histories(),
            states: state_cache::states(),
            queues: RwLock::default(),
            waiters: Arc::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The work queue of a task hub.
    pub(crate) fn work_queue(&self, hub: &str) -> Arc<WorkQueue> {
        if let Some(desk) = self.inner.queues.read().get(hub) {
            return Arc::clone(desk);
        }
        let mut desks = self.inner.queues.write();
        if desks.len() >= limits::TASK_HUB_DESKS {
            // The only reference is the one in this map.
            desks.retain(|_, desk| Arc::strong_count(desk) > 1 || !desk.is_idle());
        }
        let desk = desks.entry(hub.to_owned()).or_insert_with(|| {
            let Inner {
                router,
                clock,
                delivery,
                histories,
                states,
                ..
            } = &*self.inner;
            let (router, clock) = (Arc::clone(router), Arc::clone(clock));
            WorkQueue::new(router, clock, *delivery, histories, states)
        });
        Arc::clone(desk)
    }

    /// The work queue of a task hub, if there is one.
    pub(crate) fn find_queue(&self, hub: &str) -> Option<Arc<WorkQueue>> {
        self.inner.queues.read().get(hub).cloned()
    }

    /// The known task hubs; idle ones are dropped when there are very many.
    pub(crate) fn hubs(&self) -> Vec<String> {
        let mut names: Vec<_> = self.inner.queues.read().keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// The workers and work items of all task hubs.
    pub(crate) fn counts(&self) -> TaskHubCounts {
        let mut all = TaskHubCounts::default();
        for queue in self.inner.queues.read().values() {
            all += queue.counts();
        }
        all
    }

    /// The waiters for instances and answers.
    pub(crate) fn waiters(&self) -> &Arc<Waiters> {
        &self.inner.waiters
    }

    /// The executors of this process.
    pub(crate) fn inline_executors(&self) -> &InlineExecutors {
        &self.inner.inline_executors
    }

    /// Stops assigning work, waits for assigned items, and ends the streams of all workers.
    pub async fn leave(&self, limit: Duration) {
        let desks: Vec<_> = self.inner.queues.read().values().cloned().collect();
        self.inner.inline_executors.leave();
        for desk in &desks {
            desk.stop();
        }
        let all_back = async {
            for desk in &desks {
                desk.wait_until_idle().await;
            }
        };
        let _ = tokio::time::timeout(limit, all_back).await;
        for desk in &desks {
            desk.close();
        }
    }
}

impl Performer for Dispatcher {
    fn perform(&self, effect: Effect) {
        let hub = String::from_utf8_lossy(&effect.from.name).into_owned();
        let instance = String::from_utf8_lossy(&effect.from.key).into_owned();
        let Some(wish) = WorkRequest::decode(&effect.body) else {
            tracing::error!(
                event = "durable.wish_unreadable",
                from = %effect.from,
                "a work request of an instance cannot be decoded",
            );
            return;
        };
        match (wish, effect.work) {
            (WorkRequest::Changed, _) => self.inner.waiters.changed(&hub, &instance),
            (WorkRequest::Closed, _) => {
                let work = marked(&key_of(&effect.from), b't');
                self.work_queue(&hub)
                    .drop_waiting(&(effect.partition, work.into()));
            }
            (WorkRequest::Answer { request, outcome }, _) => {
                self.inner
                    .waiters
                    .answer(&hub, &instance, &request, &outcome);
            }
            (wish, Some(work)) => {
                let key = (effect.partition, work);
                self.work_queue(&hub)
                    .enqueue(&key, effect.from, instance, wish);
            }
            (_, None) => {}
        }
    }

    fn partition_closed(&self, partition: Partition) {
        for desk in self.inner.queues.read().values() {
            desk.forget_partition(partition);
        }
    }

    fn helper(&self, kind: ServiceKind) -> Option<&(dyn Any + Send + Sync)> {
        let aides: &(dyn Any + Send + Sync) = &self.inner.inline_executors;
        (kind == KIND).then_some(aides)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadfast_core::clock::SystemClock;
    use steadfast_partition::SingleNode;

    #[test]
    fn idle_task_hubs_of_very_many_are_let_go_of() {
        let router = Arc::new(Router::new(Arc::new(SingleNode)));
        let clock = Arc::new(SystemClock::new());
        let dispatcher = Dispatcher::new(router, clock, DeliveryOptions::default());
        let held = dispatcher.work_queue("held");
        for number in 0..3 * limits::TASK_HUB_DESKS {
            dispatcher.work_queue(&format!("hub {number}"));
        }
        let hubs = dispatcher.hubs();
        assert!(hubs.len() <= limits::TASK_HUB_DESKS, "{}", hubs.len());
        assert!(hubs.contains(&"held".to_owned()));
        assert!(Arc::ptr_eq(&held, &dispatcher.work_queue("held")));
    }
    #[tokio::test]
    async fn a_task_hub_that_gives_out_nothing_more_is_not_let_go_of() {
        let router = Arc::new(Router::new(Arc::new(SingleNode)));
        let clock = Arc::new(SystemClock::new());
        let dispatcher = Dispatcher::new(router, clock, DeliveryOptions::default());
        let stopped = Arc::downgrade(&dispatcher.work_queue("stopped"));
        dispatcher.leave(Duration::ZERO).await;
        for number in 0..3 * limits::TASK_HUB_DESKS {
            dispatcher.work_queue(&format!("hub {number}"));
        }
        let now = Arc::downgrade(&dispatcher.work_queue("stopped"));
        assert!(stopped.ptr_eq(&now), "another one would give out work");
    }
}
