//! A naive model of a partition: a list of transactions.
//!
//! Its state after n transactions is a pure replay of the first n, from a copy of
//! the log that is never trimmed.

#![allow(dead_code, reason = "each test uses its own part of the model")]

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use fastrand::Rng;
use steadfast_core::id::{Lsn, Offset, Sequence, StreamId, TableId};
use steadfast_storage::engine::{BATCH_HEADER_BYTES, EventBatch, ReadPosition, Scan};
use steadfast_storage::{Ledger, Result, Visibility, Writes};

/// Tables and streams are numbered from 1 up to these.
pub(crate) const TABLES: u32 = 3;
pub(crate) const STREAMS: u32 = 3;

/// One change of a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Put(TableId, Vec<u8>, Vec<u8>),
    Delete(TableId, Vec<u8>),
    Clear(TableId),
    Publish(StreamId, u32, Bytes),
    Trim(StreamId, Sequence, Offset),
}

/// All transactions of a partition, in commit order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) transactions: Vec<Vec<Op>>,
    /// The state after all of them.
    pub(crate) state: State,
}

/// What a partition holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) rows: BTreeMap<(u32, Vec<u8>), Vec<u8>>,
    pub(crate) streams: BTreeMap<u32, Events>,
}

/// What a stream holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Events {
    pub(crate) first: u64,
    pub(crate) first_offset: u64,
    pub(crate) next: u64,
    pub(crate) end: u64,
    /// First sequence number, offset, count, length and checksum of every batch
    /// ever.
    pub(crate) batches: Vec<(u64, u64, u32, usize, u32)>,
}

impl State {
    fn apply(&mut self, op: &Op) {
        match op {
            Op::Put(table, key, value) => {
                self.rows.insert((table.0, key.clone()), value.clone());
            }
            Op::Delete(table, key) => {
                self.rows.remove(&(table.0, key.clone()));
            }
            Op::Clear(table) => self.rows.retain(|(t, _), _| *t != table.0),
            Op::Publish(stream, count, bytes) => {
                let events = self.streams.entry(stream.0).or_default();
                let checksum = crc32c::crc32c(bytes);
                let batch = (events.next, events.end, *count, bytes.len(), checksum);
                events.batches.push(batch);
                events.next += u64::from(*count);
                events.end += (BATCH_HEADER_BYTES + bytes.len()) as u64;
            }
            Op::Trim(stream, first, offset) => {
                let events = self.streams.entry(stream.0).or_default();
                if first.0 > events.first && first.0 <= events.next {
                    events.first = first.0;
                    events.first_offset = offset.0;
                }
            }
        }
    }

    /// Rows of one table.
    pub(crate) fn table(&self, table: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
        let rows = self.rows.iter().filter(|((t, _), _)| *t == table);
        rows.map(|((_, key), value)| (key.clone(), value.clone()))
            .collect()
    }
}

impl Model {
    /// Adds a transaction.
    pub(crate) fn push(&mut self, ops: Vec<Op>) {
        for op in &ops {
            self.state.apply(op);
        }
        self.transactions.push(ops);
    }

    /// Forgets all transactions after the first `count`: they never happened.
    pub(crate) fn truncate(&mut self, count: usize) {
        if count < self.transactions.len() {
            self.transactions.truncate(count);
            self.state = State::default();
            for op in self.transactions.iter().flatten() {
                self.state.apply(op);
            }
        }
    }

    /// A random transaction that makes sense after the last one.
    pub(crate) fn random(&self, rng: &mut Rng, large: usize) -> Vec<Op> {
        let mut ops: Vec<Op> = (0..rng.usize(1..6))
            .map(|_| self.random_op(rng, large))
            .collect();
        if ops.iter().all(|op| matches!(op, Op::Trim(..))) {
            ops.push(Op::Put(TableId(1), b"kept".to_vec(), b"busy".to_vec()));
        }
        ops
    }

    fn random_op(&self, rng: &mut Rng, large: usize) -> Op {
        let table = TableId(rng.u32(1..=TABLES));
        let stream = StreamId(rng.u32(1..=STREAMS));
        let key = format!("key {:02}", rng.u8(0..40)).into_bytes();
        match rng.u8(0..100) {
            0..50 => {
                let limit = if rng.u8(0..20) == 0 { large } else { 40 };
                let length = rng.usize(0..limit);
                Op::Put(table, key, random_bytes(rng, length))
            }
            50..65 => Op::Delete(table, key),
            65..68 => Op::Clear(table),
            68..97 => {
                let limit = if rng.u8(0..4) == 0 { large } else { 60 };
                let length = rng.usize(1..limit);
                Op::Publish(stream, rng.u32(1..5), random_bytes(rng, length).into())
            }
            _ => self.random_trim(rng, stream),
        }
    }

