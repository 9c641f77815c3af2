//! What the store adds to an engine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use steadfast_core::clock::{Timestamp, VirtualClock};
use steadfast_core::id::{Lsn, Owner, Partition, Sequence, StreamId, TableId};
use steadfast_harness::FakeDisk;
use steadfast_storage::engine::{Engine, ReadPosition, Scan};
use steadfast_storage::hostile::{EngineFaults, HostileEngine};
use steadfast_storage::memory::MemoryEngine;
use steadfast_storage::{
    ErrorKind, Ledger, MemoryLookup, Options, RetentionBounds, Store, Visibility, Writes,
};
use steadfast_storage_local::{self as local, LocalEngine};

use crate::model::{Model, compare, durable, writes};

const P: Partition = Partition(7);
const T: TableId = TableId(1);
const S: StreamId = StreamId(1);

fn options() -> Options {
    Options::new(Owner {
        node: 1,
        incarnation: 1,
    })
}

async fn on_memory(options: Options) -> (Store, Ledger) {
    let store = Store::start(Arc::new(MemoryEngine::new()), options);
    let ledger = store.acquire(P).await.unwrap();
    (store, ledger)
}

fn put(key: &str, value: &str) -> Writes {
    let mut writes = Writes::new();
    writes.put(T, key.as_bytes(), value.as_bytes());
    writes
}

