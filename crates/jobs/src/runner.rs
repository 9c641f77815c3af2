//! Performs what the service wants done outside.
//!
//! Attempts to one host share a lane with a bounded number of calls, so that a
//! slow host delays nobody else. What an attempt came to is told to the partition
//! that wanted it, wherever that is by then. An attempt that is under way already is
//! not begun twice when its partition is loaded again, and one whose partition has
//! moved is left to the next owner.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use parking_lot::Mutex;
use steadfast_core::clock::{Clock, Timestamp};
use steadfast_core::limits;
use steadfast_core::task::named;
use steadfast_partition::{
    Door, Effect, Envelope, Error, ErrorKind, Message, Performer, Router, Transport,
};
use tokio::sync::{Semaphore, watch};

use crate::command::{Ask, Ended, Say};
use crate::lanes::{Attempt, Lanes, Ticket};
use crate::order::{Order, Wish};
use crate::status::Claim;
use crate::sweeper;

/// Before something is tried again that its partition could not do now.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a partition is looked for that is to hear what came of an attempt.
const TELLING: Duration = Duration::from_secs(10);

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

    /// Makes one attempt, in this tenure only. It ends in bounded time.
    async fn deliver(&self, order: &Order, tenure: u64) -> Outcome;

    /// In which tenure this node may make attempts now, if it may. One that failed
    /// because it may not is made again by whoever may.
    fn tenure(&self) -> Option<u64> {
        Some(0)
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
}

/// What is to be done after an attempt.
enum After {
    /// Nothing: its partition was told what came of it, in this tenure or a later one.
    Told(u64),
    /// It was not made, or nobody knows what came of it: who owns the partition makes
    /// it again.
    Left,
    /// It was not made, and is still wanted.
    Again(Box<Attempt>),
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
        self.inner.lanes.lock().rest();
        let mut running = self.inner.running.subscribe();
        let ended = running.wait_for(|running| *running == 0);
        let is_done = tokio::time::timeout(limit, ended).await.is_ok();
        if is_done {
            self.inner.lanes.lock().forget();
            return 0;
        }
        *self.inner.running.borrow()
    }

    /// Begins nothing any more. What was not begun is forgotten: its rows are there.
    pub fn stop(&self) {
        self.inner.lanes.lock().stop();
    }

    /// Begins what is wanted from now on.
    pub fn work(&self) {
        drop(self.inner.lanes.lock().resume());
    }

    /// Goes on where it was before it rested: begins also what was not begun then.
    pub fn resume(&self) {
        let back = self.inner.lanes.lock().resume();
        for attempt in back {
            self.inner.take(attempt);
        }
    }

    /// How many attempts are under way or wait for their turn.
    pub fn open(&self) -> usize {
        self.inner.lanes.lock().len()
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
                tokio::spawn(named(async move {
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
                }));
            }
            (Wish::Cancel(work), _) => self.inner.cancel(&(effect.partition, work.into())),
            (Wish::Attempt(_), None) => {}
        }
    }
}

impl Inner {
    fn take(self: &Arc<Self>, attempt: Attempt) {
        let host = self.deliver.lane(&attempt.order);
        let start = self.lanes.lock().enter(host, attempt);
        if let Some(attempt) = start {
            self.start(attempt);
        }
    }

    /// Starts an attempt whose turn it is. The lanes are not locked meanwhile: a runtime
    /// that is shut down drops what is spawned at once.
    fn start(self: &Arc<Self>, attempt: Attempt) {
        let (inner, ticket) = (Arc::clone(self), attempt.ticket.clone());
        let own = ticket.clone();
        let task = tokio::spawn(named(async move {
            let after = inner.attempt(attempt).await;
            inner.finish(&own, after);
        }));
        let is_wanted = self.lanes.lock().started(&ticket, task.abort_handle());
        if !is_wanted {
            task.abort();
            self.leave(&ticket);
        }
    }

    /// An attempt has ended: starts the next of its host, and the same one again if it is
    /// still wanted.
    fn finish(self: &Arc<Self>, ticket: &Ticket, after: After) {
        let starts = {
            let mut lanes = self.lanes.lock();
            let Some(left) = lanes.leave(ticket) else {
                return;
            };
            let again = match after {
                After::Told(epoch) => left.next.filter(|next| next.order.epoch > epoch),
                After::Left => left.next,
                After::Again(attempt) => left.next.or(Some(*attempt)),
            };
            let again = again.and_then(|again| {
                let host = self.deliver.lane(&again.order);
                lanes.enter(host, again)
            });
            [left.start, again]
        };
        for attempt in starts.into_iter().flatten() {
            self.start(attempt);
        }
    }

