//! Sealed backups: nothing is read without the key.
//!
//! Known values appear nowhere in a sealed backup, no altered byte is ever restored, and
//! the frozen backups of both formats come back, alone and after an upgrade.
//! `STEADFAST_WRITE_FIXTURE=<folder>` makes the test of both formats write such a chain
//! instead, for the next format.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use steadfast_backup::{
    BackupChain, BackupKey, BackupOptions, BackupProgress, BackupReport, Extent, FolderRestore,
    RestorePolicy, RestoreReport, StorageLocation, StoreMigration, migrate, restore_folder, take,
    take_folder,
};
use steadfast_core::id::{Owner, Partition, Sequence, StreamId, TableId};
use steadfast_harness::copy_folder;
use steadfast_storage::engine::{CasOutcome, ReadPosition, Scan};
use steadfast_storage::memory::MemoryEngine;
use steadfast_storage::{Engine, Error, Options, Store, Writes};
use steadfast_storage_local::{LocalEngine, Options as LocalOptions};
use tokio::sync::watch;

const FULL: Extent = Extent::Full;
const INCREMENTAL: Extent = Extent::Incremental;
const P: Partition = Partition(3);

/// What must not be readable: of rows, their keys, events and records.
const KNOWN: [&str; 5] = [
    "the value of a row",
    "the key of a row",
    "the body of an event",
    "the value of a record",
    "names/of-records",
];

fn progress() -> watch::Sender<BackupProgress> {
    watch::channel(BackupProgress::default()).0
}

fn start(engine: Arc<dyn Engine>) -> Store {
    Store::start(
        engine,
        Options::new(Owner {
            node: 1,
            incarnation: fastrand::u128(..),
        }),
    )
}

/// A store with known values; `stage` makes them others.
async fn fill(store: &Store, stage: u8) {
    let ledger = store.acquire(P).await.unwrap();
    for number in 0..20u8 {
        let mut writes = Writes::new();
        let key = format!("{} {number}", KNOWN[1]);
        let value = format!("{} {number} {stage}", KNOWN[0]);
        writes.put(TableId(1), key.as_bytes(), value.as_bytes());
        writes.publish(StreamId(1), 1, format!("{} {number}", KNOWN[2]).into());
        ledger.commit(writes).await.unwrap();
    }
    let record = store.engine().cas(KNOWN[4], stage.into(), KNOWN[3].into());
    record.await.unwrap();
    store.release(&ledger).await.unwrap();
}

async fn back_up(store: &Store, order: &BackupOptions) -> Result<BackupReport, Error> {
    let ledger = store.acquire(P).await.unwrap();
    let taken = take(store, order, &progress()).await;
    store.release(&ledger).await.unwrap();
    taken
}

/// Backups of both kinds, one on top of the other.
async fn chain(to: &Path, key: Option<&BackupKey>) -> Store {
    let store = start(Arc::new(MemoryEngine::new()));
    for (stage, extent) in [FULL, INCREMENTAL].into_iter().enumerate() {
        fill(&store, stage as u8).await;
        let mut order = BackupOptions::new(to, extent);
        order.key = key.cloned();
        back_up(&store, &order).await.unwrap();
    }
    store
}

async fn bring_back(
    from: &Path,
    data: &Path,
    key: Option<&BackupKey>,
) -> Result<RestoreReport, Error> {
    let order = FolderRestore {
        from: from.into(),
        data: data.into(),
        policy: RestorePolicy::Safe,
        key: key.cloned(),
    };
    restore_folder(&order, &progress()).await
}

/// Rows and events of a store's partition.
async fn content(store: &Store) -> Vec<(Bytes, Bytes)> {
    let ledger = store.acquire(P).await.unwrap();
    let mut found = Vec::new();
    let snapshot = ledger.snapshot().unwrap();
    for table in [1, 2] {
        let rows = snapshot
            .scan(TableId(table), Scan::all(1000))
            .await
            .unwrap();
        found.extend(rows.into_iter().map(|row| (row.key, row.value)));
    }
    drop(snapshot);
    let read = ledger.read_events(StreamId(1), ReadPosition::Sequence(Sequence(0)), usize::MAX);
    for batch in read.await.unwrap() {
        let place = [batch.first.0, batch.offset.0, batch.time.0 as u64];
        found.push((place.map(u64::to_be_bytes).concat().into(), batch.bytes));
    }
    store.release(&ledger).await.unwrap();
    found
}

