//! Handles one partition, event after event.
//!
//! Events are handled in order, and those of a failed attempt are retried one by one,
//! until they succeed or become dead letters. A checkpoint write names the expected
//! current checkpoint; if that was moved, by a reset or by another owner, the task
//! restarts from it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Notify, watch};

use crate::batch::EventPublication;
use crate::error::{Error, ErrorKind, Result};
use crate::position::EventPosition;
use crate::processor::checkpoint_policy::CheckpointProgress;
use crate::processor::handler::{CloseReason, Handler, PartitionStart, ReceivedEvent, caught};
use crate::processor::shared::ProcessorShared;
use crate::reader::PartitionReader;
use crate::reader_options::ReaderOptions;

/// The next step of a partition's task.
pub(crate) enum NextStep {
    /// Stop.
    Over(CloseReason),
    /// Continue reading from the current position.
    Again,
    /// Restart from the checkpoint, which was moved.
    FromCheckpoint,
}

/// What ended a wait.
enum WakeReason {
    Ended,
    Bell,
    Due,
    Events(Result<()>),
}

pub(crate) struct PartitionPump<H> {
    pub(crate) work: Arc<ProcessorShared<H>>,
    pub(crate) partition: u32,
    pub(crate) scope: Arc<str>,
    pub(crate) ended: watch::Receiver<Option<CloseReason>>,
    /// Notified when dead letters are to be replayed.
    pub(crate) bell: Arc<Notify>,
    pub(crate) progress: CheckpointProgress,
    /// The sequence number of the next event, once known.
    pub(crate) next: Option<i64>,
}

/// Handles a partition until the task is stopped or the partition is lost.
pub(crate) async fn run<H: Handler>(
    work: Arc<ProcessorShared<H>>,
    partition: u32,
    ended: watch::Receiver<Option<CloseReason>>,
) {
    let spot = work.hubs.reader_key(&work.known, &work.group, partition);
    let bell = work.hubs.inner.live.add_bell(&spot);
    let mut pump = PartitionPump {
        scope: work.scope(partition).into(),
        progress: CheckpointProgress::new(work.options.checkpoint, -1),
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
        tracing::warn!(
            event = "processor.close_handler_panicked",
            partition,
            "a close handler panicked",
        );
    }
    pump.work.hubs.inner.live.remove_bell(&spot, &pump.bell);
}

