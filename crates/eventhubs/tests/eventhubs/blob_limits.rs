//! Accounts that are full.

use std::time::Duration;

use steadfast_core::limits::BLOB_ENTRY_BYTES;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::blob_face::{Answer, Face, OWNER, status};

const FULL: (u16, &str) = (409, "AccountCapacityExceedsLimit");
const KIND: (&str, &str) = ("x-ms-blob-type", "BlockBlob");
const MIB: usize = 1024 * 1024;

fn path(name: &str) -> String {
    format!("/devstoreaccount1/box/{name}")
}

async fn put(face: &Face, name: &str, length: usize) -> Answer {
    face.ask("PUT", &path(name), &[KIND], vec![7; length]).await
}

async fn put_block(face: &Face, name: &str, id: &str, length: usize) -> Answer {
    let path = format!("{}?comp=block&blockid={id}", path(name));
    face.ask("PUT", &path, &[], vec![7; length]).await
}

async fn put_list(face: &Face, name: &str, ids: &[&str]) -> Answer {
    let blocks: String = ids
        .iter()
        .map(|id| format!("<Latest>{id}</Latest>"))
        .collect();
    let list = format!("<BlockList>{blocks}</BlockList>");
    let path = format!("{}?comp=blocklist", path(name));
    face.ask("PUT", &path, &[], list).await
}

/// What the account takes.
async fn bytes(face: &Face) -> u64 {
    let all = face.node.blobs.accounts().await.unwrap();
    all.iter().map(|account| account.bytes).sum()
}

#[tokio::test]
async fn a_blob_that_does_not_fit_is_refused_and_changes_nothing() {
    let face = Face::with_limit(2 * BLOB_ENTRY_BYTES + 3_000_000).await;
    assert_eq!(put(&face, "a", 2_000_000).await.status, 201);
    let before = bytes(&face).await;
    assert_eq!(before, BLOB_ENTRY_BYTES + 2_000_000);
    for (name, length) in [("b", 1_000_001), ("b", 3_000_000), ("a", 4_000_000)] {
        let refused = put(&face, name, length).await;
        assert_eq!(refused.error(), FULL, "{name} {length}");
        assert!(refused.text().contains("STF-5036"), "{}", refused.text());
    }
    assert_eq!(bytes(&face).await, before);
    assert_eq!(face.ask("HEAD", &path("b"), &[], "").await.status, 404);
    let kept = face.ask("GET", &path("a"), &[], "").await;
    assert_eq!((kept.status, kept.body.len()), (200, 2_000_000));
    assert_eq!(put(&face, "b", 1_000_000).await.status, 201);
    // The account is full to the last byte: not even an empty blob fits.
    assert_eq!(put(&face, "c", 0).await.error(), FULL);
    assert_eq!(put(&face, "a", 2_000_001).await.error(), FULL);
    // What is no larger than before is always possible, and so is a deletion.
    assert_eq!(put(&face, "a", 2_000_000).await.status, 201);
    assert_eq!(put(&face, "a", 1_999_999).await.status, 201);
    assert_eq!(
        face.describe("a", &[("x-ms-meta-a", "b")]).await.status,
        200
    );
    assert_eq!(face.ask("DELETE", &path("a"), &[], "").await.status, 202);
    assert_eq!(bytes(&face).await, BLOB_ENTRY_BYTES + 1_000_000);
    assert_eq!(put(&face, "c", 2_000_000).await.status, 201);
}

#[tokio::test]
async fn a_body_that_does_not_fit_is_refused_before_it_is_read() {
    let face = Face::with_limit(MIB as u64).await;
    let block = format!("{}?comp=block&blockid=YQ%3D%3D", path("a"));
    for (path, headers) in [(path("a"), &[KIND][..]), (block, &[])] {
        let mut stream = face.begin(&path, headers, 100 * MIB).await;
        let answer = tokio::time::timeout(Duration::from_secs(20), status(&mut stream));
        assert_eq!(answer.await.unwrap(), 409, "{path}");
    }
    // A sender without a valid signature learns nothing of the account.
    let forged = [(
        "authorization".to_owned(),
        "SharedKey devstoreaccount1:AAAA".to_owned(),
    )];
    let body = vec![0; 1000];
    let refused = face.send("PUT", &path("a"), &forged, body.into()).await;
    assert_eq!(refused.status, 403);
    assert_eq!(bytes(&face).await, 0);
}