fn open(folder: &Path) -> Store {
    start(Arc::new(
        LocalEngine::open(folder, &LocalOptions::default()).unwrap(),
    ))
}

fn code<T>(result: Result<T, Error>) -> &'static str {
    result.err().expect("it is refused").code().0
}

/// The files of all backups below a folder, if it is there.
fn files(backups: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = list(backups).map(|entry| entry.path());
    let folders = folders.filter(|path| path.is_dir());
    let files = folders.flat_map(|folder| list(&folder).map(|entry| entry.path()));
    let mut files: Vec<_> = files.collect();
    files.sort();
    files
}

/// Which of the known texts a folder of backups shows.
fn shown(backups: &Path) -> Vec<&'static str> {
    let files = files(backups);
    assert!(files.len() > 5, "{files:?}");
    let bytes: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    shown_in(&bytes.iter().collect::<Vec<_>>())
}

fn shown_in(files: &[&Vec<u8>]) -> Vec<&'static str> {
    let is_shown = |text: &&str| {
        let has = |file: &&Vec<u8>| file.windows(text.len()).any(|part| part == text.as_bytes());
        files.iter().any(has)
    };
    KNOWN.into_iter().filter(is_shown).collect()
}

#[tokio::test]
async fn a_sealed_backup_shows_nothing_and_comes_back_with_its_key_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    chain(&path("plain"), None).await;
    assert_eq!(shown(&path("plain")), KNOWN, "plain text shows everything");
    let (key, other) = (BackupKey::new("one"), BackupKey::new("two"));
    let store = chain(&path("sealed"), Some(&key)).await;
    assert_eq!(shown(&path("sealed")), [""; 0]);
    for wrong in [None, Some(&other)] {
        let refused = bring_back(&path("sealed"), &path("data"), wrong).await;
        assert_eq!(code(refused), "STF-2062");
        assert!(!path("data").exists(), "something was written");
    }
    let restored = bring_back(&path("sealed"), &path("data"), Some(&key)).await;
    assert_eq!(restored.unwrap().rows, 20);
    assert_eq!(content(&open(&path("data"))).await, content(&store).await);
    // A key does not stand in the way of a backup that has none.
    bring_back(&path("plain"), &path("other"), Some(&key))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_sealed_chain_is_checked_for_damage_without_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let key = BackupKey::new("one");
    chain(folder.path(), Some(&key)).await;
    let verify = |key: Option<&BackupKey>| {
        let chain = BackupChain::open(folder.path(), key)?;
        chain.verify(&progress()).map(|()| chain.is_opened())
    };
    assert!(!verify(None).unwrap() && verify(Some(&key)).unwrap());
    let rows = folder.path().join("000001-full/00000003.rows");
    let mut bytes = fs::read(&rows).unwrap();
    bytes[50] ^= 1;
    fs::write(&rows, bytes).unwrap();
    assert_eq!(
        (code(verify(None)), code(verify(Some(&key)))),
        ("STF-2053", "STF-2053")
    );
}

#[tokio::test]
async fn a_chain_is_sealed_with_one_key_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (key, other) = (BackupKey::new("one"), BackupKey::new("two"));
    let sealed = chain(&path("sealed"), Some(&key)).await;
    let on = |name: &str| BackupOptions::new(path(name), INCREMENTAL);
    for order in [on("sealed"), on("sealed").sealed(&other)] {
        assert_eq!(code(back_up(&sealed, &order).await), "STF-2051");
    }
    back_up(&sealed, &on("sealed").sealed(&key)).await.unwrap();
    // A full one begins a chain of its own, with another key.
    let full = BackupOptions::new(path("sealed"), FULL).sealed(&other);
    back_up(&sealed, &full).await.unwrap();
    back_up(&sealed, &on("sealed").sealed(&other))
        .await
        .unwrap();
    let first = path("sealed").join("000003-incremental");
    bring_back(&first, &path("first"), Some(&key))
        .await
        .unwrap();
    bring_back(&path("sealed"), &path("second"), Some(&other))
        .await
        .unwrap();
}

