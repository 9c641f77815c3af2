//! Blobs by HTTP, request by request.

use steadfast_core::limits;
use steadfast_events::{ErrorKind, EventHubDefinition, EventPosition, ReaderOptions};

use crate::amqp_setup::{ACCOUNT, ACCOUNT_KEY};
use crate::blob_face::{self, Answer, By, Face, OWNER};

type Headers<'a> = &'a [(&'a str, &'a str)];

/// The name of an ownership as clients write it.
const CLAIM: &str = "localhost/houses/$default/ownership/0";

#[tokio::test]
async fn containers_are_made_once_and_found() {
    let face = Face::start().await;
    let path = "/devstoreaccount1/box?restype=container";
    assert_eq!(
        face.ask("GET", path, &[], "").await.error(),
        (404, "ContainerNotFound")
    );
    let made = face.ask("PUT", path, &[("x-ms-meta-a", "1")], "").await;
    assert_eq!((made.status, made.text()), (201, ""));
    assert!(made.header("etag").starts_with("\"0x") && !made.header("last-modified").is_empty());
    assert_eq!(
        face.ask("PUT", path, &[], "").await.error(),
        (409, "ContainerAlreadyExists")
    );
    let found = face.ask("GET", path, &[], "").await;
    assert_eq!((found.status, found.header("x-ms-meta-a")), (200, "1"));
    assert_eq!(found.header("etag"), made.header("etag"));
    assert_eq!(face.ask("HEAD", path, &[], "").await.status, 200);
    let bad = face
        .ask("PUT", "/devstoreaccount1/Box?restype=container", &[], "")
        .await;
    assert_eq!(bad.error(), (400, "InvalidResourceName"));
    assert_eq!(face.ask("DELETE", path, &[], "").await.status, 202);
    assert_eq!(
        face.ask("DELETE", path, &[], "").await.error(),
        (404, "ContainerNotFound")
    );
}

#[tokio::test]
async fn events_35_metadata_of_a_missing_blob_is_404_on_the_wire() {
    let face = Face::with_box().await;
    let conditions: [&[(&str, &str)]; 4] = [
        &[],
        &[("if-none-match", "*")],
        &[("if-match", "\"0x1\"")],
        &[("if-unmodified-since", "Sun, 06 Nov 1994 08:49:37 GMT")],
    ];
    for condition in conditions {
        let answer = face.describe(CLAIM, condition).await;
        assert_eq!(answer.error(), (404, "BlobNotFound"));
    }
    let elsewhere = "/devstoreaccount1/nowhere/a?comp=metadata";
    let answer = face.ask("PUT", elsewhere, &[], "").await;
    assert_eq!(answer.error(), (404, "ContainerNotFound"));
}

#[tokio::test]
async fn claims_are_written_under_conditions() {
    let face = Face::with_box().await;
    let first = face
        .put(
            CLAIM,
            &[("if-none-match", "*"), ("x-ms-meta-ownerid", "a")],
            "",
        )
        .await;
    assert_eq!(first.status, 201);
    for name in [
        "etag",
        "last-modified",
        "x-ms-request-id",
        "x-ms-version",
        "date",
    ] {
        assert!(!first.header(name).is_empty(), "{name}");
    }
    let again = face.put(CLAIM, &[("if-none-match", "*")], "").await;
    assert_eq!(again.error(), (409, "BlobAlreadyExists"));
    let tag = first.header("etag");
    let renewed = face
        .describe(CLAIM, &[("if-match", tag), ("x-ms-meta-ownerid", "b")])
        .await;
    assert_eq!(renewed.status, 200);
    assert_ne!(renewed.header("etag"), tag);
    let late = face
        .describe(CLAIM, &[("if-match", tag), ("x-ms-meta-ownerid", "c")])
        .await;
    assert_eq!(late.error(), (412, "ConditionNotMet"));
    let stale = face.put(CLAIM, &[("if-match", tag)], "").await;
    assert_eq!(stale.error(), (412, "ConditionNotMet"));
    let path = format!("/devstoreaccount1/box/{CLAIM}");
    let found = face.ask("HEAD", &path, &[], "").await;
    assert_eq!(found.header("x-ms-meta-ownerid"), "b");
    let gone = face.ask("DELETE", &path, &[("if-match", tag)], "").await;
    assert_eq!(gone.error(), (412, "ConditionNotMet"));
    assert_eq!(face.ask("DELETE", &path, &[], "").await.status, 202);
    assert_eq!(
        face.ask("GET", &path, &[], "").await.error(),
        (404, "BlobNotFound")
    );
    assert_eq!(
        face.ask("HEAD", &path, &[], "")
            .await
            .header("x-ms-error-code"),
        "BlobNotFound"
    );
}

