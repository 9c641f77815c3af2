//! What keys of processors may do with blobs.

use crate::blob_face::{Answer, By, Face};

const A: By<'_> = By {
    account: "worker-a",
    key: "d29ya2VyIGE=",
    ago: 0,
};
const B: By<'_> = By {
    account: "worker-b",
    key: "d29ya2VyIGI=",
    ago: 0,
};
const HOUSES: By<'_> = By {
    account: "house-worker",
    key: "aG91c2U=",
    ago: 0,
};

const NO_RIGHT: (u16, &str) = (403, "AuthorizationPermissionMismatch");

async fn make(face: &Face, by: &By<'_>, account: &str) -> Answer {
    let path = format!("/{account}/checkpoints?restype=container");
    face.ask_by(by, "PUT", &path, &[], "".into()).await
}

/// A claim as processors write it.
async fn claim(face: &Face, by: &By<'_>, place: (&str, &str), tag: Option<&str>) -> Answer {
    let (account, hub) = place;
    let name = format!("localhost/{hub}/$default/ownership/0");
    let condition = match tag {
        Some(tag) => ("if-match", tag),
        None => ("if-none-match", "*"),
    };
    let headers = [
        ("x-ms-blob-type", "BlockBlob"),
        ("x-ms-meta-ownerid", by.account),
        condition,
    ];
    let path = format!("/{account}/checkpoints/{name}");
    face.ask_by(by, "PUT", &path, &headers, "".into()).await
}

async fn list(face: &Face, by: &By<'_>, account: &str, prefix: &str) -> Answer {
    let path = format!(
        "/{account}/checkpoints?restype=container&comp=list&include=metadata&prefix={prefix}"
    );
    face.ask_by(by, "GET", &path, &[], "".into()).await
}

#[tokio::test]
async fn a_key_that_may_listen_and_send_makes_its_checkpoint_container() {
    let face = Face::start().await;
    assert_eq!(make(&face, &A, "worker-a").await.status, 201);
    let again = make(&face, &A, "worker-a").await;
    assert_eq!(again.error(), (409, "ContainerAlreadyExists"));
    let claimed = claim(&face, &A, ("worker-a", "houses"), None).await;
    assert_eq!(claimed.status, 201);
    let path = "/worker-a/checkpoints?restype=container";
    let deleted = face.ask_by(&A, "DELETE", path, &[], "".into()).await;
    assert_eq!(deleted.error(), NO_RIGHT);
    // The account of a key is its own.
    let theirs = make(&face, &B, "worker-a").await;
    assert_eq!(theirs.error(), (403, "AuthenticationFailed"));
}

#[tokio::test]
async fn two_keys_share_a_group_in_the_shared_account() {
    let face = Face::start().await;
    assert_eq!(make(&face, &A, "shared").await.status, 201);
    let again = make(&face, &B, "shared").await;
    assert_eq!(again.error(), (409, "ContainerAlreadyExists"));
    let place = ("shared", "houses");
    let first = claim(&face, &A, place, None).await;
    assert_eq!(first.status, 201);
    let second = claim(&face, &B, place, None).await;
    assert_eq!(second.error(), (409, "BlobAlreadyExists"));
    let prefix = "localhost%2Fhouses%2F%24default%2Fownership%2F";
    let seen = list(&face, &B, "shared", prefix).await;
    assert!(
        seen.text().contains("<ownerid>worker-a</ownerid>"),
        "{}",
        seen.text()
    );
    let stolen = claim(&face, &B, place, Some(first.header("etag"))).await;
    assert_eq!(stolen.status, 201);
    let late = claim(&face, &A, place, Some(first.header("etag"))).await;
    assert_eq!(late.error(), (412, "ConditionNotMet"));
    let stranger = By { key: B.key, ..A };
    let forged = claim(&face, &stranger, place, None).await;
    assert_eq!(forged.error(), (403, "AuthenticationFailed"));
}

#[tokio::test]
async fn a_key_for_one_event_hub_claims_partitions_of_that_one_only() {
    let face = Face::start().await;
    for account in ["house-worker", "shared"] {
        assert_eq!(make(&face, &HOUSES, account).await.status, 201);
        let own = claim(&face, &HOUSES, (account, "houses"), None).await;
        assert_eq!(own.status, 201);
        let other = claim(&face, &HOUSES, (account, "cars"), None).await;
        assert_eq!(other.error(), NO_RIGHT);
        for kind in ["ownership", "checkpoint"] {
            let prefix = format!("localhost%2Fhouses%2F%24default%2F{kind}%2F");
            assert_eq!(list(&face, &HOUSES, account, &prefix).await.status, 200);
            let prefix = prefix.replace("houses", "cars");
            let denied = list(&face, &HOUSES, account, &prefix).await;
            assert_eq!(denied.error(), NO_RIGHT);
        }
    }
    // Everything that all keys keep is for keys with rights on all event hubs.
    let all = list(&face, &HOUSES, "shared", "").await;
    assert_eq!(all.error(), NO_RIGHT);
    assert_eq!(list(&face, &A, "shared", "").await.status, 200);
    let headers = [("x-ms-blob-type", "BlockBlob")];
    for (account, status) in [("shared", 403), ("house-worker", 201)] {
        let path = format!("/{account}/checkpoints/notes");
        let written = face.ask_by(&HOUSES, "PUT", &path, &headers, "x".into());
        assert_eq!(written.await.status, status, "{account}");
    }
}
