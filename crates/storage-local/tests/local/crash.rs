//! Real processes, really killed.
//!
//! A child commits as fast as it can and says so after each acknowledgement; the
//! parent kills it at a random moment and looks at the folder: everything that was
//! acknowledged is there, nothing is there in part, and sequence numbers are
//! dense. `STEADFAST_ROUNDS` sets how often, `STEADFAST_SEED` where to start.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use steadfast_core::id::{Owner, Partition, Sequence, StreamId, TableId};
use steadfast_harness::{Process, own_test};
use steadfast_storage::engine::{ReadPosition, Scan};
use steadfast_storage::{Ledger, Options, Store, Visibility, Writes};
use steadfast_storage_local::{self as local, LocalEngine};

const PARTITIONS: u32 = 8;
const ROWS: TableId = TableId(1);
const EVENTS: StreamId = StreamId(1);
/// Rows and events that are kept; older ones are deleted and trimmed.
const WINDOW: u64 = 50;
const FOLDER: &str = "STEADFAST_CRASH_FOLDER";

#[test]
fn kill_at_random_moments() {
    // The child is this very test, started again with a folder to work on.
    if let Some(folder) = std::env::var_os(FOLDER) {
        return commit_for_ever(Path::new(&folder));
    }
    let read = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let rounds: u64 = read("STEADFAST_ROUNDS").unwrap_or(200);
    let seed: u64 = read("STEADFAST_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!(
        "again: STEADFAST_SEED={seed} cargo test -p steadfast-storage-local --test local crash::kill"
    );
    let mut rng = Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let mut acked = vec![0; PARTITIONS as usize];
    let mut commits = 0;
    for round in 0..rounds {
        commits += run_and_kill(folder.path(), &mut acked, &mut rng);
        check(folder.path(), &mut acked, round);
    }
    println!("{rounds} kills, {commits} acknowledged commits, none lost");
    assert!(commits > rounds, "the child did not get to commit");
}

#[test]
fn a_second_process_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = start(folder.path());
    child.wait_for(|line| line == "ready", PATIENCE).unwrap();
    let refused = LocalEngine::open(folder.path(), &local::Options::default());
    let error = refused.err().expect("two processes have the folder open");
    assert_eq!(error.code().0, "STF-2001", "{error}");
    child.kill().unwrap();
    LocalEngine::open(folder.path(), &local::Options::default()).unwrap();
}

const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a child that commits to the folder.
fn start(folder: &Path) -> Process {
    let mut command = own_test(module_path!(), "kill_at_random_moments");
    command.env(FOLDER, folder);
    Process::spawn(command).unwrap()
}

/// Lets a child commit for a while; answers how many commits it reported.
fn run_and_kill(folder: &Path, acked: &mut [u64], rng: &mut Rng) -> u64 {
    let mut child = start(folder);
    let lines = match rng.u8(0..4) {
        0 => rng.usize(0..4),
        _ => rng.usize(0..2000),
    };
    let mut note = |line: &str| match parse(line) {
        Some((partition, count)) => {
            acked[partition] = acked[partition].max(count);
            1
        }
        None => 0,
    };
    let mut commits = 0;
    if lines > 0 {
        child.wait_for(|line| line == "ready", PATIENCE).unwrap();
    } else {
        // While it opens the folder.
        std::thread::sleep(Duration::from_micros(rng.u64(0..20_000)));
    }
    for _ in 0..lines {
        commits += note(&child.next_line(PATIENCE).unwrap());
    }
    child.kill().unwrap();
    // What it had said before it died counts, too.
    while let Ok(line) = child.next_line(Duration::from_secs(1)) {
        commits += note(&line);
    }
    commits
}

fn parse(line: &str) -> Option<(usize, u64)> {
    let (partition, count) = line.strip_prefix("acked ")?.split_once(' ')?;
    Some((partition.parse().ok()?, count.parse().ok()?))
}

/// Opens the folder and compares it with what was acknowledged.
fn check(folder: &Path, acked: &mut [u64], round: u64) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().build().unwrap();
    runtime.block_on(async {
        let store = open(folder, round.into());
        for (index, acked) in acked.iter_mut().enumerate() {
            let ledger = store.acquire(Partition(index as u32)).await.unwrap();
            let count = count(&ledger).await;
            assert!(
                count >= *acked,
                "partition {index}: {count} of {acked} commits in round {round}"
            );
            check_rows(&ledger, count).await;
            check_events(&ledger, count).await;
            *acked = count;
        }
        store.close().await;
    });
}

