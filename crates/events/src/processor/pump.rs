//! Handles one partition, event after event.
//!
//! Events are handled in order, and those of a failed attempt come again, one by
//! one, until they succeed or are parked. A checkpoint is only ever moved from where
//! this task believes it to be; if it is elsewhere, by a reset or by another owner,
//! the task starts again from there.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use steadfast_partition::Envelope;
use tokio::sync::{Notify, watch};

use crate::attach::Attach;
use crate::batch::Publication;
use crate::checkpoint::Condition;
use crate::error::{Error, Kind, Result};
use crate::parked::Parked;
use crate::position::Position;
use crate::processor::handler::{CloseReason, Context, Handled, Handler, Opening, Received};
use crate::processor::options::Guarantee;
use crate::processor::progress::Progress;
use crate::processor::work::{Work, parked};
use crate::reader::Reader;

/// How the work on a partition goes on.
enum Next {
    /// It is over.
    Over(CloseReason),
    /// Read on from where it stands.
    Again,
    /// Read on from the checkpoint, which somebody has moved.
    FromCheckpoint,
}

/// How an attempt ended.
enum Attempt {
    Done,
    /// The handler failed.
    Failed(String),
    /// The state underneath failed; it is nobody's fault.
    Unavailable(Error),
    /// The checkpoint is not where it should be.
    Moved,
}

/// What ended a wait.
enum Woken {
    Ended,
    Rung,
    Due,
    Events(Result<()>),
}

struct Pump<H> {
    work: Arc<Work<H>>,
    partition: u32,
    scope: Arc<str>,
    ended: watch::Receiver<Option<CloseReason>>,
    /// Rings when parked events shall be handled again.
    bell: Arc<Notify>,
    progress: Progress,
    /// The sequence number of the next event, once that is known.
    next: Option<i64>,
}

/// Handles a partition until it is ended or lost.
pub(crate) async fn run<H: Handler>(
    work: Arc<Work<H>>,
    partition: u32,
    ended: watch::Receiver<Option<CloseReason>>,
) {
    let spot = work.hubs.spot(&work.known, &work.group, partition);
    let bell = work.hubs.inner.live.hang_bell(&spot);
    let mut pump = Pump {
        scope: work.scope(partition).into(),
        progress: Progress::new(work.options.checkpoint, -1),
        work,
        partition,
        ended,
        bell,
        next: None,
    };
    let why = pump.serve().await;
    if let Some(last) = pump.progress.last()
        && let Err(error) = pump.checkpoint(last).await
    {
        pump.report("write the last checkpoint", &error, 0).await;
    }
    let closing = pump.work.handler.close(partition, why);
    if caught(closing.map(|()| Ok(()))).await.is_err() {
        tracing::warn!(partition, "a close handler panicked");
    }
    pump.work.hubs.inner.live.take_bell(&spot, &pump.bell);
}

impl<H: Handler> Pump<H> {
    async fn serve(&mut self) -> CloseReason {
        let mut attempts = 0;
        let start = loop {
            match self.open().await {
                Ok(start) => break start,
                Err(error) => {
                    attempts += 1;
                    self.report("open a partition", &error, attempts).await;
                    if let Some(why) = self.pause(attempts).await {
                        return why;
                    }
                }
            }
        };
        let mut failures = 0;
        loop {
            let position = match self.next {
                Some(next) => Position::Sequence {
                    sequence: next - 1,
                    inclusive: false,
                },
                None => start,
            };
            match self.read(position, &mut failures).await {
                Next::Over(why) => return why,
                Next::Again => {}
                Next::FromCheckpoint => match self.look_up().await {
                    Ok(checkpoint) => self.next = checkpoint.map(|sequence| sequence + 1),
                    Err(error) => self.report("read the checkpoint", &error, 0).await,
                },
            }
        }
    }

    /// Finds out where to start, and tells the handler.
    async fn open(&mut self) -> Result<Position> {
        let checkpoint = self.look_up().await?;
        let start = match checkpoint {
            Some(sequence) => Position::Sequence {
                sequence,
                inclusive: false,
            },
            None => self.work.options.start_of(self.partition),
        };
        let mut opening = Opening {
            partition: self.partition,
            start,
        };
        let opened = caught(self.work.handler.open(&mut opening)).await;
        opened.map_err(|failure| Error::new(Kind::HandlerFailed, failure.to_string()))?;
        Ok(opening.start)
    }