#[tokio::test]
async fn a_body_without_a_length_is_refused_when_it_has_become_too_long() {
    let face = Face::with_limit(3 * MIB as u64).await;
    let mut stream = TcpStream::connect(("127.0.0.1", face.port)).await.unwrap();
    let path = path("a");
    let mut head = format!("PUT {path} HTTP/1.1\r\nhost: localhost\r\n");
    for (name, value) in face.signed(&OWNER, ("PUT", &path), &[KIND], 0) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("transfer-encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let sending = async {
        let chunk = [
            format!("{MIB:x}\r\n").into_bytes(),
            vec![7; MIB],
            b"\r\n".to_vec(),
        ]
        .concat();
        // The server ends the connection before it has read everything.
        while writer.write_all(&chunk).await.is_ok() {}
    };
    let reading = async {
        let mut head = [0; 12];
        reader.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 409");
    };
    let both = async { tokio::join!(sending, reading) };
    let answered = tokio::time::timeout(Duration::from_secs(30), both);
    answered.await.unwrap();
    assert_eq!(bytes(&face).await, 0);
}

#[tokio::test]
async fn an_upload_that_its_client_breaks_off_gives_its_room_back() {
    let face = Face::with_limit(10 * MIB as u64).await;
    let mut stream = face.begin(&path("a"), &[KIND], 8 * MIB).await;
    stream.write_all(&vec![7; 5 * MIB]).await.unwrap();
    while bytes(&face).await < 3 * MIB as u64 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // While it is under way, its room is taken.
    assert_eq!(put(&face, "b", 8 * MIB).await.error(), FULL);
    drop(stream);
    let freed = async {
        while bytes(&face).await > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let freed = tokio::time::timeout(Duration::from_secs(30), freed);
    freed.await.unwrap();
    assert_eq!(put(&face, "b", 8 * MIB).await.status, 201);
}

#[tokio::test]
async fn blocks_count_before_they_are_committed() {
    let limit = 4 * BLOB_ENTRY_BYTES + 2 * MIB as u64;
    let face = Face::with_limit(limit).await;
    assert_eq!(put_block(&face, "a", "AAAA", MIB).await.status, 201);
    assert_eq!(put_block(&face, "a", "AAAB", MIB / 2).await.status, 201);
    let too_much = put_block(&face, "a", "AAAC", MIB).await;
    assert_eq!(too_much.error(), FULL);
    // A block takes the place of the one with its id.
    assert_eq!(put_block(&face, "a", "AAAB", MIB).await.status, 201);
    assert_eq!(bytes(&face).await, 2 * BLOB_ENTRY_BYTES + 2 * MIB as u64);
    // The list needs three entries more than the two blocks that wait.
    let ids = ["AAAA", "AAAB", "AAAA", "AAAB"];
    let refused = put_list(&face, "a", &ids).await;
    assert_eq!(refused.error(), FULL);
    assert_eq!(face.ask("HEAD", &path("a"), &[], "").await.status, 404);
    assert_eq!(put_list(&face, "a", &ids[..2]).await.status, 201);
    assert_eq!(bytes(&face).await, 3 * BLOB_ENTRY_BYTES + 2 * MIB as u64);
    assert_eq!(put_list(&face, "a", &ids[..1]).await.status, 201);
    assert_eq!(bytes(&face).await, 2 * BLOB_ENTRY_BYTES + MIB as u64);
    assert_eq!(put_block(&face, "b", "AAAA", MIB).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_uploads_do_not_pass_the_limit_together() {
    // Room for three of eight.
    let entry = BLOB_ENTRY_BYTES as usize;
    let face = Face::with_limit((3 * (entry + 2 * MIB) + MIB) as u64).await;
    let uploads = (0..8).map(|number| {
        let face = &face;
        async move {
            if number % 2 == 0 {
                let name = format!("blob{number}");
                put(face, &name, 2 * MIB).await
            } else {
                put_block(face, &format!("blob{number}"), "AAAA", 2 * MIB).await
            }
        }
    });
    let answers = futures_util::future::join_all(uploads).await;
    let statuses = answers.iter().map(|answer| answer.status);
    let written = statuses.clone().filter(|status| *status == 201).count();
    let refused = statuses.filter(|status| *status == 409).count();
    assert_eq!((written, refused), (3, 5));
    assert_eq!(bytes(&face).await, (written * (entry + 2 * MIB)) as u64);
}
