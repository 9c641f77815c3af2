//! The owner loop: one task per partition.
//!
//! Each round handles some of everything that has arrived (durability, messages,
//! callers, timers) and then waits. It never waits for user code, disk or network:
//! those are futures beside it, whose results come in like everything else.
//!
//! The loop ends when the partition was drained, or when its ledger has failed.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use steadfast_core::backoff::Backoff;
use steadfast_core::clock::Clock;
use steadfast_core::id::{Lsn, Partition};
use steadfast_core::limits;
use steadfast_storage::{Error as StorageError, ErrorKind as StorageKind, Ledger};
use tokio::sync::{mpsc, oneshot, watch};

use crate::error::{Error, ErrorKind, Result};
use crate::execution::effect::{Effect, Performer};
use crate::execution::pending_effects::Timer;
use crate::execution::pinned_rows::RowAddress;
use crate::execution::sequencer::{OwnerJob, Sequencer};
use crate::execution::turn::Services;
use crate::ingress::address::Address;
use crate::ingress::command::{Command, Suspension};
use crate::ingress::control::{BatchReceipt, ControlMessage, ControlSender};
use crate::ingress::router::Router;
use crate::ingress::space::Space;
use crate::ingress::transport::{MessageBatch, NodeTransport};
use crate::metrics::{Metrics, count, raise};
use crate::owner::alarm::Alarm;
use crate::owner::idle::IdleReport;
use crate::owner::load::{self, InitialState};

/// Dependencies of an owner loop.
pub(crate) struct OwnerParts {
    pub(crate) ledger: Ledger,
    pub(crate) space: Arc<Space>,
    pub(crate) services: Arc<Services>,
    pub(crate) performer: Arc<dyn Performer>,
    pub(crate) router: Arc<Router>,
    /// Sends control messages back to the loop.
    pub(crate) control: ControlSender,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Arc<Metrics>,
}

/// Why a loop has ended.
#[derive(Debug)]
pub(crate) enum LoopEnd {
    /// Everything that was in progress is done.
    Drained,
    /// It received a stop message.
    Stopped,
    /// The ledger has failed.
    Failed(StorageError),
}

pub(crate) struct OwnerLoop {
    parts: OwnerParts,
    sequencer: Sequencer,
    calls: mpsc::Receiver<Command>,
    posts: mpsc::UnboundedReceiver<ControlMessage>,
    /// A control message that ended the last wait.
    posted: VecDeque<ControlMessage>,
    durable: watch::Receiver<Lsn>,
    /// Commands of callers that have just arrived.
    fresh: Vec<Command>,
    /// Commands of callers that run next.
    arrived: VecDeque<Command>,
    /// When the last round began.
    looked_up: Duration,
    /// Futures that the loop waits for.
    pending: FuturesUnordered<Pin<Box<dyn Future<Output = LoopCompletion> + Send>>>,
    /// Work that was open when the partition was loaded.
    work: Vec<Effect>,
    is_draining: bool,
    alarm: Alarm,
    /// Who waits until there is nothing to do; on virtual time only.
    idle_waiters: Vec<oneshot::Sender<IdleReport>>,
}

/// The result of a future that the loop waited for.
enum LoopCompletion {
    Rows(Address, Vec<(RowAddress, Option<Bytes>)>),
    Timers(Vec<Timer>, Option<Bytes>),
    TimersAhead(Vec<Timer>, Option<Bytes>),
    Messages(Partition, Vec<(u64, Bytes)>, bool),
    Delivered(Partition, u64),
    Undelivered(Partition),
}

/// How long the loop sleeps while the log is full.
const STALL: Duration = Duration::from_millis(5);

/// How soon a batch that has not arrived is sent again.
const RETRY: Duration = Duration::from_millis(5);

/// The longest sleep: the wall clock may have been set during it.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

impl OwnerLoop {
    /// Loads a partition; no effect has been performed yet.
    pub(crate) async fn load(
        parts: OwnerParts,
        calls: mpsc::Receiver<Command>,
        posts: mpsc::UnboundedReceiver<ControlMessage>,
    ) -> Result<Self> {
        let sequencer = sequencer(&parts);
        let opening = load::initial_state(&parts.ledger).await?;
        let mut owner = Self {
            durable: parts.ledger.durable(),
            pending: FuturesUnordered::new(),
            posted: VecDeque::new(),
            fresh: Vec::with_capacity(limits::TURN_COMMANDS),
            arrived: VecDeque::with_capacity(limits::TURN_COMMANDS),
            looked_up: parts.clock.monotonic(),
            work: Vec::new(),
            is_draining: false,
            alarm: Alarm::new(LONGEST_SLEEP),
            idle_waiters: Vec::new(),
            parts,
            sequencer,
            calls,
            posts,
        };
        owner.open(opening);
        Ok(owner)
    }

