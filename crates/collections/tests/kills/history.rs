//! Histories with kills, and a checker over all of it.
//!
//! The child's tasks append unique numbers to lists and read them, under locks,
//! and say after each commit what they did and when. What was not said before the
//! kill may have happened or not: its numbers may be in the lists.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use steadfast_collections::{Dictionary, DictionaryQuery, OperationOptions, Replica, Result, Tx};
use steadfast_harness::Process;

use crate::checker::{Step, Transaction, check};
use crate::folder::{OFTEN, block_on, block_on_two, open};
use crate::place;

const FOLDER: &str = "STEADFAST_HISTORY_FOLDER";
const LIFE: &str = "STEADFAST_HISTORY_LIFE";
const TEST: &str = "history::histories_are_strictly_serializable";
const PATIENCE: Duration = Duration::from_secs(60);
const LIVES: u64 = 6;
const TASKS: u64 = 8;
/// Transactions of one life before it is killed.
const LINES: usize = 600;
/// Lists that are used at a time; new ones begin now and then, so that they stay short.
const LISTS: u64 = 5;

type Lists = Dictionary<u64, Vec<u64>>;

#[test]
fn histories_are_strictly_serializable() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return work(Path::new(&folder));
    }
    let folder = place::new();
    let mut history = Vec::new();
    for life in 0..LIVES {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", TEST, "--nocapture"]);
        command.env(FOLDER, folder.path());
        command.env(LIFE, life.to_string());
        let mut child = Process::spawn(command).unwrap();
        let is_done = |line: &str| line.starts_with("did ");
        for _ in 0..LINES {
            let line = child.wait_for(is_done, PATIENCE).unwrap();
            history.push(parse(&line, life));
        }
        child.kill().unwrap();
        while let Ok(line) = child.wait_for(is_done, Duration::from_millis(200)) {
            history.push(parse(&line, life));
        }
    }
    let lists = block_on(async {
        let folder = open(folder.path(), OFTEN).await;
        let lists: Lists = folder.replica.state().get_or_add("lists").await.unwrap();
        let mut tx = folder.replica.begin();
        let all = lists
            .entries(&mut tx, DictionaryQuery::all())
            .await
            .unwrap();
        let all: BTreeMap<_, _> = all.into_iter().map(|(k, v)| (k, (*v).clone())).collect();
        all
    });
    let reads = history.iter().flat_map(|t| &t.steps);
    let reads = reads.filter(|step| matches!(step, Step::Read(_, seen) if !seen.is_empty()));
    assert!(reads.count() > 500, "too few reads saw anything");
    println!("{} transactions over {} lists", history.len(), lists.len());
    check(&history, &lists).unwrap();
}

/// Reads `did <began> <ended> a:key:value r:key:value,value ..`.
fn parse(line: &str, life: u64) -> Transaction {
    let mut words = line.split(' ').skip(1);
    let mut number = || words.next().unwrap().parse::<u64>().unwrap() + (life << 40);
    let (began, ended) = (number(), number());
    let steps = words.filter(|word| !word.is_empty()).map(|word| {
        let mut parts = word.split(':');
        let kind = parts.next().unwrap();
        let key = parts.next().unwrap().parse().unwrap();
        let values = parts.next().unwrap().split(',').filter(|v| !v.is_empty());
        let values: Vec<u64> = values.map(|value| value.parse().unwrap()).collect();
        match kind {
            "a" => Step::Append(key, values[0]),
            _ => Step::Read(key, values),
        }
    });
    Transaction {
        began,
        ended,
        steps: steps.collect(),
    }
}

/// What the process does that is killed.
fn work(path: &Path) {
    let life: u64 = std::env::var(LIFE).unwrap().parse().unwrap();
    block_on_two(async {
        let folder = open(path, OFTEN).await;
        let lists: Lists = folder.replica.state().get_or_add("lists").await.unwrap();
        let clock = Arc::new(AtomicU64::new(1));
        let mut tasks = Vec::new();
        for task in 0..TASKS {
            let rng = Rng::with_seed(life * TASKS + task);
            let (replica, lists) = (folder.replica.clone(), lists.clone());
            let clock = Arc::clone(&clock);
            tasks.push(tokio::spawn(run(replica, lists, clock, rng, life)));
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
}

async fn run(replica: Replica, lists: Lists, clock: Arc<AtomicU64>, mut rng: Rng, life: u64) {
    loop {
        let began = clock.fetch_add(1, Ordering::SeqCst);
        let newest = (life << 20) + began / 200 + LISTS;
        let plan: Vec<(u64, bool)> = (0..rng.u64(1..4))
            .map(|_| (newest - rng.u64(0..LISTS), rng.bool()))
            .collect();
        let fresh = (life << 40) + began * 8;
        let done = replica.transact(async |mut tx| {
            let steps = perform(&mut tx, &lists, &plan, fresh).await?;
            tx.commit(steps).await
        });
        // A lock that was not granted in time, again and again: nothing happened.
        let Ok(steps) = done.await else {
            continue;
        };
        let ended = clock.fetch_add(1, Ordering::SeqCst);
        println!("did {began} {ended} {}", steps.join(" "));
    }
}

async fn perform(
    tx: &mut Tx,
    lists: &Lists,
    plan: &[(u64, bool)],
    fresh: u64,
) -> Result<Vec<String>> {
    // Lists are locked in any order: who is blocked by another gives way soon.
    let lists = lists.with(OperationOptions::default().timeout(Duration::from_millis(20)));
    let mut steps = Vec::new();
    for (number, (key, appends)) in plan.iter().enumerate() {
        if *appends {
            let value = fresh + number as u64;
            let append = |list: &Vec<u64>| [list.as_slice(), &[value]].concat();
            lists
                .add_or_update(tx, *key, || vec![value], append)
                .await?;
            steps.push(format!("a:{key}:{value}"));
        } else {
            let seen = lists.get(tx, key).await?;
            let seen = seen.map_or_else(Vec::new, |list| (*list).clone());
            let seen: Vec<_> = seen.iter().map(u64::to_string).collect();
            steps.push(format!("r:{key}:{}", seen.join(",")));
        }
    }
    Ok(steps)
}
