//! Names of collections: C1 to C9.

use steadfast_collections::{ConcurrentQueue, Dictionary, ErrorKind, Queue};

use crate::site::{Site, Words, code, key};

#[tokio::test]
async fn c01_twice_the_same_collection() {
    let site = Site::new().await;
    let first: Words = site.state().get_or_add("a").await.unwrap();
    let second: Words = site.state().get_or_add("a").await.unwrap();
    let mut tx = site.replica.begin();
    first.add(&mut tx, key("k"), 1).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(site.committed(&second, "k").await, Some(1));
    assert_eq!(site.state().list(), ["urn:a"]);
}

#[tokio::test]
async fn c01_two_transactions_that_create_it_get_the_same() {
    let site = Site::new().await;
    let state = site.state();
    let (a, b) = tokio::join!(
        state.get_or_add::<Words>("a"),
        state.get_or_add::<Words>("a")
    );
    let mut tx = site.replica.begin();
    a.unwrap().add(&mut tx, key("k"), 1).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(site.committed(&b.unwrap(), "k").await, Some(1));
}

#[tokio::test]
async fn c02_wrong_types_are_refused() {
    let site = Site::new().await;
    let _: Words = site.state().get_or_add("a").await.unwrap();
    let state = site.state();
    let other_kind = state.get_or_add::<Queue<u64>>("a").await;
    assert_eq!(code(other_kind), "STF-3008");
    let other_key = state.get_or_add::<Dictionary<u64, u64>>("a").await;
    assert_eq!(code(other_key), "STF-3008");
    let other_value = state.try_get::<Dictionary<String, String>>("urn:a").await;
    let error = other_value.err().unwrap();
    let text = error.to_string();
    assert!(
        matches!(error.kind(), ErrorKind::TypeMismatch { .. }),
        "{text}"
    );
    assert!(text.contains("urn:a"), "{text}");
}

#[tokio::test]
async fn c03_a_bare_name_is_its_urn() {
    let site = Site::new().await;
    let bare: Words = site.state().get_or_add("x").await.unwrap();
    let full: Words = site.state().get_or_add("urn:x").await.unwrap();
    assert_eq!(bare.name(), full.name());
    assert_eq!(site.state().list(), ["urn:x"]);
}

#[tokio::test]
async fn c04_an_aborted_creation_leaves_nothing() {
    let site = Site::new().await;
    let mut tx = site.replica.begin();
    let words: Words = site.state().get_or_add_in(&mut tx, "a").await.unwrap();
    words.add(&mut tx, key("k"), 1).await.unwrap();
    tx.abort();
    assert!(site.state().try_get::<Words>("a").await.unwrap().is_none());
    let mut tx = site.replica.begin();
    let used = words.get(&mut tx, &key("k")).await;
    assert_eq!(code(used), "STF-3007", "the handle is of nothing");
}

#[tokio::test]
async fn c05_uncommitted_creation_is_invisible() {
    let site = Site::new().await;
    let mut tx = site.replica.begin();
    let words: Words = site.state().get_or_add_in(&mut tx, "a").await.unwrap();
    words.add(&mut tx, key("k"), 1).await.unwrap();
    let own = words.get(&mut tx, &key("k")).await.unwrap();
    assert_eq!(own.unwrap(), 1, "its own transaction uses it");
    assert!(site.state().try_get::<Words>("a").await.unwrap().is_none());
    assert!(site.state().list().is_empty());
    let mut other = site.replica.begin();
    let used = words.get(&mut other, &key("k")).await;
    assert_eq!(code(used), "STF-3014");
    tx.commit().await.unwrap();
    let used = words.get(&mut other, &key("k")).await.unwrap();
    assert_eq!(used.unwrap(), 1);
}

