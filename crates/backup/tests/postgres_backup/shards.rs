//! Partitions over several databases.
//!
//! The databases are on one server without standbys; each test has its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use steadfast_backup::{
    BackupOptions, BackupProgress, Extent, RelocationReport, RelocationRequest, RestorePolicy,
    relocate, restore_database, take_database, take_running,
};
use steadfast_core::clock::VirtualClock;
use steadfast_core::id::{Epoch, Owner, Partition, Sequence, StreamId};
use steadfast_harness::postgres::PostgresServer;
use steadfast_storage::engine::{AcquireOutcome, CasOutcome, Engine, ReadPosition, Record};
use steadfast_storage::{Ledger, Options as StoreOptions, Result, Store, Visibility, Writes};
use steadfast_storage_postgres::shards::ShardedEngine;
use steadfast_storage_postgres::{Durability, Options, PostgresEngine};
use tokio::sync::watch;

use crate::pg::{S, T, THEY, WE, wait};

const PARTITIONS: u32 = 6;
const COUNTS: StreamId = StreamId(2);

/// Addresses of new databases.
fn databases(count: usize) -> Vec<String> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    wait(|| {
        let server = PostgresServer::shared();
        let url = server.url("postgres");
        let (place, _) = url.rsplit_once('/').unwrap();
        let make = |_| {
            let name = format!("shard_{}", NEXT.fetch_add(1, Ordering::Relaxed));
            server.sql(&format!("create database {name}"))?;
            Ok(format!("{place}/{name}"))
        };
        (0..count).map(make).collect()
    })
}

/// The set-up of several databases.
fn over(urls: &[&String]) -> Options {
    let urls: Vec<_> = urls.iter().map(|url| url.as_str()).collect();
    Options {
        durability: Durability::Single,
        ..Options::new(urls.join("\n"))
    }
}

async fn refused(urls: &[&String]) -> &'static str {
    match ShardedEngine::open(&over(urls)).await {
        Ok(_) => "opened",
        Err(error) => error.code().0,
    }
}

/// What is in a partition: its number of rows, and their values; events likewise.
async fn fill(ledger: &Ledger, rows: u32) {
    let partition = ledger.partition().0;
    for number in 0..rows {
        let mut writes = Writes::new();
        let value = vec![(number ^ partition) as u8; 200];
        writes.put(T, &number.to_be_bytes(), &value);
        writes.publish(S, 1, number.to_be_bytes().to_vec().into());
        ledger.stage(writes).unwrap();
    }
    ledger.flush().await.unwrap();
    // These stay in the log.
    let mut writes = Writes::new();
    writes.put(T, b"last", &partition.to_be_bytes());
    writes.publish(S, 1, rows.to_be_bytes().to_vec().into());
    ledger.commit(writes).await.unwrap();
}

async fn expect(ledger: &Ledger, rows: u32) {
    let partition = ledger.partition().0;
    for number in 0..rows {
        let value = ledger
            .get(T, &number.to_be_bytes(), Visibility::Durable)
            .await;
        let value = value.unwrap().unwrap();
        assert_eq!(value, vec![(number ^ partition) as u8; 200], "{partition}");
    }
    let last = ledger.get(T, b"last", Visibility::Durable).await.unwrap();
    assert_eq!(last.unwrap(), partition.to_be_bytes().to_vec());
    let mut count = 0;
    loop {
        let from = ReadPosition::Sequence(Sequence(count));
        let batches = ledger.read_events(S, from, 1024 * 1024).await.unwrap();
        if batches.is_empty() {
            break;
        }
        for batch in batches {
            assert_eq!(batch.bytes[..], (count as u32).to_be_bytes());
            count += 1;
        }
    }
    assert_eq!(count, u64::from(rows) + 1, "events of {partition}");
}

/// Fills all partitions, and gives them up.
async fn fill_all(options: &Options, rows: u32) {
    let store = store(options).await;
    for number in 0..PARTITIONS {
        let ledger = store.acquire(Partition(number)).await.unwrap();
        fill(&ledger, rows).await;
    }
    release(store).await;
}

async fn expect_all(options: &Options, rows: u32) {
    let store = store(options).await;
    for number in 0..PARTITIONS {
        let ledger = store.acquire(Partition(number)).await.unwrap();
        expect(&ledger, rows).await;
    }
    release(store).await;
}

async fn store(options: &Options) -> Store {
    let engine = Arc::new(ShardedEngine::open(options).await.unwrap());
    Store::start(engine, StoreOptions::new(WE))
}

