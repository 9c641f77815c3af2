//! Entities whose operations run in this process at once.
//!
//! A client's request to an idle entity need not wait in a row: it is run where it
//! came in, on the state that was committed last, and what came of it is one commit.
//! Whether the entity was still idle, and the state still that one, is decided by
//! the partition: if not, the run counts for nothing, and the request goes into the
//! queue as any other.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use steadfast_core::limits;
use tokio::sync::oneshot;

use super::warm::{States, Warm};
use crate::aide::Operator;
use crate::command::Request;
use crate::entity::Outcome;
use crate::error::Result;

/// What became of a request.
pub(crate) enum Settled {
    /// It was run, and that is durable.
    Run(Outcome),
    /// It has to go into the queue.
    Queue(Box<Request>),
}

/// A request and who waits for it. It is moved from one list to the next.
pub(crate) struct Asked {
    pub(crate) request: Box<Request>,
    pub(crate) answer: oneshot::Sender<Result<Settled>>,
}

/// Requests that are run here, by entity.
pub(crate) struct Locals {
    operator: RwLock<Option<Arc<dyn Operator>>>,
    shards: [Mutex<Shard>; SHARDS],
    /// Changed under the lock of the entity's shard only.
    warm: States,
    hasher: RandomState,
}

const SHARDS: usize = 16;

#[derive(Default)]
struct Shard {
    slots: HashMap<String, Slot>,
}

/// An entity whose requests are being run.
#[derive(Default)]
struct Slot {
    waiting: VecDeque<Asked>,
    /// A worker was asked for meanwhile: what we know will not last.
    is_disturbed: bool,
}

impl Locals {
    pub(super) fn new(warm: States) -> Self {
        Self {
            operator: RwLock::default(),
            shards: Default::default(),
            warm,
            hasher: RandomState::new(),
        }
    }

    /// Operations are run by this one from now on, or by nobody.
    pub(crate) fn set_operator(&self, operator: Option<Arc<dyn Operator>>) {
        *self.operator.write() = operator;
    }

    /// Who would run this operation here.
    pub(crate) fn operator(&self, entity: &str, operation: &str) -> Option<Arc<dyn Operator>> {
        let operator = self.operator.read();
        let operator = operator.as_ref()?;
        let name = entity.strip_prefix('@')?.split('@').next()?;
        operator
            .is_quick(name, operation)
            .then(|| Arc::clone(operator))
    }

    fn shard(&self, entity: &str) -> &Mutex<Shard> {
        &self.shards[self.hasher.hash_one(entity) as usize % SHARDS]
    }

    /// Lets a request wait for its turn. Answers whether somebody has to begin, or
    /// gives it back if too many wait.
    pub(crate) fn join(&self, entity: &str, asked: Asked) -> std::result::Result<bool, Asked> {
        let mut shard = self.shard(entity).lock();
        if let Some(slot) = shard.slots.get_mut(entity) {
            if slot.waiting.len() as u64 >= limits::ENTITY_QUEUE {
                return Err(asked);
            }
            slot.waiting.push_back(asked);
            return Ok(false);
        }
        let slot = Slot {
            waiting: VecDeque::from([asked]),
            is_disturbed: false,
        };
        shard.slots.insert(entity.to_owned(), slot);
        Ok(true)
    }

    /// The requests that are next, with the state if it is known. None: nobody waits
    /// any more, and whoever comes next has to begin.
    pub(crate) fn next(&self, entity: &str) -> Option<(Vec<Asked>, Option<Warm>)> {
        let mut shard = self.shard(entity).lock();
        let slot = shard.slots.get_mut(entity)?;
        slot.is_disturbed = false;
        let (mut batch, mut bytes, mut ids) = (Vec::new(), 0, HashSet::new());
        while let Some(asked) = slot.waiting.front() {
            let operation = &asked.request.requested.operation;
            bytes += operation.size();
            let is_repeatable = asked.request.client.is_some_and(|c| c.is_repeatable);
            // The same request twice counts once: the second one finds the first.
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

    /// Remembers what was committed, unless somebody else has the entity now.
    pub(crate) fn keep(&self, entity: &str, warm: Warm) {
        let shard = self.shard(entity).lock();
        let is_ours = |slot: &Slot| !slot.is_disturbed;
        match shard.slots.get(entity).is_some_and(is_ours) {
            true => self.warm.insert(entity.as_bytes(), warm),
            false => self.warm.remove(entity.as_bytes()),
        }
    }

    /// What is known of an entity does not hold any more.
    pub(crate) fn forget(&self, entity: &str) {
        let mut shard = self.shard(entity).lock();
        self.warm.remove(entity.as_bytes());
        if let Some(slot) = shard.slots.get_mut(entity) {
            slot.is_disturbed = true;
        }
    }
}
