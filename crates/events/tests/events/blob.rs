//! Blobs, and the ownerships that SDKs keep in them.

use steadfast_core::clock::Timestamp;
use steadfast_events::{
    BlobPairs, Blobs, Conditions, ErrorKind, EventHubDefinition, EventPosition, PutBlobRequest,
    ReaderOptions, VersionMatch,
};

use crate::setup::{Node, open, start};

const BOX: &str = "devstoreaccount1/box";
const ALWAYS: Conditions = Conditions {
    only: None,
    not: None,
    after: None,
    until: None,
    lease: None,
};
const ABSENT: Conditions = Conditions {
    not: Some(VersionMatch::Any),
    ..ALWAYS
};

fn only(version: u64) -> Conditions {
    Conditions {
        only: Some(VersionMatch::Version(version)),
        ..ALWAYS
    }
}

fn put(name: &str, body: impl Into<bytes::Bytes>) -> PutBlobRequest {
    PutBlobRequest {
        name: name.into(),
        body: body.into(),
        ..PutBlobRequest::default()
    }
}

fn owner(name: &str) -> BlobPairs {
    vec![("ownerid".into(), name.into())]
}

async fn with_box() -> (Node, Blobs) {
    let node = start().await;
    let blobs = Blobs::new(&node.runtime, node.hubs.clone());
    blobs.create_container(BOX, Vec::new()).await.unwrap();
    (node, blobs)
}

#[tokio::test]
async fn a_blob_comes_back_as_written_whole_or_in_part() {
    let (node, blobs) = with_box().await;
    let body: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
    let mut wanted = put("house/42.json", body.clone());
    wanted.content_type = "application/json".into();
    wanted.metadata = vec![("a".into(), "".into())];
    let written = blobs.put(BOX, wanted, ALWAYS).await.unwrap();
    let (found, whole) = blobs.read(BOX, "house/42.json", None).await.unwrap();
    assert_eq!((found, whole), (written.clone(), body.clone().into()));
    for range in [
        0..1,
        262_143..262_145,
        999_999..2_000_000,
        5..5,
        300_000..900_000,
    ] {
        let (_, part) = blobs
            .read(BOX, "house/42.json", Some(range.clone()))
            .await
            .unwrap();
        let end = (range.end as usize).min(body.len());
        assert_eq!(part, body[range.start as usize..end]);
    }
    drop(blobs);
    let folder = node.stop().await.unwrap();
    let node = open(folder.path()).await;
    let blobs = Blobs::new(&node.runtime, node.hubs.clone());
    assert_eq!(
        blobs.read(BOX, "house/42.json", None).await.unwrap(),
        (written, body.into())
    );
    blobs.delete(BOX, "house/42.json", ALWAYS).await.unwrap();
    let gone = blobs.get(BOX, "house/42.json").await.unwrap_err();
    assert_eq!(
        (gone.kind(), gone.code().0),
        (ErrorKind::BlobNotFound, "STF-5019")
    );
}

#[tokio::test]
async fn sixteen_mebibytes_are_taken_and_one_more_byte_is_not() {
    let (_node, blobs) = with_box().await;
    let most = vec![3; 16 * 1024 * 1024];
    blobs
        .put(BOX, put("large", most.clone()), ALWAYS)
        .await
        .unwrap();
    let (_, body) = blobs.read(BOX, "large", None).await.unwrap();
    assert_eq!(body.len(), most.len());
    let more = vec![3; 16 * 1024 * 1024 + 1];
    let error = blobs
        .put(BOX, put("larger", more), ALWAYS)
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.code().0),
        (ErrorKind::BadBlob, "STF-5022")
    );
}

#[tokio::test]
async fn conditions_are_kept_and_every_write_has_another_version() {
    let (_node, blobs) = with_box().await;
    let first = blobs.put(BOX, put("a", "1"), ABSENT).await.unwrap();
    let exists = blobs.put(BOX, put("a", "2"), ABSENT).await.unwrap_err();
    assert_eq!(
        (exists.kind(), exists.code().0),
        (ErrorKind::BlobExists, "STF-5020")
    );
    let second = blobs
        .describe(BOX, "a", owner("x"), only(first.version))
        .await
        .unwrap();
    assert_ne!(first.version, second.version);
    let stale = blobs
        .put(BOX, put("a", "2"), only(first.version))
        .await
        .unwrap_err();
    assert_eq!(
        (stale.kind(), stale.code().0),
        (ErrorKind::ConditionFailed, "STF-5021")
    );
    let (_, body) = blobs.read(BOX, "a", None).await.unwrap();
    assert_eq!(&body[..], b"1");
    blobs.delete(BOX, "a", only(second.version)).await.unwrap();
    let third = blobs.put(BOX, put("a", "3"), ABSENT).await.unwrap();
    assert!(third.version > second.version);
}

