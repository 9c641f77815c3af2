//! Blobs in blocks, and uploads that no blob takes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::clock::{Timestamp, VirtualClock};
use steadfast_core::limits::{BLOB_BLOCK_TIME, BLOB_PIECE_BYTES, BLOB_STAGE_TIME};
use steadfast_events::{Blobs, BlockChoice, Conditions, ErrorKind, PutBlobRequest};

use crate::setup::{Node, open_with};

const BOX: &str = "devstoreaccount1/box";

async fn with_box(clock: &VirtualClock) -> (Node, Blobs) {
    let folder = tempfile::tempdir().unwrap();
    let mut node = open_with(folder.path(), Arc::new(clock.clone())).await;
    node.folder = Some(folder);
    let blobs = Blobs::new(&node.runtime, node.hubs.clone());
    blobs.create_container(BOX, Vec::new()).await.unwrap();
    (node, blobs)
}

fn put(name: &str) -> PutBlobRequest {
    PutBlobRequest {
        name: name.into(),
        ..PutBlobRequest::default()
    }
}

async fn stage(blobs: &Blobs, name: &str, id: &str, body: &'static [u8]) {
    let staged = blobs.stage(BOX, Bytes::from_static(body)).await.unwrap();
    let none = Conditions::default();
    blobs.put_block(BOX, name, id, staged, none).await.unwrap();
}

fn latest(id: &str) -> BlockChoice {
    BlockChoice::Latest(id.to_owned())
}

#[tokio::test]
async fn a_blob_in_blocks_outlives_a_restart() {
    let clock = VirtualClock::starting_at(Timestamp(1_000_000));
    let (node, blobs) = with_box(&clock).await;
    stage(&blobs, "a", "YQ==", b"one ").await;
    stage(&blobs, "a", "Yg==", b"two").await;
    let chosen = vec![latest("YQ=="), latest("Yg==")];
    let none = Conditions::default();
    let written = blobs.put_blocks(BOX, put("a"), chosen, none).await.unwrap();
    stage(&blobs, "a", "Yw==", b"three").await;
    drop(blobs);
    let folder = node.stop().await.unwrap();
    let node = open_with(folder.path(), Arc::new(clock.clone())).await;
    let blobs = Blobs::new(&node.runtime, node.hubs.clone());
    let (found, body) = blobs.read(BOX, "a", None).await.unwrap();
    assert_eq!((found, &body[..]), (written, &b"one two"[..]));
    let lists = blobs.blocks(BOX, "a").await.unwrap();
    let ids = |blocks: &[steadfast_events::Block]| -> Vec<String> {
        blocks.iter().map(|block| block.id.clone()).collect()
    };
    assert_eq!(ids(&lists.committed), ["YQ==", "Yg=="]);
    assert_eq!(ids(&lists.uncommitted), ["Yw=="]);
    let more = vec![latest("Yw=="), latest("YQ==")];
    blobs.put_blocks(BOX, put("a"), more, none).await.unwrap();
    let (_, body) = blobs.read(BOX, "a", None).await.unwrap();
    assert_eq!(&body[..], b"threeone ");
}

#[tokio::test]
async fn blocks_that_no_list_names_go_after_a_week() {
    let clock = VirtualClock::starting_at(Timestamp(1_000_000));
    let (_node, blobs) = with_box(&clock).await;
    stage(&blobs, "a", "YQ==", b"one").await;
    clock.advance(BLOB_BLOCK_TIME - Duration::from_secs(60));
    stage(&blobs, "a", "Yg==", b"two").await;
    assert_eq!(blobs.blocks(BOX, "a").await.unwrap().uncommitted.len(), 2);
    clock.advance(Duration::from_secs(120));
    let left = async {
        loop {
            let left = blobs.blocks(BOX, "a").await.unwrap().uncommitted;
            if left.len() < 2 {
                return left;
            }
            tokio::task::yield_now().await;
        }
    };
    let left = tokio::time::timeout(Duration::from_secs(10), left).await;
    assert_eq!(left.unwrap()[0].id, "Yg==");
}

#[tokio::test]
async fn an_upload_that_no_blob_takes_goes_after_an_hour() {
    let clock = VirtualClock::starting_at(Timestamp(1_000_000));
    let (_node, blobs) = with_box(&clock).await;
    let piece = Bytes::from(vec![7; BLOB_PIECE_BYTES]);
    let staged = blobs.stage(BOX, piece.clone()).await.unwrap();
    let longer = blobs.append(BOX, staged, piece.clone()).await.unwrap();
    // The answer was lost, and the same bytes come again.
    let again = blobs.append(BOX, staged, piece.clone()).await.unwrap();
    assert_eq!(again, longer);
    clock.advance(BLOB_STAGE_TIME + Duration::from_secs(1));
    let gone = async {
        loop {
            match blobs.append(BOX, longer, Bytes::new()).await {
                Err(error) => return error,
                Ok(_) => tokio::task::yield_now().await,
            }
        }
    };
    let gone = tokio::time::timeout(Duration::from_secs(10), gone).await;
    assert_eq!(gone.unwrap().kind(), ErrorKind::BadBlob);
    let none = Conditions::default();
    let late = blobs.put_staged(BOX, put("a"), longer, none).await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::BadBlob);
}

#[tokio::test]
async fn a_container_goes_with_its_blocks() {
    let clock = VirtualClock::starting_at(Timestamp(1_000_000));
    let (_node, blobs) = with_box(&clock).await;
    stage(&blobs, "a", "YQ==", b"one").await;
    stage(&blobs, "b", "YQ==", b"one").await;
    let none = Conditions::default();
    let chosen = vec![latest("YQ==")];
    blobs.put_blocks(BOX, put("b"), chosen, none).await.unwrap();
    blobs.delete_container(BOX).await.unwrap();
    blobs.create_container(BOX, Vec::new()).await.unwrap();
    for name in ["a", "b"] {
        let gone = blobs.blocks(BOX, name).await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::BlobNotFound);
    }
}