    /// An attempt was given up: starts the next of its host.
    fn leave(self: &Arc<Self>, ticket: &Ticket) {
        let left = self.lanes.lock().leave(ticket);
        if let Some(start) = left.and_then(|left| left.start) {
            self.start(start);
        }
    }

    fn cancel(self: &Arc<Self>, ticket: &Ticket) {
        let task = self.lanes.lock().cancel(ticket);
        if let Some(task) = task {
            task.abort();
            self.leave(ticket);
        }
    }

    /// Makes an attempt, if it is still to be made here.
    async fn attempt(&self, attempt: Attempt) -> After {
        let Ok(_permit) = self.calls.acquire().await else {
            return After::Left;
        };
        let Some(_running) = self.run() else {
            return After::Again(Box::new(attempt));
        };
        // In this order: a tenure that begins anew has given all partitions up before.
        let Some(tenure) = self.deliver.tenure() else {
            return After::Left;
        };
        let Some(door) = self.door(&attempt) else {
            return After::Left;
        };
        let order = &attempt.order;
        if order.is_once {
            match begin(&door, &attempt).await {
                Ok(true) => {}
                Ok(false) => return After::Left,
                Err(error) => {
                    tracing::debug!(event = "jobs.not_begun", from = %attempt.from, %error);
                    tokio::time::sleep(PAUSE).await;
                    return After::Again(Box::new(attempt));
                }
            }
        }
        let started = self.clock.now().0;
        let delivering = AssertUnwindSafe(self.deliver.deliver(order, tenure));
        let outcome = delivering.catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|_| Outcome {
            is_success: false,
            message: "the attempt broke off inside the server".into(),
        });
        if !outcome.is_success && self.deliver.tenure() != Some(tenure) {
            // It failed at a time at which others might: it is not known as failed.
            return After::Left;
        }
        let ended = Ended {
            claim: claim(order),
            is_success: outcome.is_success,
            message: outcome.message,
            started,
            ended: self.clock.now().0,
        };
        self.tell(&attempt, ended).await
    }

    /// The partition that wants an attempt, if it is here, in the tenure that wants it.
    fn door(&self, attempt: &Attempt) -> Option<Door> {
        let door = self.router.door(attempt.ticket.0)?;
        let ledger = door.ledger();
        let is_it = ledger.tenure().0 == attempt.order.epoch && ledger.check().is_ok();
        is_it.then_some(door)
    }

    /// Tells the partition that wanted it what came of an attempt, also if that has
    /// moved meanwhile.
    async fn tell(&self, attempt: &Attempt, ended: Ended) -> After {
        let envelope = Envelope::new(attempt.from.clone(), Ask::Ended(ended).encode());
        let partition = attempt.ticket.0;
        let telling = async {
            loop {
                match self.router.door(partition) {
                    Some(door) if door.ledger().check().is_ok() => {
                        let tenure = door.ledger().tenure();
                        door.post(envelope);
                        return After::Told(tenure.0);
                    }
                    // It is about to be given up, and comes back here or elsewhere.
                    Some(_) => {}
                    None => {
                        let called = self.router.call(partition, envelope.clone()).await;
                        if called.is_ok() {
                            return After::Told(u64::MAX);
                        }
                    }
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        // If the partition is nowhere, its next owner makes the attempt again.
        let told = tokio::time::timeout(TELLING, telling).await;
        told.unwrap_or(After::Left)
    }

    /// Counts a call, unless nothing is to be begun.
    fn run(&self) -> Option<Running<'_>> {
        let lanes = self.lanes.lock();
        if lanes.is_resting() {
            return None;
        }
        self.running.send_modify(|running| *running += 1);
        Some(Running(&self.running))
    }
}

fn claim(order: &Order) -> Claim {
    Claim {
        ordinal: order.ordinal,
        phase: order.phase,
        attempt: order.attempt,
    }
}

/// Has it recorded that an attempt is begun which must not be made twice; answers
/// whether it may be made.
async fn begin(door: &Door, attempt: &Attempt) -> Result<bool, Error> {
    let ask = Ask::Begin(claim(&attempt.order));
    let said = door.call::<_, Say>(attempt.from.clone(), ask).await;
    match said {
        Ok(said) => Ok(said == Say::May(true)),
        Err(error) if matches!(error.kind(), ErrorKind::Refused(_)) => {
            tracing::warn!(event = "jobs.begin_refused", from = %attempt.from, %error);
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// A call that is counted, however it ends.
struct Running<'a>(&'a watch::Sender<usize>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}
