//! The dictionary: C34 to C43.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use steadfast_collections::{Dictionary, DictionaryQuery, Tx};

use crate::counted::Counted;
use crate::site::{Site, Words, at_once, code, key, timed_out};

async fn all(words: &Words, tx: &mut Tx) -> Vec<(String, u64)> {
    let found = words.entries(tx, DictionaryQuery::all()).await.unwrap();
    found
        .into_iter()
        .map(|(key, value)| (key, *value))
        .collect()
}

#[tokio::test]
async fn c34_results_are_those_of_the_table() {
    let site = Site::new().await;
    let words = site.words_with(&[("there", 1)]).await;
    let tx = &mut site.replica.begin();
    assert_eq!(code(words.add(tx, key("there"), 2).await), "STF-3006");
    words.add(tx, key("new"), 2).await.unwrap();
    assert!(!words.try_add(tx, key("there"), 3).await.unwrap());
    assert!(words.try_add(tx, key("newer"), 3).await.unwrap());
    words.set(tx, key("there"), 4).await.unwrap();
    words.set(tx, key("set"), 5).await.unwrap();
    let found = words.get_or_add(tx, key("there"), || 0).await.unwrap();
    assert_eq!(*found, 4);
    let added = words.get_or_add(tx, key("made"), || 6).await.unwrap();
    assert_eq!(*added, 6);
    let updated = words.add_or_update(tx, key("made"), || 0, |v| v * 2).await;
    assert_eq!(*updated.unwrap(), 12);
    let added = words.add_or_update(tx, key("fresh"), || 7, |v| v * 2).await;
    assert_eq!(*added.unwrap(), 7);
    assert!(!words.try_update(tx, &key("fresh"), 0, &8).await.unwrap());
    assert!(words.try_update(tx, &key("fresh"), 8, &7).await.unwrap());
    assert!(!words.try_update(tx, &key("absent"), 8, &7).await.unwrap());
    assert!(words.update(tx, &key("fresh"), |v| v + 1).await.unwrap());
    assert!(!words.update(tx, &key("absent"), |v| v + 1).await.unwrap());
    let removed = words.try_remove(tx, &key("set")).await.unwrap();
    assert_eq!(removed.map(|v| *v), Some(5));
    assert!(words.try_remove(tx, &key("set")).await.unwrap().is_none());
    let expected = [
        (key("fresh"), 9),
        (key("made"), 12),
        (key("new"), 2),
        (key("newer"), 3),
        (key("there"), 4),
    ];
    assert_eq!(all(&words, tx).await, expected);
}

#[tokio::test(start_paused = true)]
async fn c34_locks_are_those_of_the_table() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 1)]).await;
    let update = steadfast_collections::OperationOptions::default().update();
    // A reader and an updater share a key; a second updater or a new reader waits.
    let mut a = site.replica.begin();
    let mut b = site.replica.begin();
    let mut c = site.replica.begin();
    words.get(&mut a, &key("k")).await.unwrap();
    words.with(update).get(&mut b, &key("k")).await.unwrap();
    let view = words.with(update.timeout(Duration::ZERO));
    assert!(timed_out(&view.contains(&mut c, &key("k")).await));
    assert!(timed_out(
        &words.with(at_once()).get(&mut c, &key("k")).await
    ));
    drop((a, b));
    // `get_or_add` of a key that is there takes an update lock only.
    let mut a = site.replica.begin();
    words.get(&mut a, &key("k")).await.unwrap();
    let view = words.with(at_once());
    let got = view.get_or_add(&mut c, key("k"), || 9).await;
    assert_eq!(*got.unwrap(), 1);
    let set = view.set(&mut c, key("k"), 2).await;
    assert!(timed_out(&set), "the reader is still there");
}

#[tokio::test]
async fn c35_a_factory_runs_once_under_the_lock() {
    let site = Site::new().await;
    let words = site.words().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for _ in 0..16 {
        let (replica, words, runs) = (site.replica.clone(), words.clone(), Arc::clone(&runs));
        tasks.push(tokio::spawn(async move {
            let mut tx = replica.begin();
            let make = || runs.fetch_add(1, Ordering::SeqCst) as u64;
            let got = words.get_or_add(&mut tx, key("k"), make).await.unwrap();
            tx.commit().await.unwrap();
            *got
        }));
    }
    for task in tasks {
        assert_eq!(task.await.unwrap(), 0, "all see what the first has made");
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn c36_a_panic_in_a_factory_leaves_the_value_and_faults_the_transaction() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 1)]).await;
    let mut tx = site.replica.begin();
    let at = key("k");
    let update = words.update(&mut tx, &at, |_| panic!("in the closure"));
    assert!(AssertUnwindSafe(update).catch_unwind().await.is_err());
    assert_eq!(code(words.get(&mut tx, &key("k")).await), "STF-3004");
    assert_eq!(code(tx.commit().await), "STF-3004");
    assert_eq!(site.committed(&words, "k").await, Some(1));
    let mut tx = site.replica.begin();
    let add = words.get_or_add(&mut tx, key("new"), || panic!("in the closure"));
    assert!(AssertUnwindSafe(add).catch_unwind().await.is_err());
    drop(tx);
    assert_eq!(site.committed(&words, "new").await, None);
    assert_eq!(site.replica.locks(), 0);
}