    /// Serves the partition, whose mailbox is open, until it is drained or lost.
    pub(crate) async fn run(mut self) -> LoopEnd {
        self.perform();
        self.looked_up = self.parts.clock.monotonic();
        loop {
            let has_more = self.round();
            if self.sequencer.is_stale {
                if let Err(error) = self.reload().await {
                    return self.fail(error);
                }
                continue;
            }
            if let Some(error) = self.parts.ledger.failure() {
                return self.fail(error);
            }
            if self.is_draining && self.is_quiet() {
                return self.end(LoopEnd::Drained);
            }
            if has_more {
                tokio::task::yield_now().await
            } else {
                self.report_idle();
                self.wait().await
            }
            self.looked_up = self.parts.clock.monotonic();
            if self.take_in() {
                return self.end(LoopEnd::Stopped);
            }
        }
    }

    /// Handles some of everything that has arrived; answers whether there is more.
    fn round(&mut self) -> bool {
        let (clock, end) = (&self.parts.clock, self.looked_up + limits::TURN_TIME);
        let began = clock.thread_cpu_time();
        let is_over = || clock.monotonic() >= end;
        let sequencer = &mut self.sequencer;
        sequencer.look_at_clock();
        let durable = *self.durable.borrow_and_update();
        let mut has_more = sequencer.release(durable, &is_over);
        sequencer.retry_stalled(self.is_draining);
        has_more |= sequencer.run_lanes(&is_over);
        // Timers and messages are rows: they are left to the next owner.
        if !self.is_draining {
            has_more |= sequencer.fire(&is_over);
        }
        has_more |= sequencer.accept_some(&mut self.arrived, &is_over);
        if !self.is_draining {
            has_more |= sequencer.work_off(&is_over);
        }
        // Some outputs depend on nothing that is still being written.
        let durable = *self.durable.borrow_and_update();
        has_more |= sequencer.release(durable, &is_over);
        sequencer.measure();
        for job in sequencer.take_jobs() {
            self.begin(job);
        }
        let took = self.parts.clock.monotonic().saturating_sub(self.looked_up);
        let metrics = &self.parts.metrics;
        raise(&metrics.longest_turn_us, took.as_micros() as u64);
        // CPU time cannot exceed elapsed time, and reading it costs a system call.
        if metrics.may_be_longest_work(took) {
            let worked = self.parts.clock.thread_cpu_time().saturating_sub(began);
            raise(&metrics.longest_work_us, worked.as_micros() as u64);
        }
        has_more && !self.sequencer.is_stalled()
    }

    /// Waits until there is something to do.
    async fn wait(&mut self) {
        let sleep = self.sleep();
        let alarm = self.alarm.within(sleep);
        let has_calls = !self.calls.is_closed() || !self.calls.is_empty();
        tokio::select! {
            biased;
            changed = self.durable.changed() => drop(changed),
            Some(done) = self.pending.next(), if !self.pending.is_empty() => self.finish(done),
            Some(post) = self.posts.recv() => self.posted.push_back(post),
            _ = self.calls.recv_many(&mut self.fresh, limits::TURN_COMMANDS),
                if has_calls && self.sequencer.has_room() => {}
            () = alarm => {}
        }
    }

    /// Takes in some of what has arrived in the meantime, without waiting; answers
    /// whether to stop.
    fn take_in(&mut self) -> bool {
        self.arrived.extend(self.fresh.drain(..));
        for _ in 0..limits::TURN_COMMANDS {
            let Some(Some(done)) = self.pending.next().now_or_never() else {
                break;
            };
            self.finish(done);
        }
        for _ in 0..limits::TURN_COMMANDS {
            let post = self.posted.pop_front();
            let Some(post) = post.or_else(|| self.posts.try_recv().ok()) else {
                break;
            };
            if self.take(post) {
                return true;
            }
        }
        let room = limits::TURN_COMMANDS.saturating_sub(self.arrived.len());
        if room > 0 && self.sequencer.has_room() {
            // Receiving calls one by one would lock the queue each time.
            let _ = self.calls.recv_many(&mut self.fresh, room).now_or_never();
            self.arrived.extend(self.fresh.drain(..));
        }
        false
    }

