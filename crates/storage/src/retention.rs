//! Retention of event streams, by age and by size.
//!
//! A trim is a transaction like any other: logged, replayed, and the same on
//! every node. The engine removes the files behind it when it flushes.

use std::time::Duration;

use steadfast_core::clock::Timestamp;
use steadfast_core::id::{Offset, Sequence, StreamId};

use crate::body::Writes;
use crate::engine::ReadPosition;
use crate::error::Result;
use crate::ledger::Ledger;
use crate::streams::StreamHead;

/// What a stream keeps; batches outside either bound are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionBounds {
    /// Older batches are removed.
    pub age: Option<Duration>,
    /// The oldest batches are removed until the rest takes at most this many bytes.
    pub bytes: Option<u64>,
}

impl Ledger {
    /// Trims a stream to what `retention` keeps and returns how many events were removed.
    /// Only whole batches are removed; a batch stays while any part of it may be kept.
    pub async fn retain(&self, stream: StreamId, retention: RetentionBounds) -> Result<u64> {
        let Some(head) = self.stream(stream)? else {
            return Ok(0);
        };
        let mut cut = (head.first, head.first_offset);
        if let Some(age) = retention.age {
            let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
            let oldest = Timestamp(self.time().0.saturating_sub(age));
            cut = cut.max(
                self.first_of(stream, head, ReadPosition::Time(oldest))
                    .await?,
            );
        }
        if let Some(bytes) = retention.bytes {
            let oldest = Offset(head.end.0.saturating_sub(bytes));
            cut = cut.max(
                self.first_of(stream, head, ReadPosition::Offset(oldest))
                    .await?,
            );
        }
        let (first, offset) = cut;
        if first == head.first {
            return Ok(0);
        }
        let mut writes = Writes::new();
        writes.trim(stream, first, offset);
        self.commit(writes).await?;
        Ok(first.0 - head.first.0)
    }

    /// The first batch that lies wholly behind `from`; the end if there is none.
    async fn first_of(
        &self,
        stream: StreamId,
        head: StreamHead,
        from: ReadPosition,
    ) -> Result<(Sequence, Offset)> {
        let batches = self.read_events(stream, from, 1).await?;
        Ok(match (batches.first(), from) {
            (None, _) => (head.next, head.end),
            (Some(batch), ReadPosition::Offset(offset)) if batch.offset < offset => {
                (batch.next(), batch.end())
            }
            (Some(batch), _) => (batch.first, batch.offset),
        })
    }
}