impl<H: Handler> PartitionPump<H> {
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
                Some(next) => EventPosition::Sequence {
                    sequence: next - 1,
                    inclusive: false,
                },
                None => start,
            };
            match self.read(position, &mut failures).await {
                NextStep::Over(why) => return why,
                NextStep::Again => {}
                NextStep::FromCheckpoint => match self.look_up().await {
                    Ok(checkpoint) => self.next = checkpoint.map(|sequence| sequence + 1),
                    Err(error) => self.report("read the checkpoint", &error, 0).await,
                },
            }
        }
    }

    /// Determines the start position, and calls the open handler.
    async fn open(&mut self) -> Result<EventPosition> {
        let checkpoint = self.look_up().await?;
        let start = match checkpoint {
            Some(sequence) => EventPosition::Sequence {
                sequence,
                inclusive: false,
            },
            None => self.work.options.start_of(self.partition),
        };
        let mut opening = PartitionStart {
            partition: self.partition,
            start,
        };
        let opened = caught(self.work.handler.open(&mut opening)).await;
        opened.map_err(|failure| {
            let message = format!("the handler did not open the partition: {failure}");
            Error::new(ErrorKind::HandlerFailed, message)
        })?;
        Ok(opening.start)
    }

    /// Reads the checkpoint.
    async fn look_up(&mut self) -> Result<Option<i64>> {
        let work = &self.work;
        let found = work
            .hubs
            .checkpoint_of(&work.known, &work.group, self.partition);
        let found = found.await?;
        let sequence = found.map(|checkpoint| checkpoint.sequence);
        self.progress = CheckpointProgress::new(work.options.checkpoint, sequence.unwrap_or(-1));
        Ok(sequence)
    }

    /// Attaches a reader and handles its events.
    async fn read(&mut self, position: EventPosition, failures: &mut u32) -> NextStep {
        let owner = &self.work.options.owner;
        let attach = ReaderOptions::at(position)
            .epoch(0)
            .named(owner)
            .owned_by(owner);
        let (hub, group) = (&self.work.known.hub.name, &self.work.group);
        let attached = async {
            self.work.check().await?;
            let reader = self.work.hubs.reader(hub, group, self.partition, attach);
            reader.await
        };
        let error = match attached.await {
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

    /// Recovers from a failed read.
    async fn recover(&mut self, error: Error, failures: u32) -> NextStep {
        if let Some(why) = *self.ended.borrow() {
            return NextStep::Over(why);
        }
        match error.kind() {
            ErrorKind::CheckpointMoved => return NextStep::FromCheckpoint,
            // The next cycle stops the whole processor.
            ErrorKind::HubNotFound | ErrorKind::GroupNotFound => {
                return NextStep::Over(CloseReason::OwnershipLost);
            }
            ErrorKind::Displaced if !self.is_owner().await => {
                return NextStep::Over(CloseReason::OwnershipLost);
            }
            ErrorKind::PositionBeyondEnd => {
                // The stream was lost, and numbers restart from the beginning.
                self.report("start behind the last event", &error, failures)
                    .await;
                self.next = Some(0);
            }
            _ => self.report("read", &error, failures).await,
        }
        match self.pause(failures).await {
            Some(why) => NextStep::Over(why),
            None => NextStep::Again,
        }
    }

    /// Whether this processor owns the partition. If so, the claim is reported to the
    /// reader registry once more, which may know only an earlier one.
    async fn is_owner(&self) -> bool {
        let work = &self.work;
        let (hub, group) = (&work.known.hub.name, &work.group);
        let Ok(found) = work.hubs.ownerships(hub, group).await else {
            // Unknown; the next renewal decides.
            return true;
        };
        let owner = &work.options.owner;
        let own = found
            .iter()
            .find(|one| one.partition == self.partition && one.owner == *owner);
        if let Some(own) = own {
            let claim = (Some(own.version), owner.as_str());
            let told = work
                .hubs
                .owner_changed(&work.known, group, self.partition, claim);
            told.await;
        }
        own.is_some()
    }

    /// Handles a reader's events until it is interrupted.
    async fn follow(&mut self, reader: &mut PartitionReader) -> Result<NextStep> {
        let mut current = None;
        let mut events = Vec::new();
        loop {
            if let Some(why) = *self.ended.borrow() {
                return Ok(NextStep::Over(why));
            }
            let due = self.progress.due_in(self.monotonic());
            let most = self.work.options.batch;
            let woken = tokio::select! {
                biased;
                _ = self.ended.wait_for(Option::is_some) => WakeReason::Ended,
                () = self.bell.notified() => WakeReason::Bell,
                () = sleep(due) => WakeReason::Due,
                found = gather(reader, &mut current, &mut events, most) => WakeReason::Events(found),
            };
            match woken {
                WakeReason::Events(found) => found?,
                WakeReason::Bell => self.handle_parked().await,
                WakeReason::Due => {
                    if let Some(next) = self.write_due().await {
                        return Ok(next);
                    }
                    continue;
                }
                // The processor was dropped.
                WakeReason::Ended => {
                    let why = *self.ended.borrow();
                    return Ok(NextStep::Over(why.unwrap_or(CloseReason::Shutdown)));
                }
            }
            if let Some(next) = self.handle(&events).await {
                return Ok(next);
            }
            events.clear();
        }
    }

    /// Waits after a failure; returns the reason if the task is stopped during the wait.
    pub(crate) async fn pause(&mut self, attempts: u32) -> Option<CloseReason> {
        let pause = self.work.options.pause_after(attempts);
        tokio::select! {
            why = self.ended.wait_for(Option::is_some) => why.map_or(Some(CloseReason::Shutdown), |why| *why),
            () = tokio::time::sleep(pause) => None,
        }
    }

    pub(crate) fn monotonic(&self) -> Duration {
        self.work.options.clock.monotonic()
    }

    pub(crate) async fn report(&self, operation: &'static str, error: &Error, attempts: u32) {
        self.tell(operation, error.to_string(), attempts).await;
    }

    pub(crate) async fn tell(&self, operation: &'static str, message: String, attempts: u32) {
        self.work
            .report(self.partition, operation, message, attempts)
            .await;
    }
}

/// Waits for an event, and collects further available ones. Cancel-safe while it
/// waits.
async fn gather(
    reader: &mut PartitionReader,
    current: &mut Option<EventPublication>,
    events: &mut Vec<ReceivedEvent>,
    most: usize,
) -> Result<()> {
    loop {
        if let Some(publication) = current {
            while events.len() < most.max(1) {
                let Some(event) = publication.next_event()? else {
                    break;
                };
                events.push(ReceivedEvent::new(event, publication));
            }
        }
        if events.len() >= most.max(1) {
            return Ok(());
        }
        let more = if events.is_empty() {
            Some(reader.next().await?)
        } else {
            reader.try_next().await?
        };
        match more {
            Some(publication) => *current = Some(publication),
            None => return Ok(()),
        }
    }
}

/// Sleeps for this long, or indefinitely.
async fn sleep(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}
