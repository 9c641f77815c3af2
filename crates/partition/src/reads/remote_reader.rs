//! Reads a partition on any node.
//!
//! A reader sees durable state only, as a [`Mailbox`] does: through the mailbox if this
//! node serves the partition, otherwise by requests to its owner. It continues if the
//! partition changes its owner.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::id::{Partition, Sequence, StreamId, TableId};
use steadfast_core::task::name_task;
use steadfast_storage::Snapshot;
use steadfast_storage::engine::Scan;
use tokio::sync::watch;

use crate::error::{Error, ErrorKind, Result};
use crate::ingress::mailbox::Mailbox;
use crate::ingress::router::Router;
use crate::ingress::transport::NodeTransport;
use crate::reads::durable_reads::{Batch, ReadPosition, StreamHead, TableRow};
use crate::reads::read_request::{ReadRequest, ReadResponse};

/// A reader of one partition. Clones are cheap.
#[derive(Clone)]
pub struct RemoteReader {
    side: ReaderSide,
}

#[derive(Clone)]
enum ReaderSide {
    Local(Mailbox),
    Remote(RemotePartition),
}

/// A partition of another node.
#[derive(Clone)]
struct RemotePartition {
    router: Arc<Router>,
    partition: Partition,
    /// Begin and end of followed streams, as last received from their owner.
    heads: Arc<Mutex<BTreeMap<StreamId, StreamHead>>>,
}

impl Router {
    /// A reader of a partition on any node.
    pub fn reader(self: &Arc<Self>, partition: Partition) -> RemoteReader {
        match self.mailbox(partition) {
            Some(door) => RemoteReader::here(door),
            None => RemoteReader::beyond(Arc::clone(self), partition),
        }
    }
}

impl RemoteReader {
    pub(crate) fn here(door: Mailbox) -> Self {
        Self {
            side: ReaderSide::Local(door),
        }
    }

    pub(crate) fn beyond(router: Arc<Router>, partition: Partition) -> Self {
        let remote = RemotePartition {
            router,
            partition,
            heads: Arc::default(),
        };
        Self {
            side: ReaderSide::Remote(remote),
        }
    }

    /// Which partition this is.
    pub fn partition(&self) -> Partition {
        match &self.side {
            ReaderSide::Local(door) => door.partition(),
            ReaderSide::Remote(remote) => remote.partition,
        }
    }

    /// A durable row.
    pub async fn row(&self, table: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        match &self.side {
            ReaderSide::Local(door) => door.row(table, key).await,
            ReaderSide::Remote(remote) => remote.row(table, key).await,
        }
    }

    /// Durable rows in key order, from `from` on and before `to`, `limit` at most.
    pub async fn rows(
        &self,
        table: TableId,
        from: Bound<Bytes>,
        to: Bound<Bytes>,
        limit: usize,
    ) -> Result<Vec<TableRow>> {
        match &self.side {
            ReaderSide::Local(door) => door.rows(table, from, to, limit).await,
            ReaderSide::Remote(remote) => remote.rows(table, Scan { from, to, limit }).await,
        }
    }

    /// Begin and durable end of a stream; `None` if it was never written.
    pub async fn stream(&self, stream: StreamId) -> Result<Option<StreamHead>> {
        match &self.side {
            ReaderSide::Local(door) => door.stream(stream),
            ReaderSide::Remote(remote) => remote.stream(ReadRequest::Head(stream), stream).await,
        }
    }

    /// Like [`RemoteReader::stream`], for a stream that is followed: without waiting, from
    /// the last response of its owner.
    pub fn known_stream(&self, stream: StreamId) -> Result<Option<StreamHead>> {
        match &self.side {
            ReaderSide::Local(door) => door.stream(stream),
            ReaderSide::Remote(remote) => Ok(remote.heads.lock().get(&stream).copied()),
        }
    }

    /// Durable batches from the one that holds `from` on, until about `max_bytes`;
    /// empty at the end. What was trimmed is skipped.
    pub async fn batches(
        &self,
        stream: StreamId,
        from: ReadPosition,
        max_bytes: usize,
    ) -> Result<Vec<Batch>> {
        match &self.side {
            ReaderSide::Local(door) => door.batches(stream, from, max_bytes).await,
            ReaderSide::Remote(remote) => {
                let question = ReadRequest::Batches {
                    stream,
                    from,
                    max_bytes,
                };
                match remote.ask(question).await? {
                    ReadResponse::Batches(batches) => Ok(batches),
                    _ => Err(surprised()),
                }
            }
        }
    }

