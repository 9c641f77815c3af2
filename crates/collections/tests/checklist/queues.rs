//! Queues: C44 to C53.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use steadfast_collections::{ConcurrentQueue, Options, Queue, Replica};

use crate::site::{Site, at_once, code, timed_out};

async fn queue_with(site: &Site, items: &[u64]) -> Queue<u64> {
    let queue: Queue<u64> = site.state().get_or_add("q").await.unwrap();
    let mut tx = site.replica.begin();
    for item in items {
        queue.enqueue(&mut tx, *item).await.unwrap();
    }
    tx.commit().await.unwrap();
    queue
}

async fn items_with(site: &Site, items: &[u64]) -> ConcurrentQueue<u64> {
    let queue: ConcurrentQueue<u64> = site.state().get_or_add("items").await.unwrap();
    let mut tx = site.replica.begin();
    for item in items {
        queue.enqueue(&mut tx, *item).await.unwrap();
    }
    tx.commit().await.unwrap();
    queue
}

#[tokio::test]
async fn c44_first_in_first_out_across_restarts() {
    let mut site = Site::new().await;
    let mut expected = 0;
    for round in 0..4u64 {
        let queue = queue_with(&site, &[round * 3, round * 3 + 1, round * 3 + 2]).await;
        let mut tx = site.replica.begin();
        for _ in 0..2 {
            let item = queue.try_dequeue(&mut tx).await.unwrap().unwrap();
            assert_eq!(*item, expected);
            expected += 1;
        }
        tx.commit().await.unwrap();
        if round % 2 == 0 {
            site.store.flush().await.unwrap();
        }
        site = site.restart().await;
    }
    let queue: Queue<u64> = site.state().get_or_add("q").await.unwrap();
    let mut tx = site.replica.begin();
    let rest = queue.entries(&mut tx).await.unwrap();
    let rest: Vec<_> = rest.into_iter().map(|item| *item).collect();
    assert_eq!(rest, [8, 9, 10, 11]);
    assert_eq!(queue.approx_count(), 4);
}

