//! Backups: what goes in comes back, what is damaged does not.
//!
//! Random work against the model, chains restored at each of their points, writers
//! that go on, folders that are damaged in every way, processes that are killed.
//! `STEADFAST_SEED` names a seed to try again, `STEADFAST_ROUNDS` how many kills.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use parking_lot::Mutex;
use proptest::prelude::*;
use steadfast_backup::{
    BackupChain, BackupKey, BackupOptions, BackupProgress, Extent, FolderRestore, Manifest,
    RestorePolicy, RestoreReport, restore, restore_folder, take, take_folder,
};
use steadfast_core::id::{Lsn, Owner, Partition, Sequence, StreamId, TableId};
use steadfast_harness::{Process, copy_folder, own_test};
use steadfast_storage::engine::{CasOutcome, Engine, ReadPosition, Scan};
use steadfast_storage::hostile::{EngineFaults, HostileEngine};
use steadfast_storage::memory::MemoryEngine;
use steadfast_storage::{Error, Ledger, Options, Store, Visibility, Writes};
use steadfast_storage_local::{self as local, LocalEngine};
use tokio::sync::watch;

use crate::model::{Model, Op, compare, durable, writes};

const FULL: Extent = Extent::Full;
const INCREMENTAL: Extent = Extent::Incremental;

fn owner() -> Owner {
    Owner {
        node: 1,
        incarnation: fastrand::u128(..),
    }
}

fn progress() -> watch::Sender<BackupProgress> {
    watch::channel(BackupProgress::default()).0
}

/// A local engine whose files are small, so that everything happens often.
fn open(folder: &Path) -> Store {
    let options = local::Options {
        log_file_bytes: 256 * 1024,
        event_file_bytes: 4 * 1024,
        inline_event_bytes: 1024,
        ..local::Options::default()
    };
    start(Arc::new(LocalEngine::open(folder, &options).unwrap()))
}

fn start(engine: Arc<dyn Engine>) -> Store {
    let mut options = Options::new(owner());
    options.log_target = 128 * 1024;
    options.event_tail = 16 * 1024;
    Store::start(engine, options)
}

async fn back_up(store: &Store, to: &Path, extent: Extent) -> Result<Manifest, Error> {
    let taken = take(store, &BackupOptions::new(to, extent), &progress()).await;
    taken.map(|taken| taken.manifest)
}

async fn bring_back(
    from: &Path,
    data: &Path,
    policy: RestorePolicy,
) -> Result<RestoreReport, Error> {
    let order = FolderRestore {
        from: from.into(),
        data: data.into(),
        policy,
        key: None,
    };
    restore_folder(&order, &progress()).await
}

fn code<T>(result: Result<T, Error>) -> &'static str {
    let error = result.err().expect("it should have been refused");
    println!("{error}");
    error.code().0
}

/// A folder for data, a folder for backups, and one to restore to.
struct Places {
    _folder: tempfile::TempDir,
    data: PathBuf,
    backups: PathBuf,
    restored: PathBuf,
}

fn places() -> Places {
    let folder = tempfile::tempdir().unwrap();
    let path = |name| folder.path().join(name);
    Places {
        data: path("data"),
        backups: path("backups"),
        restored: path("restored"),
        _folder: folder,
    }
}

async fn put(ledger: &Ledger, key: &[u8], value: &[u8]) -> Lsn {
    let mut writes = Writes::new();
    writes.put(TableId(1), key, value);
    ledger.commit(writes).await.unwrap().lsn
}

/// Random transactions, with flushes between them.
async fn work(ledgers: &[Ledger], models: &mut [Model], count: usize, rng: &mut Rng) {
    for _ in 0..count {
        let index = rng.usize(0..ledgers.len());
        let ops = models[index].random(rng, 20_000);
        ledgers[index].commit(writes(&ops)).await.unwrap();
        models[index].push(ops);
        if rng.u8(0..30) == 0 {
            ledgers[index].flush().await.unwrap();
        }
    }
}

/// Everything that was there is there, and numbers go on where they ended.
async fn check(store: &Store, models: &[Model], lsns: &[Lsn], rng: &mut Rng) {
    for (index, model) in models.iter().enumerate() {
        let ledger = store.acquire(Partition(index as u32)).await.unwrap();
        assert_eq!(durable(&ledger), lsns[index], "partition {index}");
        compare(&ledger, &model.state, rng).await.unwrap();
        let mut model = model.clone();
        let ops = vec![
            Op::Put(TableId(1), b"later".to_vec(), b"on".to_vec()),
            Op::Publish(StreamId(1), 2, Bytes::from_static(b"later")),
        ];
        let staged = ledger.commit(writes(&ops)).await.unwrap();
        assert_eq!(staged.lsn, lsns[index].next());
        model.push(ops);
        ledger.flush().await.unwrap();
        compare(&ledger, &model.state, rng).await.unwrap();
    }
}

async fn acquire_all(store: &Store, count: usize) -> Vec<Ledger> {
    let mut ledgers = Vec::new();
    for index in 0..count {
        ledgers.push(store.acquire(Partition(index as u32)).await.unwrap());
    }
    ledgers
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(work)
}

