//! Performs the external effects of jobs.
//!
//! Attempts to one host share a lane with a bounded number of calls, so that a slow
//! host delays no other host. The result of an attempt is reported to the partition
//! that requested it, at its current owner. A running attempt is not started twice
//! when its partition is loaded again, and one whose partition has moved is left to
//! the next owner.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use parking_lot::Mutex;
use steadfast_core::clock::{Clock, Timestamp};
use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_partition::{
    Effect, Envelope, Error, ErrorKind, Mailbox, Message, NodeTransport, Performer, Router,
};
use tokio::sync::{Semaphore, watch};

use crate::command::{AttemptResult, JobCommand, JobResponse};
use crate::delivery_request::{DeliveryRequest, JobEffect};
use crate::host_lanes::{AttemptKey, HostLanes, JobAttempt};
use crate::status::AttemptId;
use crate::sweeper;

/// Delay before a retry after a transient error of the partition.
const PAUSE: Duration = Duration::from_millis(100);

/// How long the result of an attempt is retried until its partition is found.
const TELLING: Duration = Duration::from_secs(10);

/// The outcome of an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    pub is_success: bool,
    /// Human-readable: the response of the target, or why there was none.
    pub message: String,
}

/// Delivers attempts to their targets.
#[async_trait]
pub trait Deliverer: Send + Sync + 'static {
    /// The lane of an attempt: attempts to one host share it.
    fn lane(&self, order: &DeliveryRequest) -> String;

    /// Makes one attempt, in this tenure only. It ends in bounded time.
    async fn deliver(&self, order: &DeliveryRequest, tenure: u64) -> Outcome;

    /// The tenure in which this node may deliver attempts now, if any. An attempt that
    /// failed without a tenure is repeated by the node that has one.
    fn tenure(&self) -> Option<u64> {
        Some(0)
    }
}

/// Performs the external effects of jobs.
#[derive(Clone)]
pub struct JobRunner {
    inner: Arc<Inner>,
}

struct Inner {
    router: Arc<Router>,
    deliver: Arc<dyn Deliverer>,
    clock: Arc<dyn Clock>,
    lanes: Mutex<HostLanes>,
    /// Calls to all hosts.
    calls: Semaphore,
    /// Counts completed sweeps.
    swept: watch::Sender<u64>,
    /// The number of running calls.
    running: watch::Sender<usize>,
}

/// The follow-up of an attempt.
enum AttemptFollowUp {
    /// None: the result was reported to the partition, in this tenure or a later one.
    Reported(u64),
    /// It was not started, or its result is unknown: the owner of the partition repeats
    /// it.
    Abandoned,
    /// It was not started, and is still requested.
    Retry(Box<JobAttempt>),
}

