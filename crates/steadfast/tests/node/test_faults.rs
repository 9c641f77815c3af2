//! Faults by name: what a user of a test node sees.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use steadfast::collections::Dictionary;
use steadfast::durable::{Context, FailureDetails, InstanceStatus, NewInstance, Task, entity};
use steadfast::testing::{Fault, TestNode};
use steadfast::{Error, ServicePartition};

const DAY: Duration = Duration::from_secs(86_400);

struct Bank {
    place: ServicePartition,
    accounts: Dictionary<String, i64>,
}

impl Bank {
    async fn open(world: &TestNode) -> Self {
        let place = world.node().singleton("bank").await.unwrap();
        let accounts = place.dictionary("accounts").await.unwrap();
        world.settle().await.unwrap();
        Self { place, accounts }
    }

    async fn deposit(&self, money: i64) -> Result<i64, Error> {
        let deposit = self.place.transact(async |mut tx| {
            let accounts = &self.accounts;
            let balance = accounts.add_or_update(&mut tx, "alice", || money, |old| old + money);
            let balance = *balance.await?;
            tx.commit(balance).await
        });
        Ok(deposit.await?)
    }

    async fn balance(&self) -> i64 {
        let read = self.place.transact(async |mut tx| {
            let found = self.accounts.get(&mut tx, "alice").await?;
            tx.commit(found.map_or(0, |found| *found)).await
        });
        read.await.unwrap()
    }
}

#[tokio::test]
async fn disk_full_is_an_error_that_transact_retries() {
    let world = TestNode::builder().start().await.unwrap();
    let bank = Bank::open(&world).await;
    world.faults().inject(Fault::DiskFull);
    let mut tx = bank.place.replica().begin();
    bank.accounts.set(&mut tx, "alice", 7).await.unwrap();
    let error = tx.commit().await.unwrap_err();
    assert_eq!(error.code().0, "STF-3004", "{error}");
    assert_eq!(bank.balance().await, 0);

    world.faults().inject(Fault::DiskFull);
    assert_eq!(bank.deposit(1).await.unwrap(), 1);
    assert!(world.faults().waiting().is_empty());
}

#[tokio::test]
async fn slow_disk_takes_half_a_second() {
    let world = TestNode::builder().start().await.unwrap();
    let bank = Bank::open(&world).await;
    world.faults().inject(Fault::SlowDisk);
    let began = tokio::time::Instant::now();
    assert_eq!(bank.deposit(1).await.unwrap(), 1);
    assert!(began.elapsed() >= Duration::from_millis(500));
}

#[tokio::test]
async fn answer_lost_and_commit_lost_are_resolved_by_the_store() {
    for fault in [Fault::AnswerLost, Fault::CommitLost] {
        let world = TestNode::builder().start().await.unwrap();
        let bank = Bank::open(&world).await;
        world.faults().inject(fault);
        assert_eq!(bank.deposit(1).await.unwrap(), 1, "{fault}");
        assert!(world.faults().waiting().is_empty(), "{fault}");
        assert_eq!(bank.balance().await, 1, "{fault}");
        assert_eq!(bank.deposit(2).await.unwrap(), 3, "{fault}");
    }
}

#[tokio::test]
async fn owner_lost_refuses_the_commit_and_the_node_takes_over_again() {
    let world = TestNode::builder().start().await.unwrap();
    let bank = Bank::open(&world).await;
    world.faults().inject(Fault::OwnerLost);
    let error = bank.deposit(1).await.unwrap_err();
    assert_eq!(error.code().0, "STF-3002", "{error}");
    world.settle().await.unwrap();
    let bank = Bank::open(&world).await;
    assert_eq!(bank.balance().await, 0);
    assert_eq!(bank.deposit(2).await.unwrap(), 2);
}

