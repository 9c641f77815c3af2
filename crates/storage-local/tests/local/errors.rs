//! Folders that fail: a clear code, and nothing lost.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use steadfast_core::id::{Owner, Partition, Sequence, StreamId, TableId};
use steadfast_harness::FakeDisk;
use steadfast_storage::engine::ReadPosition;
use steadfast_storage::{Error, ErrorKind, Ledger, Options, Result, Store, Visibility, Writes};
use steadfast_storage_local::{LocalEngine, Options as LocalOptions};

const P: Partition = Partition(0);
const T: TableId = TableId(1);
const S: StreamId = StreamId(1);

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().build().unwrap().block_on(future)
}

fn options() -> LocalOptions {
    LocalOptions {
        log_file_bytes: 64 * 1024,
        background: false,
        ..LocalOptions::default()
    }
}

async fn open(path: &Path) -> Result<(Store, Ledger)> {
    let engine = LocalEngine::open(path, &options())?;
    let owner = Owner {
        node: 1,
        incarnation: 1,
    };
    let store = Store::start(Arc::new(engine), Options::new(owner));
    let ledger = store.acquire(P).await?;
    Ok((store, ledger))
}

async fn commit(ledger: &Ledger, count: u64) -> Result<()> {
    let mut writes = Writes::new();
    writes.put(T, &count.to_be_bytes(), &[count as u8; 300]);
    writes.publish(S, 1, vec![count as u8; 50].into());
    ledger.commit(writes).await.map(drop)
}

/// Writes `count` transactions, each a group of its own, and closes.
fn fill(path: &Path, count: u64, flush: bool) {
    block_on(async {
        let (store, ledger) = open(path).await.unwrap();
        for number in 0..count {
            commit(&ledger, number).await.unwrap();
        }
        if flush {
            ledger.flush().await.unwrap();
        }
        store.close().await;
    });
}

/// Asserts that `count` transactions are there, and that more are taken.
fn check(path: &Path, count: u64) {
    block_on(async {
        let (store, ledger) = open(path).await.unwrap();
        for number in 0..count {
            let row = ledger
                .get(T, &number.to_be_bytes(), Visibility::Durable)
                .await;
            assert_eq!(row.unwrap().unwrap()[..], [number as u8; 300]);
        }
        let head = ledger.stream(S).unwrap().unwrap_or_default();
        assert_eq!(head.next, Sequence(count));
        commit(&ledger, count).await.unwrap();
        store.close().await;
    });
}

fn error_of(path: &Path) -> Error {
    LocalEngine::open(path, &options())
        .err()
        .expect("it should not open")
}

/// The only log file that holds groups, relative to the disk.
fn log_file(disk: &FakeDisk) -> PathBuf {
    let mut files: Vec<_> = fs::read_dir(disk.path().join("data/log"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files[0].strip_prefix(disk.path()).unwrap().to_path_buf()
}

#[test]
fn a_second_opener_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path(), 3, false);
    let first = LocalEngine::open(folder.path(), &options()).unwrap();
    let error = error_of(folder.path());
    assert_eq!(error.code().0, "STF-2001", "{error}");
    drop(first);
    check(folder.path(), 3);
}

#[test]
fn a_newer_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path(), 3, false);
    let path = folder.path().join("FORMAT");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("steadfast-data 1", "steadfast-data 2")).unwrap();
    let error = error_of(folder.path());
    assert_eq!(error.code().0, "STF-2002", "{error}");
    assert!(error.to_string().contains("format 2"), "{error}");
    fs::write(&path, text).unwrap();
    check(folder.path(), 3);
}

#[test]
fn a_foreign_folder_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.txt"), "years of work").unwrap();
    let error = error_of(folder.path());
    assert_eq!(error.code().0, "STF-2015", "{error}");
    let text = fs::read_to_string(folder.path().join("thesis.txt")).unwrap();
    assert_eq!(text, "years of work");
}

#[test]
fn a_read_only_folder_is_refused() {
    let disk = FakeDisk::mount().unwrap();
    let path = disk.path().join("data");
    fill(&path, 3, false);
    disk.set_read_only(true);
    let error = error_of(&path);
    assert_eq!(error.code().0, "STF-2005", "{error}");
    disk.set_read_only(false);
    check(&path, 3);
}

