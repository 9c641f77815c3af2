//! Transactions: C10 to C18 and C20.

use std::sync::Arc;
use std::time::Duration;

use steadfast_collections::{Dictionary, ErrorKind, Log, Queue, Replica, Tx};
use steadfast_storage::hostile::{EngineFaults, HostileEngine};

use crate::site::{PARTITION, Site, Words, at_once, code, key, options_with, timed_out};

#[tokio::test]
async fn c10_a_transaction_begins_on_a_secondary() {
    let site = Site::new().await;
    site.words_with(&[("k", 1)]).await;
    site.store.flush().await.unwrap();
    let engine = Arc::clone(&site.engine);
    let secondary = Replica::secondary(engine, PARTITION, options_with(&site.clock));
    let words: Words = secondary.state().try_get("words").await.unwrap().unwrap();
    let mut tx = secondary.begin();
    assert_eq!(words.get(&mut tx, &key("k")).await.unwrap().unwrap(), 1);
    assert!(tx.snapshot_lsn().is_some(), "every read says what it saw");
    let read_only = tx.commit().await;
    assert!(read_only.is_ok());
}

#[tokio::test]
async fn c11_the_first_write_on_a_secondary_is_refused() {
    let site = Site::new().await;
    site.words_with(&[("k", 1)]).await;
    site.store.flush().await.unwrap();
    let engine = Arc::clone(&site.engine);
    let secondary = Replica::secondary(engine, PARTITION, options_with(&site.clock));
    let words: Words = secondary.state().try_get("words").await.unwrap().unwrap();
    let mut tx = secondary.begin();
    assert_eq!(code(words.set(&mut tx, key("k"), 2).await), "STF-3002");
    let created = secondary.state().get_or_add::<Words>("new").await;
    assert_eq!(code(created), "STF-3002");
    let update = words
        .with(steadfast_collections::OperationOptions::default().update())
        .get(&mut tx, &key("k"))
        .await;
    assert_eq!(code(update), "STF-3003", "only the default lock mode");
    assert_eq!(site.committed(&site.words().await, "k").await, Some(1));
}

#[tokio::test]
async fn c11_a_demoted_replica_writes_nothing() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 1)]).await;
    let mut tx = site.replica.begin();
    words.set(&mut tx, key("k"), 2).await.unwrap();
    site.replica.demote();
    assert_eq!(code(tx.commit().await), "STF-3002");
    assert_eq!(site.replica.locks(), 0);
}

#[tokio::test]
async fn c12_a_dropped_transaction_frees_its_locks_at_once() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 1)]).await;
    let mut tx = site.replica.begin();
    for n in 0..100 {
        words.set(&mut tx, format!("key {n}"), n).await.unwrap();
    }
    words.get(&mut tx, &key("k")).await.unwrap();
    assert_eq!(site.replica.locks(), 102, "the keys and the collection");
    drop(tx);
    // No time passes: dropping releases before it returns.
    assert_eq!(site.replica.locks(), 0);
    assert_eq!(site.committed(&words, "key 1").await, None);
}

#[tokio::test]
async fn c14_lsns_ascend_in_commit_order() {
    let site = Site::new().await;
    let words = site.words_with(&[("n", 0)]).await;
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let (replica, words) = (site.replica.clone(), words.clone());
        tasks.push(tokio::spawn(async move {
            let mut seen = Vec::new();
            for _ in 0..50 {
                let mut tx = replica.begin();
                let next = words
                    .add_or_update(&mut tx, key("n"), || 0, |n| n + 1)
                    .await
                    .unwrap();
                seen.push((*next, tx.commit().await.unwrap()));
            }
            seen
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    all.sort_unstable();
    assert_eq!(all.len(), 400);
    assert_eq!(all.last().unwrap().0, 400, "no update was lost");
    assert!(all.windows(2).all(|pair| pair[0].1 < pair[1].1));
}

#[tokio::test]
async fn c15_a_read_only_commit_writes_nothing() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 1)]).await;
    let before = (site.replica.lsn(), site.store.unflushed());
    let mut tx = site.replica.begin();
    words.get(&mut tx, &key("k")).await.unwrap();
    words.count(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!((site.replica.lsn(), site.store.unflushed()), before);
    assert_eq!(site.replica.locks(), 0);
}

