//! The bank: the total is the same in every snapshot.
//!
//! Eight accounts in two dictionaries, 32 writers that move money between them, 4
//! readers that add everything up in one snapshot. The process is killed between;
//! what was acknowledged is counted too.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use steadfast_collections::{Dictionary, DictionaryQuery, OperationOptions, Replica, Result, Tx};
use steadfast_harness::Process;

use crate::folder::{block_on, block_on_two, open};
use crate::place::{self, READS};

const FOLDER: &str = "STEADFAST_BANK_FOLDER";
const ROUND: &str = "STEADFAST_BANK_READS";
const TEST: &str = "bank::the_total_is_constant_in_every_snapshot";
const PATIENCE: Duration = Duration::from_secs(120);
const ACCOUNTS: u64 = 8;
const TOTAL: u64 = 1_000 * ACCOUNTS;
const WRITERS: u64 = 32;
const READERS: u64 = 4;
const LIVES: u64 = 5;
const LOG_TARGET: u64 = 1024 * 1024;

type Accounts = Dictionary<u64, u64>;

#[test]
fn the_total_is_constant_in_every_snapshot() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return work(Path::new(&folder));
    }
    let folder = place::new();
    let mut reads = 0;
    for _ in 0..LIVES {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", TEST, "--nocapture"]);
        command.env(FOLDER, folder.path());
        command.env(ROUND, (READS / LIVES).to_string());
        let mut child = Process::spawn(command).unwrap();
        let done = |line: &str| line.starts_with("read ");
        let line = child.wait_for(done, PATIENCE).unwrap();
        child.kill().unwrap();
        reads += line.strip_prefix("read ").unwrap().parse::<u64>().unwrap();
        let total = block_on(async {
            let folder = open(folder.path(), LOG_TARGET).await;
            let bank = bank(&folder.replica).await;
            let mut tx = folder.replica.begin();
            let total = sum(&bank, &mut tx).await;
            let first = bank[0].get(&mut tx, &0).await.unwrap().unwrap();
            let second = bank[1].get(&mut tx, &1).await.unwrap().unwrap();
            assert!(*first != 1_000 || *second != 1_000, "no money was moved");
            drop(tx);
            folder.store.close().await;
            total
        });
        assert_eq!(total, TOTAL, "after a kill");
    }
    assert!(reads >= READS, "{reads} reads");
    println!("{reads} snapshots, {LIVES} kills, the total was always {TOTAL}");
}

async fn bank(replica: &Replica) -> [Accounts; 2] {
    let state = replica.state();
    let left: Accounts = state.get_or_add("left").await.unwrap();
    let right: Accounts = state.get_or_add("right").await.unwrap();
    [left, right]
}

async fn sum(bank: &[Accounts; 2], tx: &mut Tx) -> u64 {
    let mut total = 0;
    for accounts in bank {
        let rows = accounts.entries(tx, DictionaryQuery::all()).await.unwrap();
        total += rows.iter().map(|(_, money)| **money).sum::<u64>();
    }
    total
}

/// What the process does that is killed: it moves money until then.
fn work(path: &Path) {
    let wanted: u64 = std::env::var(ROUND).unwrap().parse().unwrap();
    block_on_two(async {
        let folder = open(path, LOG_TARGET).await;
        let bank = Arc::new(bank(&folder.replica).await);
        fund(&folder.replica, &bank).await;
        for seed in 0..WRITERS {
            let (replica, bank) = (folder.replica.clone(), Arc::clone(&bank));
            tokio::spawn(transfer_for_ever(replica, bank, seed));
        }
        let reads = Arc::new(AtomicU64::new(0));
        let mut readers = Vec::new();
        for _ in 0..READERS {
            let (replica, bank) = (folder.replica.clone(), Arc::clone(&bank));
            let reads = Arc::clone(&reads);
            readers.push(tokio::spawn(async move {
                while reads.fetch_add(1, Ordering::Relaxed) < wanted {
                    let mut tx = replica.begin();
                    assert_eq!(sum(&bank, &mut tx).await, TOTAL, "in a snapshot");
                }
            }));
        }
        for reader in readers {
            reader.await.unwrap();
        }
        println!("read {wanted}");
        // Go on until we are killed.
        std::future::pending::<()>().await;
    });
}

async fn fund(replica: &Replica, bank: &[Accounts; 2]) {
    let mut tx = replica.begin();
    for account in 0..ACCOUNTS {
        let accounts = &bank[account as usize % 2];
        accounts
            .get_or_add(&mut tx, account, || TOTAL / ACCOUNTS)
            .await
            .unwrap();
    }
    tx.commit().await.unwrap();
}

async fn transfer_for_ever(replica: Replica, bank: Arc<[Accounts; 2]>, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    loop {
        let (from, to) = (rng.u64(0..ACCOUNTS), rng.u64(0..ACCOUNTS));
        let amount = rng.u64(1..50);
        if from != to {
            transfer(&replica, &bank, from, to, amount).await;
        }
    }
}

async fn transfer(replica: &Replica, bank: &Arc<[Accounts; 2]>, from: u64, to: u64, amount: u64) {
    let moved = replica.transact(async |mut tx| {
        if transfer_in(&mut tx, bank, from, to, amount).await? {
            tx.commit(()).await
        } else {
            Ok(tx.roll_back(()))
        }
    });
    moved.await.unwrap();
}

/// Whether there was enough to give.
async fn transfer_in(
    tx: &mut Tx,
    bank: &[Accounts; 2],
    from: u64,
    to: u64,
    amount: u64,
) -> Result<bool> {
    // In one order, so that two transfers never block each other.
    for account in [from.min(to), from.max(to)] {
        let accounts = &bank[account as usize % 2];
        let options = OperationOptions::default().update();
        accounts.with(options).get(tx, &account).await?;
    }
    let giver = &bank[from as usize % 2];
    let has = giver.get(tx, &from).await?.map_or(0, |money| *money);
    if has < amount {
        return Ok(false);
    }
    giver.set(tx, from, has - amount).await?;
    let taker = &bank[to as usize % 2];
    taker.update(tx, to, |money| money + amount).await?;
    Ok(true)
}
