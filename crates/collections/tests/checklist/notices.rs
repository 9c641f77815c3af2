//! Notifications: in log order, beginning with a rebuild.

use steadfast_collections::{DictionaryNotice, StateNotice, TransactionNotice};
use steadfast_core::limits;

use crate::site::{Site, Words, key};

#[tokio::test]
async fn a_dictionary_tells_its_changes_in_log_order() {
    let site = Site::new().await;
    let words = site.words_with(&[("a", 1)]).await;
    let mut notices = words.notices();
    let first = notices.next().await.unwrap().unwrap();
    let rebuilt_at = site.replica.lsn();
    assert_eq!(first, DictionaryNotice::Rebuild { lsn: rebuilt_at });
    let mut tx = site.replica.begin();
    words.set(&mut tx, key("a"), 2).await.unwrap();
    words.add(&mut tx, key("b"), 3).await.unwrap();
    words.add(&mut tx, key("never"), 3).await.unwrap();
    words.try_remove(&mut tx, &key("never")).await.unwrap();
    let one = tx.commit().await.unwrap();
    let mut aborted = site.replica.begin();
    words.set(&mut aborted, key("a"), 9).await.unwrap();
    aborted.abort();
    let mut tx = site.replica.begin();
    words.try_remove(&mut tx, &key("a")).await.unwrap();
    let two = tx.commit().await.unwrap();
    words.clear().await.unwrap();
    let three = site.replica.lsn();
    let mut told = Vec::new();
    for _ in 0..4 {
        told.push(match notices.next().await.unwrap().unwrap() {
            DictionaryNotice::Add { key, value, lsn } => ("add", key, *value, lsn),
            DictionaryNotice::Update { key, value, lsn } => ("update", key, *value, lsn),
            DictionaryNotice::Remove { key, lsn } => ("remove", key, 0, lsn),
            DictionaryNotice::Clear { lsn } => ("clear", String::new(), 0, lsn),
            DictionaryNotice::Rebuild { lsn } => ("rebuild", String::new(), 0, lsn),
        });
    }
    let expected = [
        ("update", key("a"), 2, one),
        ("add", key("b"), 3, one),
        ("remove", key("a"), 0, two),
        ("clear", key(""), 0, three),
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn names_and_commits_are_told() {
    let site = Site::new().await;
    let mut state = site.replica.state_notices();
    let mut commits = site.replica.transaction_notices();
    assert!(matches!(
        state.next().await,
        Some(StateNotice::Rebuild { .. })
    ));
    assert!(matches!(
        commits.next().await,
        Some(TransactionNotice::Rebuild { .. })
    ));
    let _: Words = site.state().get_or_add("a").await.unwrap();
    let created = site.replica.lsn();
    let mut tx = site.replica.begin();
    site.state().remove(&mut tx, "a").await.unwrap();
    let id = tx.id();
    let removed = tx.commit().await.unwrap();
    let name = key("urn:a");
    let add = StateNotice::Add {
        name: name.clone(),
        lsn: created,
    };
    assert_eq!(state.next().await, Some(add));
    let remove = StateNotice::Remove { name, lsn: removed };
    assert_eq!(state.next().await, Some(remove));
    commits.next().await;
    let commit = TransactionNotice::Commit {
        transaction: id,
        lsn: removed,
    };
    assert_eq!(commits.next().await, Some(commit));
}

#[tokio::test]
async fn who_is_too_slow_must_rebuild() {
    let site = Site::new().await;
    let words = site.words().await;
    let mut notices = words.notices();
    notices.next().await.unwrap();
    for round in 0..limits::NOTICES as u64 / 500 + 2 {
        let mut tx = site.replica.begin();
        for n in 0..500 {
            words.set(&mut tx, format!("{n}"), round).await.unwrap();
        }
        tx.commit().await.unwrap();
    }
    let next = notices.next().await.unwrap().unwrap();
    let lsn = site.replica.lsn();
    assert_eq!(next, DictionaryNotice::Rebuild { lsn });
    let mut tx = site.replica.begin();
    words.set(&mut tx, key("0"), 77).await.unwrap();
    tx.commit().await.unwrap();
    let next = notices.next().await.unwrap().unwrap();
    assert!(matches!(next, DictionaryNotice::Update { value, .. } if value == 77));
}
