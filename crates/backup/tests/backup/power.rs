//! Power cuts during backups and restores.
//!
//! A fake disk cuts the power after a random number of operations and keeps any
//! part of what was not synced. A backup that has its name is whole, and a data
//! folder holds the old state or the new one; without an old one it may refuse to open.
//! `STEADFAST_SEEDS` sets how many seeds are tried, `STEADFAST_SEED` names the one to try
//! again.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use steadfast_backup::{
    BackupChain, BackupOptions, BackupProgress, Extent, FolderRestore, RestorePolicy,
    restore_folder, take_folder,
};
use steadfast_core::id::{Owner, Partition};
use steadfast_harness::FakeDisk;
use steadfast_storage::{Error, Options, Store};
use steadfast_storage_local::{self as local, LocalEngine};
use tokio::sync::watch;

use crate::model::{Model, compare, durable, writes};

const P: Partition = Partition(0);

fn each_seed(name: &str, run: impl Fn(&FakeDisk, u64)) {
    let read = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seeds = match read("STEADFAST_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..read("STEADFAST_SEEDS").unwrap_or(20),
    };
    let disk = FakeDisk::mount().unwrap();
    for seed in seeds {
        disk.reset();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(&disk, seed))) {
            println!(
                "seed {seed} failed; again: STEADFAST_SEED={seed} cargo test -p steadfast-backup --test backup power::{name}"
            );
            resume_unwind(panic);
        }
    }
}

fn progress() -> watch::Sender<BackupProgress> {
    watch::channel(BackupProgress::default()).0
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(work)
}

fn open_engine(folder: &Path) -> Result<LocalEngine, Error> {
    let options = local::Options {
        log_file_bytes: 64 * 1024,
        event_file_bytes: 4 * 1024,
        inline_event_bytes: 1000,
        ..local::Options::default()
    };
    LocalEngine::open(folder, &options)
}

fn open(folder: &Path) -> Result<Store, Error> {
    let engine = open_engine(folder)?;
    let owner = Owner {
        node: 1,
        incarnation: fastrand::u128(..),
    };
    Ok(Store::start(Arc::new(engine), Options::new(owner)))
}

/// Some transactions in a folder.
async fn fill(folder: &Path, count: usize, rng: &mut Rng) -> Model {
    let store = open(folder).unwrap();
    let ledger = store.acquire(P).await.unwrap();
    let mut model = Model::default();
    for _ in 0..count {
        let ops = model.random(rng, 3000);
        ledger.commit(writes(&ops)).await.unwrap();
        model.push(ops);
    }
    drop(ledger);
    store.close().await;
    model
}

/// How many transactions a folder holds, and that it holds them exactly.
async fn count(folder: &Path, models: [&Model; 2], rng: &mut Rng) -> Result<usize, Error> {
    let store = open(folder)?;
    let ledger = store.acquire(P).await?;
    let found = durable(&ledger).0 as usize;
    let fits = |model: &&&Model| model.transactions.len() == found;
    let model = models.iter().find(fits).unwrap();
    compare(&ledger, &model.state, rng).await?;
    drop(ledger);
    store.close().await;
    Ok(found)
}

#[test]
fn a_restore_is_there_as_a_whole_or_not() {
    each_seed("a_restore", |disk, seed| block_on(restore(disk, seed)));
}

async fn restore(disk: &FakeDisk, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let real = tempfile::tempdir().unwrap();
    let new = fill(&real.path().join("data"), 60, &mut rng).await;
    let from = real.path().join("backups");
    let full = BackupOptions::new(&from, Extent::Full);
    take_folder(&real.path().join("data"), &full, &progress())
        .await
        .unwrap();
    let data = disk.path().join("data");
    let has_old = rng.bool();
    let old = if has_old {
        fill(&data, 20, &mut rng).await
    } else {
        Model::default()
    };
    let order = FolderRestore {
        from,
        data: data.clone(),
        policy: RestorePolicy::Force,
        key: None,
    };
    let rehearsal = FolderRestore {
        data: disk.path().join("rehearsal"),
        ..order.clone()
    };
    if has_old {
        copy(&data, &rehearsal.data);
    }
    let before = disk.operations();
    restore_folder(&rehearsal, &progress()).await.unwrap();
    let whole = disk.operations() - before;
    fs::remove_dir_all(&rehearsal.data).unwrap();
    // Often near the end, where the new state takes the place of the old one.
    let operations = if rng.bool() {
        rng.u64(0..whole)
    } else {
        whole.saturating_sub(rng.u64(0..40))
    };
    disk.cut_after(operations, rng.u64(..));
    let done = restore_folder(&order, &progress()).await;
    if !disk.is_cut() {
        disk.cut_now(rng.u64(..));
    }
    disk.restart();
    let models = [&old, &new];
    match count(&data, models, &mut rng).await {
        Ok(found) => {
            let is_new = found == new.transactions.len();
            assert!(is_new || done.is_err(), "a restore that was done is gone");
        }
        Err(error) => {
            assert_eq!(error.code().0, "STF-2056", "{error}");
            assert!(!has_old, "the old state does not open: {error}");
            assert!(done.is_err(), "a restore that was done is unfinished");
            // Without a repetition, the folder still has its former state.
            if rng.bool() {
                fs::remove_dir_all(data.join("restoring")).unwrap();
                let found = count(&data, models, &mut rng).await.unwrap();
                assert_eq!(found, old.transactions.len());
            }
        }
    }
    restore_folder(&order, &progress()).await.unwrap();
    let found = count(&data, models, &mut rng).await.unwrap();
    assert_eq!(found, new.transactions.len());
}