impl JobRunner {
    /// A runner that reports results to the partitions through `router`.
    pub fn new(router: Arc<Router>, deliver: Arc<dyn Deliverer>, clock: Arc<dyn Clock>) -> Self {
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

    /// Changes when a sweep over a collection completes.
    pub(crate) fn swept(&self) -> watch::Receiver<u64> {
        self.inner.swept.subscribe()
    }

    /// The current time.
    pub(crate) fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// Stops starting attempts, and waits until no call is running, at most for the limit;
    /// returns the number of calls still running. If there are any, waiting attempts are
    /// kept for [`JobRunner::resume`]; else they are dropped, because their rows are stored.
    pub async fn drain(&self, limit: Duration) -> usize {
        self.inner.lanes.lock().pause();
        let mut running = self.inner.running.subscribe();
        let ended = running.wait_for(|running| *running == 0);
        let is_done = tokio::time::timeout(limit, ended).await.is_ok();
        if is_done {
            self.inner.lanes.lock().forget();
            return 0;
        }
        *self.inner.running.borrow()
    }

    /// Stops starting attempts, and drops waiting ones: their rows are stored.
    pub fn stop(&self) {
        self.inner.lanes.lock().stop();
    }

    /// Starts attempts requested from now on.
    pub fn activate(&self) {
        drop(self.inner.lanes.lock().resume());
    }

    /// Resumes after a drain: starts the attempts kept since then, too.
    pub fn resume(&self) {
        let back = self.inner.lanes.lock().resume();
        for attempt in back {
            self.inner.take(attempt);
        }
    }

    /// The number of running and waiting attempts.
    pub fn open(&self) -> usize {
        self.inner.lanes.lock().len()
    }
}

impl Performer for JobRunner {
    fn perform(&self, effect: Effect) {
        let Some(wish) = JobEffect::decode(&effect.body) else {
            tracing::error!(
                event = "jobs.wish_unreadable",
                from = %effect.from,
                "an effect of a job cannot be decoded",
            );
            return;
        };
        match (wish, effect.work) {
            (JobEffect::Attempt(mut order), Some(work)) => {
                order.epoch = effect.epoch.0;
                self.inner.take(JobAttempt {
                    ticket: (effect.partition, work),
                    from: effect.from,
                    order: *order,
                });
            }
            (JobEffect::Sweep { collection, sweep }, _) => {
                let inner = Arc::clone(&self.inner);
                tokio::spawn(name_task(async move {
                    let door = inner.router.mailbox(effect.partition);
                    if let Some(door) = door
                        && let Err(error) = sweeper::sweep(&door, &collection, sweep).await
                    {
                        // The next owner restarts it.
                        tracing::warn!(
                            event = "jobs.sweep_ended_early",
                            %error,
                            "a sweep over a collection ended early",
                        );
                    }
                    inner.swept.send_modify(|count| *count += 1);
                }));
            }
            (JobEffect::Cancel(work), _) => self.inner.cancel(&(effect.partition, work.into())),
            (JobEffect::Attempt(_), None) => {}
        }
    }
}

impl Inner {
    fn take(self: &Arc<Self>, attempt: JobAttempt) {
        let host = self.deliver.lane(&attempt.order);
        let start = self.lanes.lock().enter(host, attempt);
        if let Some(attempt) = start {
            self.start(attempt);
        }
    }

    /// Starts an attempt without holding the lock of the lanes: a runtime that is shutting
    /// down drops a spawned task at once.
    fn start(self: &Arc<Self>, attempt: JobAttempt) {
        let (inner, ticket) = (Arc::clone(self), attempt.ticket.clone());
        let own = ticket.clone();
        let task = tokio::spawn(name_task(async move {
            let after = inner.attempt(attempt).await;
            inner.finish(&own, after);
        }));
        let is_wanted = self.lanes.lock().started(&ticket, task.abort_handle());
        if !is_wanted {
            task.abort();
            self.leave(&ticket);
        }
    }