    /// The time until a timer is due or a stalled command is retried.
    fn sleep(&self) -> Duration {
        if !self.sequencer.stalled.is_empty() {
            return STALL;
        }
        let due = self.sequencer.timers.next_due();
        // A draining owner leaves timers to the next one.
        let Some(due) = due.filter(|_| !self.is_draining) else {
            return LONGEST_SLEEP;
        };
        let now = self.parts.ledger.time().max(self.sequencer.now);
        let wait = due.0.saturating_sub(now.0).max(0);
        Duration::from_millis(wait as u64).min(LONGEST_SLEEP)
    }

    fn take(&mut self, post: ControlMessage) -> bool {
        match post {
            ControlMessage::Batch(_, reply) if self.is_draining => {
                let partition = self.parts.ledger.partition();
                // The sender retries at the next owner.
                reply.send(Err(Error::new(ErrorKind::Draining { partition })));
            }
            ControlMessage::Batch(parcel, reply) => self.sequencer.receive(parcel, reply),
            ControlMessage::Handled(to, Some(handled)) => self.sequencer.delivered(to, handled),
            ControlMessage::Handled(to, None) => self.pending.push(Box::pin(async move {
                tokio::time::sleep(RETRY).await;
                LoopCompletion::Undelivered(to)
            })),
            ControlMessage::Completed(lane, number, returned) => {
                self.sequencer.returned(lane, number, returned);
            }
            ControlMessage::Command(command) => self.sequencer.accept(*command),
            ControlMessage::AwaitIdle(waiter) => {
                self.sequencer.fired.get_or_insert_default();
                self.idle_waiters.push(waiter);
            }
            ControlMessage::Drain => {
                self.is_draining = true;
                self.calls.close();
            }
            ControlMessage::Stop => return true,
        }
        false
    }

    fn begin(&mut self, job: OwnerJob) {
        let ledger = self.parts.ledger.clone();
        match job {
            OwnerJob::Rows { lane, rows } => self.pending.push(Box::pin(async move {
                LoopCompletion::Rows(lane, load::rows(ledger, rows).await)
            })),
            OwnerJob::Timers { from, after } => self.pending.push(Box::pin(async move {
                let limit = limits::NEAR_TIMERS / 2;
                let (timers, next) = load::timers(ledger, from, limit, after).await;
                LoopCompletion::Timers(timers, next)
            })),
            OwnerJob::TimersAhead { from, after } => self.pending.push(Box::pin(async move {
                let limit = limits::FRESH_TIMERS;
                let (timers, next) = load::timers(ledger, from, limit, after).await;
                LoopCompletion::TimersAhead(timers, next)
            })),
            OwnerJob::Messages { to, from } => self.pending.push(Box::pin(async move {
                let (messages, is_last) = load::messages(ledger, to, from).await;
                LoopCompletion::Messages(to, messages, is_last)
            })),
            OwnerJob::Deliver { to, parcel } => self.deliver(to, parcel),
            OwnerJob::Perform(effect) => self.parts.performer.perform(effect),
        }
    }

    /// Sends a batch. A partition of this node acknowledges it by a control message,
    /// which costs much less than a future that waits.
    fn deliver(&mut self, to: Partition, parcel: MessageBatch) {
        let OwnerParts {
            router,
            control: posts,
            ..
        } = &self.parts;
        if let Some(door) = router.mailbox(to) {
            door.send_control(ControlMessage::Batch(
                parcel,
                BatchReceipt::near(posts.clone(), to),
            ));
            return;
        }
        let delivery = deliver(Arc::clone(router), to, parcel);
        self.pending.push(Box::pin(async move {
            LoopCompletion::Delivered(to, delivery.await)
        }));
    }

    fn finish(&mut self, done: LoopCompletion) {
        let sequencer = &mut self.sequencer;
        match done {
            LoopCompletion::Rows(lane, rows) => sequencer.rows_loaded(&lane, rows),
            LoopCompletion::Timers(timers, next) => sequencer.timers_loaded(timers, next),
            LoopCompletion::TimersAhead(timers, next) => sequencer.timers_looked(timers, next),
            LoopCompletion::Messages(to, messages, is_last) => {
                sequencer.messages_loaded(to, messages, is_last);
            }
            LoopCompletion::Delivered(to, handled) => sequencer.delivered(to, handled),
            LoopCompletion::Undelivered(to) => sequencer.undelivered(to),
        }
    }

