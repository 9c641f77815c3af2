//! A processor of release 0.15 with its checkpoint store.
//!
//! `event-hub-processor <what the server said> <options>` runs until its input ends.
//! Options are JSON: hub, group, container, interval and expiry in seconds. Every line that
//! it prints is JSON: what it owns, what it got, what it gave up.

use std::cell::RefCell;
use std::collections::HashMap;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;

use azure_core::credentials::{AccessToken, TokenCredential, TokenRequestOptions};
use azure_core::http::Url;
use azure_core::time::{Duration, OffsetDateTime};
use azure_messaging_eventhubs::error::ErrorKind;
use azure_messaging_eventhubs::models::StartPositions;
use azure_messaging_eventhubs::processor::PartitionClient;
use azure_messaging_eventhubs::{
    ConsumerClient, EventHubsError, EventProcessor, StartLocation, StartPosition,
};
use azure_messaging_eventhubs_checkpointstore_blob::BlobCheckpointStore;
use azure_storage_blob::BlobContainerClient;
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::{JoinSet, LocalSet};

use server::Server;

mod server;

/// How often a partition is opened in vain before everything begins again.
const MOST_FAILURES: u32 = 5;

/// The pause before a partition is opened again; it doubles each time.
const FIRST_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// Partition to the last event that this process has handled and kept.
type Handled = Rc<RefCell<HashMap<String, i64>>>;

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let outcome = match &arguments[..] {
        [said, options] => {
            let tasks = LocalSet::new();
            tasks.run_until(run(&Server::of(said), options)).await
        }
        _ => Err("usage: event-hub-processor <what the server said> <options>".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}

/// This release knows web tokens only.
#[derive(Debug)]
struct WebToken(String);

#[async_trait::async_trait]
impl TokenCredential for WebToken {
    async fn get_token(
        &self,
        _: &[&str],
        _: Option<TokenRequestOptions<'_>>,
    ) -> azure_core::Result<AccessToken> {
        let end = OffsetDateTime::now_utc() + Duration::hours(1);
        Ok(AccessToken::new(self.0.clone(), end))
    }
}

/// Runs until its input ends. When its connection is lost this release does not get
/// over it, so its application begins again under the same name.
async fn run(server: &Server, options: &str) -> Outcome {
    let options: Value = serde_json::from_str(options)?;
    let name = format!("rust-{}", std::process::id());
    let mut ends = Box::pin(input_ends());
    let handled = Handled::default();
    loop {
        let processor = start(server, &options, &name).await?;
        let (lost, mut is_lost) = mpsc::unbounded_channel();
        tokio::select! {
            ended = processor.run() => say(&json!({"error": format!("{ended:?}")})),
            outcome = hand_out(&processor, lost, &handled) => outcome?,
            _ = is_lost.recv() => say(&json!({"lost": true})),
            () = &mut ends => return Ok(()),
        }
    }
}

async fn start(
    server: &Server,
    options: &Value,
    name: &str,
) -> Result<Arc<EventProcessor>, Box<dyn std::error::Error + Send + Sync>> {
    let text = |name: &str| options[name].as_str().expect("an option").to_string();
    // Its blobs keep the case of names; those of other languages have lower case.
    let (hub, group) = (text("hub").to_lowercase(), text("group").to_lowercase());
    let consumer = ConsumerClient::builder()
        .with_custom_endpoint(server.amqp())
        .with_consumer_group(group)
        // It owns partitions under this id.
        .with_application_id(name.into())
        .open("localhost", hub, Arc::new(WebToken(server.web_token())))
        .await?;
    let address = Url::parse(&server.container(&text("container")))?;
    let store = BlobCheckpointStore::new(BlobContainerClient::new(address, None, None)?);
    let number = |name: &str| options[name].as_i64().expect("an option");
    let start = StartPosition {
        location: StartLocation::Earliest,
        inclusive: true,
    };
    let builder = EventProcessor::builder()
        .with_update_interval(Duration::seconds(number("interval")))
        .with_partition_expiration_duration(Duration::seconds(number("expiry")))
        .with_start_positions(StartPositions {
            default: start,
            ..StartPositions::default()
        });
    Ok(builder.build(consumer, store).await?)
}

async fn hand_out(
    processor: &EventProcessor,
    lost: UnboundedSender<()>,
    handled: &Handled,
) -> Outcome {
    // They end with this future.
    let mut streams = JoinSet::new();
    loop {
        let client = processor.next_partition_client().await?;
        let (lost, handled) = (lost.clone(), Handled::clone(handled));
        // Its stream may not go to another thread.
        streams.spawn_local(async move {
            let partition = client.get_partition_id().to_string();
            say(&json!({"began": partition}));
            let error = follow(&client, &handled).await.err();
            let reason = error.as_ref().map(ToString::to_string);
            say(&json!({"ended": partition, "reason": reason}));
            if error.is_some_and(|error| is_lost(&error)) {
                let _ = lost.send(());
            }
            if let Ok(client) = Arc::try_unwrap(client) {
                let _ = client.close().await;
            }
        });
    }
}

fn is_lost(error: &EventHubsError) -> bool {
    matches!(error.kind, ErrorKind::AmqpError(_))
}

/// Reads a partition until it has another owner. An error of one link makes this release
/// drop those of all partitions, and each of them begins again.
async fn follow(
    client: &PartitionClient,
    handled: &Handled,
) -> azure_messaging_eventhubs::Result<()> {
    let mut failures = 0;
    loop {
        match process(client, handled, &mut failures).await {
            Err(error) if is_lost(&error) && failures < MOST_FAILURES => {
                // The release opens a connection anew in between.
                tokio::time::sleep(FIRST_PAUSE * 2_u32.pow(failures)).await;
                failures += 1;
            }
            ended => return ended,
        }
    }
}

/// A partition that this release opens again is read from where it began first: what is
/// behind a checkpoint of this process is left out.
async fn process(
    client: &PartitionClient,
    handled: &Handled,
    failures: &mut u32,
) -> azure_messaging_eventhubs::Result<()> {
    let mut events = Box::pin(client.stream_events());
    while let Some(event) = events.next().await {
        let event = event?;
        *failures = 0;
        let body = event.event_data().body().unwrap_or_default();
        let text = String::from_utf8_lossy(body);
        let partition = client.get_partition_id();
        let sequence = event.sequence_number();
        if sequence <= handled.borrow().get(partition).copied() {
            continue;
        }
        say(&json!({"got": text, "partition": partition, "sequence": sequence}));
        client.update_checkpoint(&event).await?;
        handled
            .borrow_mut()
            .extend(sequence.map(|number| (partition.to_string(), number)));
        say(&json!({"kept": text}));
    }
    Ok(())
}

async fn input_ends() {
    let mut rest = Vec::new();
    let _ = tokio::io::stdin().read_to_end(&mut rest).await;
}

fn say(facts: &Value) {
    println!("{facts}");
}
