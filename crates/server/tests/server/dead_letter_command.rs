//! `steadfast eventhub dead-letter` with a real one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use steadfast::Node;
use steadfast::config::{Config, Layers};
use steadfast::events::{
    Context, EventDataBatch, EventHubDefinition, Handler, HandlerResult, ProcessorOptions,
    ReceivedEvent,
};
use tokio::sync::mpsc;

use crate::running::{finish, said, steadfast, until};

/// Fails at what is bad, until it has learnt better.
struct Stubborn {
    has_learnt: Arc<AtomicBool>,
    handled: mpsc::UnboundedSender<i64>,
}

impl Handler for Stubborn {
    async fn handle(&self, events: &[ReceivedEvent], _: &mut Context<'_>) -> HandlerResult {
        for event in events {
            if event.body.ends_with(b"bad") && !self.has_learnt.load(Ordering::SeqCst) {
                return Err("it is bad".into());
            }
            self.handled.send(event.sequence)?;
        }
        Ok(())
    }
}

/// What a command says of a server: exit code, JSON, words.
fn ask(folder: &Path, url: &str, arguments: &[&str]) -> (i32, Value, String) {
    let mut command = steadfast(folder);
    command
        .env("STEADFAST_URL", url)
        .args(arguments)
        .args(["-o", "json"]);
    let (code, out, error) = said(&finish(command));
    (
        code,
        serde_json::from_str(&out).unwrap_or(Value::Null),
        error,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_event_is_listed_and_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let mut layers = Layers::new();
    for port in ["http.port=0", "events.amqp_port=0", "events.blob_port=0"] {
        layers = layers.flag(port).unwrap();
    }
    let has_learnt = Arc::new(AtomicBool::new(false));
    let (handled, mut seen) = mpsc::unbounded_channel();
    let options = ProcessorOptions {
        attempts: Some(2),
        batch: 1,
        ..ProcessorOptions::default()
    };
    let handler = Stubborn {
        has_learnt: Arc::clone(&has_learnt),
        handled,
    };
    let node = Node::builder()
        .config(Config::new(&layers).unwrap())
        .memory()
        .serve()
        .development()
        .event_hub(EventHubDefinition::new("houses", 1))
        .processor_with("houses", "$Default", options, handler)
        .start()
        .await
        .unwrap();
    let url = node.addresses()[0].url.clone();
    let sender = node.event_hubs().sender("houses", None).await.unwrap();
    for text in ["good", "bad", "also bad", "good again"] {
        let mut batch = EventDataBatch::new();
        let mut event = Vec::new();
        steadfast::client::amqp::write_event(&mut event, text.as_bytes());
        batch.push(&event).unwrap();
        sender.send(batch).await.unwrap();
    }
    // The bad ones are passed over once they are stored.
    assert_eq!((seen.recv().await, seen.recv().await), (Some(0), Some(3)));
    let list = ["parked", "list", "houses"];
    let (code, found, error) = ask(folder.path(), &url, &list);
    assert_eq!(code, 0, "{error}");
    let parked = &found["dead_letters"][0];
    assert_eq!(
        (&parked["sequence"], &parked["attempts"]),
        (&json!(1), &json!(2)),
        "{found}"
    );
    assert_eq!(
        (&parked["body"], &parked["partition"]),
        (&json!("bad"), &json!(0)),
        "{found}"
    );
    assert!(
        parked["reason"].as_str().unwrap().contains("it is bad"),
        "{found}"
    );
    assert_eq!(found["dead_letters"][1]["sequence"], json!(2), "{found}");
    assert!(found.get("next").is_none(), "{found}");
    let (_, cut, notes) = ask(
        folder.path(),
        &url,
        &[&list[..], &["--limit", "1"]].concat(),
    );
    assert_eq!(cut["dead_letters"].as_array().unwrap().len(), 1, "{notes}");
    let next = cut["next"].as_str().unwrap();
    let (_, rest, _) = ask(
        folder.path(),
        &url,
        &[&list[..], &["--cursor", next]].concat(),
    );
    assert_eq!(rest["dead_letters"].as_array().unwrap().len(), 1);
    assert_eq!(rest["dead_letters"][0]["sequence"], json!(2), "{rest}");
    let (code, _, error) = ask(
        folder.path(),
        &url,
        &[&list[..], &["--cursor", "x"]].concat(),
    );
    assert_eq!(code, 1);
    assert!(error.contains("not from this list"), "{error}");
    has_learnt.store(true, Ordering::SeqCst);
    let (code, found, error) = ask(folder.path(), &url, &["parked", "replay", "houses"]);
    assert_eq!(code, 0, "{error}");
    let expected = json!({"partition": 0, "dead_letters": 2, "has_processor": true});
    assert_eq!(found["partitions"][0], expected, "{found}");
    assert_eq!((seen.recv().await, seen.recv().await), (Some(1), Some(2)));
    until("the list is empty", || {
        let (_, found, _) = ask(folder.path(), &url, &list);
        found["dead_letters"]
            .as_array()
            .unwrap()
            .is_empty()
            .then_some(())
    });
    let sheet = node.drain(std::time::Duration::from_secs(10)).await;
    assert_eq!(sheet.lost, 0);
}