/// Plain text is made without the key, so it is not taken for a newer backup of the chain.
#[tokio::test]
async fn a_plain_backup_beside_sealed_ones_is_restored_by_its_name_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (key, backups) = (BackupKey::new("one"), path("backups"));
    let store = chain(&backups, Some(&key)).await;
    for extent in [FULL, INCREMENTAL] {
        let plain = back_up(&store, &BackupOptions::new(&backups, extent))
            .await
            .unwrap();
        assert_eq!((plain.manifest.extent, plain.note), (extent, None));
        for key in [None, Some(&key)] {
            let refused = bring_back(&backups, &path("data"), key).await;
            assert_eq!(code(refused), "STF-2062");
            assert!(!path("data").exists(), "something was written");
        }
        let data = path(&format!("{extent:?}"));
        bring_back(&plain.folder, &data, None).await.unwrap();
    }
    let sealed = backups.join("000002-incremental");
    bring_back(&sealed, &path("data"), Some(&key))
        .await
        .unwrap();
}

/// All bytes below a folder.
fn bytes_of(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(bytes_of(&path))
        } else {
            drop(found.insert(path.clone(), fs::read(&path).unwrap()))
        }
    }
    found
}

#[tokio::test]
async fn a_restore_that_is_refused_leaves_the_state_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (key, backups) = (BackupKey::new("one"), path("backups"));
    let store = chain(&backups, Some(&key)).await;
    // The same files once more, for what is taken from another backup.
    let full = BackupOptions::new(path("others"), FULL).sealed(&key);
    let other = back_up(&store, &full).await.unwrap().folder;
    let own = open(&path("data"));
    fill(&own, 5).await;
    own.close().await;
    let before = bytes_of(&path("data"));
    let refused = async |key: Option<BackupKey>, codes: &[&str], what: &str| {
        let order = FolderRestore {
            from: backups.clone(),
            data: path("data"),
            policy: RestorePolicy::Force,
            key,
        };
        let found = code(restore_folder(&order, &progress()).await);
        assert!(codes.contains(&found), "{what}: {found}");
        assert!(bytes_of(&path("data")) == before, "{what}: it was changed");
    };
    refused(None, &["STF-2062"], "no key").await;
    let wrong = Some(BackupKey::new("two"));
    refused(wrong, &["STF-2062"], "another key").await;
    for file in files(&backups) {
        let what = file.display().to_string();
        let whole = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        refused(Some(key.clone()), &["STF-2053"], &what).await;
        fs::write(&file, &whole[..whole.len() / 2]).unwrap();
        refused(Some(key.clone()), &["STF-2053"], &what).await;
        let foreign = other.join(file.file_name().unwrap());
        fs::copy(foreign, &file).unwrap();
        let codes = ["STF-2052", "STF-2053", "STF-2063"];
        refused(Some(key.clone()), &codes, &what).await;
        fs::write(&file, whole).unwrap();
    }
    let order = FolderRestore {
        from: backups.clone(),
        data: path("data"),
        policy: RestorePolicy::Force,
        key: Some(key),
    };
    restore_folder(&order, &progress()).await.unwrap();
    assert_eq!(content(&open(&path("data"))).await, content(&store).await);
}

/// Every byte of every file: an error, and nothing else.
#[tokio::test]
async fn no_altered_byte_is_ever_restored() {
    let folder = tempfile::tempdir().unwrap();
    let key = BackupKey::new("one");
    chain(folder.path(), Some(&key)).await;
    let verify = || BackupChain::open(folder.path(), Some(&key))?.verify(&progress());
    verify().unwrap();
    let mut count = 0;
    for file in files(folder.path()) {
        let whole = fs::read(&file).unwrap();
        let mut refused = |bytes: &[u8], how: &str| {
            fs::write(&file, bytes).unwrap();
            let found = code(verify());
            let is_fit = found.starts_with("STF-205") || found.starts_with("STF-206");
            assert!(is_fit, "{how} of {}: {found}", file.display());
            count += 1;
        };
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= if at.is_multiple_of(2) { 0x01 } else { 0x80 };
            refused(&bytes, &format!("byte {at}"));
        }
        // The manifest ends with a line feed that says nothing.
        for end in [0, whole.len() / 2, whole.len() - 2] {
            refused(&whole[..end], &format!("the first {end} bytes"));
        }
        refused(&[&whole[..], b"more"].concat(), "more than all");
        fs::write(&file, &whole).unwrap();
    }
    verify().unwrap();
    assert!(count > 5000, "{count} cases");
}