    /// The number after a stream's last durable event, to be followed. It is closed
    /// when the partition cannot be followed any more.
    pub async fn follow(&self, stream: StreamId) -> Result<watch::Receiver<Sequence>> {
        match &self.side {
            ReaderSide::Local(door) => door.follow(stream),
            ReaderSide::Remote(remote) => remote.clone().follow(stream).await,
        }
    }

    /// A view for several reads: a snapshot if this node serves the partition.
    pub fn view(&self) -> Result<ReadView> {
        Ok(match &self.side {
            ReaderSide::Local(door) => ReadView::Local(door.ledger().snapshot()?),
            ReaderSide::Remote(remote) => ReadView::Remote(RemoteView(remote.clone())),
        })
    }
}

impl From<Mailbox> for RemoteReader {
    fn from(door: Mailbox) -> Self {
        Self::here(door)
    }
}

/// A view of durable state, for several reads.
pub enum ReadView {
    /// A snapshot.
    Local(Snapshot),
    /// At another node: each read sees what is durable then.
    Remote(RemoteView),
}

/// A view of a partition of another node.
pub struct RemoteView(RemotePartition);

impl ReadView {
    /// A row.
    pub async fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        match self {
            Self::Local(snapshot) => Ok(snapshot.get(table, key).await?),
            Self::Remote(RemoteView(remote)) => remote.row(table, key).await,
        }
    }

    /// Rows in key order.
    pub async fn scan(&self, table: TableId, range: Scan) -> Result<Vec<TableRow>> {
        match self {
            Self::Local(snapshot) => Ok(snapshot.scan(table, range).await?),
            Self::Remote(RemoteView(remote)) => remote.rows(table, range).await,
        }
    }
}

impl RemotePartition {
    async fn ask(&self, question: ReadRequest) -> Result<ReadResponse> {
        self.router.read(self.partition, question).await
    }

    async fn row(&self, table: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        let key = Bytes::copy_from_slice(key);
        match self.ask(ReadRequest::Row(table, key)).await? {
            ReadResponse::Row(row) => Ok(row),
            _ => Err(surprised()),
        }
    }

    async fn rows(&self, table: TableId, range: Scan) -> Result<Vec<TableRow>> {
        let Scan {
            mut from,
            to,
            limit,
        } = range;
        let mut found: Vec<TableRow> = Vec::new();
        loop {
            let question = ReadRequest::Rows {
                table,
                from,
                to: to.clone(),
                limit: limit - found.len(),
            };
            let ReadResponse::Rows(rows, is_cut) = self.ask(question).await? else {
                return Err(surprised());
            };
            found.extend(rows);
            match found.last() {
                Some(last) if is_cut => from = Bound::Excluded(last.key.clone()),
                _ => return Ok(found),
            }
        }
    }

    async fn stream(&self, question: ReadRequest, stream: StreamId) -> Result<Option<StreamHead>> {
        let ReadResponse::Head(head) = self.ask(question).await? else {
            return Err(surprised());
        };
        if let Some(head) = head {
            self.heads.lock().insert(stream, head);
        }
        Ok(head)
    }

    /// Asks the owner repeatedly for the next end, until all receivers are dropped.
    async fn follow(self, stream: StreamId) -> Result<watch::Receiver<Sequence>> {
        let head = self.stream(ReadRequest::Head(stream), stream).await?;
        let (end, ends) = watch::channel(head.unwrap_or_default().next);
        tokio::spawn(name_task(async move {
            loop {
                let after = *end.borrow();
                let question = ReadRequest::Follow { stream, after };
                let head = tokio::select! {
                    () = end.closed() => return,
                    head = self.stream(question, stream) => head,
                };
                // The follower looks the partition up again.
                let Ok(head) = head else {
                    return;
                };
                let next = head.unwrap_or_default().next;
                end.send_if_modified(|end| std::mem::replace(end, next) != next);
            }
        }));
        Ok(ends)
    }
}

fn surprised() -> Error {
    Error::new(ErrorKind::Malformed {
        what: "the response to a read",
    })
}
