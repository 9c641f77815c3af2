//! Who may read a partition, and who must go.

use std::time::Duration;

use steadfast_events::{
    ClaimOutcome, Error, ErrorKind, EventHubDefinition, EventPosition, PartitionReader,
    ReaderOptions, Result,
};

use crate::setup::{Node, start};

async fn node() -> Node {
    let node = start().await;
    let definition = EventHubDefinition::new("a", 2).group("other");
    node.hubs.create(definition).await.unwrap();
    node
}

async fn attach(node: &Node, name: &str, epoch: Option<i64>) -> Result<PartitionReader> {
    let mut attach = ReaderOptions::at(EventPosition::Latest).named(name);
    attach.epoch = epoch;
    node.hubs.reader("a", "$Default", 0, attach).await
}

async fn cut(reader: &PartitionReader) -> Error {
    let soon = Duration::from_secs(1);
    tokio::time::timeout(soon, reader.disconnected())
        .await
        .unwrap()
}

#[tokio::test]
async fn events_28_a_higher_epoch_displaces_the_owner() {
    let node = node().await;
    let mut old = attach(&node, "old", Some(1)).await.unwrap();
    let mut new = attach(&node, "new", Some(2)).await.unwrap();
    let error = cut(&old).await;
    assert_eq!(
        (error.kind(), error.code().0),
        (ErrorKind::Displaced, "STF-5009")
    );
    let words = "New receiver 'new' with higher epoch of '2' is created hence current receiver \
                 'old' with epoch '1' is getting disconnected.";
    assert!(error.message().starts_with(words), "{error}");
    node.send("a", 0, &["x"]).await;
    assert_eq!(old.next().await.unwrap_err().kind(), ErrorKind::Displaced);
    assert!(new.next().await.is_ok());
}

#[tokio::test]
async fn events_29_an_equal_epoch_displaces_the_older_reader() {
    let node = node().await;
    let old = attach(&node, "old", Some(0)).await.unwrap();
    let new = attach(&node, "new", Some(0)).await.unwrap();
    assert_eq!(cut(&old).await.kind(), ErrorKind::Displaced);
    assert!(new.check().is_ok());
}

#[tokio::test]
async fn events_30_a_lower_epoch_is_refused_and_the_owner_undisturbed() {
    let node = node().await;
    let mut owner = attach(&node, "owner", Some(5)).await.unwrap();
    let error = attach(&node, "late", Some(4)).await.err().unwrap();
    assert_eq!(
        (error.kind(), error.code().0),
        (ErrorKind::LowerEpoch, "STF-5010")
    );
    assert!(
        error
            .message()
            .contains("'owner' with a higher epoch '5' already exists")
    );
    node.send("a", 0, &["x"]).await;
    assert!(owner.next().await.is_ok());
}

#[tokio::test]
async fn events_31_without_an_epoch_nobody_gets_in_beside_an_epoch() {
    let node = node().await;
    let plain = attach(&node, "plain", None).await.unwrap();
    let owner = attach(&node, "owner", Some(0)).await.unwrap();
    assert_eq!(cut(&plain).await.kind(), ErrorKind::Displaced);
    let error = attach(&node, "late", None).await.err().unwrap();
    assert_eq!(
        (error.kind(), error.code().0),
        (ErrorKind::EpochRequired, "STF-5011")
    );
    // Another group, or another partition, is another matter.
    let other = ReaderOptions::at(EventPosition::Latest);
    node.hubs
        .reader("a", "other", 0, other.clone())
        .await
        .unwrap();
    node.hubs.reader("a", "$Default", 1, other).await.unwrap();
    drop(owner);
    attach(&node, "later", None).await.unwrap();
}

#[tokio::test]
async fn events_32_the_sixth_reader_without_an_epoch_is_refused() {
    let node = node().await;
    let mut readers = Vec::new();
    for number in 0..5 {
        let name = format!("reader-{number}");
        readers.push(attach(&node, &name, None).await.unwrap());
    }
    let error = attach(&node, "sixth", None).await.err().unwrap();
    assert_eq!(
        (error.kind(), error.code().0),
        (ErrorKind::TooManyReaders, "STF-5012")
    );
    assert!(error.message().contains("which is 5"), "{error}");
    assert!(error.message().contains("reader-0") && error.message().contains("reader-4"));
    readers.pop();
    attach(&node, "sixth", None).await.unwrap();
}

#[tokio::test]
async fn events_33_a_place_is_free_when_its_reader_is_gone() {
    let node = node().await;
    let owner = attach(&node, "owner", Some(7)).await.unwrap();
    drop(owner);
    attach(&node, "next", Some(0)).await.unwrap();
    assert_eq!(node.hubs.reader_counts().attached, 0);
}

#[tokio::test]
async fn a_claim_that_changes_the_owner_cuts_whoever_reads() {
    let node = node().await;
    let claim = |version, owner| node.hubs.claim("a", "$Default", 0, version, owner);
    let version = |claimed| match claimed {
        ClaimOutcome::Written(ownership) => ownership.version,
        ClaimOutcome::Conflict(version) => panic!("the record has version {version}"),
    };
    let first = version(claim(0, "one").await.unwrap());
    let reader = attach(&node, "one", Some(0)).await.unwrap();
    // Renewing is no change.
    let second = version(claim(first, "one").await.unwrap());
    assert!(reader.check().is_ok());
    assert_eq!(
        claim(first, "two").await.unwrap(),
        ClaimOutcome::Conflict(second)
    );
    assert!(reader.check().is_ok());
    claim(second, "two").await.unwrap();
    // Before the claim was answered, so there are never two.
    assert_eq!(reader.check().unwrap_err().kind(), ErrorKind::Displaced);
    assert!(attach(&node, "two", Some(0)).await.unwrap().check().is_ok());
    let counts = node.hubs.reader_counts();
    assert_eq!((counts.displaced, counts.overlaps), (1, 0));
}

#[tokio::test]
async fn events_34_of_two_claims_with_one_version_one_succeeds() {
    let node = node().await;
    for version in 0..1000 {
        let (left, right) = tokio::join!(
            node.hubs.claim("a", "$Default", 1, version, "left"),
            node.hubs.claim("a", "$Default", 1, version, "right"),
        );
        let won = [left.unwrap(), right.unwrap()]
            .into_iter()
            .filter(|claimed| matches!(claimed, ClaimOutcome::Written(_)));
        assert_eq!(won.count(), 1, "round {version}");
    }
    let found = node.hubs.ownerships("a", "$default").await.unwrap();
    assert_eq!((found.len(), found[0].version), (1, 1000));
}
