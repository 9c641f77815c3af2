//! Leases on blobs, as the older EventProcessorHost uses them.
//!
//! Requests are those of `AzureStorageCheckpointLeaseManager` in
//! Microsoft.Azure.EventHubs.Processor, in its order.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::{Timestamp, VirtualClock};

use crate::blob_face::{Answer, Face};

const CONTAINER: &str = "/devstoreaccount1/leases?restype=container";
const BLOB: &str = "/devstoreaccount1/leases/$Default/0";
const A: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const B: &str = "bbbbbbbb-0000-4000-8000-000000000002";

type Headers<'a> = &'a [(&'a str, &'a str)];

async fn start() -> (Face, VirtualClock) {
    let clock = VirtualClock::starting_at(Timestamp(1_800_000_000_000));
    let face = Face::start_at(Arc::new(clock.clone())).await;
    (face, clock)
}

async fn lease(face: &Face, action: &str, headers: Headers<'_>) -> Answer {
    let headers = [&[("x-ms-lease-action", action)], headers].concat();
    let path = format!("{BLOB}?comp=lease&timeout=5");
    face.ask("PUT", &path, &headers, "").await
}

async fn acquire(face: &Face, id: &str) -> Answer {
    let headers = [
        ("x-ms-lease-duration", "30"),
        ("x-ms-proposed-lease-id", id),
    ];
    lease(face, "acquire", &headers).await
}

/// The content of a lease, as the host keeps it in the blob.
async fn write(face: &Face, headers: Headers<'_>, body: &str) -> Answer {
    let kind = [("x-ms-blob-type", "BlockBlob")];
    let headers = [&kind, headers].concat();
    face.ask("PUT", BLOB, &headers, body.to_owned()).await
}

async fn describe(face: &Face, headers: Headers<'_>) -> Answer {
    let path = format!("{BLOB}?comp=metadata&timeout=5");
    face.ask("PUT", &path, headers, "").await
}

async fn state(face: &Face) -> (String, String) {
    let found = face.ask("HEAD", BLOB, &[], "").await;
    assert_eq!(found.status, 200);
    let header = |name: &str| found.header(name).to_owned();
    (header("x-ms-lease-state"), header("x-ms-lease-status"))
}

fn words(state: &str, status: &str) -> (String, String) {
    (state.to_owned(), status.to_owned())
}

/// A host takes a partition, as `AcquireLeaseCoreAsync` does.
async fn take(face: &Face, id: &str, host: &str) {
    let (lease, owner) = (("x-ms-lease-id", id), ("x-ms-meta-owninghost", host));
    assert_eq!(describe(face, &[lease, owner]).await.status, 200);
    let body = format!("{{\"Token\":\"{id}\"}}");
    let written = write(face, &[lease, owner], &body).await;
    assert_eq!(written.status, 201);
}

#[tokio::test]
async fn two_event_processor_hosts_share_a_partition_by_leases() {
    let (face, _clock) = start().await;
    assert_eq!(face.ask("HEAD", CONTAINER, &[], "").await.status, 404);
    assert_eq!(face.ask("PUT", CONTAINER, &[], "").await.status, 201);
    // Both hosts make the blob of the partition; one of them is first.
    let new = [("if-none-match", "*")];
    assert_eq!(write(&face, &new, "{}").await.status, 201);
    assert_eq!(
        write(&face, &new, "{}").await.error(),
        (409, "BlobAlreadyExists")
    );
    assert_eq!(state(&face).await, words("available", "unlocked"));
    let taken = acquire(&face, A).await;
    assert_eq!((taken.status, taken.header("x-ms-lease-id")), (201, A));
    take(&face, A, "host-a").await;
    assert_eq!(state(&face).await, words("leased", "locked"));
    assert_eq!(
        lease(&face, "renew", &[("x-ms-lease-id", A)]).await.status,
        200
    );
    // The other host sees the owner in the list of the group.
    let path = format!("{CONTAINER}&comp=list&prefix=%24Default%2F&include=metadata&timeout=5");
    let list = face.ask("GET", &path, &[], "").await;
    for part in [
        "<Name>$Default/0</Name>",
        "<owninghost>host-a</owninghost>",
        "<LeaseStatus>locked</LeaseStatus><LeaseState>leased</LeaseState>",
        "<LeaseDuration>fixed</LeaseDuration>",
    ] {
        assert!(list.text().contains(part), "{}", list.text());
    }
    assert_eq!(
        acquire(&face, B).await.error(),
        (409, "LeaseAlreadyPresent")
    );
    let found = face.ask("GET", BLOB, &[], "").await;
    assert!(found.text().contains(A));
    // It steals the lease whose token it has read.
    let change = [("x-ms-lease-id", A), ("x-ms-proposed-lease-id", B)];
    let stolen = lease(&face, "change", &change).await;
    assert_eq!((stolen.status, stolen.header("x-ms-lease-id")), (200, B));
    assert_eq!(
        lease(&face, "renew", &[("x-ms-lease-id", B)]).await.status,
        200
    );
    take(&face, B, "host-b").await;
    // The first host notices at each of its steps.
    let old = [("x-ms-lease-id", A)];
    let lost = (409, "LeaseIdMismatchWithLeaseOperation");
    for action in ["renew", "release"] {
        assert_eq!(lease(&face, action, &old).await.error(), lost, "{action}");
    }
    let lost = (412, "LeaseIdMismatchWithBlobOperation");
    assert_eq!(write(&face, &old, "late").await.error(), lost);
    assert_eq!(describe(&face, &old).await.error(), lost);
    assert_eq!(face.ask("GET", BLOB, &old, "").await.error(), lost);
    // A checkpoint, and the end.
    let own = [("x-ms-lease-id", B)];
    assert_eq!(write(&face, &own, "{\"Offset\":\"7\"}").await.status, 201);
    assert_eq!(lease(&face, "release", &own).await.status, 200);
    assert_eq!(state(&face).await, words("available", "unlocked"));
    assert_eq!(
        face.ask("GET", BLOB, &[], "").await.text(),
        "{\"Offset\":\"7\"}"
    );
    let late = write(&face, &own, "late").await;
    assert_eq!(late.error(), (412, "LeaseNotPresentWithBlobOperation"));
}

