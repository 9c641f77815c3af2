//! The work queue of a task hub and its workers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use steadfast_core::clock::Clock;
use steadfast_core::id::Partition;
use steadfast_core::task::name_task;
use steadfast_partition::{Address, Router};
use tokio::sync::watch;

use super::affinity::Affinity;
use super::delivery::DeliveryOptions;
use super::delivery_lease::DeliveryLeases;
use super::entry::{Entry, EntryState, Key, WorkGroup, WorkKind};
use super::histories::{Histories, SharedHistories};
use super::local_entities::LocalEntities;
use super::state_cache::SharedStates;
use super::token::DeliveryToken;
use super::worker_slot::WorkerSlot;
use crate::command::WorkRequest;
use crate::failure::FailureDetails;
use crate::inline::InlineExecutor;
use crate::task_pool::TaskPool;
use crate::work::TurnResult;

pub(crate) struct WorkQueue {
    pub(super) me: Weak<Self>,
    pub(super) router: Arc<Router>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) delivery: DeliveryOptions,
    pub(super) histories: Histories,
    /// Reads items for workers.
    loads: TaskPool,
    /// Requests that run in this process without a worker.
    pub(crate) local_entities: LocalEntities,
    pub(super) state: Mutex<State>,
    /// How many items are assigned to workers.
    out: watch::Sender<usize>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) entries: HashMap<Key, Entry>,
    /// Entries that wait for a worker, with their numbers, in order of arrival.
    ready: BTreeMap<WorkGroup, VecDeque<(u64, Key)>>,
    pub(super) workers: BTreeMap<u64, WorkerSlot>,
    /// The worker that was served last.
    last: u64,
    pub(super) affinity: Affinity,
    next: u64,
    pub(super) leases: DeliveryLeases,
    is_stopped: bool,
}

/// Which workers are connected for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerPresence {
    /// The task hub has no worker.
    None,
    /// No worker has code for the entry.
    WithoutCode,
    /// Some worker has code for it.
    WithCode,
}

