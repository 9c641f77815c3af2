//! Memory is believed only while the lease of its node holds.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::{Timestamp, VirtualClock};
use steadfast_core::id::{Owner, Partition, StreamId, TableId};
use steadfast_storage::hostile::{EngineFaults, HostileEngine};
use steadfast_storage::memory::MemoryEngine;
use steadfast_storage::{Ledger, NodeLease, Options, Store, Visibility, Writes};

const TABLE: TableId = TableId(7);
const PARTITION: Partition = Partition(0);
const ENDED: &str = "STF-2019";

fn put(value: &str) -> Writes {
    let mut writes = Writes::new();
    writes.put(TABLE, b"key", value.as_bytes());
    writes
}

async fn read(ledger: &Ledger) -> Result<Option<String>, &'static str> {
    let found = ledger.get(TABLE, b"key", Visibility::Durable).await;
    let text = |value: bytes::Bytes| String::from_utf8_lossy(&value).into_owned();
    found
        .map(|value| value.map(text))
        .map_err(|error| error.code().0)
}

#[tokio::test]
async fn a_node_whose_lease_has_ended_shows_and_takes_nothing() {
    let clock = VirtualClock::starting_at(Timestamp(1_000));
    let engine = Arc::new(MemoryEngine::with_clock(Arc::new(clock.clone())));
    let lease = NodeLease::new(Arc::new(clock.clone()));
    let owner = Owner {
        node: 1,
        incarnation: 1,
    };
    let options = Options {
        clock: Arc::new(clock.clone()),
        lease: Some(lease.clone()),
        background: false,
        ..Options::new(owner)
    };
    let store = Store::start(engine, options);
    lease.begin(Duration::from_secs(10));
    let ledger = store.acquire(PARTITION).await.unwrap();
    ledger.commit(put("one")).await.unwrap();
    assert_eq!(read(&ledger).await, Ok(Some("one".to_owned())));
    let snapshot = ledger.snapshot().unwrap();
    clock.advance(Duration::from_secs(10));
    assert_eq!(read(&ledger).await, Err(ENDED));
    let code = |error: steadfast_storage::Error| error.code().0;
    assert_eq!(snapshot.get(TABLE, b"key").await.map_err(code), Err(ENDED));
    assert_eq!(ledger.stream(StreamId(1)).map_err(code), Err(ENDED));
    assert_eq!(ledger.snapshot().err().map(code), Some(ENDED));
    assert_eq!(ledger.stage(put("two")).err().map(code), Some(ENDED));
    // Renewing does not bring back what may be another's by now.
    assert!(!lease.extend(Duration::from_secs(30)));
    assert_eq!(store.abandon_all(), 1);
    lease.begin(Duration::from_secs(30));
    assert_eq!(read(&ledger).await, Err(ENDED));
    let again = store.acquire(PARTITION).await.unwrap();
    assert_eq!(read(&again).await, Ok(Some("one".to_owned())));
    again.commit(put("two")).await.unwrap();
    assert_eq!(read(&again).await, Ok(Some("two".to_owned())));
}

/// A lease that ends and begins anew while a partition is being taken: others may have
/// taken it meanwhile, so this node does not have it.
#[tokio::test]
async fn what_is_taken_across_two_leases_is_not_kept() {
    let clock = VirtualClock::default();
    let lease = NodeLease::new(Arc::new(clock.clone()));
    let faults = EngineFaults {
        delay: 95,
        ..EngineFaults::default()
    };
    let engine = HostileEngine::new(Arc::new(MemoryEngine::new()), faults, 3);
    let options = Options {
        lease: Some(lease.clone()),
        background: false,
        ..Options::new(Owner {
            node: 1,
            incarnation: 1,
        })
    };
    let store = Store::start(Arc::new(engine), options);
    lease.begin(Duration::from_secs(5));
    let partition = Partition::new(0, 0);
    let mut taking = Box::pin(store.acquire(partition));
    assert!(futures_util::poll!(&mut taking).is_pending());
    clock.advance(Duration::from_secs(6));
    assert_eq!(store.abandon_all(), 0, "it does not have it yet");
    lease.begin(Duration::from_secs(20));
    let Err(error) = taking.await else {
        panic!("it has what others may have");
    };
    assert_eq!(error.code().0, "STF-2019");
    assert!(store.owned().is_empty());
    let taken = store.acquire(partition).await;
    assert!(taken.is_ok(), "in one lease it is taken");
}

/// What operators see of entries that had no plain end.
#[tokio::test]
async fn refused_and_doubtful_entries_are_counted() {
    let memory = Arc::new(MemoryEngine::new());
    let doubtful = EngineFaults {
        unknown_applied: 100,
        ..EngineFaults::default()
    };
    let hostile = Arc::new(HostileEngine::new(
        memory.clone(),
        EngineFaults::default(),
        1,
    ));
    let owner = |node| Owner {
        node,
        incarnation: 1,
    };
    let options = |node| Options {
        background: false,
        ..Options::new(owner(node))
    };
    let store = Store::start(hostile.clone(), options(1));
    let ledger = store.acquire(PARTITION).await.unwrap();
    ledger.commit(put("one")).await.unwrap();
    assert_eq!(store.outcomes(), (0, 0));
    hostile.set_faults(doubtful);
    // It happened; that was found out.
    ledger.commit(put("two")).await.unwrap();
    hostile.stop_faults();
    let (fenced, unknown) = store.outcomes();
    assert!(fenced == 0 && unknown >= 1, "{fenced} {unknown}");
    let rival = Store::start(memory, options(2));
    let theirs = rival.acquire(PARTITION).await.unwrap();
    assert_eq!(read(&theirs).await, Ok(Some("two".to_owned())));
    ledger.commit(put("three")).await.unwrap_err();
    assert!(store.outcomes().0 >= 1);
    assert_eq!(rival.outcomes(), (0, 0));
}