#[tokio::test]
async fn events_36_an_empty_owner_is_an_empty_element() {
    let face = Face::with_box().await;
    face.put(CLAIM, &[("x-ms-meta-ownerid", "")], "").await;
    face.put(
        "localhost/houses/$default/checkpoint/0",
        &[("x-ms-meta-offset", "a<b")],
        "",
    )
    .await;
    let path = "/devstoreaccount1/box?restype=container&comp=list&include=metadata\
                &prefix=localhost%2Fhouses%2F%24default%2F";
    let list = face.ask("GET", path, &[], "").await;
    let text = list.text();
    assert_eq!(list.status, 200);
    assert!(text.contains("<Metadata><ownerid /></Metadata>"), "{text}");
    assert!(
        text.contains("<Metadata><offset>a&lt;b</offset></Metadata>"),
        "{text}"
    );
    assert!(
        text.ends_with("<NextMarker /></EnumerationResults>"),
        "{text}"
    );
    let without = face
        .ask("GET", &path.replace("&include=metadata", ""), &[], "")
        .await;
    assert!(!without.text().contains("ownerid"));
}

/// What .NET's processor asks for; without metadata it sees no owner, and steals.
#[tokio::test]
async fn enumerated_values_are_compared_without_case() {
    let face = Face::with_box().await;
    let headers = [("x-ms-blob-type", "blockblob"), ("x-ms-meta-ownerid", "me")];
    let path = format!("/devstoreaccount1/box/{CLAIM}");
    assert_eq!(face.ask("PUT", &path, &headers, "text").await.status, 201);
    let path = format!("/devstoreaccount1/box/{CLAIM}?comp=Metadata");
    let owner = [("x-ms-meta-ownerid", "you")];
    assert_eq!(face.ask("PUT", &path, &owner, "").await.status, 200);
    for query in [
        "restype=container&comp=list&prefix=localhost%2F&include=Metadata",
        "restype=Container&comp=List&include=Deleted,METADATA",
    ] {
        let path = format!("/devstoreaccount1/box?{query}");
        let list = face.ask("GET", &path, &[], "").await;
        assert_eq!(list.status, 200, "{}", list.text());
        let owner = "<Metadata><ownerid>you</ownerid></Metadata>";
        assert!(list.text().contains(owner), "{}", list.text());
    }
    let path = format!("/devstoreaccount1/box/{CLAIM}");
    let part = [
        ("x-ms-range", "Bytes=0-1"),
        ("x-ms-range-get-content-md5", "True"),
    ];
    let found = face.ask("GET", &path, &part, "").await;
    assert_eq!((found.status, found.text()), (206, "te"));
    assert!(!found.header("content-md5").is_empty());
}

