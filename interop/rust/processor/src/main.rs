//! A processor of azure_messaging_eventhubs 0.15 with its checkpoint store 0.9.
//!
//! `event-hub-processor <what the server said> <options>` runs until its input ends.
//! Options are JSON: hub, group, container, interval in seconds. Every line that it
//! prints is JSON: what it owns, what it got, what it gave up.

use std::process::ExitCode;
use std::sync::Arc;

use azure_core::credentials::{AccessToken, TokenCredential, TokenRequestOptions};
use azure_core::http::Url;
use azure_core::time::{Duration, OffsetDateTime};
use azure_messaging_eventhubs::models::StartPositions;
use azure_messaging_eventhubs::processor::PartitionClient;
use azure_messaging_eventhubs::{ConsumerClient, EventProcessor, StartLocation, StartPosition};
use azure_messaging_eventhubs_checkpointstore_blob::BlobCheckpointStore;
use azure_storage_blob::BlobContainerClient;
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::task::LocalSet;

use server::Server;

mod server;

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

/// Runs until its input ends.
async fn run(server: &Server, options: &str) -> Outcome {
    let options: Value = serde_json::from_str(options)?;
    let text = |name: &str| options[name].as_str().expect("an option").to_string();
    let consumer = ConsumerClient::builder()
        .with_custom_endpoint(server.amqp())
        .with_consumer_group(text("group"))
        .open(
            "localhost",
            text("hub"),
            Arc::new(WebToken(server.web_token())),
        )
        .await?;
    let address = Url::parse(&server.container(&text("container")))?;
    let store = BlobCheckpointStore::new(BlobContainerClient::new(address, None, None)?);
    let interval = options["interval"].as_i64().expect("an option");
    let start = StartPosition {
        location: StartLocation::Earliest,
        inclusive: true,
    };
    let processor = EventProcessor::builder()
        .with_update_interval(Duration::seconds(interval))
        .with_partition_expiration_duration(Duration::seconds(6 * interval))
        .with_start_positions(StartPositions {
            default: start,
            ..StartPositions::default()
        })
        .build(consumer, store)
        .await?;
    let running = Arc::clone(&processor);
    tokio::spawn(async move {
        let ended = running.run().await;
        say(&json!({"error": format!("{ended:?}")}));
    });
    tokio::select! {
        error = hand_out(&processor) => error,
        _ = input_ends() => Ok(()),
    }
}

async fn hand_out(processor: &EventProcessor) -> Outcome {
    loop {
        let client = processor.next_partition_client().await?;
        // Its stream may not go to another thread.
        tokio::task::spawn_local(async move {
            let partition = client.get_partition_id().to_string();
            say(&json!({"began": partition}));
            let reason = process(&client).await.err().map(|error| error.to_string());
            say(&json!({"ended": partition, "reason": reason}));
            if let Ok(client) = Arc::try_unwrap(client) {
                let _ = client.close().await;
            }
        });
    }
}

async fn process(client: &PartitionClient) -> azure_messaging_eventhubs::Result<()> {
    let mut events = Box::pin(client.stream_events());
    while let Some(event) = events.next().await {
        let event = event?;
        let body = event.event_data().body().unwrap_or_default();
        let text = String::from_utf8_lossy(body);
        let partition = client.get_partition_id();
        say(&json!({"got": text, "partition": partition, "sequence": event.sequence_number()}));
        client.update_checkpoint(&event).await?;
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