#[tokio::test]
async fn c37_clear_waits_for_open_transactions_and_empties_at_once() {
    let site = Site::new().await;
    let words = site.words_with(&[("a", 1), ("b", 2)]).await;
    let mut open = site.replica.begin();
    words.set(&mut open, key("c"), 3).await.unwrap();
    assert!(timed_out(&words.with(at_once()).clear().await));
    let clearing = tokio::spawn({
        let words = words.clone();
        async move { words.clear().await }
    });
    while site.replica.waits().is_empty() {
        tokio::task::yield_now().await;
    }
    open.commit().await.unwrap();
    clearing.await.unwrap().unwrap();
    assert_eq!(words.approx_count(), 0);
    for gone in ["a", "b", "c"] {
        assert_eq!(site.committed(&words, gone).await, None);
    }
    let site = site.restart().await;
    let words = site.words().await;
    let mut tx = site.replica.begin();
    assert_eq!(words.count(&mut tx).await.unwrap(), 0);
    assert_eq!(words.approx_count(), 0, "the count was forgotten too");
}

#[tokio::test]
async fn c38_enumeration_ascends() {
    let site = Site::new().await;
    let numbers: Dictionary<i64, String> = site.state().get_or_add("n").await.unwrap();
    let mut keys: Vec<i64> = vec![0, -1, 1, i64::MIN, i64::MAX, 255, 256, -256, -255, 65_536];
    for flushed in keys.chunks(4) {
        let mut tx = site.replica.begin();
        for key in flushed {
            numbers.set(&mut tx, *key, key.to_string()).await.unwrap();
        }
        tx.commit().await.unwrap();
        site.store.flush().await.unwrap();
    }
    let mut tx = site.replica.begin();
    numbers.set(&mut tx, 7, key("own")).await.unwrap();
    keys.push(7);
    keys.sort_unstable();
    let mut cursor = numbers.enumerate(DictionaryQuery::all().page(3)).unwrap();
    let mut found = Vec::new();
    while let Some(page) = cursor.next_keys(&mut tx).await.unwrap() {
        found.extend(page);
    }
    assert_eq!(found, keys);
    let some = numbers
        .entries(&mut tx, DictionaryQuery::range(-1..=255))
        .await;
    let some: Vec<_> = some.unwrap().into_iter().map(|(key, _)| key).collect();
    assert_eq!(some, [-1, 0, 1, 7, 255]);
    let none = numbers
        .entries(&mut tx, DictionaryQuery::range(5..5))
        .await
        .unwrap();
    assert!(none.is_empty());
}

#[tokio::test]
async fn c38_prefixes_of_texts_and_of_composite_keys() {
    let site = Site::new().await;
    let words = site
        .words_with(&[("a", 1), ("ab", 2), ("abc", 3), ("ac", 4), ("b", 5)])
        .await;
    let mut tx = site.replica.begin();
    let found = words
        .entries(&mut tx, DictionaryQuery::starting_with("ab"))
        .await;
    let found: Vec<_> = found.unwrap().into_iter().map(|(key, _)| key).collect();
    assert_eq!(found, ["ab", "abc"]);
    let houses: Dictionary<(String, u64), u64> = site.state().get_or_add("houses").await.unwrap();
    let mut tx = site.replica.begin();
    for (street, house) in [("elm", 1), ("elm", 20), ("elms", 3), ("oak", 1)] {
        let at = (key(street), house);
        houses.add(&mut tx, at, house).await.unwrap();
    }
    let found = houses
        .entries(&mut tx, DictionaryQuery::under(&key("elm")))
        .await;
    let found: Vec<_> = found.unwrap().into_iter().map(|(key, _)| key.1).collect();
    assert_eq!(found, [1, 20]);
}

#[tokio::test]
async fn c39_values_that_a_filter_leaves_out_are_not_read() {
    let site = Site::new().await;
    let words = site.words_with(&[("a", 1), ("b", 2), ("c", 3)]).await;
    // A value that does not decode as a number: reading it fails.
    let mut bad = steadfast_storage::Writes::new();
    let table = steadfast_core::id::TableId(65_536);
    let at = steadfast_collections::schema::encode_key(&key("b")).unwrap();
    bad.put(table, &at, b"broken");
    site.ledger.commit(bad).await.unwrap();
    let mut tx = site.replica.begin();
    let read = words.entries(&mut tx, DictionaryQuery::all()).await;
    assert_eq!(code(read), "STF-3022", "the test must be able to fail");
    let query = DictionaryQuery::all().filter(|key: &String| key != "b");
    let found = words.entries(&mut tx, query).await.unwrap();
    assert_eq!(found.len(), 2);
    let mut cursor = words.enumerate(DictionaryQuery::all()).unwrap();
    let keys = cursor.next_keys(&mut tx).await.unwrap().unwrap();
    assert_eq!(keys, ["a", "b", "c"], "keys alone need no values");
    assert_eq!(words.count(&mut tx).await.unwrap(), 3);
}