/// .NET parses the body of every error that is said to be XML, also where a HEAD
/// has none, and then fails with the parser's error.
#[tokio::test]
async fn an_error_of_head_has_a_code_and_no_content_type() {
    let face = Face::with_box().await;
    face.put("a", &[], "x").await;
    let stale = [("if-match", "\"0x1\"")];
    let cases: [(&str, Headers<'_>, (u16, &str)); 4] = [
        (
            "/devstoreaccount1/none?restype=container",
            &[],
            (404, "ContainerNotFound"),
        ),
        ("/devstoreaccount1/box/none", &[], (404, "BlobNotFound")),
        ("/devstoreaccount1/box/a", &stale, (412, "ConditionNotMet")),
        (
            "/devstoreaccount1/box/a?snapshot=1",
            &[],
            (501, "NotImplemented"),
        ),
    ];
    let is_bare = |answer: &Answer| {
        let length = answer.header("content-length");
        answer.header("content-type").is_empty() && (length.is_empty() || length == "0")
    };
    for (path, headers, wanted) in cases {
        let answer = face.ask("HEAD", path, headers, "").await;
        let code = answer.header("x-ms-error-code");
        assert_eq!((answer.status, code), wanted, "{path}");
        assert!(is_bare(&answer), "{path}: {:?}", answer.headers);
    }
    let path = "/devstoreaccount1/box/a";
    let denied = face.send("HEAD", path, &[], bytes::Bytes::new()).await;
    assert_eq!(denied.status, 403);
    assert!(is_bare(&denied), "{:?}", denied.headers);
}

#[tokio::test]
async fn events_37_the_encoding_of_a_name_does_not_matter() {
    let face = Face::with_box().await;
    let raw = face.put(CLAIM, &[("x-ms-meta-ownerid", "raw")], "").await;
    let encoded = CLAIM.replace('$', "%24");
    let tag = raw.header("etag");
    let same = face
        .describe(&encoded, &[("if-match", tag), ("x-ms-meta-ownerid", "enc")])
        .await;
    assert_eq!(same.status, 200);
    let path = "/devstoreaccount1/box?restype=container&comp=list&include=metadata";
    let list = face.ask("GET", path, &[], "").await;
    assert_eq!(list.text().matches("<Blob>").count(), 1, "{}", list.text());
    assert!(list.text().contains("<ownerid>enc</ownerid>"));
    // Case is part of a name.
    face.put(&CLAIM.replace("$default", "$Default"), &[], "")
        .await;
    let list = face.ask("GET", path, &[], "").await;
    assert_eq!(list.text().matches("<Blob>").count(), 2);
}

#[tokio::test]
async fn events_38_every_version_is_accepted() {
    let face = Face::with_box().await;
    for version in [
        "2009-09-19",
        "2019-07-07",
        "2026-04-06",
        "2999-01-01",
        "nonsense",
    ] {
        let written = face.put("a", &[("x-ms-version", version)], "x").await;
        assert_eq!(
            (written.status, written.header("x-ms-version")),
            (201, version)
        );
    }
    assert_eq!(face.put("a", &[], "x").await.status, 201);
}

#[tokio::test]
async fn bodies_come_back_whole_and_in_part() {
    let face = Face::with_box().await;
    let body: String = (0..700_000u32)
        .map(|n| char::from(b'a' + (n % 23) as u8))
        .collect();
    let headers = [
        ("content-type", "text/plain"),
        ("x-ms-blob-content-encoding", "identity"),
        ("x-ms-meta-house", "42"),
    ];
    let written = face.put("houses/42", &headers, &body).await;
    assert_eq!(written.status, 201);
    let path = "/devstoreaccount1/box/houses/42";
    let whole = face.ask("GET", path, &[], "").await;
    assert_eq!((whole.status, whole.text() == body), (200, true));
    assert_eq!(whole.header("content-type"), "text/plain");
    assert_eq!(whole.header("content-encoding"), "identity");
    assert_eq!(whole.header("x-ms-meta-house"), "42");
    assert_eq!(whole.header("x-ms-blob-type"), "BlockBlob");
    assert_eq!(whole.header("content-md5"), written.header("content-md5"));
    let head = face.ask("HEAD", path, &[], "").await;
    assert_eq!(head.header("content-length"), "700000");
    for (header, range) in [("range", 262_140..262_150), ("x-ms-range", 0..1)] {
        let asked = format!("bytes={}-{}", range.start, range.end - 1);
        let part = face.ask("GET", path, &[(header, &asked)], "").await;
        assert_eq!((part.status, part.text()), (206, &body[range.clone()]));
        let shown = format!("bytes {}-{}/700000", range.start, range.end - 1);
        assert_eq!(part.header("content-range"), shown);
    }
    let open = face
        .ask("GET", path, &[("range", "bytes=699990-")], "")
        .await;
    assert_eq!(open.text(), &body[699_990..]);
    let beyond = face
        .ask("GET", path, &[("range", "bytes=700000-")], "")
        .await;
    assert_eq!(beyond.error(), (416, "InvalidRange"));
    let tag = whole.header("etag");
    let known = face.ask("GET", path, &[("if-none-match", tag)], "").await;
    assert_eq!(
        (known.status, known.header("x-ms-error-code")),
        (304, "ConditionNotMet")
    );
    let since = [("if-modified-since", whole.header("last-modified"))];
    assert_eq!(face.ask("GET", path, &since, "").await.status, 304);
    let other = face.ask("GET", path, &[("if-match", "\"0xFF\"")], "").await;
    assert_eq!(other.error(), (412, "ConditionNotMet"));
}

#[tokio::test]
async fn digests_are_checked_and_given() {
    let face = Face::with_box().await;
    let (right, wrong) = ("XrY7u+Ae7tCTyyK7j1rNww==", "XrY7u+Ae7tCTyyK7j1rNwA==");
    let bad = face
        .put("a", &[("content-md5", wrong)], "hello world")
        .await;
    assert_eq!(bad.error(), (400, "Md5Mismatch"));
    let path = "/devstoreaccount1/box/a";
    assert_eq!(face.ask("HEAD", path, &[], "").await.status, 404);
    let good = face
        .put("a", &[("content-md5", right)], "hello world")
        .await;
    assert_eq!((good.status, good.header("content-md5")), (201, right));
    let part = [
        ("x-ms-range", "bytes=0-10"),
        ("x-ms-range-get-content-md5", "true"),
    ];
    assert_eq!(
        face.ask("GET", path, &part, "").await.header("content-md5"),
        right
    );
}

#[tokio::test]
async fn lists_come_in_pages_by_prefix() {
    let face = Face::with_box().await;
    for number in 0..7 {
        face.put(&format!("a/{number}"), &[], "").await;
    }
    face.put("b", &[], "").await;
    let (mut marker, mut names) = (String::new(), Vec::new());
    loop {
        let path = format!(
            "/devstoreaccount1/box?restype=container&comp=list&prefix=a%2F&maxresults=3&marker={marker}"
        );
        let page = face.ask("GET", &path, &[], "").await;
        let text = page.text().to_owned();
        let between = |text: &str, from: &str, to: &str| {
            let rest = text.split_once(from)?.1;
            Some(rest.split_once(to)?.0.to_owned())
        };
        let blobs = text.split("<Blob>").skip(1);
        let found: Vec<_> = blobs
            .filter_map(|blob| between(blob, "<Name>", "</Name>"))
            .collect();
        assert!(found.len() <= 3);
        names.extend(found);
        match between(&text, "<NextMarker>", "</NextMarker>") {
            Some(next) => marker = next.replace('/', "%2F"),
            None => break,
        }
    }
    let expected: Vec<_> = (0..7).map(|number| format!("a/{number}")).collect();
    assert_eq!(names, expected);
    let bad = "/devstoreaccount1/box?restype=container&comp=list&maxresults=0";
    let bad = face.ask("GET", bad, &[], "").await;
    assert_eq!(bad.error(), (400, "OutOfRangeQueryParameterValue"));
}

#[tokio::test]
async fn only_whoever_has_the_key_gets_in() {
    let face = Face::with_box().await;
    let path = "/devstoreaccount1/box/a";
    let body = bytes::Bytes::from_static(b"x");
    let headers = [("x-ms-blob-type", "BlockBlob")];
    let by = |account, key, ago| By { account, key, ago };
    for wrong in [
        by(ACCOUNT, "d3Jvbmc=", 0),
        by("listener", "bGlzdGVuIHNlY3JldA==", 0),
        by("absent", ACCOUNT_KEY, 0),
        by(ACCOUNT, ACCOUNT_KEY, 16 * 60),
        by(ACCOUNT, ACCOUNT_KEY, -16 * 60),
    ] {
        let answer = face
            .ask_by(&wrong, "PUT", path, &headers, body.clone())
            .await;
        assert_eq!(answer.error(), (403, "AuthenticationFailed"));
    }
    let late = by(ACCOUNT, ACCOUNT_KEY, 14 * 60);
    let answer = face
        .ask_by(&late, "PUT", path, &headers, body.clone())
        .await;
    assert_eq!(answer.status, 201);
    for header in [None, Some("Bearer SAS_KEY_VALUE"), Some("SharedKey x")] {
        let header = header.map(|header| ("authorization".to_owned(), header.to_owned()));
        let header: Vec<_> = header.into_iter().collect();
        let answer = face.send("GET", path, &header, bytes::Bytes::new()).await;
        assert_eq!(answer.error(), (403, "AuthenticationFailed"));
    }
}

#[tokio::test]
async fn times_are_checked_before_a_signature_proves_anything() {
    let face = Face::with_box().await;
    // A wrong key shows which check comes first.
    let late = By {
        key: "d3Jvbmc=",
        ago: 20 * 60,
        ..OWNER
    };
    let refused = face.ask_by(&late, "GET", "/devstoreaccount1/box/a", &[], "".into());
    let refused = refused.await;
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("15 minutes"), "{}", refused.text());
    let query = "sv=2020-10-02&sr=b&sp=r&se=2001-01-01T00:00:00Z&sig=d3Jvbmc%3D";
    let url = format!(
        "http://127.0.0.1:{}/devstoreaccount1/box/a?{query}",
        face.port
    );
    let refused = face.client.get(url).send().await.unwrap();
    assert_eq!(refused.status(), 403);
    let text = refused.text().await.unwrap();
    assert!(text.contains("has ended"), "{text}");
}

