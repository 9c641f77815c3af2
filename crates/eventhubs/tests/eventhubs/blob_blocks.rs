//! Blobs that clients write in blocks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::blob_face::{Answer, Face};

const BLOB: &str = "/devstoreaccount1/box/payload";

/// A block's id as .NET makes it: the position as text in 48 bytes.
fn dotnet_id(position: usize) -> String {
    let mut id = [0; 48];
    let text = format!("{position:048}");
    id.copy_from_slice(text.as_bytes());
    STANDARD.encode(id)
}

fn list(ids: &[&str]) -> String {
    let blocks: String = ids
        .iter()
        .map(|id| format!("<Latest>{id}</Latest>"))
        .collect();
    format!("\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>{blocks}</BlockList>")
}

fn bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8 ^ seed).collect()
}

async fn stage(face: &Face, id: &str, body: Vec<u8>) -> Answer {
    let id = id.replace('+', "%2B").replace('=', "%3D");
    let path = format!("{BLOB}?comp=block&blockid={id}");
    face.ask("PUT", &path, &[], body).await
}

async fn commit(face: &Face, headers: &[(&str, &str)], body: String) -> Answer {
    let path = format!("{BLOB}?comp=blocklist");
    face.ask("PUT", &path, headers, body).await
}

/// `AzureBlobPayloads` of the Durable Task SDK: `OpenWrite` with overwrite, a
/// flush, the rest of the compressed stream, and the flush of its end.
#[tokio::test]
async fn a_large_payload_of_dotnet_is_written_in_blocks_and_comes_back() {
    let face = Face::with_box().await;
    let kind = [("x-ms-blob-type", "BlockBlob")];
    let empty = face.ask("PUT", BLOB, &kind, "").await;
    assert_eq!(empty.status, 201);
    let (first, second) = (bytes(4 * 1024 * 1024, 0), bytes(1_500_000, 9));
    let ids = [
        dotnet_id(first.len()),
        dotnet_id(first.len() + second.len()),
    ];
    assert_eq!(stage(&face, &ids[0], first.clone()).await.status, 201);
    let tag = empty.header("etag").to_owned();
    let headers = [
        ("x-ms-blob-content-encoding", "gzip"),
        ("content-type", "application/xml"),
        ("if-match", tag.as_str()),
    ];
    let written = commit(&face, &headers, list(&[&ids[0]])).await;
    assert_eq!(written.status, 201, "{}", written.text());
    assert_eq!(stage(&face, &ids[1], second.clone()).await.status, 201);
    let both = list(&[&ids[0], &ids[1]]);
    let stale = commit(&face, &headers, both.clone()).await;
    assert_eq!(stale.error(), (412, "ConditionNotMet"));
    let tag = written.header("etag").to_owned();
    let headers = [headers[0], headers[1], ("if-match", tag.as_str())];
    assert_eq!(commit(&face, &headers, both).await.status, 201);
    let whole = [first, second].concat();
    let found = face.ask("GET", BLOB, &[], "").await;
    assert_eq!((found.status, found.body == whole), (200, true));
    assert_eq!(found.header("content-encoding"), "gzip");
    assert_eq!(found.header("content-length"), whole.len().to_string());
    for range in [4_194_300..4_194_310, 262_100..4_500_000, 0..1] {
        let asked = format!("bytes={}-{}", range.start, range.end - 1);
        let part = face.ask("GET", BLOB, &[("x-ms-range", &asked)], "").await;
        assert_eq!((part.status, part.body == whole[range]), (206, true));
    }
    let gone = [("x-ms-delete-snapshots", "include")];
    assert_eq!(face.ask("DELETE", BLOB, &gone, "").await.status, 202);
}