    /// Where the checkpoint is.
    async fn look_up(&mut self) -> Result<Option<i64>> {
        let work = &self.work;
        let (hub, group) = (&work.known.hub.name, &work.group);
        let found = work.hubs.checkpoint(hub, group, self.partition).await?;
        let sequence = found.map(|checkpoint| checkpoint.sequence);
        self.progress = Progress::new(work.options.checkpoint, sequence.unwrap_or(-1));
        Ok(sequence)
    }

    /// Attaches a reader and handles what it brings.
    async fn read(&mut self, position: Position, failures: &mut u32) -> Next {
        let owner = &self.work.options.owner;
        let attach = Attach::at(position).epoch(0).named(owner).owned_by(owner);
        let (hub, group) = (&self.work.known.hub.name, &self.work.group);
        let reader = self.work.hubs.reader(hub, group, self.partition, attach);
        let error = match reader.await {
            Ok(mut reader) => {
                self.next = Some(reader.position());
                match self.follow(&mut reader).await {
                    Ok(next) => {
                        *failures = 0;
                        return next;
                    }
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        *failures += 1;
        self.recover(error, *failures).await
    }

    /// What to do when reading has failed.
    async fn recover(&mut self, error: Error, failures: u32) -> Next {
        if let Some(why) = *self.ended.borrow() {
            return Next::Over(why);
        }
        match error.kind() {
            Kind::CheckpointMoved => return Next::FromCheckpoint,
            Kind::Displaced if !self.is_owner().await => {
                return Next::Over(CloseReason::OwnershipLost);
            }
            Kind::PositionBeyondEnd => {
                // The events are gone, and new ones count from the beginning.
                self.report("start behind the last event", &error, failures)
                    .await;
                self.next = Some(0);
            }
            _ => self.report("read", &error, failures).await,
        }
        match self.pause(failures).await {
            Some(why) => Next::Over(why),
            None => Next::Again,
        }
    }

    async fn is_owner(&self) -> bool {
        let work = &self.work;
        let (hub, group) = (&work.known.hub.name, &work.group);
        match work.hubs.ownerships(hub, group).await {
            Ok(found) => found.iter().any(|ownership| {
                ownership.partition == self.partition && ownership.owner == work.options.owner
            }),
            // Nobody knows; the next renewal will tell.
            Err(_) => true,
        }
    }

    /// Handles what a reader brings until something else happens.
    async fn follow(&mut self, reader: &mut Reader) -> Result<Next> {
        let mut current = None;
        let mut events = Vec::new();
        loop {
            if let Some(why) = *self.ended.borrow() {
                return Ok(Next::Over(why));
            }
            let due = self.progress.due_in(self.monotonic());
            let most = self.work.options.batch;
            let woken = tokio::select! {
                biased;
                // The sender goes only with the processor itself.
                _ = self.ended.wait_for(Option::is_some) => Woken::Ended,
                () = self.bell.notified() => Woken::Rung,
                () = sleep(due) => Woken::Due,
                found = gather(reader, &mut current, &mut events, most) => Woken::Events(found),
            };
            match woken {
                Woken::Events(found) => found?,
                Woken::Rung => self.handle_parked().await,
                Woken::Due => {
                    if let Some(next) = self.write_due().await {
                        return Ok(next);
                    }
                    continue;
                }
                Woken::Ended => continue,
            }
            if let Some(next) = self.handle(&events).await {
                return Ok(next);
            }
            events.clear();
        }
    }

    /// Handles events until all are done with.
    async fn handle(&mut self, events: &[Received]) -> Option<Next> {
        let (mut index, mut attempts, mut is_single) = (0, 0, false);
        while let Some(first) = events.get(index) {
            let end = if is_single { index + 1 } else { events.len() };
            let some = &events[index..end];
            match self.attempt(some).await {
                Attempt::Done => (index, attempts) = (end, 0),
                Attempt::Moved => return Some(Next::FromCheckpoint),
                Attempt::Unavailable(error) => {
                    self.report("commit", &error, attempts).await;
                    if let Some(why) = self.pause(1).await {
                        return Some(Next::Over(why));
                    }
                }
                Attempt::Failed(reason) if some.len() > 1 => {
                    // One of them is the culprit: find out which.
                    is_single = true;
                    self.tell("handle a batch", reason, 1).await;
                }
                Attempt::Failed(reason) => {
                    attempts += 1;
                    self.tell("handle an event", reason.clone(), attempts).await;
                    let is_poison = self
                        .work
                        .options
                        .attempts
                        .is_some_and(|most| attempts >= most);
                    if is_poison {
                        if let Some(next) = self.park(first, attempts, &reason).await {
                            return Some(next);
                        }
                        (index, attempts) = (end, 0);
                    } else if let Some(why) = self.pause(attempts).await {
                        return Some(Next::Over(why));
                    }
                }
            }
            if let Some(why) = *self.ended.borrow() {
                return Some(Next::Over(why));
            }
        }
        None
    }

    /// Lets the handler try some events.
    async fn attempt(&mut self, events: &[Received]) -> Attempt {
        let Some(last) = events.last().map(|event| (event.sequence, event.offset)) else {
            return Attempt::Done;
        };
        let commands = |pump: &Self| {
            let from = pump.progress.checkpoint;
            vec![pump.work.advance(pump.partition, from, last)]
        };
        let guarantee = self.work.options.guarantee.clone();
        match self.call(&guarantee, events, commands).await {
            Attempt::Done => {}
            other => return other,
        }
        self.next = Some(last.0 + 1);
        match guarantee {
            Guarantee::ExactlyOnce(_) => self.progress.written(last.0),
            Guarantee::AtLeastOnce => {
                let now = self.monotonic();
                let count = events.len() as u64;
                self.progress.handled(last, count, now);
                if let Some(Next::FromCheckpoint) = self.write_due().await {
                    return Attempt::Moved;
                }
            }
        }
        Attempt::Done
    }

    /// Calls the handler, and with exactly-once commits what it did together with
    /// the commands.
    async fn call(
        &mut self,
        guarantee: &Guarantee,
        events: &[Received],
        commands: impl FnOnce(&Self) -> Vec<Envelope>,
    ) -> Attempt {
        let place = self.work.place(self.partition);
        let replica = match guarantee {
            Guarantee::AtLeastOnce => None,
            Guarantee::ExactlyOnce(replicas) => match replicas.of(place).await {
                Ok(replica) => Some(replica),
                Err(error) => return Attempt::Unavailable(error.into()),
            },
        };
        let scope = Arc::clone(&self.scope);
        let mut context = Context {
            partition: self.partition,
            scope: &scope,
            state: replica.as_ref().map(|replica| (replica, replica.begin())),
            wanted: None,
        };
        let handled = caught(self.work.handler.handle(events, &mut context)).await;
        let (state, wanted) = (context.state, context.wanted);
        if let Err(failure) = handled {
            return Attempt::Failed(failure.to_string());
        }
        match (guarantee, state) {
            (Guarantee::ExactlyOnce(replicas), Some((_, tx))) => {
                let commands = commands(self);
                match replicas
                    .commit(place, tx, commands)
                    .await
                    .map_err(Error::from)
                {
                    Ok(_) => Attempt::Done,
                    Err(error) if error.kind() == Kind::CheckpointMoved => Attempt::Moved,
                    Err(error) => Attempt::Unavailable(error),
                }
            }
            _ => match wanted {
                Some(wanted) => self.checkpoint_by_hand(wanted).await,
                None => Attempt::Done,
            },
        }
    }

    async fn checkpoint_by_hand(&mut self, wanted: (i64, i64)) -> Attempt {
        match self.checkpoint(wanted).await {
            Ok(()) => Attempt::Done,
            Err(error) if error.kind() == Kind::CheckpointMoved => Attempt::Moved,
            Err(error) => {
                // The events are handled; a later checkpoint covers them.
                self.report("write a checkpoint", &error, 0).await;
                Attempt::Done
            }
        }
    }

    /// Writes the checkpoint if it is due.
    async fn write_due(&mut self) -> Option<Next> {
        let due = self.progress.due(self.monotonic())?;
        match self.checkpoint(due).await {
            Ok(()) => None,
            Err(error) if error.kind() == Kind::CheckpointMoved => Some(Next::FromCheckpoint),
            Err(error) => {
                self.report("write a checkpoint", &error, 0).await;
                self.pause(1).await.map(Next::Over)
            }
        }
    }

    async fn checkpoint(&mut self, to: (i64, i64)) -> Result<()> {
        let work = &self.work;
        let condition = Condition::At(self.progress.checkpoint);
        let (hub, group) = (&work.known.hub.name, &work.group);
        let written = work.hubs.advance(hub, group, self.partition, to, condition);
        written.await?;
        self.progress.written(to.0);
        Ok(())
    }

    /// Puts an event aside, and with exactly-once moves the checkpoint in the same
    /// commit.
    async fn park(&mut self, event: &Received, attempts: u32, reason: &str) -> Option<Next> {
        let place = (event.sequence, event.offset);
        let is_once = matches!(self.work.options.guarantee, Guarantee::ExactlyOnce(_));
        loop {
            let event = parked(event, attempts, reason);
            let mut commands = vec![self.work.park(self.partition, event)];
            if is_once {
                let from = self.progress.checkpoint;
                commands.push(self.work.advance(self.partition, from, place));
            }
            let error = match self.commit(commands).await {
                Ok(()) => break,
                Err(error) => error,
            };
            if error.kind() == Kind::CheckpointMoved {
                return Some(Next::FromCheckpoint);
            }
            self.report("park an event", &error, attempts).await;
            if let Some(why) = self.pause(1).await {
                return Some(Next::Over(why));
            }
        }
        self.next = Some(place.0 + 1);
        match is_once {
            true => self.progress.written(place.0),
            false => {
                let now = self.monotonic();
                self.progress.handled(place, 1, now);
            }
        }
        None
    }

    async fn commit(&self, commands: Vec<Envelope>) -> Result<()> {
        let door = self.work.hubs.door(&self.work.known, self.partition)?;
        door.commit(Default::default(), commands).await?;
        Ok(())
    }

    /// Handles parked events again, one by one; those that fail again stay.
    async fn handle_parked(&mut self) {
        let work = Arc::clone(&self.work);
        let (hub, group) = (&work.known.hub.name, &work.group);
        let found = match work.hubs.parked(hub, group, self.partition, 0).await {
            Ok(found) => found,
            Err(error) => return self.report("read parked events", &error, 0).await,
        };
        for event in found {
            if self.ended.borrow().is_some() {
                return;
            }
            self.retry_parked(event).await;
        }
    }

    async fn retry_parked(&mut self, event: Parked) {
        let work = Arc::clone(&self.work);
        let received = [Received::parked(&event)];
        let done = work.unpark(self.partition, event.sequence);
        let commands = {
            let done = done.clone();
            |_: &Self| vec![done]
        };
        let guarantee = work.options.guarantee.clone();
        let outcome = match self.call(&guarantee, &received, commands).await {
            Attempt::Done if matches!(guarantee, Guarantee::AtLeastOnce) => {
                self.commit(vec![done]).await
            }
            Attempt::Done | Attempt::Moved => Ok(()),
            Attempt::Unavailable(error) => Err(error),
            Attempt::Failed(reason) => {
                let attempts = event.attempts + 1;
                self.tell("handle a parked event", reason.clone(), attempts)
                    .await;
                let again = parked(&received[0], attempts, &reason);
                self.commit(vec![work.park(self.partition, again)]).await
            }
        };
        if let Err(error) = outcome {
            self.report("handle a parked event", &error, event.attempts)
                .await;
        }
    }

    /// Waits after a failure; answers why not to go on, if so.
    async fn pause(&mut self, attempts: u32) -> Option<CloseReason> {
        let pause = self.work.options.pause_after(attempts);
        tokio::select! {
            why = self.ended.wait_for(Option::is_some) => why.map_or(Some(CloseReason::Shutdown), |why| *why),
            () = tokio::time::sleep(pause) => None,
        }
    }

    fn monotonic(&self) -> Duration {
        self.work.options.clock.monotonic()
    }

    async fn report(&self, operation: &'static str, error: &Error, attempts: u32) {
        self.tell(operation, error.to_string(), attempts).await;
    }

    async fn tell(&self, operation: &'static str, message: String, attempts: u32) {
        self.work
            .report(self.partition, operation, message, attempts)
            .await;
    }
}

/// Waits for an event, and takes along what else is there. If this is dropped while
/// it waits, nothing is lost.
async fn gather(
    reader: &mut Reader,
    current: &mut Option<Publication>,
    events: &mut Vec<Received>,
    most: usize,
) -> Result<()> {
    loop {
        if let Some(publication) = current {
            while events.len() < most.max(1) {
                let Some(event) = publication.next_event()? else {
                    break;
                };
                events.push(Received::new(event, publication));
            }
        }
        if events.len() >= most.max(1) {
            return Ok(());
        }
        let more = match events.is_empty() {
            true => Some(reader.next().await?),
            false => reader.try_next().await?,
        };
        match more {
            Some(publication) => *current = Some(publication),
            None => return Ok(()),
        }
    }
}

/// Sleeps so long, or for ever.
async fn sleep(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// A handler that panics has failed; the partition's task goes on.
async fn caught(handler: impl Future<Output = Handled>) -> Handled {
    match AssertUnwindSafe(handler).catch_unwind().await {
        Ok(outcome) => outcome,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            let text = text.unwrap_or_default();
            Err(format!("the handler panicked: {text}").into())
        }
    }
}