/// Files of another backup of the same store, under the same key.
#[tokio::test]
async fn files_of_another_backup_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let key = BackupKey::new("one");
    let store = chain(folder.path(), Some(&key)).await;
    let full = BackupOptions::new(folder.path(), FULL).sealed(&key);
    back_up(&store, &full).await.unwrap();
    back_up(&store, &full).await.unwrap();
    let [own, other] = [3, 4].map(|n| folder.path().join(format!("00000{n}-full")));
    for name in ["00000003.rows", "00000003.events", "state", "records"] {
        let (kept, taken) = (own.join(name), other.join(name));
        let whole = fs::read(&kept).unwrap();
        assert_eq!(whole.len(), fs::read(&taken).unwrap().len());
        fs::copy(&taken, &kept).unwrap();
        let chain = BackupChain::open(&own, Some(&key)).unwrap();
        assert_eq!(code(chain.verify(&progress())), "STF-2063", "{name}");
        fs::write(&kept, whole).unwrap();
    }
    BackupChain::open(&own, Some(&key))
        .unwrap()
        .verify(&progress())
        .unwrap();
}

/// Moves a store; answers the files that its scratch folder was seen to hold.
async fn seen_while_moving(data: &Path, to: &Path, scratch: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let migration = StoreMigration {
        from: StorageLocation::Folder(data.into()),
        to: StorageLocation::Folder(to.into()),
        scratch: scratch.into(),
    };
    let done = Arc::new(AtomicBool::new(false));
    let (is_done, scratch) = (Arc::clone(&done), scratch.to_path_buf());
    let watch = move || {
        let mut seen = BTreeMap::new();
        while !is_done.load(Ordering::Relaxed) {
            for file in files(&scratch) {
                // It may be gone by now.
                let bytes = fs::read(&file).unwrap_or_default();
                let known = seen.entry(file).or_insert_with(Vec::new);
                if bytes.len() > known.len() {
                    *known = bytes;
                }
            }
        }
        seen
    };
    let watcher = std::thread::Builder::new().name("watcher".into());
    let watcher = watcher.spawn(watch).unwrap();
    migrate(&migration, &progress()).await.unwrap();
    done.store(true, Ordering::Relaxed);
    watcher.join().unwrap()
}

/// What a migration leaves if it is killed says nothing: it has a key of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_goes_through_a_sealed_copy() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let store = open(&path("data"));
    fill(&store, 0).await;
    let expected = content(&store).await;
    store.close().await;
    let mut seen = BTreeMap::new();
    let mut to = path("data");
    // On a busy machine the watcher may come too late for one migration, not for all.
    for number in 0..50 {
        to = path(&format!("moved {number}"));
        seen = seen_while_moving(&path("data"), &to, &path("scratch")).await;
        if seen.values().any(|bytes| bytes.len() > 500) {
            break;
        }
    }
    assert!(seen.values().any(|bytes| bytes.len() > 500), "{seen:?}");
    assert_eq!(shown_in(&seen.values().collect::<Vec<_>>()), [""; 0]);
    assert_eq!(content(&open(&to)).await, expected);
}

/// The keys of a server are the only files that a folder to restore to may hold.
#[tokio::test]
async fn a_folder_with_the_keys_of_a_server_is_restored_to() {
    let folder = tempfile::tempdir().unwrap();
    let (data, backups) = (folder.path().join("data"), folder.path().join("backups"));
    chain(&backups, None).await;
    fs::create_dir(&data).unwrap();
    fs::write(data.join("notes"), "mine").unwrap();
    assert_eq!(code(bring_back(&backups, &data, None).await), "STF-2015");
    fs::rename(data.join("notes"), data.join("secret.key")).unwrap();
    fs::write(data.join("keys.toml"), "").unwrap();
    bring_back(&backups, &data, None).await.unwrap();
    assert_eq!(fs::read_to_string(data.join("secret.key")).unwrap(), "mine");
}

fn fixtures(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// The folder of format 1 that an earlier version has written.
fn frozen_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../storage-local/tests/fixtures/format-1")
}