/// One chain of a store on some engine, restored at each of its points to a folder
/// and to memory.
async fn chain_comes_back(is_local: bool, is_sealed: bool, stages: &[usize], seed: u64) {
    let key = is_sealed.then(|| BackupKey::new("a key for tests"));
    let mut rng = Rng::with_seed(seed);
    let places = places();
    let store = if is_local {
        open(&places.data)
    } else {
        start(Arc::new(MemoryEngine::new()))
    };
    let ledgers = acquire_all(&store, 3).await;
    let mut models = vec![Model::default(); ledgers.len()];
    let mut points = Vec::new();
    for (number, count) in stages.iter().enumerate() {
        work(&ledgers, &mut models, *count, &mut rng).await;
        let extent = if number == 0 { FULL } else { INCREMENTAL };
        let mut order = BackupOptions::new(&places.backups, extent);
        order.key.clone_from(&key);
        let taken = take(&store, &order, &progress()).await.unwrap();
        let manifest = taken.manifest;
        assert_eq!(manifest.is_sealed(), is_sealed);
        let lsns: Vec<Lsn> = ledgers.iter().map(durable).collect();
        let saved: Vec<_> = manifest.partitions.iter().map(|p| Lsn(p.lsn)).collect();
        assert_eq!(saved, lsns);
        points.push((models.clone(), lsns));
    }
    for (number, (models, lsns)) in points.iter().enumerate() {
        let word = if number == 0 { "full" } else { "incremental" };
        let from = places.backups.join(format!("{:06}-{word}", number + 1));
        let target = places.restored.join(number.to_string());
        let order = FolderRestore {
            from: from.clone(),
            data: target.clone(),
            policy: RestorePolicy::Safe,
            key: key.clone(),
        };
        restore_folder(&order, &progress()).await.unwrap();
        check(&open(&target), models, lsns, &mut rng).await;
        let memory = Arc::new(MemoryEngine::new());
        let chain = BackupChain::open(&from, key.as_ref()).unwrap();
        let done = restore(memory.as_ref(), owner(), &chain, &progress()).await;
        assert_eq!(done.unwrap().partitions, models.len());
        check(&start(memory), models, lsns, &mut rng).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn chains_come_back_at_every_point(
        stages in proptest::collection::vec(0usize..120, 1..5),
        is_local: bool,
        is_sealed: bool,
        seed: u64,
    ) {
        let seed = std::env::var("STEADFAST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(seed);
        block_on(chain_comes_back(is_local, is_sealed, &stages, seed));
    }
}

/// Everything that a transaction can do is done while a chain is taken: clears and
/// trims, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_work_goes_on_and_each_point_is_exact() {
    let seed = std::env::var("STEADFAST_SEED").ok();
    let seed: u64 = seed
        .and_then(|s| s.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..));
    println!(
        "again: STEADFAST_SEED={seed} cargo test -p steadfast-backup --test backup chains::random"
    );
    let places = places();
    let store = open(&places.data);
    let ledgers = acquire_all(&store, 2).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for (index, ledger) in ledgers.iter().cloned().enumerate() {
        let stop = Arc::clone(&stop);
        let mut rng = Rng::with_seed(seed ^ index as u64);
        writers.push(tokio::spawn(async move {
            let mut model = Model::default();
            while !stop.load(Ordering::Relaxed) {
                let ops = model.random(&mut rng, 20_000);
                let staged = ledger.commit(writes(&ops)).await.unwrap();
                model.push(ops);
                assert_eq!(staged.lsn.0, model.transactions.len() as u64);
            }
            model
        }));
    }
    let mut manifests = Vec::new();
    for extent in [FULL, INCREMENTAL, FULL, INCREMENTAL, INCREMENTAL] {
        manifests.push(back_up(&store, &places.backups, extent).await.unwrap());
    }
    stop.store(true, Ordering::Relaxed);
    let mut models = Vec::new();
    for writer in writers {
        models.push(writer.await.unwrap());
    }
    let mut rng = Rng::with_seed(seed);
    for (number, manifest) in manifests.iter().enumerate() {
        let word = match manifest.extent {
            FULL => "full",
            INCREMENTAL => "incremental",
        };
        let from = places.backups.join(format!("{:06}-{word}", number + 1));
        let memory = Arc::new(MemoryEngine::new());
        let chain = BackupChain::open(&from, None).unwrap();
        let done = restore(memory.as_ref(), owner(), &chain, &progress()).await;
        done.unwrap();
        let mut models = models.clone();
        let mut lsns = Vec::new();
        for (model, saved) in models.iter_mut().zip(&manifest.partitions) {
            model.truncate(saved.lsn as usize);
            lsns.push(Lsn(saved.lsn));
        }
        check(&start(memory), &models, &lsns, &mut rng).await;
    }
}

/// Accounts of one partition, and what was done to them.
type Transfers = Arc<Mutex<BTreeMap<Lsn, (u8, u8, i64)>>>;

const ACCOUNTS: u8 = 20;