#[tokio::test]
async fn conditions_on_the_time_of_the_last_write_count_in_seconds() {
    let (_node, blobs) = with_box().await;
    let made = blobs.put(BOX, put("a", "1"), ALWAYS).await.unwrap();
    let earlier = Timestamp(made.modified.0 - 1000);
    let same = Timestamp(made.modified.0 / 1000 * 1000);
    let after = |time| Conditions {
        after: Some(time),
        ..ALWAYS
    };
    let until = |time| Conditions {
        until: Some(time),
        ..ALWAYS
    };
    assert!(after(earlier).check(Some(&made)).is_ok());
    assert!(until(same).check(Some(&made)).is_ok());
    for stale in [after(same), until(earlier)] {
        let error = blobs.put(BOX, put("a", "2"), stale).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConditionFailed);
    }
    assert_eq!(blobs.get(BOX, "a").await.unwrap(), made);
}

#[tokio::test]
async fn what_processors_of_sdks_keep_is_found() {
    let (_node, blobs) = with_box().await;
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    for (name, metadata) in [
        ("ns/houses/$default/ownership/0", pair("ownerid", "me")),
        (
            "ns/houses/$default/checkpoint/0",
            pair("sequencenumber", "41"),
        ),
        ("ns/houses/$default/ownership/1", pair("ownerid", "")),
        (
            "ns/houses/$default/checkpoint/2",
            pair("sequencenumber", "no"),
        ),
        ("ns/houses/web/ownership/0", pair("ownerid", "other")),
        ("ns/cars/$default/ownership/0", pair("ownerid", "other")),
        ("houses/$default/ownership/0", pair("ownerid", "other")),
    ] {
        let mut wanted = put(name, "");
        wanted.metadata = vec![metadata];
        blobs.put(BOX, wanted, ALWAYS).await.unwrap();
    }
    let kept = blobs
        .checkpoint_store_entries("Houses", "$Default")
        .await
        .unwrap();
    let seen: Vec<_> = kept
        .iter()
        .map(|one| {
            let owner = one.owner.as_ref().map(|(owner, _)| owner.as_str());
            (one.partition, owner, one.checkpoint.map(|(done, _)| done))
        })
        .collect();
    assert_eq!(
        seen,
        [(0, Some("me"), Some(41)), (1, None, None), (2, None, None)]
    );
    assert!(kept.iter().all(|one| one.container == BOX));
    assert!(kept[0].modified().is_some() && kept[1].modified().is_none());
}

#[tokio::test]
async fn events_34_of_two_writes_with_one_version_one_succeeds() {
    let (_node, blobs) = with_box().await;
    let mut version = blobs.put(BOX, put("a", ""), ABSENT).await.unwrap().version;
    for round in 0..1000 {
        let (left, right) = tokio::join!(
            blobs.describe(BOX, "a", owner("left"), only(version)),
            blobs.describe(BOX, "a", owner("right"), only(version)),
        );
        let (winner, loser) = match (left, right) {
            (Ok(winner), Err(loser)) | (Err(loser), Ok(winner)) => (winner, loser),
            other => panic!("round {round}: {other:?}"),
        };
        assert_eq!(loser.kind(), ErrorKind::ConditionFailed);
        version = winner.version;
    }
}

#[tokio::test]
async fn events_35_metadata_of_a_missing_blob_is_not_found_whatever_the_conditions() {
    let (_node, blobs) = with_box().await;
    for conditions in [ALWAYS, ABSENT, only(7)] {
        let error = blobs
            .describe(BOX, "a", owner("x"), conditions)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BlobNotFound);
    }
}

#[tokio::test]
async fn events_36_an_empty_owner_comes_back_as_an_empty_value() {
    let (_node, blobs) = with_box().await;
    let mut wanted = put("ns/a/$default/ownership/0", "");
    wanted.metadata = owner("");
    blobs.put(BOX, wanted, ALWAYS).await.unwrap();
    let page = blobs.list(BOX, "ns/", "", 10).await.unwrap();
    assert_eq!(page.blobs[0].metadata, owner(""));
}