#[tokio::test]
async fn an_account_does_what_its_key_may() {
    let face = Face::with_box().await;
    let listener = By {
        account: "listener",
        key: "bGlzdGVuIHNlY3JldA==",
        ago: 0,
    };
    let made = face.ask_by(
        &listener,
        "PUT",
        "/listener/box?restype=container",
        &[],
        "".into(),
    );
    assert_eq!(made.await.error(), (403, "AuthorizationPermissionMismatch"));
    let headers = [("x-ms-blob-type", "BlockBlob")];
    let written = face.ask_by(&listener, "PUT", "/listener/box/a", &headers, "".into());
    assert_eq!(
        written.await.error(),
        (403, "AuthorizationPermissionMismatch")
    );
    let read = face.ask_by(&listener, "GET", "/listener/box/a", &[], "".into());
    assert_eq!(read.await.error(), (404, "ContainerNotFound"));
}

#[tokio::test]
async fn what_is_not_offered_is_said_so() {
    let face = Face::with_box().await;
    for (verb, path) in [
        ("GET", "/devstoreaccount1?comp=list"),
        ("GET", "/devstoreaccount1?restype=service&comp=properties"),
        ("PUT", "/devstoreaccount1/box?restype=container&comp=lease"),
        ("PUT", "/devstoreaccount1/box/a?comp=appendblock"),
        ("PUT", "/devstoreaccount1/box/a?comp=page"),
        ("GET", "/devstoreaccount1/box/a?snapshot=2026-01-01"),
        ("POST", "/devstoreaccount1/box/a"),
    ] {
        let answer = face.ask(verb, path, &[], "").await;
        assert_eq!(answer.error(), (501, "NotImplemented"), "{verb} {path}");
    }
    for header in [
        "x-ms-copy-source",
        "x-ms-structured-body",
        "x-ms-encryption-key",
    ] {
        let answer = face.put("a", &[(header, "x")], "x").await;
        assert_eq!(answer.error(), (501, "NotImplemented"), "{header}");
    }
    let page = [("x-ms-blob-type", "PageBlob")];
    let answer = face.ask("PUT", "/devstoreaccount1/box/a", &page, "").await;
    assert_eq!(answer.error(), (501, "NotImplemented"));
    let container = "/devstoreaccount1/box?restype=container";
    let lease = [("x-ms-lease-id", "5f9a7a0e-0000-4000-8000-000000000001")];
    let leased = face.ask("DELETE", container, &lease, "").await;
    let code = "LeaseNotPresentWithContainerOperation";
    assert_eq!(leased.error(), (412, code));
    let path = "/devstoreaccount1/box/a";
    assert_eq!(face.ask("HEAD", path, &[], "").await.status, 404);
}