async fn transfer(ledger: Ledger, done: Transfers, stop: Arc<AtomicBool>, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let mut balances = vec![1000i64; ACCOUNTS.into()];
    while !stop.load(Ordering::Relaxed) {
        let (from, to, amount) = (rng.u8(..ACCOUNTS), rng.u8(..ACCOUNTS), rng.i64(1..50));
        balances[usize::from(from)] -= amount;
        balances[usize::from(to)] += amount;
        let mut writes = Writes::new();
        for account in [from, to] {
            let balance = balances[usize::from(account)].to_le_bytes();
            writes.put(TableId(7), &[account], &balance);
        }
        writes.publish(StreamId(1), 1, Bytes::copy_from_slice(&[from, to]));
        // So that there is something to read for a while.
        writes.put(TableId(8), &rng.u16(..).to_be_bytes(), &[1; 500]);
        let lsn = ledger.commit(writes).await.unwrap().lsn;
        done.lock().insert(lsn, (from, to, amount));
    }
}

async fn balances(ledger: &Ledger) -> Vec<i64> {
    let snapshot = ledger.snapshot().unwrap();
    let rows = snapshot.scan(TableId(7), Scan::all(100)).await.unwrap();
    let balance = |row: &steadfast_storage::engine::TableRow| {
        i64::from_le_bytes(row.value[..].try_into().unwrap())
    };
    rows.iter().map(balance).collect()
}

/// A full backup and two on top of it, all while money changes hands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_go_on_and_the_total_stays() {
    let places = places();
    let store = open(&places.data);
    money_changes_hands(&places, &store).await;
}

/// The same where it is uncertain what was committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doubtful_commits_are_in_the_backup_once_they_are_certain() {
    let places = places();
    let faults = EngineFaults {
        delay: 20,
        unknown_applied: 3,
        unknown_dropped: 3,
        ..EngineFaults::default()
    };
    let engine = HostileEngine::new(Arc::new(MemoryEngine::new()), faults, 5);
    money_changes_hands(&places, &start(Arc::new(engine))).await;
}

async fn money_changes_hands(places: &Places, store: &Store) {
    let ledgers = acquire_all(store, 3).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    let mut done: Vec<Transfers> = Vec::new();
    for (number, ledger) in ledgers.iter().enumerate() {
        let mut opening = Writes::new();
        for account in 0..ACCOUNTS {
            opening.put(TableId(7), &[account], &1000i64.to_le_bytes());
        }
        ledger.commit(opening).await.unwrap();
        let transfers = Transfers::default();
        done.push(Arc::clone(&transfers));
        let work = transfer(ledger.clone(), transfers, Arc::clone(&stop), number as u64);
        writers.push(tokio::spawn(work));
    }
    // Enough that a backup has something to read meanwhile.
    while done.iter().any(|transfers| transfers.lock().len() < 300) {
        tokio::task::yield_now().await;
    }
    let mut manifests = Vec::new();
    let mut went_on = 0;
    for extent in [FULL, INCREMENTAL, INCREMENTAL] {
        let before: Vec<Lsn> = ledgers.iter().map(durable).collect();
        let manifest = back_up(store, &places.backups, extent).await.unwrap();
        let moved = manifest.partitions.iter().zip(&before);
        went_on += moved.filter(|(saved, before)| saved.lsn > before.0).count();
        manifests.push(manifest);
    }
    assert!(went_on > 0, "nothing was written during the backups");
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    for (number, manifest) in manifests.iter().enumerate() {
        let word = if number == 0 { "full" } else { "incremental" };
        let from = places.backups.join(format!("{:06}-{word}", number + 1));
        let target = places.restored.join(number.to_string());
        bring_back(&from, &target, RestorePolicy::Safe)
            .await
            .unwrap();
        let restored = open(&target);
        for (saved, transfers) in manifest.partitions.iter().zip(&done) {
            let ledger = restored.acquire(Partition(saved.partition)).await.unwrap();
            let found = balances(&ledger).await;
            assert_eq!(found.iter().sum::<i64>(), 1000 * i64::from(ACCOUNTS));
            let mut expected = vec![1000; ACCOUNTS.into()];
            let transfers = transfers.lock();
            let until = transfers.range(..=Lsn(saved.lsn));
            let mut count = 0;
            for (_, (from, to, amount)) in until {
                expected[usize::from(*from)] -= amount;
                expected[usize::from(*to)] += amount;
                count += 1;
            }
            assert_eq!(found, expected, "backup {number} at LSN {}", saved.lsn);
            let head = ledger.stream(StreamId(1)).unwrap().unwrap();
            assert_eq!(head.next, Sequence(count), "one event per transfer");
        }
    }
}

/// Partitions of which each waits for the one before it.
const CHAIN: usize = 32;