#[tokio::test]
async fn a_leased_blob_is_written_and_deleted_with_its_lease_only() {
    let (face, _clock) = start().await;
    face.ask("PUT", CONTAINER, &[], "").await;
    write(&face, &[], "first").await;
    let tag = face
        .ask("HEAD", BLOB, &[], "")
        .await
        .header("etag")
        .to_owned();
    let taken = lease(&face, "acquire", &[("x-ms-lease-duration", "-1")]).await;
    assert_eq!((taken.status, taken.header("etag")), (201, tag.as_str()));
    let id = taken.header("x-ms-lease-id").to_owned();
    let block = format!("{BLOB}?comp=block&blockid=YQ%3D%3D");
    let list = format!("{BLOB}?comp=blocklist");
    let held = (412, "LeaseIdMissing");
    assert_eq!(write(&face, &[], "x").await.error(), held);
    assert_eq!(describe(&face, &[]).await.error(), held);
    assert_eq!(face.ask("PUT", &block, &[], "x").await.error(), held);
    let empty = "<BlockList />";
    assert_eq!(face.ask("PUT", &list, &[], empty).await.error(), held);
    assert_eq!(face.ask("DELETE", BLOB, &[], "").await.error(), held);
    // A read needs no lease.
    assert_eq!(face.ask("GET", BLOB, &[], "").await.text(), "first");
    let own = [("x-ms-lease-id", id.as_str())];
    assert_eq!(face.ask("GET", BLOB, &own, "").await.status, 200);
    // One that names a lease names the right one.
    let other = [("x-ms-lease-id", B)];
    let wrong = (412, "LeaseIdMismatchWithBlobOperation");
    assert_eq!(face.ask("GET", BLOB, &other, "").await.error(), wrong);
    assert_eq!(face.ask("HEAD", BLOB, &other, "").await.status, 412);
    assert_eq!(face.ask("PUT", &block, &own, "second").await.status, 201);
    let body = "<BlockList><Latest>YQ==</Latest></BlockList>";
    assert_eq!(face.ask("PUT", &list, &own, body).await.status, 201);
    assert_eq!(state(&face).await, words("leased", "locked"));
    assert_eq!(face.ask("DELETE", BLOB, &own, "").await.status, 202);
    assert_eq!(acquire(&face, A).await.error(), (404, "BlobNotFound"));
    let none = write(&face, &own, "x").await;
    assert_eq!(none.error(), (412, "LeaseNotPresentWithBlobOperation"));
}

#[tokio::test]
async fn a_lease_that_is_not_renewed_expires() {
    let (face, clock) = start().await;
    face.ask("PUT", CONTAINER, &[], "").await;
    write(&face, &[], "first").await;
    acquire(&face, A).await;
    clock.advance(Duration::from_secs(31));
    assert_eq!(state(&face).await, words("expired", "unlocked"));
    let own = [("x-ms-lease-id", A)];
    assert_eq!(write(&face, &own, "late").await.error(), (412, "LeaseLost"));
    // Nothing has happened since, so the holder has it again.
    assert_eq!(lease(&face, "renew", &own).await.status, 200);
    assert_eq!(write(&face, &own, "in time").await.status, 201);
    clock.advance(Duration::from_secs(31));
    assert_eq!(acquire(&face, B).await.status, 201);
    let lost = (409, "LeaseIdMismatchWithLeaseOperation");
    assert_eq!(lease(&face, "renew", &own).await.error(), lost);
    // A write without a lease ends one that has expired.
    clock.advance(Duration::from_secs(31));
    assert_eq!(write(&face, &[], "free").await.status, 201);
    assert_eq!(state(&face).await, words("available", "unlocked"));
}

