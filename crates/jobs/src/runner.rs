//! Performs what the service wants done outside.
//!
//! Attempts to one host share a lane with a bounded number of calls, so that a
//! slow host delays nobody else. What an attempt came to is told to the partition
//! that wanted it. An attempt that is under way already is not begun twice when
//! its partition is loaded again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::clock::{Clock, Timestamp};
use steadfast_core::id::Partition;
use steadfast_core::limits;
use steadfast_partition::{Address, Effect, Envelope, Message, Performer, Router};
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

use crate::command::{Ask, Ended, Say};
use crate::order::{Order, Wish};
use crate::status::Claim;
use crate::sweeper;

/// Between two tries to have it recorded that an attempt is begun.
const PAUSE: Duration = Duration::from_millis(50);

/// What came of an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    pub is_success: bool,
    /// For people: what the other side said, or why nobody answered.
    pub message: String,
}

/// Carries attempts to wherever they go.
#[async_trait]
pub trait Deliver: Send + Sync + 'static {
    /// Which attempts share a bounded lane: those to one host.
    fn lane(&self, order: &Order) -> String;

    /// Makes one attempt. It ends in bounded time.
    async fn deliver(&self, order: &Order) -> Outcome;

    /// Whether this node may make attempts now. One that failed because it may not is
    /// made again by whoever may.
    fn may_send(&self) -> bool {
        true
    }
}

/// Performs the effects of jobs.
#[derive(Clone)]
pub struct Runner {
    inner: Arc<Inner>,
}

struct Inner {
    router: Arc<Router>,
    deliver: Arc<dyn Deliver>,
    clock: Arc<dyn Clock>,
    lanes: Mutex<Lanes>,
    /// Calls to all hosts.
    calls: Semaphore,
    /// Counts sweeps that have come to their end.
    swept: watch::Sender<u64>,
    /// How many calls are being made.
    running: watch::Sender<usize>,
    /// How often it began to work, with nothing left over.
    tenure: AtomicU64,
}

/// Where in the world an attempt is wanted, and its name there.
type Ticket = (Partition, Bytes);

#[derive(Default)]
struct Lanes {
    by_host: HashMap<String, Lane>,
    /// What is under way or waits; `None` while it waits.
    open: HashMap<Ticket, Option<AbortHandle>>,
    /// Nothing is begun: another node does it, or this one later.
    is_resting: bool,
    /// What was not begun since, while it may be that this node goes on.
    put_back: Option<Vec<Attempt>>,
}

#[derive(Default)]
struct Lane {
    running: usize,
    waiting: VecDeque<Attempt>,
}

struct Attempt {
    ticket: Ticket,
    from: Address,
    order: Order,
}