    fn random_trim(&self, rng: &mut Rng, stream: StreamId) -> Op {
        let batches = self.state.streams.get(&stream.0).map(|e| &e.batches);
        let batch = batches
            .filter(|b| !b.is_empty())
            .map(|b| &b[rng.usize(0..b.len())]);
        let (first, offset) = batch.map_or((0, 0), |(first, offset, ..)| (*first, *offset));
        Op::Trim(stream, Sequence(first), Offset(offset))
    }
}

fn random_bytes(rng: &mut Rng, length: usize) -> Vec<u8> {
    let byte = rng.u8(..);
    (0..length).map(|i| byte.wrapping_add(i as u8)).collect()
}

/// A transaction as the store takes it.
pub(crate) fn writes(ops: &[Op]) -> Writes {
    let mut writes = Writes::new();
    for op in ops {
        match op {
            Op::Put(table, key, value) => writes.put(*table, key, value),
            Op::Delete(table, key) => writes.delete(*table, key),
            Op::Clear(table) => writes.clear(*table),
            Op::Publish(stream, count, bytes) => writes.publish(*stream, *count, bytes.clone()),
            Op::Trim(stream, first, offset) => writes.trim(*stream, *first, *offset),
        }
    }
    writes
}

/// The last durable LSN.
pub(crate) fn durable(ledger: &Ledger) -> Lsn {
    *ledger.durable().borrow()
}

/// Compares everything that a ledger shows with the model; panics if it differs.
pub(crate) async fn compare(ledger: &Ledger, state: &State, rng: &mut Rng) -> Result<()> {
    let partition = ledger.partition();
    let snapshot = ledger.snapshot()?;
    for table in 1..=TABLES {
        let expected = state.table(table);
        let limit = rng.usize(1..50);
        let mut found = Vec::new();
        let mut from = Bound::Unbounded;
        loop {
            let range = Scan {
                from,
                to: Bound::Unbounded,
                limit,
            };
            let page = snapshot.scan(TableId(table), range).await?;
            let Some(last) = page.last() else {
                break;
            };
            from = Bound::Excluded(last.key.clone());
            found.extend(
                page.iter()
                    .map(|row| (row.key.to_vec(), row.value.to_vec())),
            );
        }
        assert_eq!(found, expected, "table {table} of partition {partition}");
        let key = format!("key {:02}", rng.u8(0..40)).into_bytes();
        let expected = state.rows.get(&(table, key.clone()));
        let found = ledger
            .get(TableId(table), &key, Visibility::Durable)
            .await?;
        assert_eq!(found.as_deref(), expected.map(Vec::as_slice));
    }
    for stream in 1..=STREAMS {
        compare_stream(ledger, StreamId(stream), state.streams.get(&stream), rng).await?;
    }
    Ok(())
}

async fn compare_stream(
    ledger: &Ledger,
    stream: StreamId,
    expected: Option<&Events>,
    rng: &mut Rng,
) -> Result<()> {
    let partition = ledger.partition();
    let head = ledger.stream(stream)?.unwrap_or_default();
    let none = Events::default();
    let expected = expected.unwrap_or(&none);
    assert_eq!(
        (head.first.0, head.first_offset.0, head.next.0, head.end.0),
        (
            expected.first,
            expected.first_offset,
            expected.next,
            expected.end
        ),
        "head of {stream:?} of partition {partition}"
    );
    let max_bytes = rng.usize(1..4000);
    let mut next = head.first;
    let mut found = Vec::new();
    loop {
        let page = ledger
            .read_events(stream, ReadPosition::Sequence(next), max_bytes)
            .await?;
        let Some(last) = page.last() else {
            break;
        };
        next = last.next();
        found.extend(page.iter().map(facts));
    }
    let live = expected.batches.iter();
    let live = live.filter(|(first, _, count, ..)| first + u64::from(*count) > head.first.0);
    let live: Vec<_> = live.cloned().collect();
    assert_eq!(found, live, "{stream:?} of partition {partition}");
    if let Some((first, offset, ..)) = live.get(rng.usize(0..live.len().max(1))) {
        let page = ledger
            .read_events(stream, ReadPosition::Offset(Offset(*offset)), 1)
            .await?;
        assert_eq!(page.first().map(|batch| batch.first.0), Some(*first));
    }
    Ok(())
}

fn facts(batch: &EventBatch) -> (u64, u64, u32, usize, u32) {
    let checksum = crc32c::crc32c(&batch.bytes);
    let (first, offset) = (batch.first.0, batch.offset.0);
    (first, offset, batch.count, batch.bytes.len(), checksum)
}
