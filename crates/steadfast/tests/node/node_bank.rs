//! Entities and orchestrations under kills.
//!
//! A process is killed with -9 at random moments and started again, until all that
//! it began has ended. `STEADFAST_ROUNDS` says how often it is killed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use steadfast::durable::{ErrorKind, InstanceStatus, TaskHub, entity};
use steadfast::{Builder, Node};
use steadfast_harness::{Process, own_test};

use crate::bank::{ACCOUNTS, Account, MONEY, TRANSFERS, operation, the_transfers, transfer};

const FOLDER: &str = "STEADFAST_BANK_FOLDER";
const PATIENCE: Duration = Duration::from_secs(240);
const SENDERS: u64 = 10;
const SIGNALS: u64 = 10_000;

/// Counts what each sender sends.
#[derive(Default, Serialize, Deserialize)]
struct Ledger {
    last: BTreeMap<u64, u64>,
    violations: u64,
}

#[entity(crate = "steadfast::durable")]
impl Ledger {
    fn note(&mut self, (sender, number): (u64, u64)) {
        let last = self.last.entry(sender).or_default();
        self.violations += u64::from(number != *last + 1);
        *last = number;
    }
}

fn builder(folder: &Path) -> Builder {
    Node::builder()
        .data(folder)
        .partitions(8)
        .entity::<Account>()
        .entity::<Ledger>()
        .orchestration("transfer", transfer)
}

fn rounds() -> u64 {
    let rounds = std::env::var("STEADFAST_ROUNDS");
    rounds.ok().and_then(|n| n.parse().ok()).unwrap_or(5)
}

/// Starts this test as a child and kills it, again and again; then lets it come to
/// its end, and answers its last line.
fn kill_until_it_ends(test: &str, steps: u64) -> String {
    let folder = tempfile::tempdir().unwrap();
    let spawn = || {
        let mut command = own_test(module_path!(), test);
        command.env(FOLDER, folder.path().join("data"));
        Process::spawn(command).unwrap()
    };
    for _ in 0..rounds() {
        let mut child = spawn();
        let mut left = fastrand::u64(1..=steps);
        let is_enough = |line: &str| {
            left = left.saturating_sub(u64::from(line.starts_with("step")));
            left == 0 || line.starts_with("end")
        };
        child.wait_for(is_enough, PATIENCE).unwrap();
        child.kill().unwrap();
    }
    let mut child = spawn();
    let end = child.wait_for(|line: &str| line.starts_with("end"), PATIENCE);
    end.unwrap()
}

fn run<F: Future<Output = ()>>(work: impl FnOnce(TaskHub) -> F) -> bool {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return false;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let node = builder(Path::new(&folder)).start().await.unwrap();
        work(node.task_hubs().hub("default").unwrap()).await;
        // Until we are killed.
        std::future::pending::<()>().await;
    });
    true
}

#[test]
fn durable_40_60_money_is_conserved_and_no_lock_is_left_under_kills() {
    if run(run_bank) {
        return;
    }
    let test = "durable_40_60_money_is_conserved_and_no_lock_is_left_under_kills";
    let end = kill_until_it_ends(test, 20);
    let expected = format!(
        "end sum {} touched {TRANSFERS} violations 0 locks 0 orphans 0",
        MONEY * ACCOUNTS as i64
    );
    assert_eq!(end, expected);
}

/// What the process does that is killed.
async fn run_bank(hub: TaskHub) {
    for key in 0..ACCOUNTS {
        let fund = operation(&format!("@account@{key}"), "fund", &MONEY.to_string(), key);
        hub.call(fund).await.unwrap().unwrap();
    }
    for (number, (new, touch)) in the_transfers().into_iter().enumerate() {
        match hub.start(new).await {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::Exists, "{error}"),
        }
        hub.signal(touch).await.unwrap();
        if number % 100 == 99 {
            println!("step: started");
        }
    }
    for number in 0..TRANSFERS {
        let end = hub.ended(&format!("t{number}"), true).await.unwrap();
        assert_eq!(end.status, InstanceStatus::Completed, "{:?}", end.failure);
        if number % 100 == 99 {
            println!("step: ended");
        }
    }
    let (sum, touched, violations) = accounts(&hub).await;
    while !hub.locks().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let (_, orphans) = hub.clean().await.unwrap();
    println!("end sum {sum} touched {touched} violations {violations} locks 0 orphans {orphans}");
}

/// The money, the touches and the violations of all accounts.
async fn accounts(hub: &TaskHub) -> (i64, u64, u64) {
    loop {
        let (mut sum, mut touched, mut violations, mut backlog) = (0, 0, 0, 0);
        for key in 0..ACCOUNTS {
            let found = hub.entity(&format!("@account@{key}"), true).await.unwrap();
            let found = found.unwrap();
            let account: Account = serde_json::from_str(&found.state.unwrap()).unwrap();
            sum += account.balance;
            touched += account.touched;
            violations += account.violations;
            backlog += found.backlog;
        }
        if backlog == 0 {
            return (sum, touched, violations);
        }
        tokio::task::yield_now().await;
    }
}

#[test]
fn signals_of_ten_senders_run_once_and_in_order_across_kills() {
    if run(send) {
        return;
    }
    let test = "signals_of_ten_senders_run_once_and_in_order_across_kills";
    let end = kill_until_it_ends(test, 40);
    assert_eq!(end, format!("end {SENDERS} x {SIGNALS}, violations 0"));
}

async fn send(hub: TaskHub) {
    let state = hub.entity("@ledger@all", true).await.unwrap();
    let state = state.and_then(|found| found.state);
    let ledger: Ledger = state.map_or_else(Ledger::default, |s| serde_json::from_str(&s).unwrap());
    let mut senders = tokio::task::JoinSet::new();
    for sender in 0..SENDERS {
        let hub = hub.clone();
        // What has run was acknowledged; what was acknowledged and has not run waits,
        // and is known when it is sent again.
        let first = ledger.last.get(&sender).copied().unwrap_or(0) + 1;
        senders.spawn(async move {
            for number in first..=SIGNALS {
                let id = sender * 1_000_000 + number;
                let input = format!("[{sender},{number}]");
                let note = operation("@ledger@all", "note", &input, id);
                hub.signal(note).await.unwrap();
                if number % 1000 == 0 {
                    println!("step: {sender} has sent {number}");
                }
            }
        });
    }
    while let Some(sender) = senders.join_next().await {
        sender.unwrap();
    }
    loop {
        let found = hub.entity("@ledger@all", true).await.unwrap().unwrap();
        let ledger: Ledger = serde_json::from_str(&found.state.unwrap()).unwrap();
        let is_done = ledger.last.values().all(|last| *last == SIGNALS);
        if found.backlog == 0 && is_done && ledger.last.len() as u64 == SENDERS {
            let violations = ledger.violations;
            println!("end {SENDERS} x {SIGNALS}, violations {violations}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
