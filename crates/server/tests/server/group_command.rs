//! `steadfast group` with processors that use blobs.

use serde_json::{Value, json};
use steadfast::Node;
use steadfast::config::{Config, Layers};
use steadfast::events::{Conditions, EventDataBatch, EventHubDefinition, PutBlobRequest};

use crate::running::{finish, said, steadfast};

#[tokio::test(flavor = "multi_thread")]
async fn ownerships_and_checkpoints_of_sdks_are_shown() {
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
        .event_hub(EventHubDefinition::new("houses", 2))
        .start()
        .await
        .unwrap();
    let sender = node.event_hubs().sender("houses", Some(0)).await.unwrap();
    for _ in 0..5 {
        let mut batch = EventDataBatch::new();
        batch.push(b"x").unwrap();
        sender.send(batch).await.unwrap();
    }
    let place = "devstoreaccount1/checkpoints";
    let blobs = node.blobs();
    blobs.create_container(place, Vec::new()).await.unwrap();
    for (what, name, value) in [
        ("ownership", "ownerid", "me"),
        ("checkpoint", "sequencenumber", "2"),
    ] {
        let put = PutBlobRequest {
            name: format!("localhost/houses/$default/{what}/0"),
            metadata: vec![(name.to_owned(), value.to_owned())],
            ..PutBlobRequest::default()
        };
        blobs.put(place, put, Conditions::default()).await.unwrap();
    }
    let mut command = steadfast(folder.path());
    command.env("STEADFAST_URL", &node.addresses()[0].url);
    command.args(["group", "show", "houses", "-o", "json"]);
    let (code, text, error) = said(&finish(command));
    assert_eq!(code, 0, "{error}");
    let shown: Value = serde_json::from_str(&text).unwrap();
    let row = &shown["partitions"][0];
    assert_eq!(
        (&row["store"], &row["owner"]),
        (&json!(place), &json!("me")),
        "{row}"
    );
    assert_eq!(
        (&row["checkpoint"], &row["lag"]),
        (&json!(2), &json!(2)),
        "{row}"
    );
    let other = &shown["partitions"][1];
    assert_eq!(
        (&other["store"], &other["owner"]),
        (&Value::Null, &Value::Null),
        "{other}"
    );
    let mut command = steadfast(folder.path());
    command.env("STEADFAST_URL", &node.addresses()[0].url);
    command.args(["group", "list", "houses", "-o", "json"]);
    let (code, text, error) = said(&finish(command));
    assert_eq!(code, 0, "{error}");
    let listed: Value = serde_json::from_str(&text).unwrap();
    let group = &listed["groups"][0];
    // As `group show` says: what the SDK has not read, and its ownership.
    assert_eq!(
        (&group["lag"], &group["owned"], &group["partitions"]),
        (&json!(2), &json!(1), &json!(2)),
        "{group}"
    );
}
