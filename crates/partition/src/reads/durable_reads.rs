//! Reads durable rows and streams of a partition.
//!
//! Reads run outside the owner loop and see durable state only. Services and protocols
//! depend on this crate and not on the storage crate, so the storage types that they
//! need are re-exported here.

use std::ops::Bound;

use bytes::Bytes;
use steadfast_core::id::{Sequence, StreamId, TableId};
pub use steadfast_storage::engine::{EventBatch as Batch, ReadPosition, TableRow};
pub use steadfast_storage::{AppendPosition, StreamHead};
use steadfast_storage::{Visibility, engine::Scan};
use tokio::sync::watch;

use crate::error::Result;
use crate::ingress::mailbox::Mailbox;

impl Mailbox {
    /// A durable row.
    pub async fn row(&self, table: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.ledger().get(table, key, Visibility::Durable).await?)
    }

    /// Durable rows in key order, from `from` on and before `to`, `limit` at most.
    pub async fn rows(
        &self,
        table: TableId,
        from: Bound<Bytes>,
        to: Bound<Bytes>,
        limit: usize,
    ) -> Result<Vec<TableRow>> {
        let snapshot = self.ledger().snapshot()?;
        Ok(snapshot.scan(table, Scan { from, to, limit }).await?)
    }

    /// Begin and durable end of a stream; `None` if it was never written.
    pub fn stream(&self, stream: StreamId) -> Result<Option<StreamHead>> {
        Ok(self.ledger().stream(stream)?)
    }

    /// Durable batches from the one that holds `from` on, until about `max_bytes`;
    /// empty at the end. What was trimmed is skipped.
    pub async fn batches(
        &self,
        stream: StreamId,
        from: ReadPosition,
        max_bytes: usize,
    ) -> Result<Vec<Batch>> {
        Ok(self.ledger().read_events(stream, from, max_bytes).await?)
    }

    /// The number after a stream's last durable event, to be followed. It is closed
    /// when this node loses the partition.
    pub fn follow(&self, stream: StreamId) -> Result<watch::Receiver<Sequence>> {
        Ok(self.ledger().follow(stream)?)
    }
}