/// Whatever one partition did because of another is there only with its cause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_is_never_there_without_its_cause() {
    let places = places();
    let store = start(Arc::new(MemoryEngine::new()));
    let ledgers = acquire_all(&store, CHAIN).await;
    let stop = Arc::new(AtomicBool::new(false));
    let chain = ledgers.clone();
    let stopped = Arc::clone(&stop);
    let writer = tokio::spawn(async move {
        for round in 0u64.. {
            for ledger in &chain {
                put(ledger, b"round", &round.to_be_bytes()).await;
            }
            if stopped.load(Ordering::Relaxed) {
                break;
            }
        }
    });
    for _ in 0..8 {
        back_up(&store, &places.backups, FULL).await.unwrap();
        let memory = Arc::new(MemoryEngine::new());
        let chain = BackupChain::open(&places.backups, None).unwrap();
        let done = restore(memory.as_ref(), owner(), &chain, &progress()).await;
        done.unwrap();
        let restored = start(memory);
        let mut rounds = Vec::new();
        for ledger in acquire_all(&restored, CHAIN).await {
            let row = ledger
                .get(TableId(1), b"round", Visibility::Durable)
                .await
                .unwrap();
            rounds.push(row.map_or(0, |row| u64::from_be_bytes(row[..].try_into().unwrap()) + 1));
        }
        assert!(rounds.is_sorted_by(|a, b| a >= b), "{rounds:?}");
    }
    stop.store(true, Ordering::Relaxed);
    writer.await.unwrap();
}

/// Rows and batches of every size, cleared tables, trimmed streams, records.
#[tokio::test]
async fn odd_shapes_come_back() {
    let places = places();
    let store = open(&places.data);
    let ledger = store.acquire(Partition::new(2, 9)).await.unwrap();
    let mut filled = Writes::new();
    filled.put(TableId(0), b"", b"empty key");
    filled.put(TableId(u32::MAX), &[255; 4096], &vec![7; 5 << 20]);
    filled.put(TableId(5), b"gone", b"soon");
    filled.put(TableId(6), b"gone", b"later");
    filled.put(TableId(9), b"empty value", b"");
    ledger.commit(filled).await.unwrap();
    for length in [1, 70_000, 200_000, 10, 3 << 20] {
        let mut writes = Writes::new();
        writes.publish(StreamId(1), 3, vec![length as u8; length].into());
        writes.publish(StreamId(2), 1, Bytes::from_static(b"trimmed whole"));
        ledger.commit(writes).await.unwrap();
    }
    ledger.flush().await.unwrap();
    let third = ledger.read_events(StreamId(1), ReadPosition::Sequence(Sequence(7)), 1);
    let third = third.await.unwrap().remove(0);
    let end = ledger.stream(StreamId(2)).unwrap().unwrap();
    let mut writes = Writes::new();
    writes.clear(TableId(5));
    writes.trim(StreamId(1), third.first, third.offset);
    writes.trim(StreamId(2), end.next, end.end);
    ledger.commit(writes).await.unwrap();
    let engine = store.engine();
    for version in 0..3 {
        let value = Bytes::from(format!("value {version}"));
        let done = engine.cas("nodes/1", version, value).await.unwrap();
        assert_eq!(done, CasOutcome::Done(version + 1));
    }
    back_up(&store, &places.backups, FULL).await.unwrap();
    let mut writes = Writes::new();
    writes.clear(TableId(6));
    ledger.commit(writes).await.unwrap();
    ledger.flush().await.unwrap();
    let manifest = back_up(&store, &places.backups, INCREMENTAL).await.unwrap();
    assert_eq!((manifest.rows(), manifest.events), (3, 0));
    let head = ledger.stream(StreamId(1)).unwrap();
    bring_back(&places.backups, &places.restored, RestorePolicy::Safe)
        .await
        .unwrap();

    let restored = open(&places.restored);
    let ledger = restored.acquire(Partition::new(2, 9)).await.unwrap();
    let get = async |table, key: &[u8]| {
        ledger
            .get(TableId(table), key, Visibility::Durable)
            .await
            .unwrap()
    };
    assert_eq!(get(0, b"").await.unwrap(), b"empty key"[..]);
    assert_eq!(get(u32::MAX, &[255; 4096]).await.unwrap(), vec![7; 5 << 20]);
    assert_eq!(get(9, b"empty value").await.unwrap(), b""[..]);
    assert_eq!(get(5, b"gone").await, None);
    assert_eq!(get(6, b"gone").await, None);
    assert_eq!(ledger.stream(StreamId(1)).unwrap(), head);
    let read = ledger.read_events(StreamId(1), ReadPosition::Sequence(Sequence(0)), usize::MAX);
    let lengths: Vec<_> = read.await.unwrap().iter().map(|b| b.bytes.len()).collect();
    assert_eq!(lengths, [200_000, 10, 3 << 20]);
    assert_eq!(ledger.stream(StreamId(2)).unwrap(), Some(end_of(end)));
    let mut writes = Writes::new();
    writes.publish(StreamId(2), 1, Bytes::from_static(b"goes on"));
    let place = ledger.commit(writes).await.unwrap().positions[0];
    assert_eq!((place.first, place.offset), (end.next, end.end));
    let records = restored.engine().list("nodes/").await.unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].value, b"value 2"[..]);
    // And all of it once more, after a restart.
    drop(ledger);
    restored.close().await;
    let restored = open(&places.restored);
    let ledger = restored.acquire(Partition::new(2, 9)).await.unwrap();
    let read = ledger.read_events(StreamId(2), ReadPosition::Sequence(Sequence(0)), usize::MAX);
    assert_eq!(read.await.unwrap()[0].bytes, b"goes on"[..]);
}

