//! Restores that fail: the state from before stays.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use steadfast_backup::{
    BackupChain, BackupOptions, BackupProgress, Extent, FolderRestore, Manifest, RestorePolicy,
    restore_folder, take_folder,
};
use steadfast_core::id::{Owner, Partition, StreamId, TableId};
use steadfast_storage::{Error, Options, Store, Writes};
use steadfast_storage_local::{LocalEngine, Options as LocalOptions};
use tokio::sync::watch;
use xxhash_rust::xxh3::xxh3_128;

fn progress() -> watch::Sender<BackupProgress> {
    watch::channel(BackupProgress::default()).0
}

/// A data folder with rows and events of two partitions.
async fn fill(folder: &Path, seed: u8) {
    let owner = Owner {
        node: 1,
        incarnation: fastrand::u128(..),
    };
    let engine = LocalEngine::open(folder, &LocalOptions::default()).unwrap();
    let store = Store::start(Arc::new(engine), Options::new(owner));
    for partition in [3, 4] {
        let ledger = store.acquire(Partition(partition)).await.unwrap();
        for number in 0..50u8 {
            let mut writes = Writes::new();
            writes.put(TableId(1), &[number], &[seed; 100]);
            writes.publish(StreamId(1), 1, vec![seed; 100].into());
            ledger.commit(writes).await.unwrap();
        }
    }
    store.close().await;
}

/// All files below a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path))
        } else {
            drop(found.insert(path.clone(), fs::read(&path).unwrap()))
        }
    }
    found
}

/// Writes a manifest of plain text with the digest that it should have.
fn seal_manifest(backup: &Path, change: impl FnOnce(&mut Manifest)) {
    let file = backup.join("manifest.json");
    let text = fs::read_to_string(&file).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    let mut manifest: Manifest = serde_json::from_str(&text).unwrap();
    change(&mut manifest);
    let text = serde_json::to_string(&manifest).unwrap();
    let field = |digest: &str| format!("\"digest\":\"{digest}\"");
    let blank = text.replace(&field(value["digest"].as_str().unwrap()), &field(""));
    let digest = format!("{:032x}", xxh3_128(blank.as_bytes()));
    fs::write(file, blank.replace(&field(""), &field(&digest))).unwrap();
}

/// Gives a file that was altered the digest that the manifest has to name.
fn seal_file(backup: &Path, name: &str, old: &[u8]) {
    let file = backup.join("manifest.json");
    let new = fs::read(backup.join(name)).unwrap();
    let [old, new] = [old, &new].map(|bytes| format!("{:032x}", xxh3_128(bytes)));
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(&old), "{text}");
    fs::write(&file, text.replace(&old, &new)).unwrap();
    seal_manifest(backup, |_| {});
}

async fn backed_up(root: &Path) -> PathBuf {
    fill(&root.join("source"), 1).await;
    let order = BackupOptions::new(root.join("backups"), Extent::Full);
    let taken = take_folder(&root.join("source"), &order, &progress()).await;
    taken.unwrap().folder
}

async fn bring_back(from: &Path, data: &Path) -> Result<(), Error> {
    let order = FolderRestore {
        from: from.into(),
        data: data.into(),
        policy: RestorePolicy::Force,
        key: None,
    };
    restore_folder(&order, &progress()).await.map(drop)
}

/// The last partition does not come out as the manifest says: all others are written then.
#[tokio::test]
async fn a_restore_that_fails_while_it_writes_leaves_the_state_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let backup = backed_up(root).await;
    seal_manifest(&backup, |manifest| {
        manifest.partitions.last_mut().unwrap().rows += 1;
    });
    let data = root.join("data");
    fill(&data, 2).await;
    let before = files(&data);
    for _ in 0..2 {
        let error = bring_back(&backup, &data).await.unwrap_err();
        assert_eq!(error.code().0, "STF-2057", "{error}");
        assert!(files(&data) == before, "it was changed");
        drop(LocalEngine::open(&data, &LocalOptions::default()).unwrap());
    }
    // A folder without a state has none afterwards either.
    let error = bring_back(&backup, &root.join("new")).await.unwrap_err();
    assert_eq!(error.code().0, "STF-2057", "{error}");
    let left: Vec<_> = files(&root.join("new")).into_keys().collect();
    assert_eq!(left, [root.join("new/LOCK")]);
}

/// The digest of a file is that of its bytes, whatever they are.
#[tokio::test]
async fn blocks_of_a_plain_chain_are_verified_before_a_restore_begins() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let backup = backed_up(root).await;
    let name = "00000004.rows";
    let whole = fs::read(backup.join(name)).unwrap();
    let mut altered = whole.clone();
    altered[40] ^= 1;
    fs::write(backup.join(name), altered).unwrap();
    seal_file(&backup, name, &whole);
    let chain = BackupChain::open(&backup, None).unwrap();
    let error = chain.verify(&progress()).unwrap_err();
    assert_eq!(error.code().0, "STF-2053", "{error}");
    let error = bring_back(&backup, &root.join("data")).await.unwrap_err();
    assert_eq!(error.code().0, "STF-2053", "{error}");
    assert!(!root.join("data").exists(), "something was written");
}