#[tokio::test]
async fn c06_removed_and_created_again_is_empty() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 1)]).await;
    let mut tx = site.replica.begin();
    site.state().remove(&mut tx, "words").await.unwrap();
    tx.commit().await.unwrap();
    assert!(
        site.state()
            .try_get::<Words>("words")
            .await
            .unwrap()
            .is_none()
    );
    let mut tx = site.replica.begin();
    assert_eq!(code(words.get(&mut tx, &key("k")).await), "STF-3007");
    drop(tx);
    let again = site.words().await;
    assert_eq!(site.committed(&again, "k").await, None);
    let site = site.restart().await;
    let again = site.words().await;
    assert_eq!(site.committed(&again, "k").await, None);
}

#[tokio::test]
async fn c06_removed_and_created_in_one_transaction_is_empty() {
    let site = Site::new().await;
    site.words_with(&[("k", 1)]).await;
    let mut tx = site.replica.begin();
    site.state().remove(&mut tx, "words").await.unwrap();
    let again: Words = site.state().get_or_add_in(&mut tx, "words").await.unwrap();
    assert!(again.get(&mut tx, &key("k")).await.unwrap().is_none());
    again.add(&mut tx, key("new"), 2).await.unwrap();
    tx.commit().await.unwrap();
    let site = site.restart().await;
    let again = site.words().await;
    assert_eq!(site.committed(&again, "k").await, None);
    assert_eq!(site.committed(&again, "new").await, Some(2));
}

#[tokio::test]
async fn c07_an_abort_undoes_a_removal() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 1)]).await;
    let mut tx = site.replica.begin();
    site.state().remove(&mut tx, "words").await.unwrap();
    assert_eq!(code(words.get(&mut tx, &key("k")).await), "STF-3007");
    tx.abort();
    assert_eq!(site.committed(&words, "k").await, Some(1));
    let mut tx = site.replica.begin();
    let missing = site.state().remove(&mut tx, "nothing").await;
    assert_eq!(code(missing), "STF-3007");
}

#[tokio::test]
async fn c08_only_committed_names_are_listed() {
    let site = Site::new().await;
    let _: Words = site.state().get_or_add("b").await.unwrap();
    let _: Queue<u64> = site.state().get_or_add("a").await.unwrap();
    let mut tx = site.replica.begin();
    let _: Words = site.state().get_or_add_in(&mut tx, "c").await.unwrap();
    site.state().remove(&mut tx, "b").await.unwrap();
    assert_eq!(site.state().list(), ["urn:a", "urn:b"]);
    tx.commit().await.unwrap();
    assert_eq!(site.state().list(), ["urn:a", "urn:c"]);
    assert!(
        site.replica.scope("service").list().is_empty(),
        "scopes are apart"
    );
}

#[tokio::test]
async fn c09_types_survive_a_restart() {
    for flushes in [false, true] {
        let site = Site::new().await;
        site.words_with(&[("k", 1)]).await;
        let queue: ConcurrentQueue<String> = site.state().get_or_add("q").await.unwrap();
        let mut tx = site.replica.begin();
        queue.enqueue(&mut tx, key("job")).await.unwrap();
        tx.commit().await.unwrap();
        if flushes {
            site.store.flush().await.unwrap();
        }
        let site = site.restart().await;
        assert_eq!(site.state().list(), ["urn:q", "urn:words"]);
        let wrong = site.state().get_or_add::<Queue<u64>>("words").await;
        assert_eq!(code(wrong), "STF-3008");
        let words = site.words().await;
        assert_eq!(site.committed(&words, "k").await, Some(1));
        assert_eq!(words.approx_count(), 1);
        let queue: ConcurrentQueue<String> = site.state().get_or_add("q").await.unwrap();
        assert_eq!(queue.len().await.unwrap(), 1);
        let _: Words = site.state().get_or_add("later").await.unwrap();
        let mut tx = site.replica.begin();
        assert_eq!(*queue.try_dequeue(&mut tx).await.unwrap().unwrap(), "job");
    }
}