    /// Handles the end of an attempt: starts the next of its host, and the same one again
    /// if it is still requested.
    fn finish(self: &Arc<Self>, ticket: &AttemptKey, after: AttemptFollowUp) {
        let starts = {
            let mut lanes = self.lanes.lock();
            let Some(left) = lanes.leave(ticket) else {
                return;
            };
            let again = match after {
                AttemptFollowUp::Reported(epoch) => {
                    left.next.filter(|next| next.order.epoch > epoch)
                }
                AttemptFollowUp::Abandoned => left.next,
                AttemptFollowUp::Retry(attempt) => left.next.or(Some(*attempt)),
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

    /// Handles a cancelled attempt: starts the next of its host.
    fn leave(self: &Arc<Self>, ticket: &AttemptKey) {
        let left = self.lanes.lock().leave(ticket);
        if let Some(start) = left.and_then(|left| left.start) {
            self.start(start);
        }
    }

    fn cancel(self: &Arc<Self>, ticket: &AttemptKey) {
        let task = self.lanes.lock().cancel(ticket);
        if let Some(task) = task {
            task.abort();
            self.leave(ticket);
        }
    }

    /// Delivers an attempt, if this node is still responsible for it.
    async fn attempt(&self, attempt: JobAttempt) -> AttemptFollowUp {
        let Ok(_permit) = self.calls.acquire().await else {
            return AttemptFollowUp::Abandoned;
        };
        let Some(_running) = self.run() else {
            return AttemptFollowUp::Retry(Box::new(attempt));
        };
        // In this order: a new tenure starts only after all partitions were released.
        let Some(tenure) = self.deliver.tenure() else {
            return AttemptFollowUp::Abandoned;
        };
        let Some(door) = self.mailbox(&attempt) else {
            return AttemptFollowUp::Abandoned;
        };
        let order = &attempt.order;
        if order.is_once {
            match begin(&door, &attempt).await {
                Ok(true) => {}
                Ok(false) => return AttemptFollowUp::Abandoned,
                Err(error) => {
                    tracing::debug!(event = "jobs.not_begun", from = %attempt.from, %error);
                    tokio::time::sleep(PAUSE).await;
                    return AttemptFollowUp::Retry(Box::new(attempt));
                }
            }
        }
        let started = self.clock.now().0;
        let delivering = AssertUnwindSafe(self.deliver.deliver(order, tenure));
        let outcome = delivering.catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|_| Outcome {
            is_success: false,
            message: "the attempt was aborted inside the server".into(),
        });
        if !outcome.is_success && self.deliver.tenure() != Some(tenure) {
            // Another node may deliver by now: the failure is not final.
            return AttemptFollowUp::Abandoned;
        }
        let ended = AttemptResult {
            claim: claim(order),
            is_success: outcome.is_success,
            message: outcome.message,
            started,
            ended: self.clock.now().0,
        };
        self.report_result(&attempt, ended).await
    }

    /// The mailbox of the requesting partition, if this node serves it in the requesting
    /// tenure.
    fn mailbox(&self, attempt: &JobAttempt) -> Option<Mailbox> {
        let door = self.router.mailbox(attempt.ticket.0)?;
        let ledger = door.ledger();
        let is_it = ledger.tenure().0 == attempt.order.epoch && ledger.check().is_ok();
        is_it.then_some(door)
    }

    /// Reports the result of an attempt to the partition that requested it, even if it
    /// has moved.
    async fn report_result(&self, attempt: &JobAttempt, ended: AttemptResult) -> AttemptFollowUp {
        let envelope = Envelope::new(
            attempt.from.clone(),
            JobCommand::AttemptEnded(ended).encode(),
        );
        let partition = attempt.ticket.0;
        let telling = async {
            loop {
                match self.router.mailbox(partition) {
                    Some(door) if door.ledger().check().is_ok() => {
                        let tenure = door.ledger().tenure();
                        door.post(envelope);
                        return AttemptFollowUp::Reported(tenure.0);
                    }
                    // The partition is being released, and reopens here or elsewhere.
                    Some(_) => {}
                    None => {
                        let called = self.router.call(partition, envelope.clone()).await;
                        if called.is_ok() {
                            return AttemptFollowUp::Reported(u64::MAX);
                        }
                    }
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        // If the partition has no owner now, its next owner repeats the attempt.
        let told = tokio::time::timeout(TELLING, telling).await;
        told.unwrap_or(AttemptFollowUp::Abandoned)
    }

    /// Counts a call, unless the runner is paused.
    fn run(&self) -> Option<CallGuard<'_>> {
        let lanes = self.lanes.lock();
        if lanes.is_resting() {
            return None;
        }
        self.running.send_modify(|running| *running += 1);
        Some(CallGuard(&self.running))
    }
}

fn claim(order: &DeliveryRequest) -> AttemptId {
    AttemptId {
        ordinal: order.ordinal,
        phase: order.phase,
        attempt: order.attempt,
    }
}

/// Records the start of an at-most-once attempt at its partition; returns whether it
/// may be delivered.
async fn begin(door: &Mailbox, attempt: &JobAttempt) -> Result<bool, Error> {
    let ask = JobCommand::Begin(claim(&attempt.order));
    let said = door.call::<_, JobResponse>(attempt.from.clone(), ask).await;
    match said {
        Ok(said) => Ok(said == JobResponse::Permission(true)),
        Err(error) if matches!(error.kind(), ErrorKind::Refused(_)) => {
            tracing::warn!(event = "jobs.begin_refused", from = %attempt.from, %error);
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// A guard that counts a running call.
struct CallGuard<'a>(&'a watch::Sender<usize>);

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}