impl Runner {
    /// A runner that tells partitions of this node what came of their attempts.
    pub fn new(router: Arc<Router>, deliver: Arc<dyn Deliver>, clock: Arc<dyn Clock>) -> Self {
        let inner = Inner {
            router,
            deliver,
            clock,
            lanes: Mutex::default(),
            calls: Semaphore::new(limits::OUTBOUND_CALLS),
            swept: watch::channel(0).0,
            running: watch::channel(0).0,
            tenure: AtomicU64::new(0),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Rings when a sweep over a collection has come to its end.
    pub(crate) fn swept(&self) -> watch::Receiver<u64> {
        self.inner.swept.subscribe()
    }

    /// What time it is.
    pub(crate) fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// Begins nothing any more, and waits until nothing is under way, or the limit;
    /// answers how many calls are still made. What was not begun waits for
    /// [`Runner::resume`] if there are such calls; else it is forgotten: its rows are
    /// there.
    pub async fn rest(&self, limit: Duration) -> usize {
        {
            let mut guard = self.inner.lanes.lock();
            let lanes = &mut *guard;
            lanes.is_resting = true;
            lanes.open.retain(|_, task| task.is_some());
            let back = lanes.put_back.get_or_insert_default();
            for lane in lanes.by_host.values_mut() {
                back.extend(lane.waiting.drain(..));
            }
        }
        let mut running = self.inner.running.subscribe();
        let ended = running.wait_for(|running| *running == 0);
        let is_done = tokio::time::timeout(limit, ended).await.is_ok();
        if is_done {
            self.inner.lanes.lock().put_back = None;
            return 0;
        }
        *self.inner.running.borrow()
    }

    /// Begins nothing any more. What was not begun is forgotten: its rows are there.
    pub fn stop(&self) {
        let mut lanes = self.inner.lanes.lock();
        lanes.is_resting = true;
        lanes.put_back = None;
        lanes.open.retain(|_, task| task.is_some());
        for lane in lanes.by_host.values_mut() {
            lane.waiting.clear();
        }
    }

    /// Begins what is wanted from now on.
    pub fn work(&self) {
        let mut lanes = self.inner.lanes.lock();
        lanes.is_resting = false;
        lanes.put_back = None;
        self.inner.tenure.fetch_add(1, Ordering::AcqRel);
    }

    /// Goes on where it was before it rested: begins also what was not begun then.
    pub fn resume(&self) {
        let back = {
            let mut lanes = self.inner.lanes.lock();
            lanes.is_resting = false;
            lanes.put_back.take()
        };
        for attempt in back.into_iter().flatten() {
            self.inner.take(attempt);
        }
    }

    /// How many attempts are under way or wait for their turn.
    pub fn open(&self) -> usize {
        self.inner.lanes.lock().open.len()
    }
}

impl Performer for Runner {
    fn perform(&self, effect: Effect) {
        let Some(wish) = Wish::decode(&effect.body) else {
            tracing::error!(
                event = "jobs.wish_unreadable",
                from = %effect.from,
                "a wish of a job cannot be read",
            );
            return;
        };
        match (wish, effect.work) {
            (Wish::Attempt(mut order), Some(work)) => {
                order.epoch = effect.epoch.0;
                self.inner.take(Attempt {
                    ticket: (effect.partition, work),
                    from: effect.from,
                    order: *order,
                });
            }
            (Wish::Sweep { collection, sweep }, _) => {
                let inner = Arc::clone(&self.inner);
                tokio::spawn(async move {
                    let door = inner.router.door(effect.partition);
                    if let Some(door) = door
                        && let Err(error) = sweeper::sweep(&door, &collection, sweep).await
                    {
                        // The next owner begins it again.
                        tracing::warn!(
                            event = "jobs.sweep_ended_early",
                            %error,
                            "a sweep over a collection ended early",
                        );
                    }
                    inner.swept.send_modify(|count| *count += 1);
                });
            }
            (Wish::Cancel(work), _) => self.inner.cancel(&(effect.partition, work.into())),
            (Wish::Attempt(_), None) => {}
        }
    }
}

impl Inner {
    fn take(self: &Arc<Self>, attempt: Attempt) {
        let host = self.deliver.lane(&attempt.order);
        let mut lanes = self.lanes.lock();
        if lanes.is_resting {
            if let Some(back) = &mut lanes.put_back {
                back.push(attempt);
            }
            return;
        }
        if lanes.open.contains_key(&attempt.ticket) {
            return;
        }
        lanes.open.insert(attempt.ticket.clone(), None);
        let lane = lanes.by_host.entry(host.clone()).or_default();
        if lane.running >= limits::HOST_CALLS {
            lane.waiting.push_back(attempt);
            return;
        }
        lane.running += 1;
        self.start(&mut lanes, host, attempt);
    }

    fn start(self: &Arc<Self>, lanes: &mut Lanes, host: String, attempt: Attempt) {
        let ticket = attempt.ticket.clone();
        let place = Place {
            inner: Arc::clone(self),
            host,
            ticket: ticket.clone(),
        };
        let task = tokio::spawn(async move {
            let back = place.inner.attempt(attempt).await;
            let inner = Arc::clone(&place.inner);
            drop(place);
            if let Some(attempt) = back {
                inner.take(attempt);
            }
        });
        lanes.open.insert(ticket, Some(task.abort_handle()));
    }

    /// Makes an attempt, or gives it back if nothing is to be begun.
    async fn attempt(&self, attempt: Attempt) -> Option<Attempt> {
        let Ok(_permit) = self.calls.acquire().await else {
            return None;
        };
        let Some(_running) = self.run() else {
            return Some(attempt);
        };
        if attempt.order.is_once {
            match self.begin(&attempt).await {
                Some(true) => {}
                Some(false) => return None,
                None => {
                    tokio::time::sleep(PAUSE).await;
                    return Some(attempt);
                }
            }
        }
        let started = self.clock.now().0;
        let tenure = self.tenure.load(Ordering::Acquire);
        let order = &attempt.order;
        let outcome = self.deliver.deliver(order).await;
        if !outcome.is_success && !self.deliver.may_send() {
            return None;
        }
        if !outcome.is_success && tenure != self.tenure.load(Ordering::Acquire) {
            // It failed across a time in which others might: it is not known as failed.
            return Some(attempt);
        }
        let ended = Ended {
            claim: claim(order),
            is_success: outcome.is_success,
            message: outcome.message,
            started,
            ended: self.clock.now().0,
        };
        // If the partition is gone, its next owner makes the attempt again.
        if let Some(door) = self.router.door(attempt.ticket.0) {
            door.post(Envelope::new(attempt.from, Ask::Ended(ended).encode()));
        }
        None
    }

    /// Has it recorded that an attempt is begun which must not be made twice; answers
    /// whether it may be made, or `None` if that is not known.
    async fn begin(&self, attempt: &Attempt) -> Option<bool> {
        let Some(door) = self.router.door(attempt.ticket.0) else {
            // The next owner decides.
            return Some(false);
        };
        let ask = Ask::Begin(claim(&attempt.order));
        match door.call::<_, Say>(attempt.from.clone(), ask).await {
            Ok(said) => Some(said == Say::May(true)),
            Err(error) => {
                tracing::debug!(event = "jobs.not_begun", from = %attempt.from, %error);
                None
            }
        }
    }

    /// Counts a call, unless nothing is to be begun.
    fn run(&self) -> Option<Running<'_>> {
        let lanes = self.lanes.lock();
        if lanes.is_resting {
            return None;
        }
        self.running.send_modify(|running| *running += 1);
        Some(Running(&self.running))
    }

    /// A call has ended: the next of its host may begin.
    fn leave(self: &Arc<Self>, host: &str, ticket: &Ticket) {
        let mut lanes = self.lanes.lock();
        lanes.open.remove(ticket);
        let Some(lane) = lanes.by_host.get_mut(host) else {
            return;
        };
        match lane.waiting.pop_front() {
            Some(next) => self.start(&mut lanes, host.to_string(), next),
            None => {
                lane.running -= 1;
                if lane.running == 0 {
                    lanes.by_host.remove(host);
                }
            }
        }
    }

    fn cancel(&self, ticket: &Ticket) {
        let mut lanes = self.lanes.lock();
        if let Some(back) = &mut lanes.put_back {
            back.retain(|attempt| attempt.ticket != *ticket);
        }
        match lanes.open.get(ticket) {
            Some(Some(task)) => task.abort(),
            Some(None) => {
                lanes.open.remove(ticket);
                for lane in lanes.by_host.values_mut() {
                    lane.waiting.retain(|attempt| attempt.ticket != *ticket);
                }
            }
            None => {}
        }
    }
}

fn claim(order: &Order) -> Claim {
    Claim {
        ordinal: order.ordinal,
        phase: order.phase,
        attempt: order.attempt,
    }
}

/// A call that is counted, however it ends.
struct Running<'a>(&'a watch::Sender<usize>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

/// A place in a lane, given back however the call ends.
struct Place {
    inner: Arc<Inner>,
    host: String,
    ticket: Ticket,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.inner.leave(&self.host, &self.ticket);
    }
}