fn end_of(head: steadfast_storage::StreamHead) -> steadfast_storage::StreamHead {
    steadfast_storage::StreamHead {
        first: head.next,
        first_offset: head.end,
        ..head
    }
}

#[tokio::test]
async fn an_empty_store_comes_back_empty() {
    let places = places();
    let store = open(&places.data);
    let manifest = back_up(&store, &places.backups, FULL).await.unwrap();
    assert!(manifest.partitions.is_empty());
    let ledger = store.acquire(Partition(1)).await.unwrap();
    back_up(&store, &places.backups, INCREMENTAL).await.unwrap();
    put(&ledger, b"k", b"v").await;
    back_up(&store, &places.backups, INCREMENTAL).await.unwrap();
    let second = places.backups.join("000002-incremental");
    let done = bring_back(&second, &places.restored, RestorePolicy::Safe).await;
    assert_eq!((done.unwrap().rows, is_open(&places.restored)), (0, Ok(())));
    // An empty state is older than anything.
    let done = bring_back(&places.backups, &places.restored, RestorePolicy::Safe).await;
    assert_eq!(done.unwrap().rows, 1);
}

fn is_open(folder: &Path) -> Result<(), &'static str> {
    let opened = LocalEngine::open(folder, &local::Options::default());
    opened.map(drop).map_err(|error| error.code().0)
}

/// A store with a chain of three.
async fn chain_of_three(places: &Places) -> Store {
    let store = open(&places.data);
    let ledger = store.acquire(Partition(3)).await.unwrap();
    for extent in [FULL, INCREMENTAL, INCREMENTAL] {
        for number in 0..50u8 {
            let mut writes = Writes::new();
            writes.put(TableId(1), &[number], &fastrand::u64(..).to_be_bytes());
            writes.publish(StreamId(1), 1, vec![number; 300].into());
            ledger.commit(writes).await.unwrap();
        }
        back_up(&store, &places.backups, extent).await.unwrap();
    }
    store
}

#[tokio::test]
async fn c67_a_chain_with_a_hole_is_refused() {
    let places = places();
    chain_of_three(&places).await;
    let second = places.backups.join("000002-incremental");
    let aside = places.backups.join("aside");
    fs::rename(&second, &aside).unwrap();
    let refused = bring_back(&places.backups, &places.restored, RestorePolicy::Force).await;
    assert_eq!(code(refused), "STF-2052");
    assert!(!places.restored.exists(), "something was written");
    // The part below the hole still stands.
    let first = places.backups.join("000001-full");
    bring_back(&first, &places.restored, RestorePolicy::Safe)
        .await
        .unwrap();
    fs::rename(&aside, &second).unwrap();
    bring_back(&places.backups, &places.restored, RestorePolicy::Force)
        .await
        .unwrap();
}

#[tokio::test]
async fn c67_safe_refuses_what_is_not_newer_and_force_does_not() {
    let places = places();
    let store = open(&places.data);
    let ledger = store.acquire(Partition(0)).await.unwrap();
    put(&ledger, b"k", b"first").await;
    back_up(&store, &places.backups, FULL).await.unwrap();
    drop(ledger);
    store.close().await;
    // Equal.
    let safe = bring_back(&places.backups, &places.data, RestorePolicy::Safe).await;
    assert_eq!(code(safe), "STF-2055");
    // A copy of the folder that is then left behind.
    copy_folder(&places.data, &places.restored).unwrap();
    let store = open(&places.data);
    let ledger = store.acquire(Partition(0)).await.unwrap();
    put(&ledger, b"k", b"second").await;
    // Older.
    drop(ledger);
    store.close().await;
    let safe = bring_back(&places.backups, &places.data, RestorePolicy::Safe).await;
    assert_eq!(code(safe), "STF-2055");
    assert_eq!(
        value(&places.data).await,
        b"second"[..],
        "nothing was touched"
    );
    // Newer than the copy.
    let order = BackupOptions::new(&places.backups, INCREMENTAL);
    take_folder(&places.data, &order, &progress())
        .await
        .unwrap();
    bring_back(&places.backups, &places.restored, RestorePolicy::Safe)
        .await
        .unwrap();
    assert_eq!(value(&places.restored).await, b"second"[..]);
    // A restored store is another one: which is newer cannot be determined.
    let safe = bring_back(&places.backups, &places.restored, RestorePolicy::Safe).await;
    assert_eq!(code(safe), "STF-2055");
    let first = places.backups.join("000001-full");
    bring_back(&first, &places.data, RestorePolicy::Force)
        .await
        .unwrap();
    assert_eq!(value(&places.data).await, b"first"[..]);
}

async fn value(folder: &Path) -> Bytes {
    let store = open(folder);
    let ledger = store.acquire(Partition(0)).await.unwrap();
    let value = ledger
        .get(TableId(1), b"k", Visibility::Durable)
        .await
        .unwrap();
    drop(ledger);
    store.close().await;
    value.unwrap()
}