#[tokio::test]
async fn c16_a_transaction_reads_its_own_writes() {
    let site = Site::new().await;
    let words = site.words_with(&[("a", 1), ("b", 2)]).await;
    let queue: Queue<u64> = site.state().get_or_add("q").await.unwrap();
    let mut tx = site.replica.begin();
    let tx_ref = &mut tx;
    words.add(tx_ref, key("c"), 3).await.unwrap();
    words.set(tx_ref, key("a"), 10).await.unwrap();
    assert_eq!(
        *words.try_remove(tx_ref, &key("b")).await.unwrap().unwrap(),
        2
    );
    assert_eq!(*words.get(tx_ref, &key("a")).await.unwrap().unwrap(), 10);
    assert!(words.get(tx_ref, &key("b")).await.unwrap().is_none());
    assert!(words.contains(tx_ref, &key("c")).await.unwrap());
    assert!(!words.contains(tx_ref, &key("b")).await.unwrap());
    assert!(!words.try_add(tx_ref, key("c"), 9).await.unwrap());
    assert!(words.try_update(tx_ref, &key("a"), 11, &10).await.unwrap());
    let added = words.get_or_add(tx_ref, key("d"), || 4).await.unwrap();
    assert_eq!(*added, 4);
    let changed = words
        .add_or_update(tx_ref, key("d"), || 0, |v| v + 1)
        .await
        .unwrap();
    assert_eq!(*changed, 5);
    assert_eq!(words.count(tx_ref).await.unwrap(), 3);
    let all = words
        .entries(tx_ref, steadfast_collections::DictionaryQuery::all())
        .await
        .unwrap();
    let all: Vec<_> = all.iter().map(|(k, v)| (k.as_str(), **v)).collect();
    assert_eq!(all, [("a", 11), ("c", 3), ("d", 5)]);
    queue.enqueue(tx_ref, 1).await.unwrap();
    queue.enqueue(tx_ref, 2).await.unwrap();
    assert_eq!(*queue.try_peek(tx_ref).await.unwrap().unwrap(), 1);
    assert_eq!(*queue.try_dequeue(tx_ref).await.unwrap().unwrap(), 1);
    assert_eq!(queue.count(tx_ref).await.unwrap(), 1);
    tx.commit().await.unwrap();
    assert_eq!(site.committed(&words, "a").await, Some(11));
    assert_eq!(site.committed(&words, "b").await, None);
}

#[tokio::test]
async fn c17_a_transaction_that_is_too_old_is_faulted_and_its_locks_are_freed() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 1)]).await;
    let mut old = site.replica.begin();
    words.set(&mut old, key("k"), 2).await.unwrap();
    let mut early = site.replica.begin();
    let blocked = words.with(at_once()).set(&mut early, key("k"), 3).await;
    assert!(timed_out(&blocked), "it is allowed to");
    drop(early);
    site.clock.advance(Duration::from_secs(31));
    // Younger than 30 seconds itself, it takes the lock from the old one.
    let mut other = site.replica.begin();
    words
        .with(at_once())
        .set(&mut other, key("k"), 3)
        .await
        .unwrap();
    let next = words.get(&mut old, &key("k")).await;
    assert_eq!(code(next), "STF-3004");
    assert_eq!(code(old.commit().await), "STF-3004");
    other.commit().await.unwrap();
    assert_eq!(site.committed(&words, "k").await, Some(3));
    assert_eq!(site.replica.locks(), 0);
}

#[tokio::test(start_paused = true)]
async fn c17_a_waiter_gets_the_lock_when_its_holder_is_too_old() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 1)]).await;
    let mut old = site.replica.begin();
    words.set(&mut old, key("k"), 2).await.unwrap();
    site.clock.advance(Duration::from_millis(29_500));
    let mut other = site.replica.begin();
    let clock = site.clock.clone();
    let (set, ()) = tokio::join!(words.set(&mut other, key("k"), 3), async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        clock.advance(Duration::from_secs(1));
    });
    set.unwrap();
    assert_eq!(code(old.commit().await), "STF-3004");
}

