//! The log: numbered events, appended in transactions.
//!
//! It is one event stream of the ledger. Appending locks no key, so any number of
//! transactions append at once; the commit decides their order and numbers. What
//! a transaction appends can be read after its commit. Reads see what is durable
//! and lock nothing.

use std::marker::PhantomData;

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::codec::ByteReader;
use steadfast_core::id::Sequence;
use steadfast_storage::StreamHead;
use steadfast_storage::engine::{EventBatch, ReadPosition};

use crate::collection::{CODEC, Description, Shape};
use crate::error::{Error, ErrorKind, Result};
use crate::handle::{CollectionBinding, Handle, sealed};
use crate::lock::mode::LockStrength;
use crate::options::{Timeout, WaitDeadline};
use crate::rows;
use crate::schema::envelope::encode_value;
use crate::schema::record::Record;
use crate::source::RowSource;
use crate::transaction::Tx;

/// A reliable log. Clones are the same log.
pub struct Log<V> {
    part: CollectionBinding,
    value: PhantomData<fn() -> V>,
}

/// One event of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEvent<V> {
    /// Its number: dense, from 0.
    pub number: u64,
    /// When it was appended.
    pub time: Timestamp,
    pub value: V,
}

/// Where a log begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LogBounds {
    /// The first event that was not trimmed.
    pub first: u64,
    /// The number that the next event gets.
    pub next: u64,
}

impl<V: Record> Log<V> {
    /// Appends an event; it gets its number with the commit.
    pub async fn append(&self, tx: &mut Tx, value: &V) -> Result<()> {
        self.enter(tx).await?;
        let collection = &self.part.collection;
        let bytes = encode_value(value, tx.inner.write_version.get());
        let bytes = bytes.map_err(|error| Error::schema(error, &collection.name))?;
        tx.writes.append(collection.stream(), &bytes)
    }

    /// Trims the events before `first`, with the commit.
    pub async fn trim(&self, tx: &mut Tx, first: u64) -> Result<()> {
        self.enter(tx).await?;
        let collection = &self.part.collection;
        let head = self.head()?;
        if first > head.next.0 {
            return Err(Error::new(ErrorKind::OutOfRange {
                collection: collection.name.clone(),
                position: first,
            }));
        }
        if first <= head.first.0 {
            return Ok(());
        }
        let mut offset = head.end;
        if first < head.next.0 {
            let batches = self.batches(Sequence(first), 1).await?;
            offset = batches.first().map_or(head.end, |batch| batch.offset);
        }
        let stream = collection.stream();
        tx.writes.trims.push((stream, Sequence(first), offset));
        Ok(())
    }

    /// Events from number `from` on, `max` at most; empty at the end. Trimmed events are
    /// skipped.
    pub async fn read(&self, from: u64, max: usize) -> Result<Vec<LogEvent<V>>> {
        self.part.check_live()?;
        let first = match &self.part.inner.source {
            RowSource::Primary(_) => self.head()?.first.0,
            RowSource::Secondary(..) => 0,
        };
        let mut next = from.max(first);
        let mut events = Vec::new();
        while events.len() < max {
            let batches = self.batches(Sequence(next), PAGE_BYTES).await?;
            if batches.is_empty() {
                break;
            }
            for batch in batches {
                self.decode(&batch, next, max, &mut events)?;
                next = batch.next().0;
            }
        }
        Ok(events)
    }

    /// Where the log begins and ends, as far as it is durable.
    pub fn bounds(&self) -> Result<LogBounds> {
        self.part.check_live()?;
        let head = self.head()?;
        Ok(LogBounds {
            first: head.first.0,
            next: head.next.0,
        })
    }

    async fn enter(&self, tx: &mut Tx) -> Result<()> {
        self.part.check(tx)?;
        tx.check_write()?;
        let mut patience = WaitDeadline::new(Timeout::default());
        let collection = &self.part.collection;
        tx.enter(collection, LockStrength::Shared, &mut patience)
            .await
    }

    fn head(&self) -> Result<StreamHead> {
        let ledger = self.part.inner.source.ledger()?;
        let head = ledger.stream(self.part.collection.stream());
        let head = head.map_err(|error| Error::storage(error, 0))?;
        Ok(head.unwrap_or_default())
    }

    async fn batches(&self, from: Sequence, bytes: usize) -> Result<Vec<EventBatch>> {
        let stream = self.part.collection.stream();
        let from = ReadPosition::Sequence(from);
        let read = match &self.part.inner.source {
            RowSource::Primary(ledger) => ledger.read_events(stream, from, bytes).await,
            RowSource::Secondary(engine, partition) => {
                engine.read_events(*partition, stream, from, bytes).await
            }
        };
        read.map_err(|error| Error::storage(error, 0))
    }

    fn decode(
        &self,
        batch: &EventBatch,
        from: u64,
        max: usize,
        events: &mut Vec<LogEvent<V>>,
    ) -> Result<()> {
        let collection = &self.part.collection;
        let mut reader = ByteReader::new(batch.bytes.clone());
        for number in batch.first.0..batch.next().0 {
            let bytes: Bytes = reader.bytes().map_err(|error| {
                let what = format!("event {number} of {}", collection.name);
                Error::caused(ErrorKind::Malformed { what }, error)
            })?;
            if number >= from && events.len() < max {
                events.push(LogEvent {
                    number,
                    time: batch.time,
                    value: rows::decode(collection, &bytes)?,
                });
            }
        }
        Ok(())
    }
}

/// Bytes that are read at a time.
const PAGE_BYTES: usize = 256 * 1024;

impl<V> Clone for Log<V> {
    fn clone(&self) -> Self {
        Self {
            part: self.part.clone(),
            value: PhantomData,
        }
    }
}

impl<V: Record> sealed::Sealed for Log<V> {}

impl<V: Record> Handle for Log<V> {
    fn description() -> Description {
        Description {
            shape: Shape::Log,
            key_type: String::new(),
            value_type: V::type_name(),
            codec: CODEC,
        }
    }

    fn attach(part: CollectionBinding) -> Self {
        Self {
            part,
            value: PhantomData,
        }
    }
}