/// Gives everything up without a flush, so that the logs are not empty.
async fn release(store: Store) {
    for ledger in store.owned() {
        let (partition, epoch) = (ledger.partition(), ledger.epoch());
        store.engine().release(partition, epoch).await.unwrap();
    }
    store.close().await;
}

async fn move_to(options: &Options, from: u16, to: u16) -> Result<RelocationReport> {
    let order = RelocationRequest {
        partitions: Vec::new(),
        from: Some(from),
        to,
    };
    relocate(
        options,
        &order,
        &watch::channel(BackupProgress::default()).0,
    )
    .await
}

/// How many rows of partitions a database holds that are not moved away.
async fn partitions(url: &String) -> Vec<u32> {
    let mut options = over(&[url]);
    // Alone it would be refused as a shard; underneath it is a database like any other.
    options.patience = Duration::from_secs(10);
    let engine = PostgresEngine::open(options).await.unwrap();
    let all = engine.partitions().await.unwrap();
    all.into_iter().map(|partition| partition.0).collect()
}

/// Lets new databases join; answers the map before anything has moved.
async fn joined(old: &Options, new: &Options, first: &String) -> Bytes {
    let nothing = move_to(new, 2, 1).await.unwrap();
    assert_eq!(nothing, RelocationReport::default());
    let refusal = ShardedEngine::open(old).await.map(drop).unwrap_err();
    assert_eq!(refusal.code().0, "STF-7050");
    map(first).await.value
}

/// The record that says what is where.
async fn map(first: &String) -> Record {
    let engine = PostgresEngine::open(over(&[first])).await.unwrap();
    let records = engine.list("shard/map").await.unwrap();
    records.into_iter().next().unwrap()
}

