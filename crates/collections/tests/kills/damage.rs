//! Damage and bounds of a folder: C55, C56, C58, C59 and C60.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use steadfast_collections::{Dictionary, ErrorKind};
use steadfast_harness::FakeDisk;
use steadfast_storage_local::LocalEngine;

use crate::folder::{OFTEN, block_on, block_on_two, open};
use crate::kill::{PATIENCE, check, start};
use crate::place::engine_options;

type Words = Dictionary<String, String>;

/// Commits `count` transactions of two rows each, and closes.
fn fill(path: &Path, count: u64) {
    block_on(async {
        let folder = open(path, u64::MAX).await;
        let words: Words = folder.replica.state().get_or_add("words").await.unwrap();
        for number in 0..count {
            let mut tx = folder.replica.begin();
            for half in ["left", "right"] {
                let key = format!("{half} {number:04}");
                words.add(&mut tx, key, "x".repeat(100)).await.unwrap();
            }
            tx.commit().await.unwrap();
        }
        folder.store.close().await;
    });
}

/// Whole transactions in the folder.
fn count(path: &Path) -> u64 {
    block_on(async {
        let folder = open(path, OFTEN).await;
        let words: Words = folder.replica.state().get_or_add("words").await.unwrap();
        let mut tx = folder.replica.begin();
        let rows = words.count(&mut tx).await.unwrap();
        assert!(rows.is_multiple_of(2), "half a transaction");
        drop(tx);
        folder.store.close().await;
        rows / 2
    })
}

fn log_file(path: &Path) -> PathBuf {
    let files = fs::read_dir(path.join("log")).unwrap();
    let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files[0].clone()
}

#[test]
fn c55_a_torn_tail_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path(), 10);
    let file = log_file(folder.path());
    let mut bytes = fs::read(&file).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[end - 40..=end].fill(0);
    fs::write(&file, &bytes).unwrap();
    assert_eq!(count(folder.path()), 9, "the last one was torn, whole");
    assert_eq!(count(folder.path()), 9, "and the folder is sound");
}

#[test]
fn c56_a_flipped_bit_in_the_middle_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path(), 10);
    let file = log_file(folder.path());
    let mut bytes = fs::read(&file).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    let at = end / 2;
    bytes[at] ^= 1;
    fs::write(&file, &bytes).unwrap();
    let error = LocalEngine::open(folder.path(), &engine_options())
        .err()
        .unwrap();
    assert_eq!(error.code().0, "STF-2003", "{error}");
    let steadfast_storage::ErrorKind::Corrupt { offset, .. } = error.kind() else {
        panic!("{error}");
    };
    assert!((*offset..*offset + 600).contains(&(at as u64)), "{error}");
    bytes[at] ^= 1;
    fs::write(&file, &bytes).unwrap();
    assert_eq!(count(folder.path()), 10, "nothing was changed by refusing");
}

#[test]
fn c58_the_log_stays_bounded_under_load() {
    const TARGET: u64 = 256 * 1024;
    let folder = tempfile::tempdir().unwrap();
    let highest = block_on_two(async {
        let folder = open(folder.path(), TARGET).await;
        let words: Words = folder.replica.state().get_or_add("words").await.unwrap();
        let mut writers = Vec::new();
        for writer in 0..8 {
            let (replica, words) = (folder.replica.clone(), words.clone());
            writers.push(tokio::spawn(async move {
                for number in 0..150 {
                    let set = || {
                        replica.transact(async |mut tx| {
                            let key = format!("{writer} {}", number % 20);
                            words.set(&mut tx, key, "x".repeat(8_000)).await?;
                            tx.commit(()).await
                        })
                    };
                    // On a busy machine the flusher may need longer than `transact` waits.
                    while let Err(error) = set().await {
                        assert_eq!(error.code().0, "STF-3012", "{error}");
                    }
                }
            }));
        }
        let mut highest = 0;
        for writer in &mut writers {
            while !writer.is_finished() {
                highest = highest.max(folder.store.unflushed());
                // A spinning sampler would keep the flusher from its processor.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            writer.await.unwrap();
        }
        highest
    });
    // 9.6 MB were written.
    assert!(highest > TARGET / 2, "{highest}: the test wrote too little");
    assert!(highest < 4 * TARGET, "{highest} bytes were unflushed");
}

#[test]
fn c59_a_failed_sync_stops_writes() {
    let disk = FakeDisk::mount().unwrap();
    let path = disk.path().join("data");
    block_on(async {
        let folder = open(&path, OFTEN).await;
        let words: Words = folder.replica.state().get_or_add("words").await.unwrap();
        let set = async |key: &str| {
            let mut tx = folder.replica.begin();
            let key = key.to_owned();
            words.set(&mut tx, key, "value".to_owned()).await?;
            tx.commit().await
        };
        set("before").await.unwrap();
        disk.fail_sync(Some(".log"));
        let error = set("during").await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::OutcomeUnknown { .. }),
            "{error}"
        );
        disk.fail_sync(None);
        for key in ["after", "later"] {
            set(key).await.expect_err("the log has stopped for good");
        }
        assert_eq!(folder.replica.locks(), 0, "and no lock is left");
        folder.store.close().await;
    });
}

#[test]
fn c60_a_second_process_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = start(folder.path());
    child.wait_for(|line| line == "ready", PATIENCE).unwrap();
    let refused = LocalEngine::open(folder.path(), &engine_options());
    let error = refused.err().expect("two processes have the folder open");
    assert_eq!(error.code().0, "STF-2001", "{error}");
    child.kill().unwrap();
    let count = block_on(async {
        let folder = open(folder.path(), OFTEN).await;
        check(&folder, 0).await
    });
    println!("{count} commits before the kill");
}