    /// Staged writes were rolled back: loads the state from the rows again.
    async fn reload(&mut self) -> std::result::Result<(), StorageError> {
        count(&self.parts.metrics.rollbacks);
        let durable = *self.durable.borrow_and_update();
        let partition = self.parts.ledger.partition();
        let error = StorageError::new(StorageKind::RolledBack { partition }).into();
        let rest = self.sequencer.dissolve(durable, &error);
        for job in self.sequencer.take_jobs() {
            if let OwnerJob::Perform(effect) = job {
                self.parts.performer.perform(effect);
            }
        }
        self.pending.clear();
        let late = std::mem::take(&mut self.sequencer.next_call);
        let fired = self.sequencer.fired.take();
        self.sequencer = sequencer(&self.parts);
        self.sequencer.next_call = late;
        self.sequencer.fired = fired;
        let opening = load::initial_state(&self.parts.ledger).await?;
        self.open(opening);
        self.perform();
        for mut command in rest {
            // The results of suspended commands were computed from rows that were
            // rolled back.
            command.suspension = Suspension::None;
            self.sequencer.accept(command);
        }
        Ok(())
    }

    fn open(&mut self, opening: InitialState) {
        self.sequencer.restore(&opening.sent, &opening.received);
        self.work = opening.work;
    }

    /// Performs the work that was open. Its completions arrive through the mailbox.
    fn perform(&mut self) {
        for effect in std::mem::take(&mut self.work) {
            self.parts.performer.perform(effect);
        }
    }

    /// Answers those who wait until there is nothing to do, if there is nothing.
    fn report_idle(&mut self) {
        if self.idle_waiters.is_empty() {
            return;
        }
        let has_no_calls = self.arrived.is_empty() && self.calls.is_empty();
        let has_no_posts = self.posted.is_empty() && self.posts.is_empty();
        let has_nothing = has_no_calls && has_no_posts && self.pending.is_empty();
        if !(has_nothing && self.sequencer.is_idle()) {
            return;
        }
        let next_due = self.sequencer.timers.next_due();
        let commands = self.parts.metrics.counts().commands;
        for waiter in self.idle_waiters.drain(..) {
            let mut fired = self.sequencer.fired.take().unwrap_or_default();
            let report = fired.report(next_due, commands);
            self.sequencer.fired = Some(fired);
            // It may have stopped waiting.
            let _ = waiter.send(report);
        }
    }

    fn is_quiet(&mut self) -> bool {
        self.sequencer.is_quiet() && self.arrived.is_empty() && self.calls.is_empty()
    }

    fn fail(self, error: StorageError) -> LoopEnd {
        self.end(LoopEnd::Failed(error))
    }

    /// Answers every waiting caller.
    fn end(mut self, end: LoopEnd) -> LoopEnd {
        let durable = *self.durable.borrow_and_update();
        let partition = self.parts.ledger.partition();
        let error = match &end {
            LoopEnd::Failed(error) => Error::unknown(partition, Some(error.clone())),
            LoopEnd::Stopped => Error::unknown(partition, None),
            LoopEnd::Drained => Error::new(ErrorKind::Draining { partition }),
        };
        let mut rest = self.sequencer.dissolve(durable, &error);
        rest.extend(self.arrived.drain(..));
        self.calls.close();
        while let Ok(command) = self.calls.try_recv() {
            rest.push(command);
        }
        // These never ran, so their callers may safely send them again.
        let away = Error::new(ErrorKind::Draining { partition });
        for command in rest {
            command.origin.refuse(&away);
        }
        end
    }
}

fn sequencer(parts: &OwnerParts) -> Sequencer {
    Sequencer::new(
        parts.ledger.clone(),
        Arc::clone(&parts.space),
        Arc::clone(&parts.services),
        Arc::clone(&parts.metrics),
        Arc::clone(&parts.performer),
        parts.control.clone(),
    )
}

/// Sends a batch to its destination, retrying until it has arrived.
async fn deliver(transport: Arc<Router>, to: Partition, parcel: MessageBatch) -> u64 {
    let mut backoff = Backoff::new(RETRY, Duration::from_secs(1));
    loop {
        match transport.deliver(to, parcel.clone()).await {
            Ok(handled) => return handled,
            Err(error) => {
                tracing::debug!(
                    event = "partition.parcel_retried",
                    %to,
                    %error,
                    "a message batch did not arrive; it is sent again",
                );
                tokio::time::sleep(backoff.pause()).await;
            }
        }
    }
}
