//! Entities and orchestrations under kills.
//!
//! A process is killed with -9 at random moments and started again, until all that
//! it began has ended. `STEADFAST_ROUNDS` says how often it is killed.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use steadfast::durable::{
    Context, EntityId, ErrorKind, Failure, NewInstance, Operation, Status, Task, TaskHub, entity,
};
use steadfast::{Builder, Node};
use steadfast_harness::Process;

const FOLDER: &str = "STEADFAST_BANK_FOLDER";
const PATIENCE: Duration = Duration::from_secs(240);
const ACCOUNTS: u64 = 100;
const TRANSFERS: u64 = 1000;
const MONEY: i64 = 1000;
const SENDERS: u64 = 10;
const SIGNALS: u64 = 10_000;

#[derive(Default, Serialize, Deserialize)]
struct Account {
    balance: i64,
    /// The transfer that has locked it.
    inside: Option<String>,
    touched: u64,
    violations: u64,
}

#[entity(crate = "steadfast::durable")]
impl Account {
    fn fund(&mut self, money: i64) {
        self.balance = money;
    }

    fn enter(&mut self, transfer: String) -> i64 {
        self.violations += u64::from(self.inside.is_some());
        self.inside = Some(transfer);
        self.balance
    }

    fn leave(&mut self, amount: i64) {
        self.balance += amount;
        self.inside = None;
    }

    /// By somebody who has no lock: never between `enter` and `leave`.
    fn touch(&mut self) {
        self.violations += u64::from(self.inside.is_some());
        self.touched += 1;
    }
}

async fn transfer(cx: Context, (from, to, amount): (String, String, i64)) -> Result<bool, Failure> {
    let (from, to) = (Account::at(&from)?, Account::at(&to)?);
    let section = cx.lock([from.id(), to.id()]).await?;
    let me = cx.instance();
    let balance = from.enter(&cx, me.clone()).await?;
    to.enter(&cx, me).await?;
    let amount = amount.min(balance);
    from.leave(&cx, -amount).await?;
    to.leave(&cx, amount).await?;
    drop(section);
    Ok(amount > 0)
}

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
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]);
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
    if run(bank) {
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
async fn bank(hub: TaskHub) {
    for key in 0..ACCOUNTS {
        let fund = operation(&format!("@account@{key}"), "fund", &MONEY.to_string(), key);
        hub.call(fund).await.unwrap().unwrap();
    }
    let mut random = fastrand::Rng::with_seed(11);
    for number in 0..TRANSFERS {
        let from = random.u64(..ACCOUNTS);
        let to = (from + random.u64(1..ACCOUNTS)) % ACCOUNTS;
        let task = Task::new(
            "transfer",
            &(from.to_string(), to.to_string(), random.i64(1..300)),
        );
        let new = NewInstance {
            instance: format!("t{number}"),
            task: task.unwrap(),
            ..NewInstance::default()
        };
        match hub.start(new).await {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::Exists, "{error}"),
        }
        let touch = operation(&format!("@account@{from}"), "touch", "null", 1000 + number);
        hub.signal(touch).await.unwrap();
        if number % 100 == 99 {
            println!("step: started");
        }
    }
    for number in 0..TRANSFERS {
        let end = hub.ended(&format!("t{number}"), true).await.unwrap();
        assert_eq!(end.status, Status::Completed, "{:?}", end.failure);
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

/// A request with an id that stays the same when it is sent again.
fn operation(entity: &str, name: &str, input: &str, number: u64) -> Operation {
    Operation {
        request: format!("00000000-0000-4000-8000-{number:012x}"),
        name: name.into(),
        input: Some(input.into()),
        target: EntityId::parse(entity).unwrap().to_string(),
        ..Operation::default()
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