/// The power goes at every step of the way, and again at another one.
#[test]
fn a_complete_restore_takes_its_place_whatever_happens() {
    let mut rng = Rng::with_seed(1);
    let real = tempfile::tempdir().unwrap();
    let (old, new) = (real.path().join("old"), real.path().join("new"));
    let models = [(&old, 20), (&new, 60)].map(|(path, n)| block_on(fill(path, n, &mut rng)));
    let disk = FakeDisk::mount().unwrap();
    let data = disk.path().join("data");
    for operations in 0.. {
        disk.reset();
        copy(&old, &data);
        copy(&new, &data.join("restoring"));
        write_synced(&data.join("restoring/COMPLETE"), b"");
        sync(disk.path());
        disk.cut_after(operations, rng.u64(..));
        drop(open_engine(&data));
        let was_long_enough = !disk.is_cut();
        for _ in 0..2 {
            if !disk.is_cut() {
                disk.cut_now(rng.u64(..));
            }
            disk.restart();
            disk.cut_after(rng.u64(0..30), rng.u64(..));
            drop(open_engine(&data));
        }
        if !disk.is_cut() {
            disk.cut_now(rng.u64(..));
        }
        disk.restart();
        let found = block_on(count(&data, [&models[0], &models[1]], &mut rng));
        assert_eq!(found.unwrap(), 60, "after {operations} operations");
        assert!(!data.join("restoring").exists());
        if was_long_enough {
            println!("{operations} operations");
            return;
        }
    }
}

fn write_synced(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    fs::File::open(path).unwrap().sync_all().unwrap();
    sync(path.parent().unwrap());
}

fn sync(folder: &Path) {
    fs::File::open(folder).unwrap().sync_all().unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    sync(to.parent().unwrap());
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target)
        } else {
            write_synced(&target, &fs::read(entry.path()).unwrap())
        }
    }
    sync(to);
}

#[test]
fn a_backup_is_there_as_a_whole_or_not() {
    each_seed("a_backup", |disk, seed| block_on(back_up(disk, seed)));
}

async fn back_up(disk: &FakeDisk, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let real = tempfile::tempdir().unwrap();
    let data = real.path().join("data");
    fill(&data, 60, &mut rng).await;
    let to = disk.path().join("some/backups");
    let full = BackupOptions::new(&to, Extent::Full);
    let before = disk.operations();
    let first = rng.bool();
    if first {
        take_folder(&data, &full, &progress()).await.unwrap();
    }
    let whole = (disk.operations() - before).max(60);
    disk.cut_after(rng.u64(0..whole), rng.u64(..));
    let done = take_folder(&data, &full, &progress()).await;
    if !disk.is_cut() {
        disk.cut_now(rng.u64(..));
    }
    disk.restart();
    let expected = usize::from(first) + usize::from(done.is_ok());
    let mut found = 0;
    for entry in fs::read_dir(&to).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.to_str().unwrap().ends_with("-full") {
            let chain = BackupChain::open(&path, None).unwrap();
            chain.verify(&progress()).unwrap();
            found += 1;
        }
    }
    assert!(found >= expected, "{found} of {expected} backups: {done:?}");
    take_folder(&data, &full, &progress()).await.unwrap();
    let names = fs::read_dir(&to).unwrap().count();
    assert_eq!(names, found + 2, "backups and a lock, nothing else");
}