#[test]
fn a_folder_without_room_is_refused() {
    let disk = FakeDisk::mount().unwrap();
    let path = disk.path().join("data");
    disk.set_capacity(Some(1000));
    let error = block_on(open(&path)).err().unwrap();
    assert_eq!(error.code().0, "STF-2004", "{error}");
    disk.set_capacity(None);
    check(&path, 0);
}

#[test]
fn a_failed_sync_stops_the_log_for_good() {
    let disk = FakeDisk::mount().unwrap();
    let path = disk.path().join("data");
    block_on(async {
        let (store, ledger) = open(&path).await.unwrap();
        commit(&ledger, 0).await.unwrap();
        disk.fail_sync(Some(".log"));
        let error = commit(&ledger, 1).await.unwrap_err();
        assert_eq!(error.code().0, "STF-2010", "{error}");
        // The disk recovers, but what it has lost is unknown.
        disk.fail_sync(None);
        let error = store.acquire(P).await.err().unwrap();
        assert_eq!(error.code().0, "STF-2006", "{error}");
        let other = store.acquire(Partition(1)).await.err().unwrap();
        assert_eq!(other.code().0, "STF-2006", "{other}");
        store.close().await;
    });
    // After a restart the log tells: the group was written after all.
    check(&path, 2);
}

#[test]
fn a_torn_tail_is_cut_off() {
    let disk = FakeDisk::mount().unwrap();
    let path = disk.path().join("data");
    fill(&path, 10, false);
    let file = log_file(&disk);
    let end = end_of_log(&disk, &file);
    disk.flip_bit(&file, end - 9).unwrap();
    check(&path, 9);
    check(&path, 10);
}

/// Where the last record of a log file ends: behind its last byte that is not 0.
fn end_of_log(disk: &FakeDisk, file: &Path) -> u64 {
    let bytes = fs::read(disk.path().join(file)).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    (last as u64 + 1).next_multiple_of(8)
}

#[test]
fn a_flipped_bit_in_the_log_is_refused_with_its_place() {
    let disk = FakeDisk::mount().unwrap();
    let path = disk.path().join("data");
    fill(&path, 10, false);
    let file = log_file(&disk);
    let end = end_of_log(&disk, &file);
    let mut refused = 0;
    // Everywhere but in the last record, which looks like a torn one.
    for at in (0..end - 500).step_by(37) {
        if is_padding(&disk, &file, at) {
            continue;
        }
        disk.flip_bit(&file, at).unwrap();
        let error = error_of(&path);
        let ErrorKind::Corrupt {
            file: named,
            offset,
            ..
        } = error.kind()
        else {
            panic!("bit flipped at {at}: {error}");
        };
        assert!(named.ends_with(&file), "flipped at {at}: {error}");
        let record = *offset..*offset + 500;
        assert!(record.contains(&at), "flipped at {at}: {error}");
        assert_eq!(error.code().0, "STF-2003");
        disk.flip_bit(&file, at).unwrap();
        refused += 1;
    }
    assert!(refused > 50, "{refused} flips were refused");
    check(&path, 10);
}

/// Whether a byte only fills a record up to a multiple of 8: it means nothing.
fn is_padding(disk: &FakeDisk, file: &Path, at: u64) -> bool {
    let bytes = fs::read(disk.path().join(file)).unwrap();
    let next = (at.next_multiple_of(8)) as usize;
    let is_last = bytes[next..].starts_with(b"STFL") && !at.is_multiple_of(8);
    is_last && bytes[at as usize..next].iter().all(|byte| *byte == 0)
}

#[test]
fn a_missing_log_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path(), 400, false);
    let log = folder.path().join("log");
    let mut files: Vec<_> = fs::read_dir(&log)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() > 2, "the test needs several log files");
    for file in &files[..files.len() - 1] {
        let kept = file.with_extension("kept");
        fs::rename(file, &kept).unwrap();
        let error = error_of(folder.path());
        assert_eq!(error.code().0, "STF-2003", "{error}");
        fs::rename(&kept, file).unwrap();
    }
    check(folder.path(), 400);
}

#[test]
fn a_lost_log_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path(), 20, true);
    for entry in fs::read_dir(folder.path().join("log")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let error = error_of(folder.path());
    assert_eq!(error.code().0, "STF-2003", "{error}");
}