#[tokio::test]
async fn a_broken_lease_counts_until_its_period_ends() {
    let (face, clock) = start().await;
    face.ask("PUT", CONTAINER, &[], "").await;
    write(&face, &[], "first").await;
    let none = lease(&face, "break", &[]).await;
    assert_eq!(none.error(), (409, "LeaseNotPresentWithLeaseOperation"));
    acquire(&face, A).await;
    let broken = lease(&face, "Break", &[("x-ms-lease-break-period", "10")]).await;
    assert_eq!(
        (broken.status, broken.header("x-ms-lease-time")),
        (202, "10")
    );
    assert_eq!(state(&face).await, words("breaking", "locked"));
    let own = [("x-ms-lease-id", A)];
    let renewed = lease(&face, "renew", &own).await;
    assert_eq!(renewed.error(), (409, "LeaseIsBrokenAndCannotBeRenewed"));
    let change = [own[0], ("x-ms-proposed-lease-id", B)];
    let changed = lease(&face, "change", &change).await;
    assert_eq!(changed.error(), (409, "LeaseIsBreakingAndCannotBeChanged"));
    let again = acquire(&face, A).await;
    assert_eq!(again.error(), (409, "LeaseIsBreakingAndCannotBeAcquired"));
    assert_eq!(
        acquire(&face, B).await.error(),
        (409, "LeaseAlreadyPresent")
    );
    clock.advance(Duration::from_secs(11));
    assert_eq!(state(&face).await, words("broken", "unlocked"));
    assert_eq!(acquire(&face, B).await.status, 201);
    for (headers, code) in [
        (&[("x-ms-lease-action", "steal")][..], "InvalidHeaderValue"),
        (&[("x-ms-lease-action", "acquire")], "MissingRequiredHeader"),
        (
            &[
                ("x-ms-lease-action", "acquire"),
                ("x-ms-lease-duration", "5"),
            ],
            "InvalidHeaderValue",
        ),
        (
            &[("x-ms-lease-action", "renew"), ("x-ms-lease-id", "x")],
            "InvalidHeaderValue",
        ),
        (&[], "MissingRequiredHeader"),
    ] {
        let path = format!("{BLOB}?comp=lease");
        let answer = face.ask("PUT", &path, headers, "").await;
        assert_eq!(answer.error(), (400, code), "{headers:?}");
    }
}

/// `DeleteLeaseStoreAsync` walks the container folder by folder.
#[tokio::test]
async fn a_lease_store_is_listed_by_delimiter_and_deleted() {
    let (face, _clock) = start().await;
    face.ask("PUT", CONTAINER, &[], "").await;
    let kind = [("x-ms-blob-type", "BlockBlob")];
    for name in [
        "$Default/0",
        "$Default/1",
        "$Default/2/x",
        "a",
        "web/0",
        "web0",
    ] {
        let path = format!("/devstoreaccount1/leases/{name}");
        assert_eq!(face.ask("PUT", &path, &kind, "").await.status, 201);
    }
    let names = |text: &str, element: &str| -> Vec<String> {
        let open = format!("<{element}><Name>");
        let parts = text.split(&open).skip(1);
        let name = |part: &str| part.split_once("</Name>").unwrap().0.to_owned();
        parts.map(name).collect()
    };
    let base = format!("{CONTAINER}&comp=list&delimiter=%2F");
    let outer = face.ask("GET", &base, &[], "").await;
    let text = outer.text();
    assert!(text.contains("<Delimiter>/</Delimiter>"), "{text}");
    assert_eq!(names(text, "BlobPrefix"), ["$Default/", "web/"]);
    assert_eq!(names(text, "Blob"), ["a", "web0"]);
    let path = format!("{base}&prefix=%24Default%2F");
    let inner = face.ask("GET", &path, &[], "").await;
    assert_eq!(names(inner.text(), "BlobPrefix"), ["$Default/2/"]);
    assert_eq!(names(inner.text(), "Blob"), ["$Default/0", "$Default/1"]);
    // Page by page it is the same.
    let (mut marker, mut seen) = (String::new(), Vec::new());
    loop {
        let path = format!("{base}&maxresults=1&marker={marker}");
        let page = face.ask("GET", &path, &[], "").await;
        let text = page.text().to_owned();
        let found = [names(&text, "BlobPrefix"), names(&text, "Blob")].concat();
        assert_eq!(found.len(), 1, "{text}");
        seen.extend(found);
        match text.split_once("<NextMarker>") {
            Some((_, rest)) => {
                let next = rest.split_once("</NextMarker>").unwrap().0;
                marker = next.replace('/', "%2F").replace('$', "%24");
            }
            None => break,
        }
    }
    assert_eq!(seen, ["$Default/", "a", "web/", "web0"]);
    for name in ["$Default/0", "$Default/1"] {
        let path = format!("/devstoreaccount1/leases/{name}");
        assert_eq!(face.ask("DELETE", &path, &[], "").await.status, 202);
    }
}