#[tokio::test]
async fn an_incremental_backup_needs_a_full_one_of_this_very_store() {
    let places = places();
    let store = open(&places.data);
    let ledger = store.acquire(Partition(0)).await.unwrap();
    put(&ledger, b"k", b"v").await;
    let alone = back_up(&store, &places.backups, INCREMENTAL).await;
    assert_eq!(code(alone), "STF-2051");
    back_up(&store, &places.backups, FULL).await.unwrap();
    let memory = start(Arc::new(MemoryEngine::new()));
    memory.acquire(Partition(0)).await.unwrap();
    let other = back_up(&memory, &places.backups, INCREMENTAL).await;
    assert_eq!(code(other), "STF-2051");
    // After a restore the same numbers mean something else.
    bring_back(&places.backups, &places.restored, RestorePolicy::Safe)
        .await
        .unwrap();
    let order = BackupOptions::new(&places.backups, INCREMENTAL);
    let restored = take_folder(&places.restored, &order, &progress()).await;
    assert_eq!(code(restored), "STF-2051");
    // A partition that is not held here would silently stay behind.
    store.release(&ledger).await.unwrap();
    let partly = back_up(&store, &places.backups, INCREMENTAL).await;
    assert_eq!(code(partly), "STF-2051");
    let names: Vec<_> = fs::read_dir(&places.backups).unwrap().collect();
    assert_eq!(names.len(), 2, "one backup and the lock: {names:?}");
}

#[tokio::test]
async fn a_folder_that_went_back_needs_a_full_backup() {
    let places = places();
    let order = |extent| BackupOptions::new(&places.backups, extent);
    let store = chain_of_three(&places).await;
    store.close().await;
    copy_folder(&places.data, &places.restored).unwrap();
    let store = open(&places.data);
    let ledger = store.acquire(Partition(3)).await.unwrap();
    put(&ledger, b"k", b"v").await;
    back_up(&store, &places.backups, INCREMENTAL).await.unwrap();
    let mut writes = Writes::new();
    writes.publish(StreamId(1), 1, Bytes::from_static(b"one history"));
    ledger.commit(writes).await.unwrap();
    back_up(&store, &places.backups, INCREMENTAL).await.unwrap();
    let back = take_folder(&places.restored, &order(INCREMENTAL), &progress()).await;
    assert_eq!(code(back), "STF-2051");
    // Nor does it help to go on from there: what has the same number is not the same.
    let other = open(&places.restored);
    let ledger = other.acquire(Partition(3)).await.unwrap();
    for number in 0..10u8 {
        let mut writes = Writes::new();
        writes.publish(StreamId(1), 1, vec![number; 7].into());
        ledger.commit(writes).await.unwrap();
    }
    let diverged = back_up(&other, &places.backups, INCREMENTAL).await;
    assert_eq!(code(diverged), "STF-2051");
    drop(ledger);
    other.close().await;
    take_folder(&places.restored, &order(FULL), &progress())
        .await
        .unwrap();
}

/// Every file of every link: a flipped bit, a missing end, a missing file.
#[tokio::test]
async fn damage_is_refused_before_anything_is_written() {
    let places = places();
    chain_of_three(&places).await;
    let mut files = Vec::new();
    for backup in fs::read_dir(&places.backups).unwrap() {
        let backup = backup.unwrap().path();
        if backup.is_dir() {
            files.extend(
                fs::read_dir(backup)
                    .unwrap()
                    .map(|file| file.unwrap().path()),
            );
        }
    }
    assert!(files.len() >= 12, "{files:?}");
    let mut rng = Rng::with_seed(7);
    for file in files {
        let whole = fs::read(&file).unwrap();
        let mut flipped = whole.clone();
        let at = rng.usize(..flipped.len());
        flipped[at] ^= 1 << rng.u8(0..3);
        for (how, bytes) in [
            ("flipped", Some(flipped)),
            ("cut", Some(whole[..whole.len() - 1].to_vec())),
            ("empty", Some(Vec::new())),
            ("missing", None),
        ] {
            match bytes {
                Some(bytes) if bytes.trim_ascii() == whole.trim_ascii() => continue,
                Some(bytes) => fs::write(&file, bytes).unwrap(),
                None => fs::remove_file(&file).unwrap(),
            }
            let refused = bring_back(&places.backups, &places.restored, RestorePolicy::Force).await;
            let code = code(refused);
            let is_fit = ["STF-2052", "STF-2053", "STF-2054"].contains(&code);
            assert!(is_fit, "{how} {}: {code}", file.display());
            assert!(!places.restored.exists(), "something was written");
        }
        fs::write(&file, whole).unwrap();
    }
    bring_back(&places.backups, &places.restored, RestorePolicy::Safe)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let places = places();
    chain_of_three(&places).await;
    let manifest = places.backups.join("000003-incremental/manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let text = text.replace("\"format\": 1", "\"format\": 3");
    fs::write(&manifest, text).unwrap();
    let refused = bring_back(&places.backups, &places.restored, RestorePolicy::Safe).await;
    assert_eq!(code(refused), "STF-2054");
    let none = places.backups.join("nothing here");
    let refused = bring_back(&none, &places.restored, RestorePolicy::Safe).await;
    assert_eq!(code(refused), "STF-2051");
}

