//! Cancelled operations leave nothing behind.
//!
//! Ten thousand operations with random time-outs, of which many are dropped in the
//! middle, by tasks that fight over a few keys.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use steadfast_collections::{ConcurrentQueue, Dictionary, OperationOptions, Queue, Replica};

use crate::ground::{Site, block_on};

const TASKS: u64 = 20;
const OPERATIONS: u64 = 500;

struct Fight {
    replica: Replica,
    map: Dictionary<u64, u64>,
    queue: Queue<u64>,
    items: ConcurrentQueue<u64>,
}

#[test]
fn cancelled_operations_leave_no_lock_waiter_or_memory() {
    let seed = std::env::var("STEADFAST_SEED").ok();
    let seed: u64 = seed.map_or_else(|| fastrand::u64(..), |text| text.parse().unwrap());
    println!("again: STEADFAST_SEED={seed} cargo test -p steadfast-collections cancelled");
    block_on(async {
        let site = Site::new().await;
        let state = site.replica.state();
        let fight = Arc::new(Fight {
            replica: site.replica.clone(),
            map: state.get_or_add("map").await.unwrap(),
            queue: state.get_or_add("queue").await.unwrap(),
            items: state.get_or_add("items").await.unwrap(),
        });
        let mut tasks = Vec::new();
        for task in 0..TASKS {
            let rng = Rng::with_seed(seed ^ task);
            tasks.push(tokio::spawn(fight_on(Arc::clone(&fight), rng)));
        }
        let (mut done, mut cancelled) = (0, 0);
        for task in tasks {
            let (some, dropped) = task.await.unwrap();
            done += some;
            cancelled += dropped;
        }
        println!("{done} operations, {cancelled} of them dropped in the middle");
        assert_eq!(done, TASKS * OPERATIONS);
        assert!(cancelled > 500, "only {cancelled} were dropped");
        // A commit whose caller stopped waiting goes on; one behind it ends after it.
        let mut tx = site.replica.begin();
        fight.map.set(&mut tx, u64::MAX, 0).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(site.replica.locks(), 0, "locks are left");
        assert!(site.replica.waits().is_empty(), "waiters are left");
        // Rows may stay for their values, but no more than there are.
        assert!(site.replica.resident_rows() < 5_000);
        check_items(&fight).await;
    });
}

/// Answers how many operations were tried, and how many dropped.
async fn fight_on(fight: Arc<Fight>, mut rng: Rng) -> (u64, u64) {
    let (mut done, mut cancelled) = (0, 0);
    while done < OPERATIONS {
        let mut tx = fight.replica.begin();
        for _ in 0..rng.u64(1..6).min(OPERATIONS - done) {
            done += 1;
            let wait = Duration::from_micros(rng.u64(0..3_000));
            let patience = Duration::from_micros(rng.u64(0..3_000));
            let view = fight.map.with(OperationOptions::default().timeout(wait));
            let queue = fight.queue.with(OperationOptions::default().timeout(wait));
            let key = rng.u64(0..4);
            let operation = async {
                // Time-outs are expected; what they leave behind is the question.
                let _ = match rng.u8(0..6) {
                    0 => view.get(&mut tx, &key).await.map(drop),
                    1 => view.set(&mut tx, key, done).await,
                    2 => queue.enqueue(&mut tx, done).await,
                    3 => queue.try_dequeue(&mut tx).await.map(drop),
                    4 => fight.items.enqueue(&mut tx, done).await,
                    _ => fight.items.try_dequeue(&mut tx).await.map(drop),
                };
            };
            if tokio::time::timeout(patience, operation).await.is_err() {
                cancelled += 1;
            }
            tokio::time::sleep(Duration::from_micros(rng.u64(0..500))).await;
        }
        match rng.u8(0..3) {
            0 => tx.abort(),
            1 => drop(tx.commit()),
            _ => drop(tx.commit().await),
        }
    }
    (done, cancelled)
}

/// The items that can be taken are those that are stored: none is stuck.
async fn check_items(fight: &Fight) {
    let length = fight.items.len().await.unwrap();
    let mut tx = fight.replica.begin();
    let mut found = 0;
    while fight.items.try_dequeue(&mut tx).await.unwrap().is_some() {
        found += 1;
    }
    assert_eq!(found, length);
    let count = fight.queue.count(&mut tx).await.unwrap();
    let mut dequeued = 0;
    while fight.queue.try_dequeue(&mut tx).await.unwrap().is_some() {
        dequeued += 1;
    }
    assert_eq!(dequeued, count, "the queue has no gap");
}
