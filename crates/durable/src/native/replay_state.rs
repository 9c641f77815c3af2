//! State shared by an orchestration and its replay.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Poller, Poll, Waker};

use parking_lot::Mutex;

use super::section::State;
use crate::action::{ActionKind, TurnAction};
use crate::failure::FailureDetails;
use crate::id::guid;
use crate::moment::Moment;

/// The key by which a result is matched to its action.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ResultKey {
    /// An action.
    Action(i32),
    /// A request to an entity, or a critical section.
    Request(String),
    /// A wait for an external event.
    Event(String, u64),
}

/// The result of an action.
pub(super) type Outcome = Result<Option<String>, FailureDetails>;

/// The state of an orchestration in memory.
pub(super) struct ReplayState {
    pub(super) instance: String,
    pub(super) execution: String,
    pub(super) name: String,
    pub(super) version: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) now: Moment,
    /// The time of its first turn: unique among the executions of the instance, and kept by
    /// a rewind.
    seed: Option<Moment>,
    pub(super) is_replaying: bool,
    next: i32,
    ids: u64,
    /// Requested actions that are not in the history yet.
    pub(super) wanted: Vec<TurnAction>,
    slots: HashMap<ResultKey, ResultSlot>,
    /// Events that have not been waited for.
    pub(super) events: HashMap<String, VecDeque<Option<String>>>,
    /// Waits for events, in order.
    waiting: HashMap<String, VecDeque<u64>>,
    pub(super) custom_status: Option<String>,
    pub(super) section: State,
    /// The orchestration continues as new, with this input.
    pub(super) renewal: Option<Option<String>>,
    /// The orchestration has ended: further actions are ignored.
    pub(super) is_over: bool,
}

#[derive(Default)]
struct ResultSlot {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

impl ReplayState {
    pub(super) fn new(instance: &str, execution: &str) -> Self {
        Self {
            instance: instance.to_owned(),
            execution: execution.to_owned(),
            name: String::new(),
            version: None,
            parent: None,
            now: Moment::default(),
            seed: None,
            is_replaying: true,
            next: 0,
            ids: 0,
            wanted: Vec::new(),
            slots: HashMap::new(),
            events: HashMap::new(),
            waiting: HashMap::new(),
            custom_status: None,
            section: State::Free,
            renewal: None,
            is_over: false,
        }
    }

    /// Requests an action; returns its id.
    pub(super) fn request_action(&mut self, deed: ActionKind) -> i32 {
        self.next += 1;
        let id = self.next;
        if !self.is_over {
            self.wanted.push(TurnAction { id, kind: deed });
        }
        id
    }

    /// A unique id that is the same in every replay.
    pub(super) fn guid(&mut self) -> String {
        self.ids += 1;
        let Moment { seconds, nanos } = self.seed.unwrap_or_default();
        guid(&format!("{} {seconds} {nanos} {}", self.instance, self.ids))
    }

    /// A turn begins.
    pub(super) fn begin_turn(&mut self, at: Moment) {
        self.now = at;
        self.seed.get_or_insert(at);
    }

    /// A result has arrived.
    pub(super) fn resolve(&mut self, tag: ResultKey, outcome: Outcome) {
        let slot = self.slots.entry(tag).or_default();
        // The first one counts.
        slot.outcome.get_or_insert(outcome);
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }

    /// Delivers an external event to the oldest wait, or keeps it.
    pub(super) fn raise(&mut self, name: &str, input: Option<String>) {
        let key = name.to_lowercase();
        let first = self.waiting.get_mut(&key).and_then(VecDeque::pop_front);
        match first {
            Some(number) => self.resolve(ResultKey::Event(key, number), Ok(input)),
            None => self.events.entry(key).or_default().push_back(input),
        }
    }

    /// Begins a wait for an event: a kept one, or the next.
    pub(super) fn expect(&mut self, name: &str) -> ResultKey {
        let key = name.to_lowercase();
        self.ids += 1;
        let number = self.ids;
        let tag = ResultKey::Event(key.clone(), number);
        let kept = self.events.get_mut(&key).and_then(VecDeque::pop_front);
        match kept {
            Some(input) => self.resolve(tag.clone(), Ok(input)),
            None => self.waiting.entry(key).or_default().push_back(number),
        }
        tag
    }

    /// Ends a dropped wait; an event that has arrived for it is kept for others.
    fn drop_wait(&mut self, tag: &ResultKey) {
        let outcome = self.slots.remove(tag).and_then(|slot| slot.outcome);
        let ResultKey::Event(name, number) = tag else {
            return;
        };
        if let Some(waiting) = self.waiting.get_mut(name) {
            waiting.retain(|other| other != number);
        }
        if let Some(Ok(input)) = outcome {
            self.events
                .entry(name.clone())
                .or_default()
                .push_front(input);
        }
    }

    /// Whether the code waits for a result that can still arrive.
    pub(super) fn is_waiting(&self) -> bool {
        self.slots.values().any(|slot| slot.waker.is_some())
    }
}

/// Waits for the result of an action.
pub(super) struct ResultFuture {
    shared: Arc<Mutex<ReplayState>>,
    tag: ResultKey,
    is_done: bool,
}

impl ResultFuture {
    pub(super) fn new(shared: &Arc<Mutex<ReplayState>>, tag: ResultKey) -> Self {
        Self {
            shared: Arc::clone(shared),
            tag,
            is_done: false,
        }
    }
}

impl Future for ResultFuture {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<Outcome> {
        let mut shared = self.shared.lock();
        let slot = shared.slots.entry(self.tag.clone()).or_default();
        match slot.outcome.take() {
            Some(outcome) => {
                shared.slots.remove(&self.tag);
                drop(shared);
                self.is_done = true;
                Poll::Ready(outcome)
            }
            None => {
                slot.waker = Some(poller.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for ResultFuture {
    fn drop(&mut self) {
        if !self.is_done {
            self.shared.lock().drop_wait(&self.tag);
        }
    }
}
