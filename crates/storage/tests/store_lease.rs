//! Memory is believed only while the lease of its node holds.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::{Timestamp, VirtualClock};
use steadfast_core::id::{Owner, Partition, Stream, Table};
use steadfast_storage::hostile::{Faults, Hostile};
use steadfast_storage::memory::Memory;
use steadfast_storage::{Lease, Ledger, Options, Store, View, Writes};

const TABLE: Table = Table(7);
const PARTITION: Partition = Partition(0);
const ENDED: &str = "STF-2019";

fn put(value: &str) -> Writes {
    let mut writes = Writes::new();
    writes.put(TABLE, b"key", value.as_bytes());
    writes
}

async fn read(ledger: &Ledger) -> Result<Option<String>, &'static str> {
    let found = ledger.get(TABLE, b"key", View::Durable).await;
    let text = |value: bytes::Bytes| String::from_utf8_lossy(&value).into_owned();
    found
        .map(|value| value.map(text))
        .map_err(|error| error.code().0)
}

#[tokio::test]
async fn a_node_whose_lease_has_ended_shows_and_takes_nothing() {
    let clock = VirtualClock::starting_at(Timestamp(1_000));
    let engine = Arc::new(Memory::with_clock(Arc::new(clock.clone())));
    let lease = Lease::new(Arc::new(clock.clone()));
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
    assert_eq!(ledger.stream(Stream(1)).map_err(code), Err(ENDED));
    assert_eq!(ledger.snapshot().err().map(code), Some(ENDED));
    assert_eq!(ledger.stage(put("two")).err().map(code), Some(ENDED));
    // Renewing does not bring back what may be another's by now.
    assert!(!lease.extend(Duration::from_secs(30)));
    assert_eq!(store.lapse(), 1);
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
    let lease = Lease::new(Arc::new(clock.clone()));
    let faults = Faults {
        delay: 95,
        ..Faults::default()
    };
    let engine = Hostile::new(Arc::new(Memory::new()), faults, 3);
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
    assert_eq!(store.lapse(), 0, "it does not have it yet");
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
    let memory = Arc::new(Memory::new());
    let doubtful = Faults {
        unknown_applied: 100,
        ..Faults::default()
    };
    let hostile = Arc::new(Hostile::new(memory.clone(), Faults::default(), 1));
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
    hostile.set(doubtful);
    // It happened; that was found out.
    ledger.commit(put("two")).await.unwrap();
    hostile.calm();
    let (fenced, unknown) = store.outcomes();
    assert!(fenced == 0 && unknown >= 1, "{fenced} {unknown}");
    let rival = Store::start(memory, options(2));
    let theirs = rival.acquire(PARTITION).await.unwrap();
    assert_eq!(read(&theirs).await, Ok(Some("two".to_owned())));
    ledger.commit(put("three")).await.unwrap_err();
    assert!(store.outcomes().0 >= 1);
    assert_eq!(rival.outcomes(), (0, 0));
}
