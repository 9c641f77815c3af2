//! Unmodified clients of Event Hubs, scenario by scenario.
//!
//! The scenarios stand in `interop/python`, `interop/node`, `interop/java/event-hubs`,
//! `interop/go` and `interop/rust`.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::process::Command;

use clients::{Encryption, Stage};
use serde_json::Value;
use steadfast::events::EventHubDefinition;
use steadfast_harness::clients as programs;

mod clients;

const HUBS: [(&str, u32); 9] = [
    ("houses", 4),
    ("positions", 1),
    ("keys", 16),
    ("even", 4),
    ("typed", 1),
    ("epochs", 1),
    ("large", 1),
    ("idempotent", 2),
    ("empty", 1),
];

#[derive(Debug)]
enum Client {
    /// azure-eventhub 5.15.0.
    Python,
    /// @azure/event-hubs 6.0.4, on Node 22.
    Node,
    /// azeventhubs 2.0.2 and azblob 1.8.1.
    Go,
    /// azure_messaging_eventhubs 0.16.0.
    Rust,
    /// azure-messaging-eventhubs 5.21.3 and azure-storage-blob 12.36.0.
    Java,
}

use Client::{Go, Java, Node, Python, Rust};

impl Client {
    fn command(&self) -> Command {
        match self {
            Python => programs::python("eventhub", "python/run.py"),
            Node => programs::javascript("event-hubs/run.mjs"),
            Go => programs::go("events"),
            Rust => programs::rust("event-hub-clients"),
            Java => programs::java("event-hubs", "steadfast.events.Run"),
        }
    }
}

/// Runs scenarios of clients, each against a stage of its own. Those of one text, which
/// spaces separate, share stage and program.
async fn run(scenarios: &[(Client, &str)]) {
    for (client, scenario) in scenarios {
        let stage = Stage::start(&[], |builder| builder).await;
        let told = stage.told();
        run_at(stage, &told, client, scenario).await;
    }
}

/// The same where everything is encrypted.
async fn run_encrypted(scenarios: &[(Client, &str)]) {
    let encryption = Encryption::new();
    let (settings, chain) = (encryption.settings(), encryption.certificate());
    for (client, scenario) in scenarios {
        let stage = Stage::start(&settings.each_ref().map(String::as_str), |builder| builder).await;
        let told = stage.told_encrypted(&chain);
        run_at(stage, &told, client, scenario).await;
    }
}

async fn run_at(stage: Stage, told: &Value, client: &Client, scenario: &str) {
    for (name, partitions) in HUBS {
        let definition = EventHubDefinition::new(name, partitions).group("second");
        stage.node().event_hubs().create(definition).await.unwrap();
    }
    let mut command = client.command();
    if let (Rust, Some(chain)) = (client, told["certificate"].as_str()) {
        command.env("SSL_CERT_FILE", chain);
    }
    command.arg(told.to_string()).args(scenario.split(' '));
    let name = format!("event_hub_clients {client:?}");
    clients::run(&name, command).await;
    stage.stop().await;
}

/// One test per line: its name, and the scenarios that it runs.
macro_rules! scenarios {
    ($run:ident; $($name:ident: $(($client:expr, $scenario:literal)),+;)+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            $run(&[$(($client, $scenario)),+]).await;
        })+
    };
}