async fn count(ledger: &Ledger) -> u64 {
    let row = ledger
        .get(ROWS, b"count", Visibility::Durable)
        .await
        .unwrap();
    row.map_or(0, |row| std::str::from_utf8(&row).unwrap().parse().unwrap())
}

async fn check_rows(ledger: &Ledger, count: u64) {
    let snapshot = ledger.snapshot().unwrap();
    let mut rows = snapshot.scan(ROWS, Scan::all(10_000)).await.unwrap();
    rows.retain(|row| row.key != b"count"[..]);
    let oldest = count.saturating_sub(WINDOW) + 1;
    let expected: Vec<_> = (oldest..=count).map(|n| (row_key(n), payload(n))).collect();
    let found: Vec<_> = rows
        .iter()
        .map(|r| (r.key.to_vec(), r.value.to_vec()))
        .collect();
    assert_eq!(
        found,
        expected,
        "rows of partition {} after {count}",
        ledger.partition()
    );
}

async fn check_events(ledger: &Ledger, count: u64) {
    let head = ledger.stream(EVENTS).unwrap().unwrap_or_default();
    assert_eq!(
        head.next,
        Sequence(count),
        "events of {}",
        ledger.partition()
    );
    let mut next = head.first;
    loop {
        let page = ledger
            .read_events(EVENTS, ReadPosition::Sequence(next), 100_000)
            .await
            .unwrap();
        let Some(last) = page.last().map(|batch| batch.next()) else {
            break;
        };
        for batch in page {
            assert_eq!(batch.first, next, "sequence numbers are not dense");
            assert_eq!(batch.bytes, payload(batch.first.0 + 1));
            next = batch.next();
        }
        assert_eq!(next, last);
    }
    assert_eq!(next, Sequence(count), "the stream ends too early");
}

fn row_key(count: u64) -> Vec<u8> {
    format!("row {count:010}").into_bytes()
}

/// Now and then large enough to bypass the log.
fn payload(count: u64) -> Vec<u8> {
    let length = if count.is_multiple_of(97) {
        20_000
    } else {
        100
    };
    format!("{count:08} ")
        .into_bytes()
        .into_iter()
        .cycle()
        .take(length)
        .collect()
}

fn open(folder: &Path, incarnation: u128) -> Store {
    let options = local::Options {
        log_file_bytes: 512 * 1024,
        event_file_bytes: 64 * 1024,
        inline_event_bytes: 16 * 1024,
        ..local::Options::default()
    };
    let engine = LocalEngine::open(folder, &options).unwrap();
    let mut options = Options::new(Owner {
        node: 1,
        incarnation,
    });
    // Flushes, merges and recycled log files all the time.
    options.log_target = 256 * 1024;
    options.log_limit = 64 * 1024 * 1024;
    options.event_tail = 64 * 1024;
    Store::start(Arc::new(engine), options)
}

/// What the process does that is killed: it commits until then.
fn commit_for_ever(folder: &Path) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let store = open(folder, u128::MAX);
        let mut ledgers = Vec::new();
        for index in 0..PARTITIONS {
            ledgers.push(store.acquire(Partition(index)).await.unwrap());
        }
        println!("ready");
        let writers = ledgers
            .into_iter()
            .map(|ledger| tokio::spawn(write(ledger)));
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
    });
}

async fn write(ledger: Ledger) {
    let mut count = count(&ledger).await;
    loop {
        count += 1;
        let mut writes = Writes::new();
        writes.put(ROWS, b"count", count.to_string().as_bytes());
        writes.put(ROWS, &row_key(count), &payload(count));
        if let Some(old) = count.checked_sub(WINDOW).filter(|old| *old > 0) {
            writes.delete(ROWS, &row_key(old));
        }
        writes.publish(EVENTS, 1, payload(count).into());
        if count.is_multiple_of(WINDOW) {
            trim(&ledger, &mut writes).await;
        }
        ledger.commit(writes).await.unwrap();
        println!("acked {} {count}", ledger.partition().0);
    }
}

async fn trim(ledger: &Ledger, writes: &mut Writes) {
    let head = ledger.stream(EVENTS).unwrap().unwrap_or_default();
    let from = Sequence(head.next.0.saturating_sub(WINDOW));
    let page = ledger
        .read_events(EVENTS, ReadPosition::Sequence(from), 1)
        .await
        .unwrap();
    if let Some(batch) = page.first() {
        writes.trim(EVENTS, batch.first, batch.offset);
    }
}
