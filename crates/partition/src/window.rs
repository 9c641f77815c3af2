//! Reads a partition on any node.
//!
//! A reader sees durable state only, as a [`Door`] does: through the mailbox if this
//! node serves the partition, otherwise by requests to its owner. It continues if the
//! partition changes its owner.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::id::{Partition, Sequence, Stream, Table};
use steadfast_core::task::named;
use steadfast_storage::Snapshot;
use steadfast_storage::engine::Scan;
use tokio::sync::watch;

use crate::door::Door;
use crate::error::{Error, Kind, Result};
use crate::question::{Finding, Question};
use crate::reading::{Batch, Head, Row, Start};
use crate::router::Router;
use crate::transport::Transport;

/// A reader of one partition. Clones are cheap.
#[derive(Clone)]
pub struct Window {
    side: Side,
}

#[derive(Clone)]
enum Side {
    Here(Door),
    Beyond(Remote),
}

/// A partition of another node.
#[derive(Clone)]
struct Remote {
    router: Arc<Router>,
    partition: Partition,
    /// Begin and end of followed streams, as last received from their owner.
    heads: Arc<Mutex<BTreeMap<Stream, Head>>>,
}

impl Router {
    /// A reader of a partition on any node.
    pub fn window(self: &Arc<Self>, partition: Partition) -> Window {
        match self.door(partition) {
            Some(door) => Window::here(door),
            None => Window::beyond(Arc::clone(self), partition),
        }
    }
}

impl Window {
    pub(crate) fn here(door: Door) -> Self {
        Self {
            side: Side::Here(door),
        }
    }

    pub(crate) fn beyond(router: Arc<Router>, partition: Partition) -> Self {
        let remote = Remote {
            router,
            partition,
            heads: Arc::default(),
        };
        Self {
            side: Side::Beyond(remote),
        }
    }

    /// Which partition this is.
    pub fn partition(&self) -> Partition {
        match &self.side {
            Side::Here(door) => door.partition(),
            Side::Beyond(remote) => remote.partition,
        }
    }

    /// A durable row.
    pub async fn row(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>> {
        match &self.side {
            Side::Here(door) => door.row(table, key).await,
            Side::Beyond(remote) => remote.row(table, key).await,
        }
    }

    /// Durable rows in key order, from `from` on and before `to`, `limit` at most.
    pub async fn rows(
        &self,
        table: Table,
        from: Bound<Bytes>,
        to: Bound<Bytes>,
        limit: usize,
    ) -> Result<Vec<Row>> {
        match &self.side {
            Side::Here(door) => door.rows(table, from, to, limit).await,
            Side::Beyond(remote) => remote.rows(table, Scan { from, to, limit }).await,
        }
    }

    /// Begin and durable end of a stream; `None` if it was never written.
    pub async fn stream(&self, stream: Stream) -> Result<Option<Head>> {
        match &self.side {
            Side::Here(door) => door.stream(stream),
            Side::Beyond(remote) => remote.stream(Question::Head(stream), stream).await,
        }
    }

    /// Like [`Window::stream`], for a stream that is followed: without waiting, from
    /// the last response of its owner.
    pub fn known_stream(&self, stream: Stream) -> Result<Option<Head>> {
        match &self.side {
            Side::Here(door) => door.stream(stream),
            Side::Beyond(remote) => Ok(remote.heads.lock().get(&stream).copied()),
        }
    }

    /// Durable batches from the one that holds `from` on, until about `max_bytes`;
    /// empty at the end. What was trimmed is skipped.
    pub async fn batches(
        &self,
        stream: Stream,
        from: Start,
        max_bytes: usize,
    ) -> Result<Vec<Batch>> {
        match &self.side {
            Side::Here(door) => door.batches(stream, from, max_bytes).await,
            Side::Beyond(remote) => {
                let question = Question::Batches {
                    stream,
                    from,
                    max_bytes,
                };
                match remote.ask(question).await? {
                    Finding::Batches(batches) => Ok(batches),
                    _ => Err(surprised()),
                }
            }
        }
    }

    /// The number after a stream's last durable event, to be followed. It is closed
    /// when the partition cannot be followed any more.
    pub async fn follow(&self, stream: Stream) -> Result<watch::Receiver<Sequence>> {
        match &self.side {
            Side::Here(door) => door.follow(stream),
            Side::Beyond(remote) => remote.clone().follow(stream).await,
        }
    }

    /// A view for several reads: a snapshot if this node serves the partition.
    pub fn glance(&self) -> Result<Glance> {
        Ok(match &self.side {
            Side::Here(door) => Glance::Here(door.ledger().snapshot()?),
            Side::Beyond(remote) => Glance::Beyond(Beyond(remote.clone())),
        })
    }
}

impl From<Door> for Window {
    fn from(door: Door) -> Self {
        Self::here(door)
    }
}

/// A view of durable state, for several reads.
pub enum Glance {
    /// A snapshot.
    Here(Snapshot),
    /// At another node: each read sees what is durable then.
    Beyond(Beyond),
}

/// A view of a partition of another node.
pub struct Beyond(Remote);

impl Glance {
    /// A row.
    pub async fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>> {
        match self {
            Self::Here(snapshot) => Ok(snapshot.get(table, key).await?),
            Self::Beyond(Beyond(remote)) => remote.row(table, key).await,
        }
    }

    /// Rows in key order.
    pub async fn scan(&self, table: Table, range: Scan) -> Result<Vec<Row>> {
        match self {
            Self::Here(snapshot) => Ok(snapshot.scan(table, range).await?),
            Self::Beyond(Beyond(remote)) => remote.rows(table, range).await,
        }
    }
}

impl Remote {
    async fn ask(&self, question: Question) -> Result<Finding> {
        self.router.read(self.partition, question).await
    }

    async fn row(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>> {
        let key = Bytes::copy_from_slice(key);
        match self.ask(Question::Row(table, key)).await? {
            Finding::Row(row) => Ok(row),
            _ => Err(surprised()),
        }
    }

    async fn rows(&self, table: Table, range: Scan) -> Result<Vec<Row>> {
        let Scan {
            mut from,
            to,
            limit,
        } = range;
        let mut found: Vec<Row> = Vec::new();
        loop {
            let question = Question::Rows {
                table,
                from,
                to: to.clone(),
                limit: limit - found.len(),
            };
            let Finding::Rows(rows, is_cut) = self.ask(question).await? else {
                return Err(surprised());
            };
            found.extend(rows);
            match found.last() {
                Some(last) if is_cut => from = Bound::Excluded(last.key.clone()),
                _ => return Ok(found),
            }
        }
    }

    async fn stream(&self, question: Question, stream: Stream) -> Result<Option<Head>> {
        let Finding::Head(head) = self.ask(question).await? else {
            return Err(surprised());
        };
        if let Some(head) = head {
            self.heads.lock().insert(stream, head);
        }
        Ok(head)
    }

    /// Asks the owner repeatedly for the next end, until all receivers are dropped.
    async fn follow(self, stream: Stream) -> Result<watch::Receiver<Sequence>> {
        let head = self.stream(Question::Head(stream), stream).await?;
        let (end, ends) = watch::channel(head.unwrap_or_default().next);
        tokio::spawn(named(async move {
            loop {
                let after = *end.borrow();
                let question = Question::Follow { stream, after };
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
    Error::new(Kind::Malformed {
        what: "the response to a read",
    })
}