/// A link of another chain is not taken for the one that is missing.
#[tokio::test]
async fn a_wrong_parent_is_refused() {
    let (places, others) = (places(), places_again());
    chain_of_three(&places).await;
    chain_of_three(&others).await;
    let name = "000002-incremental";
    fs::remove_dir_all(places.backups.join(name)).unwrap();
    copy_folder(&others.backups.join(name), &places.backups.join(name)).unwrap();
    let refused = bring_back(&places.backups, &places.restored, RestorePolicy::Safe).await;
    assert_eq!(code(refused), "STF-2052");
}

fn places_again() -> Places {
    places()
}

#[tokio::test]
async fn one_backup_at_a_time() {
    let places = places();
    let store = start(Arc::new(MemoryEngine::new()));
    let ledger = store.acquire(Partition(0)).await.unwrap();
    let mut writes = Writes::new();
    for number in 0..50_000u32 {
        writes.put(TableId(1), &number.to_be_bytes(), &[1; 100]);
    }
    ledger.commit(writes).await.unwrap();
    let (first, second) = tokio::join!(
        back_up(&store, &places.backups, FULL),
        back_up(&store, &places.restored, FULL),
    );
    first.unwrap();
    assert_eq!(code(second), "STF-2050");
    // Nor two of different stores to one folder.
    let lock = fs::File::open(places.backups.join("LOCK")).unwrap();
    lock.lock().unwrap();
    let locked = back_up(&store, &places.backups, FULL).await;
    assert_eq!(code(locked), "STF-2050");
    drop(lock);
    back_up(&store, &places.backups, INCREMENTAL).await.unwrap();
}

/// Dropping the future is enough.
#[tokio::test]
async fn a_backup_that_nobody_waits_for_ends_and_leaves_nothing() {
    let places = places();
    let store = start(Arc::new(MemoryEngine::new()));
    let ledger = store.acquire(Partition(0)).await.unwrap();
    let mut writes = Writes::new();
    for number in 0..50_000u32 {
        writes.put(TableId(1), &number.to_be_bytes(), &[1; 100]);
    }
    ledger.commit(writes).await.unwrap();
    let (progress, mut watching) = watch::channel(BackupProgress::default());
    let order = BackupOptions::new(&places.backups, FULL);
    tokio::select! {
        done = take(&store, &order, &progress) => panic!("too quick to be dropped: {done:?}"),
        _ = watching.wait_for(|progress| progress.rows > 0) => {}
    }
    // It ends when it looks up next; until then it is under way.
    loop {
        match back_up(&store, &places.backups, FULL).await {
            Ok(_) => break,
            Err(error) => assert_eq!(error.code().0, "STF-2050"),
        }
        tokio::task::yield_now().await;
    }
    let names: Vec<_> = fs::read_dir(&places.backups).unwrap().collect();
    assert_eq!(names.len(), 2, "one backup and the lock: {names:?}");
}

/// A backup that cannot keep up fails; its store does not notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_never_wait_for_a_backup() {
    let places = places();
    let store = start(Arc::new(MemoryEngine::new()));
    let ledger = store.acquire(Partition(0)).await.unwrap();
    for number in 0..2000u32 {
        let mut writes = Writes::new();
        writes.put(TableId(1), &number.to_be_bytes(), &[1; 1000]);
        drop(ledger.commit(writes));
    }
    put(&ledger, b"last", b"v").await;
    let mut order = BackupOptions::new(&places.backups, FULL);
    order.tap_bytes = 10;
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, busy) = (Arc::clone(&stop), ledger.clone());
    let writer = tokio::spawn(async move {
        while !stopped.load(Ordering::Relaxed) {
            put(&busy, b"busy", b"v").await;
        }
    });
    // On a busy machine the writer may have slept through a whole backup.
    let mut taken = 0;
    let failed = loop {
        match take(&store, &order, &progress()).await {
            Ok(_) if taken < 100 => taken += 1,
            done => break done,
        }
    };
    stop.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    assert_eq!(code(failed), "STF-2058");
    put(&ledger, b"still", b"here").await;
    back_up(&store, &places.backups, FULL).await.unwrap();
    let names: Vec<_> = fs::read_dir(&places.backups).unwrap().collect();
    assert_eq!(names.len(), taken + 2, "backups and the lock: {names:?}");
}

/// A folder from before there was a list of tables.
#[tokio::test]
async fn an_old_folder_is_backed_up_while_it_is_stopped() {
    let places = places();
    let frozen =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../storage-local/tests/fixtures/format-1");
    copy_folder(&frozen, &places.data).unwrap();
    let order = BackupOptions::new(&places.backups, FULL);
    let taken = take_folder(&places.data, &order, &progress())
        .await
        .unwrap();
    // 60 rows without 6, and the 19 after the clear; 50 batches of 2.
    let manifest = taken.manifest;
    assert_eq!((manifest.rows(), manifest.events), (54 + 19, 100));
    bring_back(&places.backups, &places.restored, RestorePolicy::Safe)
        .await
        .unwrap();
    copy_folder(&frozen, &places.data.join("again")).unwrap();
    let store = open(&places.data.join("again"));
    store.acquire(Partition(3)).await.unwrap();
    let running = back_up(&store, &places.backups, FULL).await;
    assert_eq!(code(running), "STF-2059");
}