scenarios! {
    run;
    events_01_a_thousand_connections_of_python_succeed: (Python, "many_connections");
    events_01_a_thousand_connections_of_go_succeed: (Go, "many_connections");
    events_03_clients_put_tokens: (Python, "properties"), (Node, "properties"), (Rust, "properties"), (Go, "properties");
    events_04_a_wrong_key_is_named_as_such: (Python, "bad_key"), (Node, "badKey"), (Rust, "bad_key"), (Python, "errors"), (Go, "bad_key");
    events_09_properties_are_the_same_for_all: (Python, "properties"), (Node, "properties"), (Rust, "properties"), (Go, "properties");
    events_10_an_unknown_event_hub_is_named_as_such: (Python, "unknown_event_hub"), (Node, "unknownEventHub"), (Rust, "unknown_event_hub"), (Go, "unknown_event_hub");
    events_11_a_batch_lands_in_order: (Python, "batch_of_500"), (Go, "batch_of_500");
    events_12_single_and_batch_of_one_look_the_same: (Python, "single_and_batch_of_one"), (Go, "batch_of_one");
    events_13_keys_go_where_the_vectors_say: (Python, "keyed_sends"), (Node, "keyedSends"), (Rust, "keyed_sends"), (Go, "keyed_sends");
    events_15_keyless_sends_spread_evenly: (Python, "keyless_sends_spread_evenly"), (Go, "keyless_sends_spread_evenly");
    events_16_what_is_too_large_is_refused: (Python, "too_large"), (Node, "tooLarge"), (Rust, "too_large"), (Go, "too_large");
    events_17_typed_properties_survive: (Python, "typed_properties"), (Node, "typedProperties"), (Rust, "typed_properties"), (Go, "typed_properties");
    events_18_python_sends_return_at_once: (Python, "sends_return_at_once");
    events_18_go_sends_return_at_once: (Go, "sends_return_at_once");
    events_21_positions_of_python: (Python, "every_kind_of_position");
    events_21_positions_of_node: (Node, "everyKindOfPosition");
    events_21_positions_of_go: (Go, "every_kind_of_position");
    events_21_positions_of_rust: (Rust, "every_kind_of_position");
    events_22_latest_sees_what_comes: (Python, "latest_sees_what_comes"), (Go, "latest_sees_what_comes");
    events_23_beyond_the_end_is_refused: (Python, "beyond_the_end"), (Node, "beyondTheEnd"), (Go, "beyond_the_end");
    events_24_parallel_senders_keep_order: (Python, "parallel_senders_keep_order"), (Go, "parallel_senders_keep_order");
    events_27_offsets_are_strings: (Python, "batch_of_500"), (Node, "batchOf500"), (Rust, "batch_of_500");
    events_28_readers_are_stolen_by_owner_level: (Python, "stolen_by_owner_level"), (Node, "stolenByOwnerLevel"), (Rust, "stolen_by_owner_level"), (Go, "stolen_by_owner_level");
    blobs_of_python: (Python, "blobs_with_bodies"), (Python, "lists_and_conditions"), (Python, "a_bad_account_key");
    blobs_in_blocks_of_python: (Python, "blobs_in_blocks");
    leases_and_folders_of_python: (Python, "leases_and_folders");
    signatures_of_blobs_of_python: (Python, "signatures");
    blobs_of_node: (Node, "blobsWithBodies"), (Node, "blobsInBlocks");
    blobs_of_go: (Go, "blobs_with_bodies"), (Go, "blobs_in_blocks"), (Go, "lists_and_conditions"), (Go, "a_bad_account_key");
    leases_and_signatures_of_go: (Go, "leases_and_folders"), (Go, "signatures");
    asyncio_sends_and_reads: (Python, "send_and_read");
    go_sends_and_reads: (Go, "send_and_read");
    node_learns_of_the_end: (Node, "lastEnqueuedProperties");
    idempotent_buffered_sends_of_node: (Node, "bufferedAndIdempotent");
    lost_acknowledgements_double_nothing: (Node, "lostAcknowledgements");
    producers_are_refused_by_name: (Node, "refusedProducers");
    an_unknown_partition_is_out_of_range: (Node, "unknownPartition"), (Python, "unknown_partition"), (Go, "unknown_partition");
    java_sends: (Java, "properties manyConnections batchOf500 singleAndBatchOfOne sendsReturnAtOnce keyedSends keylessSendsSpreadEvenly typedProperties annotatedMessages sendAndRead parallelSendersKeepOrder bufferedSends lostConnections");
    java_reads: (Java, "everyKindOfPosition latestSeesWhatComes waitingReads allPartitions stolenByOwnerLevel lastEnqueuedProperties");
    java_is_refused_by_name: (Java, "beyondTheEnd unknownEventHub unknownGroup unknownPartition badKey tooLarge errors");
    blobs_of_java: (Java, "blobsWithBodies blobsInBlocks leasesAndFolders listsAndConditions signatures aBadAccountKey");
    messages_with_everything_survive: (Node, "annotatedMessages"), (Python, "annotated_messages"), (Go, "annotated_messages");
}

scenarios! {
    run_encrypted;
    tls_and_websocket_of_python: (Python, "over_tls"), (Python, "over_websocket"), (Python, "over_tls_and_websocket");
    tls_and_websocket_of_java: (Java, "overTls overWebSocket");
    websocket_of_node: (Node, "overWebSocket");
    tls_and_websocket_of_go: (Go, "over_tls"), (Go, "over_websocket");
    tls_and_websocket_of_rust: (Rust, "over_tls"), (Rust, "over_websocket");
}