impl WorkQueue {
    pub(super) fn new(
        router: Arc<Router>,
        clock: Arc<dyn Clock>,
        delivery: DeliveryOptions,
        histories: &SharedHistories,
        states: &SharedStates,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            router,
            clock,
            delivery,
            histories: Histories::new(histories),
            loads: TaskPool::default(),
            local_entities: LocalEntities::new(states.hub()),
            state: Mutex::default(),
            out: watch::channel(0).0,
        })
    }

    /// Adds a work request; it replaces an older one with the same key.
    pub(super) fn enqueue(&self, key: &Key, from: Address, instance: String, wish: WorkRequest) {
        if matches!(wish, WorkRequest::Batch { .. }) {
            self.local_entities.forget(&instance);
        }
        let mut state = self.state.lock();
        self.forget(&mut state, key);
        state.next += 1;
        let entry = Entry::new(state.next, from, instance, wish);
        state.entries.insert(key.clone(), entry);
        self.ready(&mut state, key);
    }

    /// Adds a worker.
    pub(super) fn add_worker(&self, seat: WorkerSlot) -> u64 {
        let mut state = self.state.lock();
        state.next += 1;
        let id = state.next;
        state.workers.insert(id, seat);
        self.pump(&mut state);
        id
    }

    /// Declares that a worker keeps instances in memory.
    pub(super) fn remember(&self, seat: u64, memory: Arc<dyn InlineExecutor>) {
        if let Some(seat) = self.state.lock().workers.get_mut(&seat) {
            seat.remember(memory);
        }
    }

    /// The number of history rows read.
    pub(crate) fn history_rows_read(&self) -> u64 {
        self.histories.read.load(Ordering::Relaxed)
    }

    /// Removes a worker. Its turns and batches are assigned again at once; its activities
    /// stay with it for a while, because it may only have lost its connection.
    pub(super) fn remove_worker(&self, id: u64) {
        let mut state = self.state.lock();
        let seat = state.workers.remove(&id);
        state.affinity.remove_worker(id);
        if let Some(seat) = seat {
            self.ask_others(&mut state, id, &seat);
        }
        let is_with = |entry: &Entry| entry.state == EntryState::Assigned(id);
        let with = state.entries.iter().filter(|(_, entry)| is_with(entry));
        let lost: Vec<_> = with
            .map(|(key, entry)| (key.clone(), entry.number, entry.group.sort))
            .collect();
        for (key, number, sort) in lost {
            match sort {
                WorkKind::Activity => {
                    self.delay(&mut state, &key, number, self.delivery.activity_grace)
                }
                WorkKind::Turn | WorkKind::Batch => self.delivery_lost(&mut state, &key),
            }
        }
    }

    /// Puts an entry into the queue of its group.
    pub(super) fn ready(&self, state: &mut State, key: &Key) {
        let Some(entry) = state.entries.get_mut(key) else {
            return;
        };
        self.free_worker(entry, &mut state.workers);
        entry.state = EntryState::Ready;
        let waiting = (entry.number, key.clone());
        match state.ready.get_mut(&entry.group) {
            Some(queue) => queue.push_back(waiting),
            None => {
                let queue = VecDeque::from([waiting]);
                state.ready.insert(entry.group.clone(), queue);
            }
        }
        self.pump(state);
    }

    /// Takes an entry from its worker, which then has room for another one.
    pub(super) fn free_worker(&self, entry: &mut Entry, seats: &mut BTreeMap<u64, WorkerSlot>) {
        if let EntryState::Assigned(seat) = entry.state {
            if let Some(seat) = seats.get_mut(&seat) {
                seat.free(entry.group.sort);
            }
            entry.state = EntryState::Delayed;
            entry.given = None;
            entry.chunks.clear();
            self.out.send_if_modified(|out| {
                *out = out.saturating_sub(1);
                // Waiters are only interested in 0.
                *out == 0
            });
        }
    }

    /// Removes an entry.
    fn forget(&self, state: &mut State, key: &Key) {
        if let Some(mut entry) = state.entries.remove(key) {
            self.free_worker(&mut entry, &mut state.workers);
        }
    }

    /// A delivery was lost: assigns the entry again, and delays it after repeated losses.
    pub(super) fn delivery_lost(&self, state: &mut State, key: &Key) {
        let Some(entry) = state.entries.get_mut(key) else {
            return;
        };
        entry.lost += 1;
        entry.halve();
        let (number, lost) = (entry.number, entry.lost);
        if entry.is_long && lost >= steadfast_core::limits::LOST_LONG_TURNS {
            let (from, wish, instance) =
                (entry.from.clone(), entry.request.clone(), &entry.instance);
            tracing::error!(
                event = "durable.history_too_large",
                instance,
                lost,
                "orchestration failed: its workers disconnect when they receive its history",
            );
            self.fail(key, from, &wish, too_large());
            self.delay(state, key, number, steadfast_core::limits::POISON_PAUSE);
            return;
        }
        if lost < steadfast_core::limits::LOST_LEASES {
            self.ready(state, key);
            return;
        }
        tracing::error!(
            event = "durable.poison",
            instance = entry.instance,
            name = entry.group.name,
            lost,
            "no worker completes this work item; it is retried after a pause",
        );
        if self.delivery.is_poison_failed {
            let (from, wish) = (entry.from.clone(), entry.request.clone());
            self.fail(key, from, &wish, poisoned());
        }
        self.delay(state, key, number, steadfast_core::limits::POISON_PAUSE);
    }

    /// Delays an entry because its partition is overloaded or its disk is full. This does
    /// not count as a lost delivery.
    pub(super) fn try_later(&self, state: &mut State, key: &Key) {
        if let Some(entry) = state.entries.get_mut(key) {
            let (number, pause) = (entry.number, entry.defer());
            self.delay(state, key, number, pause);
        }
    }

    /// Returns an entry to the queue after a pause.
    fn delay(&self, state: &mut State, key: &Key, number: u64, pause: Duration) {
        if let Some(entry) = state.entries.get_mut(key) {
            self.free_worker(entry, &mut state.workers);
            entry.state = EntryState::Delayed;
        }
        self.pump(state);
        let (me, key) = (self.me.clone(), key.clone());
        tokio::spawn(name_task(async move {
            tokio::time::sleep(pause).await;
            let Some(desk) = me.upgrade() else {
                return;
            };
            let mut state = desk.state.lock();
            let entry = state.entries.get(&key);
            let is_same =
                |entry: &Entry| entry.number == number && entry.state == EntryState::Delayed;
            if entry.is_some_and(is_same) {
                desk.ready(&mut state, &key);
            }
        }));
    }

    /// Assigns waiting entries to workers that have room, oldest first.
    pub(super) fn pump(&self, state: &mut State) {
        while !state.is_stopped {
            let State {
                ready,
                workers: seats,
                entries,
                ..
            } = &mut *state;
            let is_waiting = |group: &WorkGroup, number: u64, key: &Key| {
                let is_it = |e: &Entry| e.number == number && e.group == *group;
                let entry = entries.get(key);
                entry.is_some_and(|e| is_it(e) && e.state == EntryState::Ready)
            };
            ready.retain(|group, queue| {
                while let Some((number, key)) = queue.front()
                    && !is_waiting(group, *number, key)
                {
                    queue.pop_front();
                }
                !queue.is_empty()
            });
            let can_go = |group: &WorkGroup| seats.iter().any(|(id, seat)| takes(*id, seat, group));
            let heads = ready.iter_mut().filter(|(group, _)| can_go(group));
            let Some((_, queue)) = heads.min_by_key(|(_, queue)| queue[0].0) else {
                return;
            };
            if let Some((_, key)) = queue.pop_front() {
                self.assign(state, key);
            }
        }
    }

    /// Assigns an entry to a worker.
    fn assign(&self, state: &mut State, key: Key) {
        let Some(entry) = state.entries.get(&key) else {
            return;
        };
        let Some(id) = state.seat_for(&entry.group, &key) else {
            return;
        };
        let sort = entry.group.sort;
        let former = match sort {
            WorkKind::Activity => None,
            WorkKind::Turn | WorkKind::Batch => self.note_affinity(state, &key, id),
        };
        let (Some(entry), Some(seat)) = (state.entries.get_mut(&key), state.workers.get_mut(&id))
        else {
            return;
        };
        seat.take(sort);
        entry.state = EntryState::Assigned(id);
        entry.attempt += 1;
        state.last = id;
        self.out.send_if_modified(|out| {
            *out += 1;
            false
        });
        let (number, attempt) = (entry.number, entry.attempt);
        let to = seat.recipient(entry.is_whole, former == Some(id));
        if sort != WorkKind::Activity {
            let deadline = tokio::time::Instant::now() + self.delivery.turn_lease;
            let is_first = state.leases.add(deadline, key.clone(), number, attempt);
            if is_first {
                tokio::spawn(name_task(Self::watch(self.me.clone())));
            }
        }
        if let Some(desk) = self.me.upgrade() {
            self.loads.begin(desk.load(key, number, attempt, to));
        }
    }

    /// Records which worker has an instance now; returns the previous one.
    fn note_affinity(&self, state: &mut State, key: &Key, seat: u64) -> Option<u64> {
        if state.affinity.begin_watch() {
            tokio::spawn(name_task(Self::age_affinity(self.me.clone())));
        }
        state.affinity.insert(key.clone(), seat)
    }

    /// Stores a part of a result.
    pub(crate) fn chunk(
        &self,
        key: &Key,
        token: Option<&DeliveryToken>,
        index: u32,
        part: TurnResult,
    ) -> bool {
        let mut state = self.state.lock();
        let Some(entry) = state.entries.get_mut(key) else {
            return false;
        };
        let is_meant = token.is_none_or(|token| entry.token() == *token);
        if !matches!(entry.state, EntryState::Assigned(_)) || !is_meant {
            return false;
        }
        entry.chunks.insert(index, part);
        true
    }

    /// The worker requests the item again, with history or state.
    pub(crate) fn resend_whole(&self, key: &Key, token: Option<&DeliveryToken>) -> bool {
        let mut state = self.state.lock();
        let Some(entry) = state.entries.get_mut(key) else {
            return false;
        };
        let is_meant = token.is_none_or(|token| entry.token() == *token);
        if !matches!(entry.state, EntryState::Assigned(_)) || !is_meant {
            return false;
        }
        entry.is_whole = true;
        self.ready(&mut state, key);
        true
    }

    /// Records that an item was sent with a history that may be too long for its worker.
    pub(super) fn sent_long(&self, token: &str) {
        let Some(token) = DeliveryToken::parse(token) else {
            return;
        };
        let mut state = self.state.lock();
        let mut entries = state.entries.values_mut();
        if let Some(entry) = entries.find(|entry| entry.token() == token) {
            entry.is_long = true;
        }
    }

    /// Removes the entries of a partition that has moved: its next owner requests the same
    /// work. Workers may finish the items they have.
    pub(super) fn forget_partition(&self, partition: Partition) {
        let mut state = self.state.lock();
        let keys = state.entries.keys();
        let gone: Vec<_> = keys.filter(|key| key.0 == partition).cloned().collect();
        for key in gone {
            self.forget(&mut state, &key);
        }
        self.pump(&mut state);
    }

    /// Removes an entry that was cancelled, unless a worker has it.
    pub(super) fn drop_waiting(&self, key: &Key) {
        let mut state = self.state.lock();
        let entry = state.entries.get(key);
        let is_waiting =
            |entry: &Entry| matches!(entry.state, EntryState::Ready | EntryState::Delayed);
        if entry.is_some_and(is_waiting) {
            state.entries.remove(key);
        }
    }

    /// Removes a completed activity; results of other deliveries are ignored.
    pub(crate) fn done(&self, key: &Key) {
        let mut state = self.state.lock();
        self.forget(&mut state, key);
        self.pump(&mut state);
    }

    /// The assigned activity of an instance with an action's id, for workers that return no
    /// token.
    pub(crate) fn activity(&self, instance: &str, id: i32) -> Option<DeliveryToken> {
        let state = self.state.lock();
        let is_it = |entry: &&Entry| match &entry.request {
            WorkRequest::Activity(order) => {
                let is_out = matches!(entry.state, EntryState::Assigned(_));
                is_out && entry.instance == instance && order.id == id
            }
            _ => false,
        };
        state.entries.values().find(is_it).map(Entry::token)
    }

    /// The state of an entry, and which workers are connected for it.
    pub(crate) fn entry_state(&self, key: &Key) -> Option<(EntryState, WorkerPresence)> {
        let state = self.state.lock();
        let entry = state.entries.get(key)?;
        let is_known = state.workers.values().any(|seat| seat.knows(&entry.group));
        let presence = if is_known {
            WorkerPresence::WithCode
        } else if state.workers.is_empty() {
            WorkerPresence::None
        } else {
            WorkerPresence::WithoutCode
        };
        Some((entry.state, presence))
    }

    /// Whether there is no entry and no worker. A stopped queue is not idle: a new one in its
    /// place would assign work.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state.lock();
        let is_empty = state.entries.is_empty() && state.workers.is_empty();
        is_empty && state.affinity.is_empty() && !state.is_stopped
    }

    /// Stops assigning work.
    pub(super) fn stop(&self) {
        self.local_entities.set_executor(None);
        self.state.lock().is_stopped = true;
    }

    /// Waits until no item is assigned.
    pub(super) async fn wait_until_idle(&self) {
        let mut out = self.out.subscribe();
        let _ = out.wait_for(|out| *out == 0).await;
    }

    /// Ends the streams of all workers.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.is_stopped = true;
        state.workers.clear();
    }
}