#[tokio::test]
async fn an_unfinished_restore_is_never_opened_and_starts_again() {
    let places = places();
    chain_of_three(&places).await;
    let half = places.restored.join("restoring");
    fs::create_dir_all(half.join("log")).unwrap();
    assert_eq!(is_open(&places.restored), Err("STF-2056"));
    bring_back(&places.backups, &places.restored, RestorePolicy::Safe)
        .await
        .unwrap();
    assert_eq!(is_open(&places.restored), Ok(()));
    assert!(!half.exists());
    // Over a state that stays whole until the new one is complete.
    fs::create_dir(&half).unwrap();
    fs::write(half.join("FORMAT"), "half").unwrap();
    let safe = bring_back(&places.backups, &places.restored, RestorePolicy::Safe).await;
    assert_eq!(code(safe), "STF-2055");
    assert!(!half.exists());
    fs::create_dir(&half).unwrap();
    fs::write(half.join("FORMAT"), "half").unwrap();
    assert_eq!(is_open(&places.restored), Ok(()));
    assert!(!half.exists());
    // What is not ours stays ours not.
    let foreign = places.restored.with_file_name("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("notes"), "mine").unwrap();
    let refused = bring_back(&places.backups, &foreign, RestorePolicy::Force).await;
    assert_eq!(code(refused), "STF-2015");
    // Nor is a folder that is open.
    let store = open(&places.restored);
    let refused = bring_back(&places.backups, &places.restored, RestorePolicy::Force).await;
    assert_eq!(code(refused), "STF-2001");
    store.close().await;
}

const FOLDER: &str = "STEADFAST_BACKUP_FOLDER";

/// A child backs up and restores; it is killed at any moment. A backup is there as
/// a whole or not at all, and so is what is restored.
#[test]
fn kill_during_backup_and_restore() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return block_on(back_up_and_restore(Path::new(&folder)));
    }
    let read = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let rounds: u64 = read("STEADFAST_ROUNDS").unwrap_or(40);
    let seed: u64 = read("STEADFAST_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!(
        "again: STEADFAST_SEED={seed} cargo test -p steadfast-backup --test backup chains::kill"
    );
    let mut rng = Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let model = block_on(fill(&data, &mut rng));
    let (mut unfinished, mut complete) = (0, 0);
    for round in 0..rounds {
        let mut command = own_test(module_path!(), "kill_during_backup_and_restore");
        command.env(FOLDER, folder.path());
        let mut child = Process::spawn(command).unwrap();
        let phase = ["begin", "backed up"][rng.usize(0..2)];
        child
            .wait_for(|line| line == phase, Duration::from_secs(60))
            .unwrap();
        std::thread::sleep(Duration::from_micros(rng.u64(0..60_000)));
        child.kill().unwrap();
        block_on(async {
            let restored = folder.path().join("restored");
            let (had_state, half) = (restored.join("FORMAT"), restored.join("restoring"));
            let had_state = had_state.exists() || half.join("COMPLETE").exists();
            let is_begun = half.join("LOCK").exists() && !half.join("COMPLETE").exists();
            unfinished += u32::from(is_begun);
            match is_open(&restored) {
                Err(code) => {
                    assert_eq!(code, "STF-2056", "round {round}");
                    assert!(!had_state, "round {round}: the old state does not open");
                }
                Ok(()) if had_state => {
                    complete += 1;
                    assert!(!half.exists(), "round {round}");
                    let store = open(&restored);
                    let ledger = store.acquire(Partition(0)).await.unwrap();
                    compare(&ledger, &model.state, &mut rng).await.unwrap();
                    drop(ledger);
                    store.close().await;
                }
                Ok(()) => {}
            }
            let backups = folder.path().join("backups");
            let order = BackupOptions::new(&backups, FULL);
            take_folder(&data, &order, &progress()).await.unwrap();
            bring_back(&backups, &restored, RestorePolicy::Force)
                .await
                .unwrap();
            let store = open(&restored);
            let ledger = store.acquire(Partition(0)).await.unwrap();
            compare(&ledger, &model.state, &mut rng).await.unwrap();
            drop(ledger);
            store.close().await;
            fs::remove_dir_all(&restored).unwrap();
        });
    }
    println!("{rounds} kills: {unfinished} restores unfinished, {complete} left with a state");
    assert!(
        rounds < 40 || unfinished > 0,
        "no restore was ever cut short"
    );
}

async fn fill(data: &Path, rng: &mut Rng) -> Model {
    let store = open(data);
    let ledgers = acquire_all(&store, 1).await;
    let mut models = vec![Model::default()];
    work(&ledgers, &mut models, 300, rng).await;
    drop(ledgers);
    store.close().await;
    models.remove(0)
}

/// What the process does that is killed.
async fn back_up_and_restore(folder: &Path) {
    let order = BackupOptions::new(folder.join("backups"), FULL);
    println!("begin");
    take_folder(&folder.join("data"), &order, &progress())
        .await
        .unwrap();
    println!("backed up");
    loop {
        let backups = folder.join("backups");
        bring_back(&backups, &folder.join("restored"), RestorePolicy::Force)
            .await
            .unwrap();
    }
}
