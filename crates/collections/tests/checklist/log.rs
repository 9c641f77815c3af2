//! The log: dense numbers, no locks, trims.

use steadfast_collections::{Log, LogBounds};

use crate::site::{Site, code, key};

async fn append(site: &Site, log: &Log<String>, values: &[&str]) {
    let mut tx = site.replica.begin();
    for value in values {
        log.append(&mut tx, &key(value)).await.unwrap();
    }
    tx.commit().await.unwrap();
}

async fn read(log: &Log<String>, from: u64) -> Vec<(u64, String)> {
    let events = log.read(from, 100).await.unwrap();
    events.into_iter().map(|e| (e.number, e.value)).collect()
}

#[tokio::test]
async fn events_are_numbered_and_read_from_anywhere() {
    let site = Site::new().await;
    let log: Log<String> = site.state().get_or_add("log").await.unwrap();
    append(&site, &log, &["a", "b", "c"]).await;
    append(&site, &log, &["d"]).await;
    let site = site.restart().await;
    let log: Log<String> = site.state().get_or_add("log").await.unwrap();
    append(&site, &log, &["e"]).await;
    assert_eq!(log.bounds().unwrap(), LogBounds { first: 0, next: 5 });
    let tail = read(&log, 1).await;
    let expected = [(1, "b"), (2, "c"), (3, "d"), (4, "e")];
    assert_eq!(tail, expected.map(|(n, v)| (n, key(v))));
    assert_eq!(log.read(1, 2).await.unwrap().len(), 2);
    assert!(read(&log, 5).await.is_empty());
}

#[tokio::test]
async fn appends_wait_for_nobody_and_vanish_with_an_abort() {
    let site = Site::new().await;
    let log: Log<String> = site.state().get_or_add("log").await.unwrap();
    let (mut a, mut b) = (site.replica.begin(), site.replica.begin());
    let mut c = site.replica.begin();
    log.append(&mut a, &key("a")).await.unwrap();
    log.append(&mut b, &key("b")).await.unwrap();
    log.append(&mut c, &key("c")).await.unwrap();
    assert!(read(&log, 0).await.is_empty(), "not before the commit");
    b.commit().await.unwrap();
    c.abort();
    a.commit().await.unwrap();
    let found = read(&log, 0).await;
    assert_eq!(found, [(0, key("b")), (1, key("a"))], "in commit order");
}

#[tokio::test]
async fn a_trim_forgets_with_its_commit() {
    let site = Site::new().await;
    let log: Log<String> = site.state().get_or_add("log").await.unwrap();
    append(&site, &log, &["a", "b", "c"]).await;
    append(&site, &log, &["d"]).await;
    let mut tx = site.replica.begin();
    log.trim(&mut tx, 2).await.unwrap();
    assert_eq!(log.bounds().unwrap().first, 0);
    tx.commit().await.unwrap();
    assert_eq!(log.bounds().unwrap(), LogBounds { first: 2, next: 4 });
    assert_eq!(read(&log, 0).await, [(2, key("c")), (3, key("d"))]);
    let mut tx = site.replica.begin();
    assert_eq!(code(log.trim(&mut tx, 5).await), "STF-3020");
    log.trim(&mut tx, 4).await.unwrap();
    tx.commit().await.unwrap();
    assert!(read(&log, 0).await.is_empty());
    append(&site, &log, &["e"]).await;
    assert_eq!(read(&log, 0).await, [(4, key("e"))]);
}

#[tokio::test]
async fn a_removed_log_starts_over() {
    let site = Site::new().await;
    let log: Log<String> = site.state().get_or_add("log").await.unwrap();
    append(&site, &log, &["a"]).await;
    let mut tx = site.replica.begin();
    site.state().remove(&mut tx, "log").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(code(log.read(0, 1).await), "STF-3007");
    let log: Log<String> = site.state().get_or_add("log").await.unwrap();
    assert_eq!(log.bounds().unwrap(), LogBounds { first: 0, next: 0 });
}