/// `fixtures/backup-1` and `backup-2` are chains of the folder `format-1` among the fixtures
/// of `storage-local`; the second is sealed. They were written once, by the versions that
/// introduced them.
#[tokio::test]
async fn backups_of_both_formats_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    copy_folder(&frozen_folder(), &path("data")).unwrap();
    let key = BackupKey::new("the key of the frozen backup");
    if let Some(to) = std::env::var_os("STEADFAST_WRITE_FIXTURE") {
        for extent in [FULL, INCREMENTAL] {
            let order = BackupOptions::new(&to, extent).sealed(&key);
            take_folder(&path("data"), &order, &progress())
                .await
                .unwrap();
        }
        return;
    }
    let expected = content(&open(&path("data"))).await;
    assert_eq!(expected.len(), 54 + 19 + 50);
    for (name, key) in [("backup-1", None), ("backup-2", Some(&key))] {
        let restored = bring_back(&fixtures(name), &path(name), key).await;
        assert_eq!(restored.unwrap().events, 100, "{name}");
        let restored = open(&path(name));
        assert!(content(&restored).await == expected, "{name}");
        let records = restored.engine().list("nodes/").await.unwrap();
        assert_eq!(records[0].value, b"second"[..], "{name}");
    }
    assert_eq!(
        code(bring_back(&fixtures("backup-2"), &path("x"), None).await),
        "STF-2062"
    );
}

/// The folder of the frozen backups as it was when they were taken: in the same life.
async fn folder_of_backup_1(data: &Path) {
    copy_folder(&frozen_folder(), data).unwrap();
    let chain = BackupChain::open(&fixtures("backup-1"), None).unwrap();
    let store = open(data);
    let known = store.engine().list("store/life").await.unwrap();
    let version = known.first().map_or(0, |record| record.version);
    let life = chain.last().store.clone();
    let swap = store.engine().cas("store/life", version, life.into()).await;
    assert!(matches!(swap.unwrap(), CasOutcome::Done(_)));
    store.close().await;
}

/// A server of today that is to add to backups of before there was sealing.
#[tokio::test]
async fn after_an_upgrade_an_incremental_backup_begins_a_sealed_chain() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (data, backups) = (path("data"), path("backups"));
    folder_of_backup_1(&data).await;
    copy_folder(&fixtures("backup-1"), &backups).unwrap();
    let before = bytes_of(&backups);
    let key = BackupKey::new("one");
    let order = BackupOptions::new(&backups, INCREMENTAL).sealed(&key);
    let mut taken = Vec::new();
    for _ in 0..2 {
        let one = take_folder(&data, &order, &progress()).await.unwrap();
        let name = one.folder.file_name().unwrap().to_str().unwrap();
        taken.push((name.to_owned(), one.note.is_some()));
    }
    let expected = [("000003-full", true), ("000004-incremental", false)];
    assert_eq!(taken, expected.map(|(name, note)| (name.to_owned(), note)));
    // Nothing is sealed halfway, and every backup comes back: those of before without a key.
    let now = bytes_of(&backups);
    assert!(
        before
            .iter()
            .all(|(file, bytes)| now.get(file) == Some(bytes))
    );
    let expected = content(&open(&data)).await;
    for (name, key, links) in [
        ("000001-full", None, 1),
        ("000002-incremental", None, 2),
        ("000003-full", Some(&key), 1),
        ("000004-incremental", Some(&key), 2),
    ] {
        let chain = BackupChain::open(&backups.join(name), key).unwrap();
        assert_eq!(chain.manifests().count(), links, "{name}");
        assert!(
            chain
                .manifests()
                .all(|one| one.is_sealed() == key.is_some())
        );
        bring_back(&backups.join(name), &path(name), key)
            .await
            .unwrap();
        assert!(content(&open(&path(name))).await == expected, "{name}");
    }
    bring_back(&backups, &path("newest"), Some(&key))
        .await
        .unwrap();
}

/// Without a key the chain of before goes on; on that of another store nothing begins.
#[tokio::test]
async fn after_an_upgrade_plain_chains_go_on_and_foreign_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    folder_of_backup_1(&path("data")).await;
    copy_folder(&fixtures("backup-1"), &path("backups")).unwrap();
    let order = BackupOptions::new(path("backups"), INCREMENTAL);
    let taken = take_folder(&path("data"), &order, &progress()).await;
    let taken = taken.unwrap();
    assert_eq!((taken.manifest.extent, taken.note), (INCREMENTAL, None));
    bring_back(&path("backups"), &path("restored"), None)
        .await
        .unwrap();
    // The restored store lives a new life.
    let sealed = order.sealed(&BackupKey::new("one"));
    let refused = take_folder(&path("restored"), &sealed, &progress()).await;
    assert_eq!(code(refused), "STF-2051");
}