#[tokio::test]
async fn c45_an_aborted_dequeue_restores_the_place() {
    let site = Site::new().await;
    let queue = queue_with(&site, &[1, 2, 3]).await;
    let mut tx = site.replica.begin();
    assert_eq!(*queue.try_dequeue(&mut tx).await.unwrap().unwrap(), 1);
    assert_eq!(*queue.try_dequeue(&mut tx).await.unwrap().unwrap(), 2);
    tx.abort();
    let mut tx = site.replica.begin();
    assert_eq!(*queue.try_dequeue(&mut tx).await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn c46_peeks_share_and_block_a_dequeue() {
    let site = Site::new().await;
    let queue = queue_with(&site, &[1, 2]).await;
    let (mut a, mut b) = (site.replica.begin(), site.replica.begin());
    assert_eq!(*queue.try_peek(&mut a).await.unwrap().unwrap(), 1);
    let at_once = queue.with(at_once());
    assert_eq!(*at_once.try_peek(&mut b).await.unwrap().unwrap(), 1);
    let mut c = site.replica.begin();
    assert!(timed_out(&at_once.try_dequeue(&mut c).await));
    drop((a, b));
    assert_eq!(*at_once.try_dequeue(&mut c).await.unwrap().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn c47_a_dequeue_of_nothing_blocks_enqueues_until_it_ends() {
    let site = Site::new().await;
    let queue = queue_with(&site, &[]).await;
    let mut empty = site.replica.begin();
    assert!(queue.try_dequeue(&mut empty).await.unwrap().is_none());
    let mut tx = site.replica.begin();
    assert!(timed_out(&queue.with(at_once()).enqueue(&mut tx, 1).await));
    drop(tx);
    let mut tx = site.replica.begin();
    let (enqueued, ()) = tokio::join!(queue.enqueue(&mut tx, 1), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(empty);
    });
    enqueued.unwrap();
    tx.commit().await.unwrap();
    let mut peeker = site.replica.begin();
    assert_eq!(*queue.try_peek(&mut peeker).await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn c47_a_dequeue_waits_for_an_item_that_is_being_enqueued() {
    let site = Site::new().await;
    let queue = queue_with(&site, &[]).await;
    let mut enqueuer = site.replica.begin();
    queue.enqueue(&mut enqueuer, 5).await.unwrap();
    let mut tx = site.replica.begin();
    let (item, committed) = tokio::join!(queue.try_dequeue(&mut tx), enqueuer.commit());
    committed.unwrap();
    assert_eq!(*item.unwrap().unwrap(), 5);
}

#[tokio::test]
async fn c48_a_second_consumer_waits() {
    let site = Site::new().await;
    let queue = queue_with(&site, &[1, 2]).await;
    let mut first = site.replica.begin();
    assert_eq!(*queue.try_dequeue(&mut first).await.unwrap().unwrap(), 1);
    let mut second = site.replica.begin();
    assert!(timed_out(
        &queue.with(at_once()).try_dequeue(&mut second).await
    ));
    let enqueue = queue.with(at_once()).enqueue(&mut second, 3).await;
    assert!(enqueue.is_ok(), "an enqueuer does not");
    let (item, committed) = tokio::join!(queue.try_dequeue(&mut second), first.commit());
    committed.unwrap();
    assert_eq!(*item.unwrap().unwrap(), 2);
}

#[tokio::test]
async fn c48_a_cleared_queue_is_empty() {
    let site = Site::new().await;
    let queue = queue_with(&site, &[1, 2]).await;
    queue.clear().await.unwrap();
    let mut tx = site.replica.begin();
    assert!(queue.try_dequeue(&mut tx).await.unwrap().is_none());
    queue.enqueue(&mut tx, 7).await.unwrap();
    tx.commit().await.unwrap();
    let site = site.restart().await;
    let queue: Queue<u64> = site.state().get_or_add("q").await.unwrap();
    let mut tx = site.replica.begin();
    assert_eq!(*queue.try_dequeue(&mut tx).await.unwrap().unwrap(), 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c49_consumers_never_share_an_item() {
    let site = Site::new().await;
    let all: Vec<u64> = (0..600).collect();
    let queue = items_with(&site, &all).await;
    let mut consumers = Vec::new();
    for consumer in 0..6u64 {
        let (replica, queue) = (site.replica.clone(), queue.clone());
        consumers.push(tokio::spawn(async move {
            let mut taken = Vec::new();
            let mut round = 0u64;
            loop {
                let mut tx = replica.begin();
                let Some(item) = queue.try_dequeue(&mut tx).await.unwrap() else {
                    return taken;
                };
                round += 1;
                // Now and then one gives its item back.
                if (round + consumer).is_multiple_of(5) {
                    tx.abort();
                    continue;
                }
                tx.commit().await.unwrap();
                taken.push(*item);
            }
        }));
    }
    let mut taken = Vec::new();
    for consumer in consumers {
        taken.extend(consumer.await.unwrap());
    }
    // A consumer may have seen the queue empty just before another gave back.
    let mut tx = site.replica.begin();
    while let Some(item) = queue.try_dequeue(&mut tx).await.unwrap() {
        taken.push(*item);
    }
    assert_eq!(taken.len(), 600, "none twice");
    let taken: BTreeSet<_> = taken.into_iter().collect();
    assert_eq!(taken.len(), 600, "none lost");
}

#[tokio::test]
async fn c50_an_own_enqueue_cannot_be_taken() {
    let site = Site::new().await;
    let queue = items_with(&site, &[]).await;
    let mut tx = site.replica.begin();
    queue.enqueue(&mut tx, 1).await.unwrap();
    assert!(queue.try_dequeue(&mut tx).await.unwrap().is_none());
    tx.commit().await.unwrap();
    let mut tx = site.replica.begin();
    assert_eq!(*queue.try_dequeue(&mut tx).await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn c51_an_abort_returns_items_to_the_head() {
    let site = Site::new().await;
    let queue = items_with(&site, &[1, 2, 3]).await;
    let mut tx = site.replica.begin();
    let first = *queue.try_dequeue(&mut tx).await.unwrap().unwrap();
    let second = *queue.try_dequeue(&mut tx).await.unwrap().unwrap();
    queue.enqueue(&mut tx, 4).await.unwrap();
    tx.abort();
    let mut tx = site.replica.begin();
    let mut again = Vec::new();
    while let Some(item) = queue.try_dequeue(&mut tx).await.unwrap() {
        again.push(*item);
    }
    assert!(again[..2].contains(&first) && again[..2].contains(&second));
    assert_eq!(again.len(), 3, "what was enqueued is gone");
}

#[tokio::test]
async fn c52_the_length_counts_what_can_be_taken() {
    let site = Site::new().await;
    let queue = items_with(&site, &[1, 2, 3]).await;
    assert_eq!(queue.len().await.unwrap(), 3);
    let mut taker = site.replica.begin();
    queue.try_dequeue(&mut taker).await.unwrap();
    let mut giver = site.replica.begin();
    queue.enqueue(&mut giver, 4).await.unwrap();
    assert_eq!(queue.len().await.unwrap(), 2);
    giver.commit().await.unwrap();
    assert_eq!(queue.len().await.unwrap(), 3);
    taker.abort();
    assert_eq!(queue.len().await.unwrap(), 4);
    let site = site.restart().await;
    let queue: ConcurrentQueue<u64> = site.state().get_or_add("items").await.unwrap();
    assert_eq!(queue.len().await.unwrap(), 4);
    assert!(!queue.is_empty().await.unwrap());
}

#[tokio::test]
async fn c53_a_volatile_concurrent_queue_is_refused() {
    let site = Site::new().await;
    let options = Options {
        is_volatile: true,
        clock: Arc::new(site.clock.clone()),
        ..Options::default()
    };
    let volatile = Replica::primary(site.ledger.clone(), options)
        .await
        .unwrap();
    let refused = volatile
        .state()
        .get_or_add::<ConcurrentQueue<u64>>("c")
        .await;
    assert_eq!(code(refused), "STF-3015");
    let queue = volatile.state().get_or_add::<Queue<u64>>("q").await;
    assert!(queue.is_ok(), "the plain queue is offered");
}