async fn put_map(first: &String, value: Bytes) {
    let version = map(first).await.version;
    let engine = PostgresEngine::open(over(&[first])).await.unwrap();
    let swap = engine.cas("shard/map", version, value).await.unwrap();
    assert_eq!(swap, CasOutcome::Done(version + 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_missing_and_exchanged_databases_are_refused() {
    let urls = databases(4);
    let [a, b, c, lone] = [&urls[0], &urls[1], &urls[2], &urls[3]];
    let both = over(&[a, b]);
    let shards = ShardedEngine::open(&both).await.unwrap();
    assert_eq!(shards.count(), 2);
    let placed: Vec<_> = (0..4).map(|n| shards.shard(Partition(n))).collect();
    assert_eq!(placed, [0, 1, 0, 1]);
    drop(shards);
    assert_eq!(refused(&[a, b]).await, "opened");
    assert_eq!(refused(&[a]).await, "STF-7050", "one is missing");
    assert_eq!(refused(&[b, a]).await, "STF-7051", "exchanged");
    assert_eq!(refused(&[b]).await, "STF-7051", "a shard alone");
    assert_eq!(refused(&[a, c]).await, "STF-7052", "another one");
    assert_eq!(refused(&[a, a]).await, "STF-7052", "one twice");
    assert_eq!(refused(&[a, b, c]).await, "STF-7053", "one more");
    // A database with state of its own does not become a shard.
    let engine = ShardedEngine::open(&over(&[lone])).await.unwrap();
    engine.cas("node/x", 0, "x".into()).await.unwrap();
    drop(engine);
    assert_eq!(refused(&[c, lone]).await, "STF-7052", "in use");
    assert_eq!(refused(&[c, b]).await, "STF-7052", "of another cluster");
    assert_eq!(refused(&[lone, c]).await, "STF-7053", "made with one");
    assert_eq!(refused(&[a, b]).await, "opened", "nothing has changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn t14_a_stopped_move_brings_everything_and_ends_after_interruptions() {
    const ROWS: u32 = 300;
    let urls = databases(3);
    let old = over(&[&urls[0], &urls[1]]);
    fill_all(&old, ROWS).await;
    // A node that starts before the move, and takes part after it.
    let stale = ShardedEngine::open(&old).await.unwrap();
    let clock = VirtualClock::default();
    let new = Options {
        lease_clock: Some(Arc::new(clock.clone())),
        ..over(&[&urls[0], &urls[1], &urls[2]])
    };
    let before = joined(&old, &new, &urls[0]).await;
    let mut interrupted = 0;
    let moved = loop {
        // As if it were killed: connections end, nothing is tidied up.
        let limit = Duration::from_millis(20 + 40 * interrupted);
        let attempt = tokio::time::timeout(limit, move_to(&new, 0, 2)).await;
        clock.advance(Duration::from_secs(60));
        match attempt {
            Ok(Ok(moved)) => break moved,
            Ok(Err(error)) => println!("attempt {interrupted}: {error}"),
            Err(_) => {}
        }
        interrupted += 1;
        assert!(interrupted < 300, "the move does not end");
    };
    println!("ended after {interrupted} interruptions: {moved:?}");
    assert!(interrupted > 0);
    assert_eq!(partitions(&urls[0]).await, Vec::<u32>::new());
    assert_eq!(partitions(&urls[2]).await, [0, 2, 4]);
    assert_eq!(refused(&[&urls[0], &urls[1]]).await, "STF-7050");
    // A node with the old map can neither acquire nor create what has moved.
    let expect_epoch = Epoch(0);
    let taken = stale.acquire(Partition(0), THEY, expect_epoch).await;
    assert_eq!(taken.unwrap_err().code().0, "STF-7054");
    let neighbour = stale.acquire(Partition(1), THEY, Epoch(0)).await.unwrap();
    assert!(matches!(neighbour, AcquireOutcome::Refused { .. }));
    drop(stale);
    let now = over(&[&urls[0], &urls[1], &urls[2]]);
    expect_all(&now, ROWS).await;
    // As if it had been killed after the sources were closed, before the map said so.
    put_map(&urls[0], before).await;
    let torn = ShardedEngine::open(&now).await.unwrap();
    let taken = torn.acquire(Partition(0), THEY, Epoch(0)).await;
    assert_eq!(taken.unwrap_err().code().0, "STF-7054");
    drop(torn);
    let ended = move_to(&now, 1, 1).await.unwrap();
    assert_eq!((ended.resumed, ended.partitions), (3, 0));
    expect_all(&now, ROWS).await;
    // And back again, without an interruption.
    let back = move_to(&now, 2, 0).await.unwrap();
    assert_eq!((back.partitions, back.resumed), (3, 0));
    assert_eq!(partitions(&urls[0]).await, [0, 2, 4]);
    assert_eq!(partitions(&urls[2]).await, Vec::<u32>::new());
    expect_all(&now, ROWS).await;
    let shards = ShardedEngine::open(&now).await.unwrap();
    for (_, replica) in shards.scrub().await {
        assert_eq!(replica.findings, Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_database_grows_into_several() {
    let urls = databases(2);
    let alone = over(&[&urls[0]]);
    fill_all(&alone, 50).await;
    let both = over(&[&urls[0], &urls[1]]);
    assert_eq!(refused(&[&urls[0], &urls[1]]).await, "STF-7053");
    let order = RelocationRequest {
        partitions: vec![Partition(1), Partition(5)],
        from: None,
        to: 1,
    };
    let progress = watch::channel(BackupProgress::default()).0;
    let moved = relocate(&both, &order, &progress).await.unwrap();
    assert_eq!(moved.partitions, 2);
    let again = relocate(&both, &order, &progress).await.unwrap();
    assert_eq!(again, RelocationReport::default(), "they are there");
    assert_eq!(partitions(&urls[0]).await, [0, 2, 3, 4]);
    assert_eq!(partitions(&urls[1]).await, [1, 5]);
    expect_all(&both, 50).await;
    for (partitions, from, to) in [
        (vec![Partition(99)], None, 1),
        (vec![Partition(1)], None, 7),
        (vec![], Some(9), 1),
    ] {
        let order = RelocationRequest {
            partitions,
            from,
            to,
        };
        let error = relocate(&both, &order, &progress).await.unwrap_err();
        assert_eq!(error.code().0, "STF-7055", "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_moves_while_a_node_runs() {
    let urls = databases(2);
    let both = over(&[&urls[0], &urls[1]]);
    fill_all(&both, 5).await;
    let node = ShardedEngine::open(&both).await.unwrap();
    let owner = Owner {
        node: 7,
        incarnation: 77,
    };
    node.renew(owner, Duration::from_secs(60)).await.unwrap();
    let error = move_to(&both, 0, 1).await.unwrap_err();
    assert_eq!(error.code().0, "STF-2061", "{error}");
    node.renew(owner, Duration::ZERO).await.unwrap();
    move_to(&both, 0, 1).await.unwrap();
    assert_eq!(partitions(&urls[1]).await, [0, 1, 2, 3, 4, 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_several_databases_comes_back_in_others() {
    let urls = databases(5);
    let old = over(&[&urls[0], &urls[1]]);
    fill_all(&old, 30).await;
    let folder = tempfile::tempdir().unwrap();
    let progress = watch::channel(BackupProgress::default()).0;
    let order = BackupOptions::new(folder.path(), Extent::Full);
    let taken = take_database(&old, &order, &progress).await.unwrap();
    let three = over(&[&urls[2], &urls[3], &urls[4]]);
    let restored = restore_database(&taken.folder, &three, RestorePolicy::Safe, None, &progress);
    assert_eq!(restored.await.unwrap().partitions, PARTITIONS as usize);
    assert_eq!(partitions(&urls[2]).await, [0, 3], "spread anew");
    expect_all(&three, 30).await;
    // What is there is not given up without a word.
    let restored = restore_database(&taken.folder, &old, RestorePolicy::Safe, None, &progress);
    assert_eq!(restored.await.unwrap_err().code().0, "STF-2060");
    restore_database(&taken.folder, &old, RestorePolicy::Force, None, &progress)
        .await
        .unwrap();
    expect_all(&old, 30).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_is_backed_up_while_nodes_write() {
    const ROWS: u32 = 300;
    let urls = databases(2);
    let (old, new) = (over(&[&urls[0]]), over(&[&urls[1]]));
    fill_all(&old, ROWS).await;
    let store = Arc::new(store(&old).await);
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for number in 0..PARTITIONS {
        let ledger = store.acquire(Partition(number)).await.unwrap();
        let stop = Arc::clone(&stop);
        writers.push(tokio::spawn(async move {
            let mut count = 0u64;
            while !stop.load(Ordering::SeqCst) {
                count += 1;
                let mut writes = Writes::new();
                writes.put(T, b"count", &count.to_be_bytes());
                writes.publish(COUNTS, 1, count.to_be_bytes().to_vec().into());
                ledger.commit(writes).await.unwrap();
                if count.is_multiple_of(50) {
                    ledger.flush().await.unwrap();
                }
            }
            count
        }));
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    // Another node, which has none of the partitions.
    let other = ShardedEngine::open(&old).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let progress = watch::channel(BackupProgress::default()).0;
    let order = BackupOptions::new(folder.path(), Extent::Full);
    let taken = take_running(&other, &order, &progress).await.unwrap();
    stop.store(true, Ordering::SeqCst);
    let mut written = Vec::new();
    for writer in writers {
        written.push(writer.await.unwrap());
    }
    let restored = restore_database(&taken.folder, &new, RestorePolicy::Safe, None, &progress);
    assert_eq!(restored.await.unwrap().partitions, PARTITIONS as usize);
    expect_all(&new, ROWS).await;
    let restored = self::store(&new).await;
    for (number, written) in (0..PARTITIONS).zip(written) {
        let ledger = restored.acquire(Partition(number)).await.unwrap();
        let count = ledger.get(T, b"count", Visibility::Durable).await.unwrap();
        let count = count.map_or(0, |count| u64::from_be_bytes(count[..].try_into().unwrap()));
        let events = ledger.stream(COUNTS).unwrap().map_or(0, |head| head.next.0);
        assert_eq!(count, events, "a commit is there as a whole");
        assert!(count > 0 && count <= written, "{count} of {written}");
    }
    release(restored).await;
    let both = databases(2);
    let several = ShardedEngine::open(&over(&[&both[0], &both[1]]))
        .await
        .unwrap();
    let refused = take_running(&several, &order, &progress).await.unwrap_err();
    assert_eq!(refused.code().0, "STF-7056");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_does_not_keep_others_waiting() {
    let urls = databases(1);
    let second = wait(|| {
        let mut server = PostgresServer::create("second", "")?;
        server.start()?;
        Ok(server)
    });
    let url = second.url("postgres");
    let options = Options {
        deadline: Duration::from_secs(2),
        ..over(&[&urls[0], &url])
    };
    let engine = Arc::new(ShardedEngine::open(&options).await.unwrap());
    let store = Arc::new(Store::start(engine, StoreOptions::new(WE)));
    let here = store.acquire(Partition(0)).await.unwrap();
    let there = store.acquire(Partition(1)).await.unwrap();
    let write = |ledger: Ledger, number: u32| async move {
        let mut writes = Writes::new();
        writes.put(T, b"n", &number.to_be_bytes());
        ledger.commit(writes).await
    };
    write(there.clone(), 1).await.unwrap();
    wait(|| second.freeze());
    let waiting = tokio::spawn(write(there.clone(), 2));
    for number in 0..50 {
        let written = tokio::time::timeout(Duration::from_secs(5), write(here.clone(), number));
        written.await.unwrap().unwrap();
    }
    assert!(!waiting.is_finished(), "the second shard is frozen");
    wait(|| second.thaw());
    waiting.await.unwrap().unwrap();
    let found = there
        .get(T, b"n", Visibility::Durable)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found, 2u32.to_be_bytes().to_vec());
}
