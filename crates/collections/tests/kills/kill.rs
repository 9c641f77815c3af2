//! Real processes, really killed: C13, C54 and C57.
//!
//! A child commits transactions over a dictionary, a queue, a concurrent queue and
//! a log, and says so after each acknowledgement. The parent kills it and looks:
//! everything that was acknowledged is there, and nothing is there in part.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fastrand::Rng;
use steadfast_collections::{ConcurrentQueue, Dictionary, ErrorKind, Log, Queue};
use steadfast_harness::Process;

use crate::folder::{Folder, OFTEN, block_on, block_on_two, open};
use crate::place;

const FOLDER: &str = "STEADFAST_COLLECTIONS_FOLDER";
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Items that the queues keep; older ones are dequeued.
const WINDOW: u64 = 20;
const CHILD: &str = "kill::c54_kill_at_random_points";

#[test]
fn c54_kill_at_random_points() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return commit_for_ever(Path::new(&folder));
    }
    let read = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let rounds: u64 = read("STEADFAST_ROUNDS").unwrap_or(place::ROUNDS);
    let seed: u64 = read("STEADFAST_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("again: STEADFAST_SEED={seed} cargo test -p steadfast-collections --test kills c54");
    let commits = kill_and_check(rounds, seed);
    assert!(commits > rounds, "the child did not get to commit");
}

#[test]
fn c13_a_commit_over_several_collections_is_all_or_nothing() {
    let commits = kill_and_check(10, fastrand::u64(..));
    assert!(commits > 10, "the child did not get to commit");
}

#[test]
fn c57_kills_while_flushing_recover() {
    // The child flushes every 64 KiB of log: a hundred commits and more.
    let commits = kill_and_check(15, fastrand::u64(..));
    assert!(commits > 200, "only {commits} commits: nothing was flushed");
}

/// Answers how many commits were acknowledged.
fn kill_and_check(rounds: u64, seed: u64) -> u64 {
    let mut rng = Rng::with_seed(seed);
    let folder = place::new();
    let (mut acked, mut commits) = (0, 0);
    for _ in 0..rounds {
        let before = acked;
        run_and_kill(folder.path(), &mut acked, &mut rng);
        commits += acked - before;
        acked = block_on(async {
            let folder = open(folder.path(), OFTEN).await;
            let count = check(&folder, acked).await;
            folder.store.close().await;
            count
        });
    }
    println!("{rounds} kills, {commits} acknowledged commits, none lost");
    commits
}

pub(crate) fn start(folder: &Path) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", CHILD, "--nocapture"]);
    command.env(FOLDER, folder);
    Process::spawn(command).unwrap()
}

fn run_and_kill(folder: &Path, acked: &mut u64, rng: &mut Rng) {
    let mut child = start(folder);
    let lines = match rng.u8(0..4) {
        0 => rng.usize(0..4),
        _ => rng.usize(0..200),
    };
    let mut note = |line: &str| {
        let count = line.strip_prefix("acked ").and_then(|n| n.parse().ok());
        *acked = (*acked).max(count.unwrap_or(0));
    };
    if lines > 0 {
        child.wait_for(|line| line == "ready", PATIENCE).unwrap();
    } else {
        // While it opens the folder.
        std::thread::sleep(Duration::from_micros(rng.u64(0..20_000)));
    }
    for _ in 0..lines {
        note(&child.next_line(PATIENCE).unwrap());
    }
    child.kill().unwrap();
    // What it had said before it died counts, too.
    while let Ok(line) = child.next_line(Duration::from_secs(1)) {
        note(&line);
    }
}

struct Collections {
    rows: Dictionary<String, u64>,
    queue: Queue<u64>,
    items: ConcurrentQueue<u64>,
    log: Log<u64>,
}

async fn collections(folder: &Folder) -> Collections {
    let state = folder.replica.state();
    Collections {
        rows: state.get_or_add("rows").await.unwrap(),
        queue: state.get_or_add("queue").await.unwrap(),
        items: state.get_or_add("items").await.unwrap(),
        log: state.get_or_add("log").await.unwrap(),
    }
}

/// What the process does that is killed.
fn commit_for_ever(path: &Path) {
    block_on_two(async {
        let folder = open(path, OFTEN).await;
        let all = collections(&folder).await;
        let mut count = all.log.bounds().unwrap().next;
        println!("ready");
        loop {
            count += 1;
            while !commit(&folder, &all, count).await {
                tokio::task::yield_now().await;
            }
            println!("acked {count}");
        }
    });
}

/// False if the log was full and nothing was written.
async fn commit(folder: &Folder, all: &Collections, count: u64) -> bool {
    let mut tx = folder.replica.begin();
    all.rows.set(&mut tx, "count", count).await.unwrap();
    all.rows
        .add(&mut tx, format!("row {count:010}"), count)
        .await
        .unwrap();
    all.queue.enqueue(&mut tx, count).await.unwrap();
    all.items.enqueue(&mut tx, count).await.unwrap();
    all.log.append(&mut tx, &count).await.unwrap();
    if count > WINDOW {
        let old = count - WINDOW;
        let row = format!("row {old:010}");
        let removed = all.rows.try_remove(&mut tx, &row).await.unwrap();
        assert_eq!(removed.unwrap(), old);
        let first = all.queue.try_dequeue(&mut tx).await.unwrap().unwrap();
        assert_eq!(first, old);
        all.items.try_dequeue(&mut tx).await.unwrap().unwrap();
    }
    match tx.commit().await {
        Ok(_) => true,
        Err(error) if matches!(error.kind(), ErrorKind::Throttled) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Compares the folder with what was acknowledged; answers how many commits it has.
pub(crate) async fn check(folder: &Folder, acked: u64) -> u64 {
    let all = collections(folder).await;
    let mut tx = folder.replica.begin();
    let count = all.rows.get(&mut tx, "count").await.unwrap();
    let count = count.map_or(0, |count| *count);
    assert!(count >= acked, "{count} of {acked} commits");
    let kept = count.min(WINDOW);
    let expected: Vec<u64> = (count - kept + 1..=count).collect();
    let query = steadfast_collections::DictionaryQuery::starting_with("row ");
    let rows = all.rows.entries(&mut tx, query).await.unwrap();
    let rows: Vec<u64> = rows.into_iter().map(|(_, value)| *value).collect();
    assert_eq!(rows, expected, "rows after {count}");
    let queue = all.queue.entries(&mut tx).await.unwrap();
    let queue: Vec<u64> = queue.into_iter().map(|value| *value).collect();
    assert_eq!(queue, expected, "queue after {count}");
    assert_eq!(all.items.len().await.unwrap(), kept, "items after {count}");
    assert_eq!(all.log.bounds().unwrap().next, count, "log after {count}");
    let last = all.log.read(count.saturating_sub(5), 10).await.unwrap();
    assert!(last.iter().all(|event| event.number + 1 == event.value));
    count
}
