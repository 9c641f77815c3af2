//! What the tests of the engine on PostgreSQL share.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::id::{
    EntryNumber, Epoch, Offset, Owner, Partition, Sequence, StreamId, TableId,
};
use steadfast_harness::postgres::{PostgresCluster, PostgresServer};
use steadfast_storage::engine::{
    AcquireOutcome, Engine, Entry, EventBatch, Flush, FlushedRow, Outcome, Tenure,
};
use steadfast_storage_postgres::{Durability, Options, PostgresEngine};

pub(crate) const P: Partition = Partition(1);
pub(crate) const Q: Partition = Partition(2);
pub(crate) const R: Partition = Partition(3);
pub(crate) const T: TableId = TableId(1);
pub(crate) const S: StreamId = StreamId(1);
pub(crate) const WE: Owner = Owner {
    node: 1,
    incarnation: 11,
};
pub(crate) const THEY: Owner = Owner {
    node: 2,
    incarnation: 22,
};

/// Runs what waits for other processes.
pub(crate) fn wait<T>(work: impl FnOnce() -> anyhow::Result<T>) -> T {
    tokio::task::block_in_place(work).unwrap()
}

/// A cluster of three.
pub(crate) fn cluster() -> PostgresCluster {
    wait(PostgresCluster::start)
}

/// Quick to notice and to give up on a statement.
pub(crate) fn quorum(cluster: &PostgresCluster) -> Options {
    Options {
        deadline: Duration::from_secs(2),
        check_every: Duration::from_millis(300),
        ..Options::new(cluster.url())
    }
}

/// Quick to notice, and patient with a statement on a busy machine.
pub(crate) fn patient(cluster: &PostgresCluster) -> Options {
    Options {
        deadline: Duration::from_secs(20),
        ..quorum(cluster)
    }
}

/// A schema of its own on the server that all tests of a process share.
pub(crate) fn single() -> Options {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let url = wait(|| Ok(PostgresServer::shared().url("postgres")));
    Options {
        durability: Durability::Single,
        schema: format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed)),
        ..Options::new(url)
    }
}

pub(crate) async fn open(options: Options) -> PostgresEngine {
    PostgresEngine::open(options).await.unwrap()
}

pub(crate) async fn take(
    engine: &PostgresEngine,
    partition: Partition,
    owner: Owner,
    expect: u64,
) -> Tenure {
    let expect = Epoch(expect);
    match engine.acquire(partition, owner, expect).await.unwrap() {
        AcquireOutcome::Granted(tenure) => tenure,
        refused => panic!("{refused:?}"),
    }
}

pub(crate) fn entry(partition: Partition, epoch: u64, number: u64, body: &[u8]) -> Entry {
    Entry {
        partition,
        epoch: Epoch(epoch),
        number: EntryNumber(number),
        body: Bytes::copy_from_slice(body),
        batches: Vec::new(),
    }
}

/// An entry with one event, in a stream of entries that all have one.
pub(crate) fn event(partition: Partition, epoch: u64, number: u64, body: &[u8]) -> Entry {
    let mut entry = entry(partition, epoch, number, b"event");
    entry.batches.push(EventBatch::new(
        S,
        Sequence(number - 1),
        Offset((number - 1) * (40 + body.len() as u64)),
        1,
        Timestamp(1_790_000_000_000),
        Bytes::copy_from_slice(body),
    ));
    entry
}

pub(crate) async fn commit(engine: &PostgresEngine, entry: Entry) {
    let outcome = engine.append(&[entry]).await.unwrap();
    assert_eq!(outcome, [Outcome::Committed]);
}

/// A flush that puts `rows` rows of 100 bytes, numbered from 0.
pub(crate) fn flush(partition: Partition, epoch: u64, up_to: u64, rows: u32) -> Flush {
    let row = |number: u32| FlushedRow {
        table: T,
        key: Bytes::copy_from_slice(&number.to_be_bytes()),
        value: Some(vec![number as u8; 100].into()),
    };
    Flush {
        partition,
        epoch: Epoch(epoch),
        up_to: EntryNumber(up_to),
        clears: Vec::new(),
        rows: (0..rows).map(row).collect(),
        trims: Vec::new(),
        meta: Bytes::new(),
    }
}