#[tokio::test]
async fn c17_a_snapshot_that_pins_too_much_log_faults_its_transaction() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 1)]).await;
    let blobs: Dictionary<u64, Vec<u8>> = site.state().get_or_add("blobs").await.unwrap();
    let mut reader = site.replica.begin();
    words.count(&mut reader).await.unwrap();
    // A quarter of the log's target of 64 MiB, and then the target, is written.
    for n in 0..130 {
        let mut tx = site.replica.begin();
        let blob = vec![n as u8; 512 * 1024];
        blobs.set(&mut tx, n % 4, blob).await.unwrap();
        tx.commit().await.unwrap();
    }
    site.store.flush().await.unwrap();
    assert_eq!(code(words.count(&mut reader).await), "STF-3004");
    assert_eq!(code(reader.commit().await), "STF-3004");
}

#[tokio::test]
async fn c18_too_large_is_refused_and_the_partition_goes_on() {
    let site = Site::new().await;
    let blobs: Dictionary<String, Vec<u8>> = site.state().get_or_add("blobs").await.unwrap();
    let mut tx = site.replica.begin();
    let large = blobs.set(&mut tx, key("k"), vec![0; 1024 * 1024 + 1]).await;
    let error = large.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::TooLarge { .. }),
        "{error}"
    );
    // Many that are too large together.
    for n in 0..3 {
        blobs
            .set(&mut tx, format!("{n}"), vec![0; 300 * 1024])
            .await
            .unwrap();
    }
    let room = tx.room();
    assert!(
        (100 * 1024..Tx::MAX_BYTES - 900 * 1024).contains(&room),
        "{room}"
    );
    let fourth = blobs.set(&mut tx, key("3"), vec![0; 300 * 1024]).await;
    assert_eq!(code(fourth), "STF-3011");
    assert_eq!(tx.room(), room, "nothing was changed");
    // Replacing a value does not count twice.
    blobs.set(&mut tx, key("0"), vec![1; 10]).await.unwrap();
    blobs
        .set(&mut tx, key("3"), vec![0; 300 * 1024])
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let mut tx = site.replica.begin();
    assert_eq!(blobs.count(&mut tx).await.unwrap(), 4);
}

#[tokio::test]
async fn c20_a_dropped_commit_still_commits() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 1)]).await;
    let mut tx = site.replica.begin();
    words.set(&mut tx, key("k"), 2).await.unwrap();
    drop(tx.commit());
    // The next one waits for the lock, which the dropped commit still holds.
    let mut next = site.replica.begin();
    assert_eq!(*words.get(&mut next, &key("k")).await.unwrap().unwrap(), 2);
    let log: Log<String> = site.state().get_or_add("log").await.unwrap();
    let mut tx = site.replica.begin();
    log.append(&mut tx, &key("event")).await.unwrap();
    let polled = tokio::time::timeout(Duration::ZERO, tx.commit()).await;
    drop(polled);
    drop(next);
    let site = site.restart().await;
    let words = site.words().await;
    assert_eq!(site.committed(&words, "k").await, Some(2));
}

#[tokio::test]
async fn c62_an_unknown_outcome_has_exactly_one_effect() {
    let faults = EngineFaults {
        unknown_applied: 20,
        unknown_dropped: 20,
        ..EngineFaults::default()
    };
    let hostile = Arc::new(HostileEngine::new(crate::engine::fresh().await, faults, 62));
    let site = Site::on(Arc::clone(&hostile) as _).await;
    let words = site.words_with(&[("count", 0)]).await;
    let log: Log<u64> = site.state().get_or_add("log").await.unwrap();
    for number in 1..=60 {
        let mut tx = site.replica.begin();
        let count = key("count");
        let added = words.update(&mut tx, &count, |count| count + 1).await;
        assert!(added.unwrap());
        log.append(&mut tx, &number).await.unwrap();
        tx.commit().await.unwrap();
    }
    assert!(site.ledger.epoch().0 > 10, "hardly anything was in doubt");
    hostile.stop_faults();
    let site = site.restart().await;
    let words = site.words().await;
    assert_eq!(site.committed(&words, "count").await, Some(60));
    let log: Log<u64> = site.state().get_or_add("log").await.unwrap();
    let events = log.read(0, usize::MAX).await.unwrap();
    let values: Vec<u64> = events.into_iter().map(|event| event.value).collect();
    assert_eq!(values, (1..=60).collect::<Vec<_>>());
}
