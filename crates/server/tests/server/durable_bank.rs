//! The bank with workers in Rust over gRPC, under kills.
//!
//! Server and workers are processes of their own, killed with -9 at random moments.
//! `STEADFAST_ROUNDS` says how often.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use steadfast::durable::{InstanceStatus, TaskHubClient, TaskHubWorker};
use steadfast_harness::{Process, own_test, reserve_port};
use tokio::task::JoinSet;

use crate::bank::{ACCOUNTS, Account, MONEY, TRANSFERS, operation, the_transfers, transfer};
use crate::running::{PATIENCE, Server, Start, said};

const CONNECTION: &str = "STEADFAST_BANK_CONNECTION";
const TEST: &str = "durable_40_60_money_is_conserved_with_workers_over_grpc_under_kills";
/// Every start and every end of a transfer is a step.
const STEPS: u64 = 2 * TRANSFERS;
/// Transfers that are started at a time.
const STARTERS: usize = 64;

fn rounds() -> u64 {
    let rounds = std::env::var("STEADFAST_ROUNDS");
    rounds.ok().and_then(|n| n.parse().ok()).unwrap_or(5)
}

#[test]
fn durable_40_60_money_is_conserved_with_workers_over_grpc_under_kills() {
    let tasks = tokio::runtime::Runtime::new().unwrap();
    if let Ok(connection) = std::env::var(CONNECTION) {
        return tasks.block_on(be_a_worker(&connection));
    }
    let (port, http) = (reserve_port().unwrap(), reserve_port().unwrap());
    let connection = format!("Endpoint=http://127.0.0.1:{port};TaskHub=default");
    let mut server = Start::new("dev")
        .set(&format!("durable.port={port}"))
        .set(&format!("http.port={http}"))
        .set("partitions=8")
        .ready();
    let mut workers = [spawn(&connection), spawn(&connection)];
    let client = TaskHubClient::connect(&connection).unwrap();
    let steps = Arc::new(AtomicU64::new(0));
    let all = tasks.spawn(all_transfers(client.clone(), Arc::clone(&steps)));
    for round in 0..rounds() {
        let (from, to) = (round * STEPS / rounds(), (round + 1) * STEPS / rounds());
        let moment = fastrand::u64(from..to.max(from + 1));
        while steps.load(Ordering::Relaxed) < moment && !all.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        kill(&mut server, &mut workers);
    }
    let ended = tasks.block_on(async { tokio::time::timeout(4 * PATIENCE, all).await });
    let ended = ended
        .unwrap_or_else(|_| panic!("{} steps: {}", steps.load(Ordering::Relaxed), server.log()));
    ended.unwrap();
    let found = tasks.block_on(accounts(&client));
    assert_eq!(found, (MONEY * ACCOUNTS as i64, TRANSFERS, 0));
    no_lock_is_left(&server);
}

/// The server, or a worker, or all of them.
fn kill(server: &mut Server, workers: &mut [Process; 2]) {
    let which = fastrand::u8(..4);
    if which != 1 {
        server.process.restart().unwrap();
    }
    for (number, worker) in workers.iter_mut().enumerate() {
        if which == 3 || usize::from(which) == number + 1 {
            worker.restart().unwrap();
        }
    }
}

async fn all_transfers(client: TaskHubClient, steps: Arc<AtomicU64>) {
    for key in 0..ACCOUNTS {
        let fund = operation(&format!("@account@{key}"), "fund", &MONEY.to_string(), key);
        client.call(fund).await.unwrap().unwrap();
    }
    let mut running = JoinSet::new();
    let room = Arc::new(tokio::sync::Semaphore::new(STARTERS));
    for (new, touch) in the_transfers() {
        let (client, steps, room) = (client.clone(), Arc::clone(&steps), Arc::clone(&room));
        running.spawn(async move {
            let started = room.acquire_owned().await.unwrap();
            let id = client.start(new).await.unwrap();
            client.signal(touch).await.unwrap();
            drop(started);
            steps.fetch_add(1, Ordering::Relaxed);
            let end = client.ended(&id, true).await.unwrap();
            assert_eq!(end.status, InstanceStatus::Completed, "{:?}", end.failure);
            steps.fetch_add(1, Ordering::Relaxed);
        });
    }
    while let Some(done) = running.join_next().await {
        done.unwrap();
    }
}

/// The money, the touches and the violations of all accounts, when nothing waits.
async fn accounts(client: &TaskHubClient) -> (i64, u64, u64) {
    loop {
        let (mut sum, mut touched, mut violations, mut waiting) = (0, 0, 0, 0);
        for key in 0..ACCOUNTS {
            let found = client.entity(&format!("@account@{key}"), true).await;
            let found = found.unwrap().unwrap();
            let account: Account = serde_json::from_str(&found.state.unwrap()).unwrap();
            sum += account.balance;
            touched += account.touched;
            violations += account.violations;
            waiting += found.backlog + u64::from(found.locked_by.is_some());
        }
        if waiting == 0 {
            return (sum, touched, violations);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn no_lock_is_left(server: &Server) {
    let (code, out, err) = said(&server.run(&["lock", "list", "--json"]));
    assert_eq!((code, out.contains("holder")), (0, false), "{out}{err}");
}

fn spawn(connection: &str) -> Process {
    let mut command = own_test(module_path!(), TEST);
    command.env(CONNECTION, connection);
    let mut worker = Process::spawn(command).unwrap();
    worker.wait_for(|line| line == "at work", PATIENCE).unwrap();
    worker
}

async fn be_a_worker(connection: &str) {
    let worker = TaskHubWorker::connect(connection).unwrap();
    let worker = worker.functions(|functions| {
        let functions = functions.entities::<Account>();
        functions.orchestration("transfer", transfer)
    });
    let worker = worker.start().unwrap();
    worker.ready().await;
    println!("at work");
    std::future::pending::<()>().await;
}
