//! Wrong use gets the right error and changes nothing.

use std::sync::Arc;
use std::time::Duration;

use steadfast_collections::{
    Dictionary, DictionaryQuery, OperationOptions, Replica, RetryAdvice, Timeout,
};

use crate::site::{PARTITION, Site, Words, code, key, options_with};

#[tokio::test]
async fn a_key_that_is_too_long_is_refused() {
    let site = Site::new().await;
    let words = site.words().await;
    let mut tx = site.replica.begin();
    let long = "k".repeat(5_000);
    assert_eq!(code(words.set(&mut tx, long.clone(), 1).await), "STF-3011");
    assert_eq!(code(words.get(&mut tx, &long).await), "STF-3011");
    words.set(&mut tx, key("k"), 1).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(site.committed(&words, "k").await, Some(1));
}

/// The help page of a code, which begins with it.
fn expect_page(code: &str) {
    let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");
    let page = std::fs::read_to_string(format!("{pages}/{code}.md")).unwrap();
    assert!(page.starts_with(&format!("# {code}")), "{page}");
}

#[tokio::test]
async fn common_mistakes_have_a_code_and_a_page_and_change_nothing() {
    let site = Site::new().await;
    let blobs: Dictionary<String, Vec<u8>> = site.state().get_or_add("blobs").await.unwrap();
    let gone: Words = site.state().get_or_add("gone").await.unwrap();
    let mut tx = site.replica.begin();
    site.state().remove(&mut tx, "gone").await.unwrap();
    tx.commit().await.unwrap();
    let before = *site.ledger.durable().borrow();

    let mut tx = site.replica.begin();
    let long_key = blobs.set(&mut tx, "k".repeat(5_000), vec![]).await;
    let large_value = blobs.set(&mut tx, key("k"), vec![0; 2 << 20]).await;
    let wrong_type = site.state().get_or_add::<Words>("blobs").await;
    let removed = gone.get(&mut tx, &key("k")).await;
    let below_zero = Timeout::from_millis(-2);
    tx.roll_back();
    let closed = blobs.get(&mut tx, &key("k")).await;
    let found = [
        code(long_key),
        code(large_value),
        code(wrong_type),
        code(removed),
        code(below_zero),
        code(closed),
    ];
    let expected = [
        "STF-3011", "STF-3011", "STF-3008", "STF-3007", "STF-3009", "STF-3005",
    ];
    assert_eq!(found, expected);
    found.into_iter().for_each(expect_page);
    assert_eq!(
        *site.ledger.durable().borrow(),
        before,
        "nothing was written"
    );
}

#[tokio::test]
async fn an_ended_transaction_refuses_everything() {
    let site = Site::new().await;
    let words = site.words().await;
    let mut tx = site.replica.begin();
    words.set(&mut tx, key("k"), 1).await.unwrap();
    tx.roll_back();
    assert_eq!(site.replica.locks(), 0);
    assert_eq!(code(words.get(&mut tx, &key("k")).await), "STF-3005");
    assert_eq!(code(words.count(&mut tx).await), "STF-3005");
    assert_eq!(code(tx.commit().await), "STF-3005");
    assert_eq!(site.committed(&words, "k").await, None);
}

#[tokio::test]
async fn a_transaction_of_another_replica_is_refused() {
    let site = Site::new().await;
    let words = site.words().await;
    let engine = Arc::clone(&site.engine);
    let other = Replica::secondary(engine, PARTITION, options_with(&site.clock));
    let mut tx = other.begin();
    assert_eq!(code(words.get(&mut tx, &key("k")).await), "STF-3018");
    let query = words.entries(&mut tx, DictionaryQuery::all()).await;
    assert_eq!(code(query), "STF-3018");
    let created = site.state().get_or_add_in::<Words>(&mut tx, "x").await;
    assert_eq!(code(created), "STF-3018");
}

#[tokio::test]
async fn a_closed_replica_refuses_everything() {
    let site = Site::new().await;
    let words = site.words().await;
    let mut tx = site.replica.begin();
    site.replica.close();
    assert_eq!(code(words.get(&mut tx, &key("k")).await), "STF-3010");
    assert_eq!(
        code(site.state().get_or_add::<Words>("x").await),
        "STF-3010"
    );
}

