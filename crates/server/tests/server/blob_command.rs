//! `steadfast blob` lists and deletes containers and blobs.

use std::path::Path;

use serde_json::{Value, json};
use steadfast::Node;
use steadfast::config::{Config, Layers};
use steadfast::events::{Conditions, LeaseAction, PutBlobRequest};

use crate::running::{finish, said, steadfast};

/// What a command says of a server: exit code, JSON, words.
fn ask(folder: &Path, url: &str, arguments: &[&str]) -> (i32, Value, String) {
    let mut command = steadfast(folder);
    command
        .env("STEADFAST_URL", url)
        .args(arguments)
        .args(["-o", "json"]);
    let (code, out, error) = said(&finish(command));
    let out = serde_json::from_str(&out).unwrap_or(Value::Null);
    (code, out, error)
}

async fn put(node: &Node, container: &str, name: &str, body: &[u8]) {
    let put = PutBlobRequest {
        name: name.to_owned(),
        body: body.to_vec().into(),
        ..PutBlobRequest::default()
    };
    let blobs = node.blobs();
    blobs
        .put(container, put, Conditions::default())
        .await
        .unwrap();
}

fn names(answer: &Value, list: &str) -> Vec<String> {
    let rows = answer[list].as_array().unwrap();
    let names = rows.iter().map(|row| row["name"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_and_blobs_are_listed_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let mut layers = Layers::new();
    for port in ["http.port=0", "events.amqp_port=0", "events.blob_port=0"] {
        layers = layers.flag(port).unwrap();
    }
    let node = Node::builder()
        .config(Config::new(&layers).unwrap())
        .memory()
        .serve()
        .development()
        .start()
        .await
        .unwrap();
    let url = node.addresses()[0].url.clone();
    let ask = |arguments: &[&str]| ask(folder.path(), &url, arguments);
    let (first, second) = ("devstoreaccount1/payloads", "shared/checkpoints");
    for container in [first, second] {
        let made = node.blobs().create_container(container, Vec::new());
        made.await.unwrap();
    }
    for name in ["one/a b", "one/ü&x=1", "two/c", "two/d"] {
        put(&node, first, name, b"12345").await;
    }
    put(&node, second, "kept", b"").await;

    let (code, shown, error) = ask(&["blob", "list"]);
    assert_eq!(code, 0, "{error}");
    assert_eq!(names(&shown, "containers"), [first, second]);
    // Four blobs of five bytes, and 1 KiB beside each.
    let facts = (
        &shown["containers"][0]["bytes"],
        &shown["containers"][0]["blobs"],
    );
    assert_eq!(facts, (&json!(4 * 1029), &json!(4)), "{shown}");
    let limit = Value::Null;
    let accounts = json!([
        {"account": "devstoreaccount1", "bytes": 4 * 1029, "blobs": 4, "limit": limit},
        {"account": "shared", "bytes": 1024, "blobs": 1, "limit": limit},
    ]);
    assert_eq!(shown["accounts"], accounts, "{shown}");
    let (code, shown, error) = ask(&["blob", "list", first]);
    assert_eq!(code, 0, "{error}");
    let all = ["one/a b", "one/ü&x=1", "two/c", "two/d"];
    assert_eq!(names(&shown, "blobs"), all);
    assert_eq!(shown["blobs"][0]["bytes"], json!(5), "{shown}");
    let (_, shown, _) = ask(&["blob", "list", first, "--prefix", "one/ü&"]);
    assert_eq!(names(&shown, "blobs"), ["one/ü&x=1"]);
    let (_, shown, words) = ask(&["blob", "list", first, "--limit", "3"]);
    assert_eq!(names(&shown, "blobs"), all[..3]);
    assert!(
        shown["next"].is_string() && words.is_empty(),
        "{shown} {words}"
    );

    let (code, _, error) = ask(&["blob", "delete", "--yes", first, "one/ü&x=1"]);
    assert_eq!(code, 0, "{error}");
    let (code, _, error) = ask(&["blob", "delete", "--yes", first, "one/ü&x=1"]);
    assert!(code == 3 && error.contains("STF-5019"), "{code} {error}");
    // Only its holder deletes a leased blob.
    let lease = LeaseAction::Acquire {
        id: "c0ffee00-0000-4000-8000-000000000001".parse().unwrap(),
        duration: None,
    };
    let blobs = node.blobs();
    blobs
        .lease(first, "two/d", lease, Conditions::default())
        .await
        .unwrap();
    let (code, _, error) = ask(&["blob", "delete", "--yes", first, "two/d"]);
    assert!(code == 1 && error.contains("STF-5030"), "{code} {error}");
    let (code, shown, error) = ask(&["blob", "delete", "--yes", first, "--prefix", "one/"]);
    assert_eq!((code, &shown["deleted"]), (0, &json!(1)), "{error}");
    let (_, shown, _) = ask(&["blob", "list", first]);
    assert_eq!(names(&shown, "blobs"), ["two/c", "two/d"]);
    // What is meant must be said: no blob, no prefix, no `--all` is a mistake.
    for wrong in [
        &["blob", "delete", "--yes", first][..],
        &["blob", "delete", "--yes", first, "two/c", "--all"],
    ] {
        assert_eq!(ask(wrong).0, 2, "{wrong:?}");
    }
    let (code, _, error) = ask(&["blob", "delete", "--yes", first, "--prefix", ""]);
    assert!(code == 1 && error.contains("STF-6020"), "{code} {error}");

    let (code, _, error) = ask(&["blob", "delete", "--yes", first, "--all"]);
    assert_eq!(code, 0, "{error}");
    let (code, _, error) = ask(&["blob", "list", first]);
    assert!(code == 3 && error.contains("STF-5017"), "{code} {error}");
    let (_, shown, _) = ask(&["blob", "list"]);
    assert_eq!(names(&shown, "containers"), [second]);
    let mut command = steadfast(folder.path());
    command.env("STEADFAST_URL", &url).args(["blob", "list"]);
    let (code, shown, error) = said(&finish(command));
    assert_eq!(code, 0, "{error}");
    let rows: Vec<Vec<_>> = shown
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0], ["NAME", "BLOBS", "BYTES", "MODIFIED"], "{shown}");
    assert_eq!(rows[1][..3], [second, "1", "1KiB"], "{shown}");
    assert_eq!(rows[3], ["ACCOUNT", "BLOBS", "BYTES", "LIMIT"], "{shown}");
    assert_eq!(rows[4], ["devstoreaccount1", "0", "0B", "-"], "{shown}");
    assert_eq!(rows[5], ["shared", "1", "1KiB", "-"], "{shown}");
}
