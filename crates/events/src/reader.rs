//! Reads a partition of an event hub, and follows its end.
//!
//! A reader buffers one small read-ahead, however large the backlog: it reads more only
//! when the buffer is empty. At the end it waits for the next durable publication,
//! without polling.

use std::collections::VecDeque;
use std::sync::Arc;

use steadfast_core::id::{Sequence, StreamId};
use steadfast_core::limits;
use steadfast_partition::{Batch as Stored, ReadPosition, RemoteReader, Router};
use tokio::sync::watch;

use crate::batch::{EventData, EventPublication};
use crate::error::{Error, ErrorKind, Result};
use crate::position::ReaderStart;
use crate::reader_lease::RemoteReaderGuard;
use crate::reader_registry::{DisconnectSignal, ReaderGuard};
use crate::traffic::Counter;

/// The properties of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionProperties {
    pub partition: u32,
    /// The oldest stored event.
    pub first_sequence: i64,
    /// -1 if no event was ever published.
    pub last_sequence: i64,
    pub last_offset: i64,
    /// When the newest event was published, or the event hub was created if it has none.
    pub last_time: steadfast_core::clock::Timestamp,
    pub is_empty: bool,
}

/// Where a reader is registered: at this node, or at the owner of its partition.
pub(crate) enum ReaderAttachment {
    Local(ReaderGuard),
    Remote(RemoteReaderGuard),
}

impl ReaderAttachment {
    fn cut(&self) -> &DisconnectSignal {
        match self {
            Self::Local(seat) => &seat.cut,
            Self::Remote(sitting) => &sitting.cut,
        }
    }
}

/// Reads one partition for one group.
pub struct PartitionReader {
    router: Arc<Router>,
    window: RemoteReader,
    stream: StreamId,
    hold: ReaderAttachment,
    /// The number after the last durable event.
    end: watch::Receiver<Sequence>,
    /// The read-ahead buffer.
    ahead: VecDeque<Stored>,
    next: ReaderStart,
    traffic: Arc<Counter>,
}

impl PartitionReader {
    pub(crate) async fn new(
        router: Arc<Router>,
        window: RemoteReader,
        stream: StreamId,
        hold: ReaderAttachment,
        next: ReaderStart,
        traffic: Arc<Counter>,
    ) -> Result<Self> {
        Ok(Self {
            end: window.follow(stream).await?,
            router,
            window,
            stream,
            hold,
            ahead: VecDeque::new(),
            next,
            traffic,
        })
    }

    /// The next publication, starting at the first undelivered event; waits for one at
    /// the end. Cancel-safe. After an error the reader is unusable.
    pub async fn next(&mut self) -> Result<EventPublication> {
        loop {
            if let Some(publication) = self.try_next().await? {
                return Ok(publication);
            }
            self.wait().await?;
        }
    }

    /// The next publication; `None` at the end.
    pub async fn try_next(&mut self) -> Result<Option<EventPublication>> {
        loop {
            self.check()?;
            while let Some(stored) = self.ahead.pop_front() {
                if stored.next().0 <= self.next.sequence {
                    continue;
                }
                let from = self.next.sequence;
                self.next.sequence = stored.next().0;
                if stored.time < self.next.not_before {
                    continue;
                }
                let bytes = stored.bytes.len();
                let publication = EventPublication::open(stored, from)?;
                self.traffic.handed_out(publication.left(), bytes);
                return Ok(Some(publication));
            }
            let from = ReadPosition::Sequence(Sequence(self.next.sequence));
            // Read on only if more events are durable, or the partition is lost.
            let end = *self.end.borrow_and_update();
            if end.0 <= self.next.sequence && !self.is_lost() {
                return Ok(None);
            }
            let read = self.window.batches(self.stream, from, limits::READER_BYTES);
            match read.await {
                Ok(batches) if batches.is_empty() && !self.is_lost() => return Ok(None),
                Ok(batches) => self.ahead.extend(batches),
                Err(error) if !self.is_lost() => return Err(error.into()),
                Err(_) => {}
            }
            if self.is_lost() {
                self.find_again().await?;
            }
        }
    }

    /// The next single event, in the order of [`PartitionReader::next`].
    pub async fn next_event(
        &mut self,
        current: &mut Option<EventPublication>,
    ) -> Result<EventData> {
        loop {
            self.check()?;
            if let Some(publication) = current
                && let Some(event) = publication.next_event()?
            {
                return Ok(event);
            }
            *current = Some(self.next().await?);
        }
    }

    /// Resolves when the reader is disconnected, with the reason: another reader
    /// displaced it, the partition has another owner, or the event hub was deleted.
    /// Deliver nothing from then on.
    pub fn disconnected(&self) -> impl Future<Output = Error> + Send + use<> {
        self.hold.cut().wait()
    }

    /// Fails if the reader was disconnected. Call before delivering each event.
    pub fn check(&self) -> Result<()> {
        match self.hold.cut().error() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// The sequence number of the next event from [`PartitionReader::next`].
    pub fn position(&self) -> i64 {
        self.next.sequence as i64
    }

    /// Bytes in the read-ahead buffer.
    pub fn held_bytes(&self) -> usize {
        self.ahead.iter().map(Stored::weight).sum()
    }

    /// Last sequence number, offset and time of the partition, as of now.
    pub fn end(&self) -> Result<(i64, i64, steadfast_core::clock::Timestamp)> {
        let head = self.window.known_stream(self.stream)?.unwrap_or_default();
        Ok((head.next.0 as i64 - 1, head.end.0 as i64 - 1, head.time))
    }

    async fn wait(&mut self) -> Result<()> {
        let next = self.next.sequence;
        tokio::select! {
            error = self.hold.cut().wait() => Err(error),
            // A dropped sender ends the wait, too.
            _ = self.end.wait_for(|end| end.0 > next) => Ok(()),
        }
    }

    /// Whether this node has lost the partition, temporarily or permanently.
    fn is_lost(&self) -> bool {
        self.end.has_changed().is_err()
    }

    /// Reopens the partition: it may have a new ledger here, or another owner.
    async fn find_again(&mut self) -> Result<()> {
        // Until the next owner is known, the caller may retry without a pause.
        tokio::task::yield_now().await;
        let partition = self.window.partition();
        if self.router.is_single_node() && self.router.mailbox(partition).is_none() {
            let words = format!("partition {partition} is not served here now; attach again");
            return Err(Error::new(ErrorKind::Unavailable, words));
        }
        let window = self.router.reader(partition);
        self.end = window.follow(self.stream).await?;
        self.window = window;
        self.ahead.clear();
        Ok(())
    }
}
