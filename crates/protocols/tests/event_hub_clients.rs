//! Unmodified clients of Event Hubs, scenario by scenario.
//!
//! The scenarios stand in `interop/python`, `interop/node` and `interop/rust`. What
//! they need is installed by `cargo xtask test --only interop`, which also says where.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use steadfast_core::clock::SystemClock;
use steadfast_events::Definition;
use tokio::process::Command;

mod amqp_setup;

const HUBS: [(&str, u32); 8] = [
    ("houses", 4),
    ("positions", 1),
    ("keys", 16),
    ("even", 4),
    ("typed", 1),
    ("epochs", 1),
    ("large", 1),
    ("idempotent", 2),
];

enum Client {
    /// azure-eventhub 5.15.0.
    Python,
    /// @azure/event-hubs 6.0.4, on Node 22.
    Node,
    /// azure_messaging_eventhubs 0.16.0.
    Rust,
}

use Client::{Node, Python, Rust};

impl Client {
    fn command(&self) -> Command {
        let tools = std::env::var_os("STEADFAST_TOOLS").map(PathBuf::from);
        let tools =
            tools.expect("run `cargo xtask test --only interop`, which sets STEADFAST_TOOLS");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop");
        match self {
            Python => {
                let mut command = Command::new(tools.join("python/eventhub/bin/python"));
                // No compiled files among the sources.
                command.arg("-B").arg(sources.join("python/run.py"));
                command
            }
            Node => {
                let mut command = Command::new(tools.join("node/bin/node"));
                command.arg(tools.join("packages/event-hubs/run.mjs"));
                command
            }
            Rust => Command::new(tools.join("rust/debug/event-hub-clients")),
        }
    }
}

/// Runs scenarios of clients, each against a server of its own.
async fn run(scenarios: &[(Client, &str)]) {
    for (client, scenario) in scenarios {
        run_one(client, scenario).await;
    }
}

async fn run_one(client: &Client, scenario: &str) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let node = amqp_setup::open(&data, Arc::new(SystemClock::new())).await;
    for (name, partitions) in HUBS {
        let definition = Definition::new(name, partitions).group("second");
        node.hubs.create(definition).await.unwrap();
    }
    let said = amqp_setup::web::listen(&node, folder.path()).to_string();
    let mut command = client.command();
    command.arg(&said).arg(scenario);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.expect("the client is installed");
    assert!(
        output.status.success(),
        "{scenario}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    node.stop().await;
}

/// One test per line: its name, and the scenarios that it runs.
macro_rules! scenarios {
    ($($name:ident: $(($client:expr, $scenario:literal)),+;)+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            run(&[$(($client, $scenario)),+]).await;
        })+
    };
}

scenarios! {
    events_01_a_thousand_connections_of_python_succeed: (Python, "many_connections");
    events_03_clients_put_tokens: (Python, "properties"), (Node, "properties"), (Rust, "properties");
    events_04_a_wrong_key_is_named_as_such: (Python, "bad_key"), (Node, "badKey"), (Rust, "bad_key"), (Python, "errors");
    events_09_properties_are_the_same_for_all: (Python, "properties"), (Node, "properties"), (Rust, "properties");
    events_10_an_unknown_event_hub_is_named_as_such: (Python, "unknown_event_hub"), (Node, "unknownEventHub"), (Rust, "unknown_event_hub");
    events_11_a_batch_lands_in_order: (Python, "batch_of_500");
    events_12_single_and_batch_of_one_look_the_same: (Python, "single_and_batch_of_one");
    events_13_keys_go_where_the_vectors_say: (Python, "keyed_sends"), (Node, "keyedSends"), (Rust, "keyed_sends");
    events_15_keyless_sends_spread_evenly: (Python, "keyless_sends_spread_evenly");
    events_16_what_is_too_large_is_refused: (Python, "too_large"), (Node, "tooLarge"), (Rust, "too_large");
    events_17_typed_properties_survive: (Python, "typed_properties"), (Node, "typedProperties"), (Rust, "typed_properties");
    events_18_python_sends_return_at_once: (Python, "sends_return_at_once");
    events_21_positions_of_python: (Python, "every_kind_of_position");
    events_21_positions_of_node: (Node, "everyKindOfPosition");
    events_21_positions_of_rust: (Rust, "every_kind_of_position");
    events_22_latest_sees_what_comes: (Python, "latest_sees_what_comes");
    events_23_beyond_the_end_is_refused: (Python, "beyond_the_end"), (Node, "beyondTheEnd");
    events_24_parallel_senders_keep_order: (Python, "parallel_senders_keep_order");
    events_27_offsets_are_strings: (Python, "batch_of_500"), (Node, "batchOf500"), (Rust, "batch_of_500");
    events_28_readers_are_stolen_by_owner_level: (Python, "stolen_by_owner_level"), (Node, "stolenByOwnerLevel"), (Rust, "stolen_by_owner_level");
    blobs_of_python: (Python, "blobs_with_bodies"), (Python, "lists_and_conditions"), (Python, "a_bad_account_key");
    signatures_of_blobs_of_python: (Python, "signatures");
    blobs_of_node: (Node, "blobsWithBodies");
    asyncio_sends_and_reads: (Python, "send_and_read");
    tls_and_websocket_of_python: (Python, "over_tls"), (Python, "over_websocket"), (Python, "over_tls_and_websocket");
    websocket_of_node: (Node, "overWebSocket");
    node_learns_of_the_end: (Node, "lastEnqueuedProperties");
    idempotent_buffered_sends_of_node: (Node, "bufferedAndIdempotent");
}