#[tokio::test]
async fn c61_a_stale_owner_acknowledges_nothing() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 1)]).await;
    let rival = steadfast_storage::Options::new(steadfast_core::id::Owner {
        node: 2,
        incarnation: 9,
    });
    let rival = steadfast_storage::Store::start(Arc::clone(&site.engine), rival);
    let ledger = rival.acquire(PARTITION).await.unwrap();
    let mut tx = site.replica.begin();
    words.set(&mut tx, key("k"), 2).await.unwrap();
    let mut reader = site.replica.begin();
    assert_eq!(code(tx.commit().await), "STF-3002");
    assert_eq!(site.replica.locks(), 0);
    // What it has in memory may be old: it does not answer from there.
    assert_eq!(code(words.get(&mut reader, &key("k")).await), "STF-3002");
    let mut later = site.replica.begin();
    assert_eq!(code(words.get(&mut later, &key("k")).await), "STF-3002");
    let replica = Replica::primary(ledger, options_with(&site.clock)).await;
    let replica = replica.unwrap();
    let words: Words = replica.state().get_or_add("words").await.unwrap();
    let mut tx = replica.begin();
    assert_eq!(*words.get(&mut tx, &key("k")).await.unwrap().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn transact_tries_again_and_gives_up() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 1)]).await;
    let mut holder = site.replica.begin();
    words.set(&mut holder, key("k"), 2).await.unwrap();
    let adding = site.replica.transact(async |mut tx| {
        let soon = OperationOptions::default().timeout(Duration::from_millis(10));
        let is_there = words.with(soon).update(&mut tx, "k", |v| v + 10).await?;
        tx.commit(is_there).await
    });
    let (done, ()) = tokio::join!(adding, async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        holder.commit().await.unwrap();
    });
    assert!(done.unwrap());
    assert_eq!(site.committed(&words, "k").await, Some(12));
    // What cannot get better is not tried again.
    let mut tries = 0;
    let failed = site.replica.transact(|mut tx| {
        tries += 1;
        let words = &words;
        async move {
            words.add(&mut tx, "k", 0).await?;
            tx.commit(()).await
        }
    });
    let error = failed.await.unwrap_err();
    assert_eq!((error.retry(), tries), (RetryAdvice::No, 1));
}

#[tokio::test]
async fn transact_that_rolls_back_returns_its_value_and_changes_nothing() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 1)]).await;
    let mut tries = 0;
    let rolled_back = site.replica.transact(|mut tx| {
        tries += 1;
        let words = &words;
        async move {
            words.set(&mut tx, "k", 2).await?;
            let seen = words.get(&mut tx, "k").await?;
            Ok(tx.roll_back(seen.map(|value| *value)))
        }
    });
    assert_eq!(rolled_back.await.unwrap(), Some(2));
    assert_eq!(tries, 1);
    assert_eq!(site.committed(&words, "k").await, Some(1));
    assert_eq!(site.replica.locks(), 0);
}

#[tokio::test]
async fn transact_borrows_its_collections_in_a_spawned_task() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 1)]).await;
    let (replica, known) = (site.replica.clone(), words.clone());
    let task = tokio::spawn(async move {
        let amount = 41;
        let name = "k".to_owned();
        let changed = replica.transact(async |mut tx| {
            known.update(&mut tx, &name, |value| value + amount).await?;
            let value = known.get(&mut tx, &name).await?;
            tx.commit(value.map(|value| *value)).await
        });
        changed.await
    });
    assert_eq!(task.await.unwrap().unwrap(), Some(42));
    assert_eq!(site.committed(&words, "k").await, Some(42));
}

#[tokio::test]
async fn waits_name_waiter_and_holder() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 1)]).await;
    let mut holder = site.replica.begin();
    words.set(&mut holder, key("k"), 2).await.unwrap();
    let mut waiter = site.replica.begin();
    let (holds, waits) = (holder.id(), waiter.id());
    let reading = {
        let (replica, words) = (site.replica.clone(), words.clone());
        async move {
            words.get(&mut waiter, &key("k")).await.unwrap();
            drop(replica);
        }
    };
    let looking = async {
        while site.replica.waits().is_empty() {
            tokio::task::yield_now().await;
        }
        let seen = site.replica.waits();
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].waiter, seen[0].holder), (waits, holds));
        assert_eq!(seen[0].lock, "key \"k\" of urn:words");
        drop(holder);
    };
    tokio::join!(reading, looking);
    assert!(site.replica.waits().is_empty());
}