#[tokio::test]
async fn c39_no_value_that_a_filter_leaves_out_leaves_the_tables() {
    let counted = Arc::new(Counted::new(crate::engine::fresh().await));
    let site = Site::on(Arc::clone(&counted) as _).await;
    let words: Words = site.words().await;
    let mut tx = site.replica.begin();
    for n in 0..40 {
        words.add(&mut tx, format!("{n:02}"), n).await.unwrap();
    }
    tx.commit().await.unwrap();
    site.store.flush().await.unwrap();
    // As another process finds it: nothing is in memory.
    let site = site.restart().await;
    let words: Words = site.words().await;
    counted.take();
    let mut tx = site.replica.begin();
    assert_eq!(words.count(&mut tx).await.unwrap(), 40);
    let mut cursor = words.enumerate(DictionaryQuery::all()).unwrap();
    while cursor.next_keys(&mut tx).await.unwrap().is_some() {}
    assert_eq!(counted.take(), 0, "keys alone were asked for");
    // A run, a single one, and the transaction's own changes among them.
    words.set(&mut tx, key("12"), 100).await.unwrap();
    words.try_remove(&mut tx, &key("13")).await.unwrap();
    counted.take();
    let fits = |key: &String| (10..20).contains(&key.parse::<u8>().unwrap()) || key == "33";
    let query = DictionaryQuery::all().page(15).filter(fits);
    let found = words.entries(&mut tx, query).await.unwrap();
    let found: Vec<u64> = found.iter().map(|(_, value)| **value).collect();
    assert_eq!(found, [10, 11, 100, 14, 15, 16, 17, 18, 19, 33]);
    assert_eq!(counted.take(), 9, "all that fit, without its own");
}

#[tokio::test]
async fn c40_an_enumeration_stays_while_others_commit() {
    let site = Site::new().await;
    let words = site.words_with(&[("a", 1), ("c", 3)]).await;
    let mut tx = site.replica.begin();
    words.set(&mut tx, key("own"), 9).await.unwrap();
    let before = all(&words, &mut tx).await;
    let mut other = site.replica.begin();
    words.set(&mut other, key("a"), 100).await.unwrap();
    words.add(&mut other, key("b"), 2).await.unwrap();
    words.try_remove(&mut other, &key("c")).await.unwrap();
    other.commit().await.unwrap();
    let after = all(&words, &mut tx).await;
    assert_eq!(after, before);
    assert_eq!(after.len(), 3, "with its own");
    // A read of one key is another thing: it sees what is committed.
    let now = words.get(&mut tx, &key("a")).await.unwrap().unwrap();
    assert_eq!(*now, 100);
    let mut later = site.replica.begin();
    assert_eq!(all(&words, &mut later).await.len(), 2);
}

#[tokio::test]
async fn c41_collections_share_one_snapshot() {
    let site = Site::new().await;
    let words = site.words_with(&[("a", 1)]).await;
    let others: Words = site.state().get_or_add("others").await.unwrap();
    let mut tx = site.replica.begin();
    // Pinned by the first snapshot read, not by the beginning.
    let mut early = site.replica.begin();
    others.set(&mut early, key("early"), 1).await.unwrap();
    early.commit().await.unwrap();
    assert_eq!(words.count(&mut tx).await.unwrap(), 1);
    let mut late = site.replica.begin();
    others.set(&mut late, key("late"), 1).await.unwrap();
    words.set(&mut late, key("late"), 1).await.unwrap();
    late.commit().await.unwrap();
    let seen = all(&others, &mut tx).await;
    assert_eq!(seen, [(key("early"), 1)]);
    assert_eq!(words.count(&mut tx).await.unwrap(), 1);
}

#[tokio::test]
async fn c42_count_is_the_enumerated_length() {
    let site = Site::new().await;
    let words = site.words().await;
    let mut tx = site.replica.begin();
    for n in 0..2_500 {
        words.set(&mut tx, format!("{n:05}"), n).await.unwrap();
    }
    tx.commit().await.unwrap();
    let mut tx = site.replica.begin();
    words.set(&mut tx, key("own"), 1).await.unwrap();
    words.try_remove(&mut tx, &key("00007")).await.unwrap();
    words.set(&mut tx, key("00008"), 0).await.unwrap();
    let count = words.count(&mut tx).await.unwrap();
    assert_eq!(count, all(&words, &mut tx).await.len() as u64);
    assert_eq!(count, 2_500);
    assert_eq!(words.approx_count(), 2_500);
}

#[tokio::test]
async fn c43_snapshot_reads_take_no_locks() {
    let site = Site::new().await;
    let words = site.words_with(&[("a", 1), ("b", 2)]).await;
    let mut writer = site.replica.begin();
    words.set(&mut writer, key("a"), 10).await.unwrap();
    let held = site.replica.locks();
    let mut reader = site.replica.begin();
    let seen = all(&words, &mut reader).await;
    assert_eq!(
        seen,
        [(key("a"), 1), (key("b"), 2)],
        "behind the writer's lock"
    );
    assert_eq!(words.count(&mut reader).await.unwrap(), 2);
    assert_eq!(site.replica.locks(), held);
}