#[tokio::test]
async fn crash_before_commit_loses_what_no_caller_was_told() {
    let mut world = TestNode::builder().start().await.unwrap();
    let bank = Bank::open(&world).await;
    assert_eq!(bank.deposit(1).await.unwrap(), 1);
    world.faults().inject(Fault::CrashBeforeCommit);
    let error = bank.deposit(2).await.unwrap_err();
    assert_eq!(error.code().0, "STF-3013", "{error}");
    world.restart().await.unwrap();
    let restarted = Bank::open(&world).await;
    assert_eq!(restarted.balance().await, 1);
    // The former process has ended.
    assert!(bank.deposit(4).await.is_err());
    assert_eq!(restarted.deposit(8).await.unwrap(), 9);
}

#[tokio::test]
async fn crash_after_commit_keeps_what_no_caller_was_told() {
    let mut world = TestNode::builder().start().await.unwrap();
    let bank = Bank::open(&world).await;
    world.faults().inject(Fault::CrashAfterCommit);
    let error = bank.deposit(2).await.unwrap_err();
    assert_eq!(error.code().0, "STF-3013", "{error}");
    world.restart().await.unwrap();
    assert_eq!(Bank::open(&world).await.balance().await, 2);
}

#[derive(Default, Serialize, Deserialize)]
struct Counter(i64);

#[entity]
impl Counter {
    fn add(&mut self, more: i64) {
        self.0 += more;
    }

    fn get(&self) -> i64 {
        self.0
    }
}

/// Counts to `days`, once a day.
async fn count(cx: Context, days: u32) -> Result<i64, FailureDetails> {
    let counter = Counter::at("days")?;
    for _ in 0..days {
        cx.sleep(DAY).await;
        counter.add(&cx, 1).await?;
    }
    counter.get(&cx).await
}

#[tokio::test]
async fn a_restart_changes_neither_the_time_nor_what_is_due() {
    let world = TestNode::builder().entity::<Counter>();
    let world = world.orchestration("count", count);
    let mut world = world.start().await.unwrap();
    let hub = world.node().task_hubs().hub("default").unwrap();
    let task = Task::new("count", &9).unwrap();
    let id = hub.start(NewInstance::of(task)).await.unwrap();
    for round in 1..=3 {
        world.advance(2 * DAY).await.unwrap();
        let before = world.now();
        world.restart().await.unwrap();
        assert_eq!(world.now(), before);
        world.advance(DAY).await.unwrap();
        let hub = world.node().task_hubs().hub("default").unwrap();
        let counted = Counter::at("days").unwrap().get(&hub).await;
        assert_eq!(counted, Ok(3 * round));
    }
    let hub = world.node().task_hubs().hub("default").unwrap();
    let end = hub.get(&id, true).await.unwrap().unwrap();
    assert_eq!(end.status, InstanceStatus::Completed);
    assert_eq!(end.output.as_deref(), Some("9"));
}

#[tokio::test]
async fn timers_count_once_whatever_fault_strikes_while_they_fire() {
    for fault in Fault::ALL {
        let world = TestNode::builder().entity::<Counter>();
        let world = world.orchestration("count", count);
        let mut world = world.start().await.unwrap();
        let hub = world.node().task_hubs().hub("default").unwrap();
        let task = Task::new("count", &3).unwrap();
        let id = hub.start(NewInstance::of(task)).await.unwrap();
        world.settle().await.unwrap();
        world.faults().inject(fault);
        let options = steadfast::testing::AdvanceOptions {
            limit: Duration::from_secs(20),
            ..Default::default()
        };
        let is_crash = matches!(fault, Fault::CrashBeforeCommit | Fault::CrashAfterCommit);
        if is_crash {
            let moved = world.advance_with(3 * DAY, options);
            let moved = tokio::time::timeout(Duration::from_secs(10), moved).await;
            let error = moved.expect("a move ends with its node").unwrap_err();
            assert_eq!(error.code().0, "STF-7072", "{fault}");
            world.restart().await.unwrap();
        }
        world.advance_with(3 * DAY, options).await.unwrap();
        let hub = world.node().task_hubs().hub("default").unwrap();
        let end = hub.get(&id, true).await.unwrap().unwrap();
        assert_eq!(end.output.as_deref(), Some("3"), "{fault}: {end:?}");
        assert!(world.faults().waiting().is_empty(), "{fault}");
    }
}