#[tokio::test]
async fn blobs_are_listed_by_prefix_page_by_page() {
    let (_node, blobs) = with_box().await;
    for name in ["a/1", "a/2", "a/3", "b/1", "a"] {
        blobs
            .put(BOX, put(name, name.to_owned()), ALWAYS)
            .await
            .unwrap();
    }
    let names = |page: &steadfast_events::BlobPage| -> Vec<String> {
        page.blobs.iter().map(|blob| blob.name.clone()).collect()
    };
    let first = blobs.list(BOX, "a/", "", 2).await.unwrap();
    assert_eq!(names(&first), ["a/1", "a/2"]);
    let second = blobs
        .list(BOX, "a/", &first.next.unwrap(), 2)
        .await
        .unwrap();
    assert_eq!(
        (names(&second), second.next),
        (vec!["a/3".to_owned()], None)
    );
    let all = blobs.list(BOX, "", "", 100).await.unwrap();
    assert_eq!(names(&all), ["a", "a/1", "a/2", "a/3", "b/1"]);
}

#[tokio::test]
async fn a_container_goes_with_its_blobs() {
    let (_node, blobs) = with_box().await;
    let again = blobs.create_container(BOX, Vec::new()).await.unwrap_err();
    assert_eq!(
        (again.kind(), again.code().0),
        (ErrorKind::ContainerExists, "STF-5018")
    );
    for number in 0..30 {
        blobs
            .put(BOX, put(&number.to_string(), "x"), ALWAYS)
            .await
            .unwrap();
    }
    blobs.delete_container(BOX).await.unwrap();
    let gone = blobs.list(BOX, "", "", 10).await.unwrap_err();
    assert_eq!(
        (gone.kind(), gone.code().0),
        (ErrorKind::ContainerNotFound, "STF-5017")
    );
    blobs.create_container(BOX, Vec::new()).await.unwrap();
    assert!(blobs.list(BOX, "", "", 10).await.unwrap().blobs.is_empty());
}

#[tokio::test]
async fn an_ownership_blob_that_changes_hands_cuts_whoever_reads() {
    let (node, blobs) = with_box().await;
    node.hubs
        .create(EventHubDefinition::new("Houses", 4))
        .await
        .unwrap();
    let name = "host:5672/houses/$default/ownership/2";
    let mut wanted = put(name, "");
    wanted.metadata = owner("one");
    let version = blobs.put(BOX, wanted, ABSENT).await.unwrap().version;
    let attach = ReaderOptions::at(EventPosition::Latest).epoch(0);
    let reader = node
        .hubs
        .reader("houses", "$Default", 2, attach)
        .await
        .unwrap();
    let renewed = blobs
        .describe(BOX, name, owner("one"), only(version))
        .await
        .unwrap();
    assert!(reader.check().is_ok());
    let stale = blobs.describe(BOX, name, owner("two"), only(version)).await;
    assert!(stale.is_err() && reader.check().is_ok());
    blobs
        .describe(BOX, name, owner("two"), only(renewed.version))
        .await
        .unwrap();
    assert_eq!(reader.check().unwrap_err().kind(), ErrorKind::Displaced);
}

#[tokio::test]
async fn marks_of_an_event_hub_that_is_gone_can_be_removed() {
    let (_node, blobs) = with_box().await;
    blobs
        .create_container("other/box", Vec::new())
        .await
        .unwrap();
    let names = [
        "ns/houses/$default/ownership/0",
        "ns/houses/$default/checkpoint/0",
        "ns/other/$default/checkpoint/0",
        "ns/houses/report.json",
    ];
    for name in names {
        blobs.put(BOX, put(name, ""), ALWAYS).await.unwrap();
        blobs.put("other/box", put(name, ""), ALWAYS).await.unwrap();
    }
    assert_eq!(blobs.forget_event_hub("Houses").await.unwrap(), 4);
    let left = blobs.list(BOX, "", "", 10).await.unwrap().blobs;
    let left: Vec<_> = left.iter().map(|blob| blob.name.as_str()).collect();
    assert_eq!(
        left,
        ["ns/houses/report.json", "ns/other/$default/checkpoint/0"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn marks_are_removed_while_containers_come_and_go() {
    let (_node, blobs) = with_box().await;
    let name = "ns/houses/$default/ownership/0";
    let other = "another/box";
    let changing = tokio::spawn({
        let blobs = blobs.clone();
        async move {
            loop {
                blobs.create_container(other, Vec::new()).await.unwrap();
                blobs.delete_container(other).await.unwrap();
            }
        }
    });
    for _ in 0..300 {
        blobs.put(BOX, put(name, ""), ALWAYS).await.unwrap();
        assert_eq!(blobs.forget_event_hub("houses").await.unwrap(), 1);
    }
    changing.abort();
}
