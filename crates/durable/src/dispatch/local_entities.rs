//! Entities whose operations run where requests arrive.
//!
//! A client's request to an idle entity is not stored in its queue: it runs where it
//! arrived, on the last committed state, and the results are one commit. The partition
//! checks that the entity is still idle and its state unchanged: if not, the run is
//! discarded, and the request goes into the queue like any other.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use steadfast_core::limits;
use tokio::sync::oneshot;

use super::state_cache::{CachedState, States};
use crate::command::OperationRequest;
use crate::entity::Outcome;
use crate::error::Result;
use crate::inline::InlineExecutor;

/// How a request was handled.
pub(crate) enum LocalOutcome {
    /// It ran, and its result is durable.
    Run(Outcome),
    /// It has to go into the queue.
    Queue(Box<OperationRequest>),
}

/// A request and the channel for its answer.
pub(crate) struct LocalRequest {
    pub(crate) request: Box<OperationRequest>,
    pub(crate) answer: oneshot::Sender<Result<LocalOutcome>>,
}

/// Requests that run in this process, by entity.
pub(crate) struct LocalEntities {
    operator: RwLock<Option<Arc<dyn InlineExecutor>>>,
    shards: [Mutex<EntityShard>; SHARDS],
    /// Changed only under the lock of the entity's shard.
    warm: States,
    hasher: RandomState,
}

const SHARDS: usize = 16;

#[derive(Default)]
struct EntityShard {
    slots: HashMap<String, RunningEntity>,
}

/// An entity with running requests.
#[derive(Default)]
struct RunningEntity {
    waiting: VecDeque<LocalRequest>,
    /// A worker was requested during the run: the cached state is not kept.
    is_disturbed: bool,
}

impl LocalEntities {
    pub(super) fn new(warm: States) -> Self {
        Self {
            operator: RwLock::default(),
            shards: Default::default(),
            warm,
            hasher: RandomState::new(),
        }
    }

    /// Sets or removes the executor of operations.
    pub(crate) fn set_executor(&self, operator: Option<Arc<dyn InlineExecutor>>) {
        *self.operator.write() = operator;
    }

    /// The executor that can run this operation here.
    pub(crate) fn executor(
        &self,
        entity: &str,
        operation: &str,
    ) -> Option<Arc<dyn InlineExecutor>> {
        let operator = self.operator.read();
        let operator = operator.as_ref()?;
        let name = entity.strip_prefix('@')?.split('@').next()?;
        operator
            .is_quick(name, operation)
            .then(|| Arc::clone(operator))
    }

    fn shard(&self, entity: &str) -> &Mutex<EntityShard> {
        &self.shards[self.hasher.hash_one(entity) as usize % SHARDS]
    }

    /// Queues a request. Returns whether the caller has to start running them, or the
    /// request itself if too many wait.
    pub(crate) fn join(
        &self,
        entity: &str,
        asked: LocalRequest,
    ) -> std::result::Result<bool, LocalRequest> {
        let mut shard = self.shard(entity).lock();
        if let Some(slot) = shard.slots.get_mut(entity) {
            if slot.waiting.len() as u64 >= limits::ENTITY_QUEUE {
                return Err(asked);
            }
            slot.waiting.push_back(asked);
            return Ok(false);
        }
        let slot = RunningEntity {
            waiting: VecDeque::from([asked]),
            is_disturbed: false,
        };
        shard.slots.insert(entity.to_owned(), slot);
        Ok(true)
    }

    /// The next requests, with the state if it is cached. `None`: none are left, and the
    /// next request starts a new run.
    pub(crate) fn next(&self, entity: &str) -> Option<(Vec<LocalRequest>, Option<CachedState>)> {
        let mut shard = self.shard(entity).lock();
        let slot = shard.slots.get_mut(entity)?;
        slot.is_disturbed = false;
        let (mut batch, mut bytes, mut ids) = (Vec::new(), 0, HashSet::new());
        while let Some(asked) = slot.waiting.front() {
            let operation = &asked.request.requested.operation;
            bytes += operation.size();
            let is_repeatable = asked.request.client.is_some_and(|c| c.is_repeatable);
            // A repeated request runs later, so that it finds the first one's result.
            let is_fresh = !is_repeatable || ids.insert(operation.request.clone());
            let is_full = batch.len() >= limits::BATCH_OPERATIONS || bytes > limits::WORK_BYTES;
            if !batch.is_empty() && (is_full || !is_fresh) {
                break;
            }
            batch.extend(slot.waiting.pop_front());
        }
        if batch.is_empty() {
            shard.slots.remove(entity);
            return None;
        }
        Some((batch, self.warm.get(entity.as_bytes())))
    }

    /// Caches the committed state, unless a worker has the entity now.
    pub(crate) fn keep(&self, entity: &str, warm: CachedState) {
        let shard = self.shard(entity).lock();
        let is_ours = |slot: &RunningEntity| !slot.is_disturbed;
        if shard.slots.get(entity).is_some_and(is_ours) {
            self.warm.insert(entity.as_bytes(), warm)
        } else {
            self.warm.remove(entity.as_bytes())
        }
    }

    /// Drops the cached state of an entity.
    pub(crate) fn forget(&self, entity: &str) {
        let mut shard = self.shard(entity).lock();
        self.warm.remove(entity.as_bytes());
        if let Some(slot) = shard.slots.get_mut(entity) {
            slot.is_disturbed = true;
        }
    }
}