fn poisoned() -> FailureDetails {
    FailureDetails::lasting(
        "PoisonedWorkItem",
        "no worker returned a result; check the logs of the workers",
    )
}

fn too_large() -> FailureDetails {
    FailureDetails::lasting(
        "HistoryTooLarge",
        "workers disconnect when they receive this history; continue as new more often, or use \
         a worker that streams histories",
    )
}

impl State {
    /// The worker for the next item of a group: the one that had the instance last, or the
    /// next one in turn that has room.
    fn seat_for(&self, group: &WorkGroup, key: &Key) -> Option<u64> {
        let usual = self.affinity.get(key).filter(|id| {
            let seat = self.workers.get(id);
            seat.is_some_and(|seat| takes(**id, seat, group))
        });
        if let Some(id) = usual {
            return Some(*id);
        }
        let mut free = self.in_turn().filter(|(id, seat)| takes(**id, seat, group));
        free.next().map(|(id, _)| *id)
    }

    /// The next worker for an item that every worker has abandoned: one with room, if there
    /// is one.
    pub(super) fn next_to_ask(&self, group: &WorkGroup) -> Option<u64> {
        let free = self.in_turn().find(|(_, seat)| seat.takes(group));
        let known = || self.in_turn().find(|(_, seat)| seat.knows(group));
        free.or_else(known).map(|(id, _)| *id)
    }

    /// The workers in turn, starting after the one that was served last.
    fn in_turn(&self) -> impl Iterator<Item = (&u64, &WorkerSlot)> {
        let after = self.workers.range(self.last + 1..);
        after.chain(self.workers.range(..=self.last))
    }
}

/// Whether a worker takes one more item of a group, and has not just abandoned it.
fn takes(id: u64, seat: &WorkerSlot, group: &WorkGroup) -> bool {
    !group.declined_by.contains(&id) && seat.takes(group)
}