#[tokio::test]
async fn a_list_decides_which_blocks_a_blob_has() {
    let face = Face::with_box().await;
    let lists = format!("{BLOB}?comp=blocklist&blocklisttype=All");
    let nothing = face.ask("GET", &lists, &[], "").await;
    assert_eq!(nothing.error(), (404, "BlobNotFound"));
    for (id, body) in [("YQ==", "one"), ("Yg==", "two"), ("Yw==", "three")] {
        assert_eq!(stage(&face, id, body.into()).await.status, 201);
    }
    // The same id again takes its place.
    stage(&face, "YQ==", "four".into()).await;
    let seen = face.ask("GET", &lists, &[], "").await;
    let text = seen.text();
    assert!(
        text.contains("<CommittedBlocks></CommittedBlocks>"),
        "{text}"
    );
    assert_eq!(text.matches("<Block>").count(), 3, "{text}");
    // Blocks alone are no blob.
    assert_eq!(face.ask("HEAD", BLOB, &[], "").await.status, 404);
    let body = "<BlockList><Uncommitted>Yg==</Uncommitted><Latest>YQ==</Latest>\
                <Latest>Yg==</Latest></BlockList>";
    let headers = [
        ("x-ms-meta-house", "42"),
        ("x-ms-blob-content-type", "text/plain"),
    ];
    assert_eq!(commit(&face, &headers, body.into()).await.status, 201);
    let found = face.ask("GET", BLOB, &[], "").await;
    assert_eq!(
        (found.text(), found.header("x-ms-meta-house")),
        ("twofourtwo", "42")
    );
    assert_eq!(found.header("content-type"), "text/plain");
    assert_eq!(found.header("content-md5"), "");
    // The third block went with the list that did not name it.
    let unknown = commit(&face, &[], list(&["Yw=="])).await;
    assert_eq!(unknown.error(), (400, "InvalidBlockList"));
    let shown = face.ask("GET", &lists, &[], "").await;
    assert!(
        shown
            .text()
            .contains("<UncommittedBlocks></UncommittedBlocks>")
    );
    assert_eq!(shown.header("x-ms-blob-content-length"), "10");
    let kept = "<BlockList><Committed>YQ==</Committed></BlockList>";
    assert_eq!(commit(&face, &[], kept.into()).await.status, 201);
    assert_eq!(face.ask("GET", BLOB, &[], "").await.text(), "four");
    for bad in ["", "<BlockList>", "nonsense"] {
        let answer = commit(&face, &[], bad.into()).await;
        assert_eq!(answer.error(), (400, "InvalidXmlDocument"), "{bad}");
    }
    for id in ["", "?", &"YWFh".repeat(22)] {
        let answer = stage(&face, id, "x".into()).await;
        assert_eq!(answer.error(), (400, "InvalidQueryParameterValue"), "{id}");
    }
    assert_eq!(face.ask("GET", BLOB, &[], "").await.text(), "four");
}

#[tokio::test]
async fn a_write_of_the_whole_discards_the_blocks_that_wait() {
    let face = Face::with_box().await;
    stage(&face, "YQ==", "one".into()).await;
    assert_eq!(face.put("payload", &[], "whole").await.status, 201);
    let lost = commit(&face, &[], list(&["YQ=="])).await;
    assert_eq!(lost.error(), (400, "InvalidBlockList"));
    assert_eq!(face.ask("GET", BLOB, &[], "").await.text(), "whole");
    let elsewhere = "/devstoreaccount1/none/a?comp=block&blockid=YQ%3D%3D";
    let answer = face.ask("PUT", elsewhere, &[], "x").await;
    assert_eq!(answer.error(), (404, "ContainerNotFound"));
}

#[tokio::test]
async fn a_body_of_several_parts_is_checked_by_its_digest() {
    use md5::Digest as _;
    let face = Face::with_box().await;
    let body = bytes(3 * 1024 * 1024 + 17, 3);
    let right = STANDARD.encode(md5::Md5::digest(&body));
    let kind = ("x-ms-blob-type", "BlockBlob");
    let wrong = [kind, ("content-md5", "XrY7u+Ae7tCTyyK7j1rNwA==")];
    let refused = face.ask("PUT", BLOB, &wrong, body.clone()).await;
    assert_eq!(refused.error(), (400, "Md5Mismatch"));
    assert_eq!(face.ask("HEAD", BLOB, &[], "").await.status, 404);
    let headers = [kind, ("content-md5", right.as_str())];
    let written = face.ask("PUT", BLOB, &headers, body.clone()).await;
    assert_eq!(
        (written.status, written.header("content-md5")),
        (201, &*right)
    );
    let found = face.ask("GET", BLOB, &[], "").await;
    assert_eq!((found.status, found.body == body), (200, true));
    let new = [kind, ("if-none-match", "*")];
    let exists = face.ask("PUT", BLOB, &new, body).await;
    assert_eq!(exists.error(), (409, "BlobAlreadyExists"));
}
