//! What a signature in the address of a blob permits.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use steadfast_wire::signature;

use crate::blob_face::{Answer, Face, OWNER};

/// A signature of the service, of the version before scopes of encryption.
struct Signature<'a> {
    /// `b` for a blob, `c` for a container.
    kind: &'a str,
    permissions: &'a str,
    expiry: &'a str,
    protocol: &'a str,
    addresses: &'a str,
    /// What was signed.
    resource: &'a str,
}

const READ: Signature<'_> = Signature {
    kind: "b",
    permissions: "r",
    expiry: "2099-01-01T00:00:00Z",
    protocol: "",
    addresses: "",
    resource: "/blob/devstoreaccount1/box/a",
};

impl Signature<'_> {
    fn query(&self) -> String {
        const VERSION: &str = "2020-10-02";
        let mut parts = vec![self.permissions, "", self.expiry, self.resource, ""];
        parts.extend([self.addresses, self.protocol, VERSION, self.kind]);
        parts.extend([""; 6]);
        let key = STANDARD.decode(OWNER.key).unwrap();
        let signature = STANDARD.encode(signature::sign(&key, &parts.join("\n")));
        let signature = signature.replace('+', "%2B").replace('/', "%2F");
        let mut query = format!("sv={VERSION}&sr={}&sp={}", self.kind, self.permissions);
        query.push_str(&format!("&se={}&sig={signature}", self.expiry));
        for (name, value) in [("spr", self.protocol), ("sip", self.addresses)] {
            if !value.is_empty() {
                query.push_str(&format!("&{name}={value}"));
            }
        }
        query
    }

    /// Asks for something in the container, with the signature alone.
    async fn ask(&self, face: &Face, verb: &str, rest: &str, body: &'static str) -> Answer {
        let separator = if rest.contains('?') { '&' } else { '?' };
        let path = format!("/devstoreaccount1/box{rest}{separator}{}", self.query());
        let kind = ("x-ms-blob-type".to_owned(), "BlockBlob".to_owned());
        face.send(verb, &path, &[kind], body.into()).await
    }
}

async fn face() -> Face {
    let face = Face::with_box().await;
    for name in ["a", "b"] {
        assert_eq!(face.put(name, &[], "old").await.status, 201);
    }
    face
}

#[tokio::test]
async fn a_signature_permits_what_it_names() {
    let face = face().await;
    let read = READ.ask(&face, "GET", "/a", "").await;
    assert_eq!((read.status, read.text()), (200, "old"));
    for (verb, rest) in [
        ("PUT", "/a"),
        ("DELETE", "/a"),
        ("PUT", "/a?comp=metadata"),
        ("GET", "/b"),
        ("DELETE", "?restype=container"),
    ] {
        let refused = READ.ask(&face, verb, rest, "new").await;
        assert_eq!(refused.status, 403, "{verb} {rest}");
    }
    let writes = Signature {
        permissions: "w",
        ..READ
    };
    assert_eq!(writes.ask(&face, "GET", "/a", "").await.status, 403);
    assert_eq!(writes.ask(&face, "PUT", "/a", "new").await.status, 201);
}

#[tokio::test]
async fn a_signature_that_makes_blobs_replaces_none() {
    let face = face().await;
    let makes = Signature {
        kind: "c",
        permissions: "c",
        resource: "/blob/devstoreaccount1/box",
        ..READ
    };
    let refused = makes.ask(&face, "PUT", "/a", "new").await;
    assert_eq!(refused.status, 409, "{}", refused.text());
    let old = face.ask("GET", "/devstoreaccount1/box/a", &[], "").await;
    assert_eq!(old.text(), "old");
    assert_eq!(makes.ask(&face, "PUT", "/n", "new").await.status, 201);
}

#[tokio::test]
async fn a_signature_for_a_container_lists_its_blobs_and_one_for_a_blob_does_not() {
    let face = face().await;
    let list = "?restype=container&comp=list";
    let lists = Signature {
        kind: "c",
        permissions: "rl",
        resource: "/blob/devstoreaccount1/box",
        ..READ
    };
    assert_eq!(lists.ask(&face, "GET", list, "").await.status, 200);
    assert_eq!(lists.ask(&face, "GET", "/b", "").await.status, 200);
    let deletes = Signature {
        permissions: "d",
        ..lists
    };
    let container = deletes.ask(&face, "DELETE", "?restype=container", "");
    assert_eq!(container.await.status, 403);
    let blob = Signature {
        permissions: "rl",
        ..READ
    };
    assert_eq!(blob.ask(&face, "GET", list, "").await.status, 403);
}

#[tokio::test]
async fn a_signature_counts_until_its_end_for_its_protocol_and_its_address() {
    let face = face().await;
    let get = async |signature: Signature<'_>| signature.ask(&face, "GET", "/a", "").await.status;
    let near = Signature {
        addresses: "127.0.0.1",
        ..READ
    };
    assert_eq!(get(near).await, 200);
    for refused in [
        Signature {
            expiry: "2001-01-01T00:00:00Z",
            ..READ
        },
        Signature {
            protocol: "https",
            ..READ
        },
        Signature {
            addresses: "10.0.0.1-10.0.0.9",
            ..READ
        },
    ] {
        assert_eq!(get(refused).await, 403);
    }
}
