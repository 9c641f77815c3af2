//! Folders of every released format stay readable.
//!
//! `fixtures/format-1` was written once by the version that introduced format 1
//! and is never written again. `STEADFAST_WRITE_FIXTURE=<folder>` makes this test
//! write such a folder instead, for the next format.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::clock::{Timestamp, VirtualClock};
use steadfast_core::id::{Lsn, Owner, Partition, Sequence, StreamId, TableId};
use steadfast_harness::copy_folder;
use steadfast_storage::engine::{CasOutcome, Engine, ReadPosition, Scan};
use steadfast_storage::{Options, Store, Visibility, Writes};
use steadfast_storage_local::{LocalEngine, Options as LocalOptions};

const P: Partition = Partition::new(0, 3);
const ROWS: TableId = TableId(1);
const CLEARED: TableId = TableId(2);
const EVENTS: StreamId = StreamId(1);

fn open(folder: &Path) -> (Arc<LocalEngine>, Store) {
    let clock = VirtualClock::starting_at(Timestamp(1_790_000_000_000));
    let local = LocalOptions {
        log_file_bytes: 16 * 1024,
        event_file_bytes: 1024,
        inline_event_bytes: 500,
        clock: Arc::new(clock.clone()),
        background: false,
        ..LocalOptions::default()
    };
    let engine = Arc::new(LocalEngine::open(folder, &local).unwrap());
    let mut options = Options::new(Owner {
        node: 1,
        incarnation: 7,
    });
    options.clock = Arc::new(clock);
    options.event_tail = 0;
    (Arc::clone(&engine), Store::start(engine, options))
}

fn value(number: u32) -> Vec<u8> {
    format!("value {number} ")
        .repeat(1 + number as usize % 5)
        .into_bytes()
}

fn events(number: u32) -> Vec<u8> {
    let length = if number.is_multiple_of(7) { 700 } else { 60 };
    vec![number as u8; length]
}

/// Rows, deletions, a cleared table, small and large batches, a trim, a flush in
/// the middle, and a log behind it.
async fn write(folder: &Path) {
    let (engine, store) = open(folder);
    let ledger = store.acquire(P).await.unwrap();
    for number in 0..60u32 {
        let mut writes = Writes::new().with_id(u64::from(number));
        writes.put(ROWS, &number.to_be_bytes(), &value(number));
        writes.put(CLEARED, &number.to_be_bytes(), b"soon gone");
        writes.publish(EVENTS, 2, events(number).into());
        if number.is_multiple_of(10) {
            writes.delete(ROWS, &(number / 2).to_be_bytes());
        }
        if number == 40 {
            writes.clear(CLEARED);
            let batch = ledger
                .read_events(EVENTS, ReadPosition::Sequence(Sequence(20)), 1)
                .await;
            let batch = batch.unwrap().remove(0);
            writes.trim(EVENTS, batch.first, batch.offset);
        }
        ledger.commit(writes).await.unwrap();
        if number == 30 || number == 45 {
            ledger.flush().await.unwrap();
        }
    }
    engine
        .cas("nodes/1", 0, Bytes::from_static(b"first"))
        .await
        .unwrap();
    engine
        .cas("nodes/1", 1, Bytes::from_static(b"second"))
        .await
        .unwrap();
    store.close().await;
}

async fn check(folder: &Path) {
    let (engine, store) = open(folder);
    let ledger = store.acquire(P).await.unwrap();
    assert_eq!(*ledger.durable().borrow(), Lsn(60));
    let deleted: Vec<u32> = (0..60u32).step_by(10).map(|number| number / 2).collect();
    for number in 0..60u32 {
        let row = ledger
            .get(ROWS, &number.to_be_bytes(), Visibility::Durable)
            .await
            .unwrap();
        // Row 0 deletes itself; the others were there before.
        let expected = (!deleted.contains(&number)).then(|| value(number));
        assert_eq!(row.as_deref(), expected.as_deref(), "row {number}");
    }
    let snapshot = ledger.snapshot().unwrap();
    let rest = snapshot.scan(CLEARED, Scan::all(100)).await.unwrap();
    assert_eq!(rest.len(), 19, "rows after the clear");
    let head = ledger.stream(EVENTS).unwrap().unwrap();
    assert_eq!((head.first, head.next), (Sequence(20), Sequence(120)));
    let batches = ledger
        .read_events(EVENTS, ReadPosition::Sequence(Sequence(0)), usize::MAX)
        .await
        .unwrap();
    assert_eq!(batches.len(), 50);
    for (batch, number) in batches.iter().zip(10..) {
        assert_eq!(batch.bytes, events(number), "batch {number}");
        assert_eq!(batch.time, Timestamp(1_790_000_000_000));
    }
    let record = engine.list("nodes/").await.unwrap().remove(0);
    assert_eq!((record.version, &record.value[..]), (2, &b"second"[..]));
    let third = engine
        .cas("nodes/1", 2, Bytes::from_static(b"third"))
        .await
        .unwrap();
    assert_eq!(third, CasOutcome::Done(3));
    let mut writes = Writes::new();
    writes.publish(EVENTS, 1, events(60).into());
    let placed = ledger.commit(writes).await.unwrap().positions[0];
    assert_eq!(placed.first, Sequence(120));
    drop(snapshot);
    ledger.flush().await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn format_1_opens() {
    if let Some(folder) = std::env::var_os("STEADFAST_WRITE_FIXTURE") {
        return write(Path::new(&folder)).await;
    }
    let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1");
    let folder = tempfile::tempdir().unwrap();
    copy_folder(&frozen, &folder.path().join("data")).unwrap();
    check(&folder.path().join("data")).await;
}

/// What this version writes, it reads.
#[tokio::test]
async fn todays_format_opens() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path()).await;
    check(folder.path()).await;
}