#[tokio::test]
async fn bad_requests_are_refused_and_change_nothing() {
    let face = Face::with_box().await;
    let cases: [(&[(&str, &str)], &str); 5] = [
        (&[("x-ms-meta-a.b", "1")], "InvalidMetadata"),
        (&[("x-ms-meta-", "1")], "EmptyMetadataKey"),
        (&[("if-match", "\"0x1\", \"0x2\"")], "InvalidHeaderValue"),
        (&[("if-modified-since", "tomorrow")], "InvalidHeaderValue"),
        (&[("content-md5", "?")], "InvalidMd5"),
    ];
    for (headers, code) in cases {
        assert_eq!(face.put("a", headers, "x").await.error(), (400, code));
    }
    let path = "/devstoreaccount1/box/a";
    let untyped = face.ask("PUT", path, &[], "x").await;
    assert_eq!(untyped.error(), (400, "MissingRequiredHeader"));
    let control = face.put("a%01b", &[], "x").await;
    assert_eq!(control.error(), (400, "InvalidUri"));
    let long = "x".repeat(limits::BLOB_METADATA_BYTES + 1);
    assert_eq!(
        face.put("a", &[("x-ms-meta-a", &long)], "").await.error(),
        (400, "InvalidInput")
    );
    let kind = [("x-ms-blob-type", "BlockBlob")];
    let mut large = face.begin(path, &kind, limits::BLOB_BYTES + 1).await;
    assert_eq!(blob_face::status(&mut large).await, 413);
    assert_eq!(face.ask("HEAD", path, &[], "").await.status, 404);
}

#[tokio::test]
async fn a_claim_by_blob_cuts_the_reader_before_it_is_answered() {
    let face = Face::with_box().await;
    face.node
        .hubs
        .create(EventHubDefinition::new("houses", 1))
        .await
        .unwrap();
    let attach = ReaderOptions::at(EventPosition::Earliest).epoch(0);
    let reader = face.node.hubs.reader("houses", "$Default", 0, attach);
    let mut reader = reader.await.unwrap();
    let claimed = face
        .put(CLAIM, &[("x-ms-meta-ownerid", "another")], "")
        .await;
    assert_eq!(claimed.status, 201);
    let error = reader.next().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Displaced);
    assert_eq!(face.node.hubs.reader_counts().overlaps, 0);
}