#[test]
fn a_flipped_bit_in_events_is_noticed_when_read() {
    let disk = FakeDisk::mount().unwrap();
    let path = disk.path().join("data");
    fill(&path, 10, true);
    let folder = fs::read_dir(path.join("events")).unwrap().next().unwrap();
    let file = fs::read_dir(folder.unwrap().path())
        .unwrap()
        .next()
        .unwrap();
    let file = file.unwrap().path();
    let file = file.strip_prefix(disk.path()).unwrap();
    // In the bytes of the fourth batch: each takes 90 with its header.
    disk.flip_bit(file, 3 * 90 + 60).unwrap();
    block_on(async {
        let (store, ledger) = open(&path).await.unwrap();
        let start = ReadPosition::Sequence(Sequence(0));
        let error = ledger.read_events(S, start, usize::MAX).await.unwrap_err();
        assert_eq!(error.code().0, "STF-2003", "{error}");
        let ErrorKind::Corrupt {
            file: named,
            offset,
            ..
        } = error.kind()
        else {
            panic!("{error}");
        };
        assert!(named.ends_with(file) && *offset == 270, "{error}");
        let rest = ledger
            .read_events(S, ReadPosition::Sequence(Sequence(4)), usize::MAX)
            .await;
        assert_eq!(rest.unwrap().len(), 6, "the others can be read");
        store.close().await;
    });
}

#[test]
fn a_flipped_bit_in_the_tables_is_noticed() {
    let disk = FakeDisk::mount().unwrap();
    let path = disk.path().join("data");
    fill(&path, 200, true);
    let tables = path.join("tables/tables");
    let file = fs::read_dir(tables)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let length = fs::metadata(&file).unwrap().len();
    let file = file.strip_prefix(disk.path()).unwrap();
    disk.flip_bit(file, length / 3).unwrap();
    let outcome = block_on(async {
        let (store, ledger) = open(&path).await?;
        for number in 0..200u64 {
            let row = ledger
                .get(T, &number.to_be_bytes(), Visibility::Durable)
                .await?;
            assert_eq!(row.unwrap()[..], [number as u8; 300]);
        }
        store.close().await;
        Ok::<(), Error>(())
    });
    let error = outcome.expect_err("the damage was not noticed");
    assert_eq!(error.code().0, "STF-2003", "{error}");
}

#[test]
fn the_log_stays_within_its_budget() {
    let folder = tempfile::tempdir().unwrap();
    let (target, limit) = (1024 * 1024, 4 * 1024 * 1024);
    let local = LocalOptions {
        log_file_bytes: 256 * 1024,
        ..LocalOptions::default()
    };
    let mut largest = 0;
    block_on(async {
        let engine = LocalEngine::open(folder.path(), &local).unwrap();
        let mut options = Options::new(Owner {
            node: 1,
            incarnation: 1,
        });
        options.log_target = target;
        options.log_limit = limit;
        let store = Store::start(Arc::new(engine), options);
        let mut ledgers = Vec::new();
        for index in 0..4 {
            ledgers.push(store.acquire(Partition(index)).await.unwrap());
        }
        let mut committed = 0;
        while committed < 32 * 1024 * 1024 {
            for ledger in &ledgers {
                let mut writes = Writes::new();
                writes.put(T, &fastrand::u64(..).to_be_bytes(), &[1; 8 * 1024]);
                match ledger.commit(writes).await {
                    Ok(_) => committed += 8 * 1024,
                    Err(error) => {
                        assert_eq!(error.code().0, "STF-2008", "{error}");
                        // Let the flusher run.
                        tokio::task::yield_now().await;
                    }
                }
            }
            let files = fs::read_dir(folder.path().join("log")).unwrap();
            let size: u64 = files.map(|e| e.unwrap().metadata().unwrap().len()).sum();
            largest = largest.max(size);
        }
        store.close().await;
    });
    // A flushed group stays while an older one of another partition is not flushed, so the
    // log spans up to twice its limit. Beside it stand a spare file and the one in use.
    let bound = 2 * limit + 2 * local.log_file_bytes;
    assert!(
        largest <= bound,
        "the log took {largest} bytes, more than {bound}"
    );
}