async fn get(ledger: &Ledger, key: &str) -> Option<String> {
    let value = ledger
        .get(T, key.as_bytes(), Visibility::Durable)
        .await
        .unwrap();
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

#[tokio::test]
async fn durable_reads_wait_for_the_commit() {
    let (_store, ledger) = on_memory(options()).await;
    ledger.commit(put("k", "old")).await.unwrap();
    let staged = ledger.stage(put("k", "new")).unwrap();
    // Nothing has run since: the group is not even sent.
    let seen = |view| ledger.peek(T, b"k", view).unwrap();
    assert_eq!(
        seen(Visibility::Durable),
        MemoryLookup::Found(Some(Bytes::from_static(b"old")))
    );
    assert_eq!(
        seen(Visibility::Staged),
        MemoryLookup::Found(Some(Bytes::from_static(b"new")))
    );
    ledger.wait(staged.lsn).await.unwrap();
    assert_eq!(
        seen(Visibility::Durable),
        MemoryLookup::Found(Some(Bytes::from_static(b"new")))
    );
}

#[tokio::test]
async fn lsns_are_dense_and_waiters_complete_in_order() {
    let (_store, ledger) = on_memory(options()).await;
    let done = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for expected in 1..=50u64 {
        let commit = ledger.commit(put("k", &expected.to_string()));
        let done = Arc::clone(&done);
        tasks.push(tokio::spawn(async move {
            let lsn = commit.await.unwrap().lsn;
            assert_eq!(lsn, Lsn(expected));
            done.lock().push(lsn);
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert!(done.lock().is_sorted());
}

#[tokio::test]
async fn a_dropped_commit_still_commits() {
    let (_store, ledger) = on_memory(options()).await;
    drop(ledger.commit(put("k", "v")));
    ledger.wait(Lsn(1)).await.unwrap();
    assert_eq!(get(&ledger, "k").await.as_deref(), Some("v"));
}

#[tokio::test]
async fn one_group_carries_what_was_staged_together() {
    let (_store, ledger) = on_memory(options()).await;
    let mut commits = Vec::new();
    for index in 0..100 {
        commits.push(ledger.commit(put(&index.to_string(), "v")));
    }
    for commit in commits {
        commit.await.unwrap();
    }
    let engine = _store.engine();
    let log = engine
        .replay(P, steadfast_core::id::EntryNumber(1), usize::MAX)
        .await
        .unwrap();
    assert_eq!(log.len(), 1, "100 transactions should share one entry");
}

#[tokio::test]
async fn a_snapshot_stands_still() {
    let (store, ledger) = on_memory(options()).await;
    for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
        ledger.commit(put(key, value)).await.unwrap();
    }
    ledger.flush().await.unwrap();
    let snapshot = ledger.snapshot().unwrap();
    let mut change = put("a", "9");
    change.delete(T, b"b");
    change.put(T, b"d", b"4");
    ledger.commit(change).await.unwrap();
    let mut clear = Writes::new();
    clear.clear(T);
    ledger.commit(clear).await.unwrap();
    ledger.commit(put("e", "5")).await.unwrap();
    let rows = snapshot.scan(T, Scan::all(10)).await.unwrap();
    let rows: Vec<_> = rows
        .iter()
        .map(|row| (&row.key[..], &row.value[..]))
        .collect();
    assert_eq!(rows, [(&b"a"[..], &b"1"[..]), (b"b", b"2"), (b"c", b"3")]);
    assert_eq!(
        snapshot.get(T, b"b").await.unwrap(),
        Some(Bytes::from_static(b"2"))
    );
    // A flush must not pass it; once it is dropped, one may.
    let waiting = tokio::time::timeout(Duration::from_millis(50), ledger.flush());
    assert!(waiting.await.is_err(), "the flush passed a snapshot");
    assert!(store.unflushed() > 0);
    assert_eq!(
        snapshot.get(T, b"c").await.unwrap(),
        Some(Bytes::from_static(b"3"))
    );
    drop(snapshot);
    ledger.flush().await.unwrap();
    assert_eq!(store.unflushed(), 0);
    assert_eq!(get(&ledger, "a").await, None);
    assert_eq!(get(&ledger, "e").await.as_deref(), Some("5"));
}

#[tokio::test]
async fn an_old_snapshot_expires() {
    let clock = VirtualClock::default();
    let mut options = options();
    options.clock = Arc::new(clock.clone());
    let (_store, ledger) = on_memory(options).await;
    ledger.commit(put("a", "1")).await.unwrap();
    let snapshot = ledger.snapshot().unwrap();
    ledger.commit(put("a", "2")).await.unwrap();
    clock.advance(Duration::from_secs(31));
    ledger.flush().await.unwrap();
    let error = snapshot.get(T, b"a").await.unwrap_err();
    assert_eq!(error.code().0, "STF-2011", "{error}");
    let error = snapshot.scan(T, Scan::all(1)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::SnapshotExpired { .. }));
}

#[tokio::test]
async fn a_snapshot_that_holds_up_too_much_expires() {
    let mut options = options();
    options.log_target = 40_000;
    let (store, ledger) = on_memory(options).await;
    let snapshot = ledger.snapshot().unwrap();
    for index in 0..80 {
        ledger
            .commit(put(&index.to_string(), &"x".repeat(1000)))
            .await
            .unwrap();
    }
    while store.unflushed() > 40_000 {
        tokio::task::yield_now().await;
    }
    let error = snapshot.get(T, b"1").await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::SnapshotExpired { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn writers_are_throttled_and_let_go() {
    let mut options = options();
    options.log_target = 1_000_000;
    options.log_limit = 20_000;
    let (_store, ledger) = on_memory(options).await;
    let mut refused = None;
    for index in 0..30 {
        if let Err(error) = ledger
            .commit(put(&index.to_string(), &"x".repeat(1000)))
            .await
        {
            refused = Some(error);
            break;
        }
    }
    let error = refused.expect("30 KB fit into 20 KB");
    assert_eq!(error.code().0, "STF-2008", "{error}");
    ledger.flush().await.unwrap();
    ledger.commit(put("after", "v")).await.unwrap();
}

#[tokio::test]
async fn cold_rows_are_missing_until_they_are_loaded() {
    let mut options = options();
    options.row_cache = 1;
    let (_store, ledger) = on_memory(options).await;
    ledger.commit(put("cold", "v")).await.unwrap();
    ledger.flush().await.unwrap();
    assert_eq!(
        ledger.peek(T, b"cold", Visibility::Durable).unwrap(),
        MemoryLookup::Missing
    );
    assert_eq!(get(&ledger, "cold").await.as_deref(), Some("v"));
}

#[tokio::test]
async fn rows_that_were_read_stay_in_memory() {
    let (_store, ledger) = on_memory(options()).await;
    ledger.commit(put("hot", "1")).await.unwrap();
    ledger.flush().await.unwrap();
    assert_eq!(get(&ledger, "hot").await.as_deref(), Some("1"));
    let found = ledger.peek(T, b"hot", Visibility::Durable).unwrap();
    assert_eq!(found, MemoryLookup::Found(Some(Bytes::from_static(b"1"))));
    ledger.commit(put("hot", "2")).await.unwrap();
    ledger.flush().await.unwrap();
    let found = ledger.peek(T, b"hot", Visibility::Durable).unwrap();
    assert_eq!(found, MemoryLookup::Found(Some(Bytes::from_static(b"2"))));
}

#[tokio::test]
async fn a_second_owner_fences_the_first() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let first = Store::start(Arc::clone(&engine), options());
    let mut other = options();
    other.owner.node = 2;
    let second = Store::start(engine, other);
    let old = first.acquire(P).await.unwrap();
    old.commit(put("k", "1")).await.unwrap();
    let new = second.acquire(P).await.unwrap();
    let error = old.commit(put("k", "2")).await.unwrap_err();
    assert_eq!(error.code().0, "STF-2007", "{error}");
    assert!(
        old.stage(put("k", "3")).is_err(),
        "a fenced ledger takes nothing"
    );
    assert!(old.get(T, b"k", Visibility::Durable).await.is_err());
    assert_eq!(get(&new, "k").await.as_deref(), Some("1"));
    assert!(new.epoch() > old.epoch());
}

#[tokio::test]
async fn a_live_owner_holds_its_partition() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let first = Store::start(Arc::clone(&engine), options());
    let mut other = options();
    other.owner.node = 2;
    let second = Store::start(Arc::clone(&engine), other);
    engine
        .renew(options().owner, Duration::from_secs(60))
        .await
        .unwrap();
    let ledger = first.acquire(P).await.unwrap();
    ledger.commit(put("k", "1")).await.unwrap();
    let error = second.acquire(P).await.err().unwrap();
    assert_eq!(error.code().0, "STF-2013", "{error}");
    first.release(&ledger).await.unwrap();
    assert_eq!(
        ledger.stage(put("k", "2")).unwrap_err().code().0,
        "STF-2012"
    );
    let taken = second.acquire(P).await.unwrap();
    assert_eq!(get(&taken, "k").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn what_is_too_large_changes_nothing() {
    let (_store, ledger) = on_memory(options()).await;
    let mut large = Writes::new();
    large.put(T, &[0; 5000], b"");
    assert_eq!(ledger.stage(large).unwrap_err().code().0, "STF-2009");
    let mut large = Writes::new();
    large.publish(S, 1, vec![0; 17 * 1024 * 1024].into());
    assert_eq!(ledger.stage(large).unwrap_err().code().0, "STF-2009");
    let staged = ledger.commit(put("k", "v")).await.unwrap();
    assert_eq!(staged.lsn, Lsn(1));
}

#[tokio::test]
async fn what_was_taken_back_is_never_acknowledged() {
    let faults = EngineFaults {
        refused: 100,
        ..EngineFaults::default()
    };
    let memory: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let hostile = Arc::new(HostileEngine::new(memory, faults, 1));
    let store = Store::start(Arc::clone(&hostile) as _, options());
    let ledger = store.acquire(P).await.unwrap();
    let seen = ledger.rollbacks();
    let lost = ledger.stage(put("a", "1")).unwrap();
    let dependent = put("b", "from a");
    // The flusher must not wait endlessly for the entry that will not come.
    let flushing = ledger.flush();
    let (flushed, refused) = tokio::join!(flushing, ledger.commit(put("c", "1")));
    flushed.unwrap();
    assert_eq!(refused.unwrap_err().code().0, "STF-2004");
    let error = ledger.stage_after(seen, dependent).unwrap_err();
    assert_eq!(error.code().0, "STF-2017", "{error}");
    hostile.stop_faults();
    let next = ledger.commit(put("d", "1")).await.unwrap();
    assert!(next.lsn > lost.lsn, "an LSN was given twice");
    assert_eq!(
        ledger.wait(lost.lsn).await.unwrap_err().code().0,
        "STF-2017"
    );
    assert_eq!(get(&ledger, "a").await, None);
    let again = store.acquire(P).await.unwrap();
    assert_eq!(get(&again, "d").await.as_deref(), Some("1"));
    assert_eq!(durable(&again), next.lsn);
}

#[tokio::test]
async fn a_partition_without_handles_is_still_flushed() {
    let (store, ledger) = on_memory(options()).await;
    ledger.commit(put("k", &"x".repeat(1000))).await.unwrap();
    let before = store.unflushed();
    drop(ledger);
    for _ in 0..5 {
        let ledger = store.acquire(P).await.unwrap();
        assert_eq!(store.unflushed(), before);
        drop(ledger);
    }
    store.flush().await.unwrap();
    assert_eq!(store.unflushed(), 0);
}

#[tokio::test]
async fn a_trim_behind_the_end_is_refused() {
    let (_store, ledger) = on_memory(options()).await;
    ledger.commit(publish(5, 10)).await.unwrap();
    let mut writes = publish(10, 10);
    writes.trim(S, Sequence(10), steadfast_core::id::Offset(50));
    let error = ledger.stage(writes).unwrap_err();
    assert_eq!(error.code().0, "STF-2018", "{error}");
    assert_eq!(ledger.stream(S).unwrap().unwrap().next, Sequence(5));
}

#[tokio::test]
async fn a_dropped_store_lets_its_folder_go() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let engine = LocalEngine::open(folder.path(), &local::Options::default()).unwrap();
        let store = Store::start(Arc::new(engine), options());
        let ledger = store.acquire(P).await.unwrap();
        ledger.stage(put("k", "v")).unwrap();
        store.close().await;
    }
}

#[tokio::test]
async fn owner_time_never_goes_back() {
    let clock = VirtualClock::starting_at(Timestamp(5000));
    let mut options = options();
    options.clock = Arc::new(clock.clone());
    let (_store, ledger) = on_memory(options).await;
    assert_eq!(
        ledger.commit(put("k", "v")).await.unwrap().time,
        Timestamp(5000)
    );
    clock.jump_to(Timestamp(1000));
    assert_eq!(
        ledger.commit(put("k", "v")).await.unwrap().time,
        Timestamp(5000)
    );
    assert_eq!(ledger.time(), Timestamp(5000));
}

fn publish(count: u32, size: usize) -> Writes {
    let mut writes = Writes::new();
    writes.publish(S, count, vec![7; size].into());
    writes
}

#[tokio::test]
async fn readers_follow_the_tail_without_polling() {
    let (_store, ledger) = on_memory(options()).await;
    let reader = ledger.clone();
    let follow = tokio::spawn(async move {
        let mut durable = reader.durable();
        let mut next = Sequence(0);
        while next < Sequence(100) {
            durable.changed().await.unwrap();
            for batch in reader
                .read_events(S, ReadPosition::Sequence(next), usize::MAX)
                .await
                .unwrap()
            {
                assert_eq!(batch.first, next);
                next = batch.next();
            }
        }
    });
    for _ in 0..50 {
        ledger.commit(publish(2, 10)).await.unwrap();
    }
    tokio::time::timeout(Duration::from_secs(10), follow)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn retention_trims_by_age_and_size() {
    for (engine, event_tail) in [
        (memory_engine(), 1_000_000),
        (local_engine(), 1_000_000),
        (memory_engine(), 0),
        (local_engine(), 0),
    ] {
        let clock = VirtualClock::starting_at(Timestamp(1_000_000));
        let mut options = options();
        options.clock = Arc::new(clock.clone());
        options.event_tail = event_tail;
        let store = Store::start(engine.0, options);
        let ledger = store.acquire(P).await.unwrap();
        for _ in 0..10 {
            ledger.commit(publish(3, 60)).await.unwrap();
            clock.advance(Duration::from_secs(1));
        }
        let keep = |age, bytes| RetentionBounds {
            age: Some(Duration::from_secs(age)),
            bytes: Some(bytes),
        };
        assert_eq!(ledger.retain(S, keep(100, 10_000)).await.unwrap(), 0);
        assert_eq!(ledger.retain(S, keep(8, 10_000)).await.unwrap(), 6);
        assert_eq!(ledger.stream(S).unwrap().unwrap().first, Sequence(6));
        // The trimmed batches are still there below; they must not confuse it.
        assert_eq!(ledger.retain(S, keep(100, 10_000)).await.unwrap(), 0);
        ledger.flush().await.unwrap();
        // Each batch takes 100 bytes with its header.
        assert_eq!(ledger.retain(S, keep(100, 250)).await.unwrap(), 18);
        let rest = ledger
            .read_events(S, ReadPosition::Sequence(Sequence(0)), usize::MAX)
            .await
            .unwrap();
        assert_eq!(rest.iter().map(|b| b.first.0).collect::<Vec<_>>(), [24, 27]);
        clock.advance(Duration::from_secs(1000));
        assert_eq!(ledger.retain(S, keep(8, 10_000)).await.unwrap(), 6);
        let placed = ledger.commit(publish(1, 1)).await.unwrap().positions[0];
        assert_eq!(
            placed.first,
            Sequence(30),
            "numbers go on after everything was trimmed"
        );
        store.close().await;
    }
}

type Held = (Arc<dyn Engine>, Option<tempfile::TempDir>);

fn memory_engine() -> Held {
    (Arc::new(MemoryEngine::new()), None)
}

fn local_engine() -> Held {
    let folder = tempfile::tempdir().unwrap();
    let options = local::Options {
        log_file_bytes: 64 * 1024,
        event_file_bytes: 2 * 1024,
        inline_event_bytes: 1000,
        ..local::Options::default()
    };
    (
        Arc::new(LocalEngine::open(folder.path(), &options).unwrap()),
        Some(folder),
    )
}

/// Random transactions, flushes, snapshots and new owners, against the model.
#[test]
fn the_store_is_like_its_model() {
    for seed in 0..150 {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build().unwrap();
        let engine = if seed % 3 == 0 {
            local_engine()
        } else {
            memory_engine()
        };
        println!("seed {seed}");
        runtime.block_on(run_model(engine.0, seed));
    }
}

async fn run_model(engine: Arc<dyn Engine>, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let mut options = options();
    options.row_cache = rng.u64(1..20_000);
    options.event_tail = rng.u64(0..5_000);
    options.log_target = rng.u64(5_000..100_000);
    let store = Store::start(engine, options);
    let mut ledger = store.acquire(P).await.unwrap();
    let mut model = Model::default();
    let mut snapshots = Vec::new();
    for _ in 0..rng.usize(20..150) {
        match rng.u8(0..20) {
            0 => {
                snapshots.clear();
                ledger.flush().await.unwrap();
            }
            1 => compare(&ledger, &model.state, &mut rng).await.unwrap(),
            2 => snapshots.push((ledger.snapshot().unwrap(), model.state.clone())),
            3 if !snapshots.is_empty() => {
                let (snapshot, state) = snapshots.swap_remove(rng.usize(0..snapshots.len()));
                for table in 1..=crate::model::TABLES {
                    match snapshot.scan(TableId(table), Scan::all(1000)).await {
                        Ok(rows) => {
                            let found = rows.iter().map(|r| (r.key.to_vec(), r.value.to_vec()));
                            assert_eq!(found.collect::<Vec<_>>(), state.table(table));
                        }
                        Err(error) => {
                            assert!(matches!(error.kind(), ErrorKind::SnapshotExpired { .. }))
                        }
                    }
                }
            }
            4 => {
                snapshots.clear();
                ledger = store.acquire(P).await.unwrap();
                assert_eq!(durable(&ledger).0 as usize, model.transactions.len());
            }
            _ => {
                let ops = model.random(&mut rng, 3000);
                ledger.commit(writes(&ops)).await.unwrap();
                model.push(ops);
            }
        }
    }
    snapshots.clear();
    compare(&ledger, &model.state, &mut rng).await.unwrap();
    store.close().await;
}

/// Everything that the seam allows: acknowledged commits are there, none twice.
#[test]
fn nothing_is_lost_on_a_hostile_engine() {
    for seed in 0..400 {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        println!("seed {seed}");
        runtime.block_on(run_hostile(seed));
    }
}

async fn run_hostile(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let memory: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let hostile = HostileEngine::new(Arc::clone(&memory), EngineFaults::all(), seed);
    let mut options = options();
    options.log_target = 3_000;
    let store = Store::start(Arc::new(hostile), options.clone());
    let partitions: Vec<_> = (0..4).map(Partition).collect();
    let mut acked: BTreeMap<u64, (usize, u64)> = BTreeMap::new();
    let mut sent = Vec::new();
    for _ in 0..rng.usize(1..12) {
        let mut ledgers = Vec::new();
        for partition in &partitions {
            // The answer of an acquire may be lost: ask again.
            let ledger = loop {
                match store.acquire(*partition).await {
                    Ok(ledger) => break ledger,
                    Err(error) => assert_eq!(error.code().0, "STF-2014", "{error}"),
                }
            };
            ledgers.push(ledger);
        }
        for _ in 0..rng.usize(1..15) {
            let mut commits = Vec::new();
            for _ in 0..rng.usize(1..10) {
                let index = rng.usize(0..ledgers.len());
                let id = sent.len() as u64;
                let mut writes = put(&format!("{id:06}"), &id.to_string());
                writes.publish(S, 1, id.to_le_bytes().to_vec().into());
                commits.push((id, index, ledgers[index].commit(writes)));
                sent.push(index);
            }
            for (id, index, commit) in commits {
                if let Ok(staged) = commit.await {
                    acked.insert(id, (index, staged.positions[0].first.0));
                }
            }
        }
    }
    store.close().await;
    let mut other = options;
    other.owner.node = 9;
    let store = Store::start(memory, other);
    let mut seen = BTreeMap::new();
    for (index, partition) in partitions.iter().enumerate() {
        let ledger = store.acquire(*partition).await.unwrap();
        let snapshot = ledger.snapshot().unwrap();
        let rows = snapshot.scan(T, Scan::all(10_000)).await.unwrap();
        let page = ledger
            .read_events(S, ReadPosition::Sequence(Sequence(0)), usize::MAX)
            .await
            .unwrap();
        let mut next = Sequence(0);
        for batch in &page {
            assert_eq!(
                batch.first, next,
                "seed {seed}: sequence numbers are not dense"
            );
            next = batch.next();
            let id = u64::from_le_bytes(batch.bytes[..].try_into().unwrap());
            assert_eq!(sent[id as usize], index);
            let twice = seen.insert(id, (index, batch.first.0));
            assert!(twice.is_none(), "seed {seed}: {id} was applied twice");
        }
        assert_eq!(
            rows.len(),
            page.len(),
            "seed {seed}: rows and events differ"
        );
    }
    for (id, place) in acked {
        assert_eq!(
            seen.get(&id),
            Some(&place),
            "seed {seed}: {id} was acknowledged"
        );
    }
}

#[test]
fn a_full_disk_refuses_and_recovers() {
    let disk = FakeDisk::mount().unwrap();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().build().unwrap();
    runtime.block_on(async {
        let local = local::Options {
            log_file_bytes: 64 * 1024,
            background: false,
            ..local::Options::default()
        };
        let path = disk.path().join("data");
        let open = || {
            Store::start(
                Arc::new(LocalEngine::open(&path, &local).unwrap()),
                options(),
            )
        };
        let store = open();
        let ledger = store.acquire(P).await.unwrap();
        let mut model = Model::default();
        let mut rng = Rng::with_seed(1);
        disk.set_capacity(Some(300 * 1024));
        let mut refusals = 0;
        for round in 0..400 {
            let ops = model.random(&mut rng, 4000);
            match ledger.commit(writes(&ops)).await {
                Ok(_) => model.push(ops),
                Err(error) => {
                    assert_eq!(error.code().0, "STF-2004", "{error}");
                    refusals += 1;
                    compare(&ledger, &model.state, &mut rng).await.unwrap();
                    if refusals == 20 {
                        disk.set_capacity(None);
                    }
                }
            }
            if round % 50 == 49 && refusals >= 20 {
                ledger.flush().await.unwrap();
            }
        }
        assert!(refusals >= 20, "the disk never was full");
        compare(&ledger, &model.state, &mut rng).await.unwrap();
        store.close().await;
        drop(ledger);
        let store = open();
        let ledger = store.acquire(P).await.unwrap();
        compare(&ledger, &model.state, &mut rng).await.unwrap();
        store.close().await;
    });
}

/// Resolving a doubt raises the epoch under a flush that is on its way: neither must
/// take the other for a rival.
#[test]
fn a_flush_during_a_doubt_does_not_fail_the_ledger() {
    for seed in 0..200 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let faults = EngineFaults {
                delay: 50,
                unknown_applied: 8,
                unknown_dropped: 8,
                ..EngineFaults::default()
            };
            let engine = HostileEngine::new(Arc::new(MemoryEngine::new()), faults, seed);
            let owner = Owner {
                node: 1,
                incarnation: 1,
            };
            let mut options = Options::new(owner);
            options.log_target = 256;
            options.background = false;
            let store = Store::start(Arc::new(engine), options);
            let ledger = store.acquire(Partition::new(0, 0)).await.unwrap();
            for number in 0..100u32 {
                let mut writes = Writes::new();
                writes.put(TableId(1), &number.to_be_bytes(), &[7; 64]);
                let done = ledger.commit(writes).await;
                assert!(done.is_ok(), "seed {seed}, commit {number}: {done:?}");
            }
        });
    }
}

#[tokio::test]
async fn whoever_follows_a_stream_is_rung_by_its_own_events_only() {
    let (store, ledger) = on_memory(options()).await;
    let mut end = ledger.follow(S).unwrap();
    assert_eq!(*end.borrow_and_update(), Sequence(0));
    let publish = |stream, count| {
        let mut writes = Writes::new();
        writes.publish(stream, count, Bytes::from_static(b"some"));
        ledger.commit(writes)
    };
    publish(StreamId(2), 5).await.unwrap();
    ledger.commit(put("k", "v")).await.unwrap();
    assert!(!end.has_changed().unwrap(), "rung by another stream");
    publish(S, 3).await.unwrap();
    assert_eq!(*end.borrow_and_update(), Sequence(3));
    let head = ledger.stream(S).unwrap().unwrap();
    let mut writes = Writes::new();
    writes.publish(S, 2, Bytes::from_static(b"more"));
    let staged = ledger.stage(writes).unwrap();
    // Staged writes are visible to the writer only.
    assert_eq!(ledger.stream(S).unwrap().unwrap(), head);
    let seen = ledger.staged_stream(S).unwrap().unwrap();
    assert_eq!((seen.next, seen.first), (Sequence(5), Sequence(0)));
    assert!(!end.has_changed().unwrap());
    ledger.wait(staged.lsn).await.unwrap();
    assert_eq!(*end.borrow_and_update(), Sequence(5));
    store.release(&ledger).await.unwrap();
    drop((ledger, store));
    assert!(end.changed().await.is_err(), "the ledger is gone");
}
