//! Unmodified SignalR clients, scenario by scenario.
//!
//! The scenarios stand in `interop/signalr-node` and `interop/signalr-python`. What
//! they need is installed by `cargo xtask test --only interop`, which also says
//! where.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::json;
use tokio::process::Command;

mod hub_stage;

use hub_stage::Stage;

enum Client {
    /// @microsoft/signalr 10.0.11, on Node 22 or in Chromium.
    Node,
    /// signalrcore 1.0.2 and pysignalr 1.3.3.
    Python,
}

use Client::{Node, Python};

fn tools() -> PathBuf {
    let tools = std::env::var_os("STEADFAST_TOOLS").map(PathBuf::from);
    tools.expect("run `cargo xtask test --only interop`, which sets STEADFAST_TOOLS")
}

impl Client {
    fn command(&self) -> Command {
        match self {
            Node => {
                let mut command = Command::new(tools().join("node/bin/node"));
                command.arg(tools().join("packages/signalr/run.mjs"));
                command
            }
            Python => {
                let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop");
                let mut command = Command::new(tools().join("python/signalr/bin/python"));
                // No compiled files among the sources.
                command.arg("-B").arg(sources.join("signalr-python/run.py"));
                command
            }
        }
    }
}

/// Runs scenarios of a client, all against one server.
async fn run(client: Client, scenarios: &[&str]) {
    let stage = Stage::start();
    let said = json!({
        "url": stage.url(),
        "token": stage.token("room"),
        "other_token": stage.token("open"),
        "browser": tools().join("browser/chromium"),
    });
    let mut command = client.command();
    command.arg(said.to_string()).args(scenarios);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.expect("the client is installed");
    assert!(
        output.status.success(),
        "{scenarios:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// One test per line: its name, the client, and the scenarios that it runs.
macro_rules! scenarios {
    ($($name:ident: $client:expr, [$($scenario:literal),+];)+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            run($client, &[$($scenario),+]).await;
        })+
    };
}

scenarios! {
    node_over_websockets: Node, ["webSocketsJson", "webSocketsPacked"];
    node_over_server_sent_events: Node, ["eventsJson"];
    realtime_12_node_over_long_polling: Node, ["pollingJson", "pollingPacked"];
    realtime_13_node_with_wrong_tokens: Node, ["wrongToken", "otherHub"];
    realtime_24_node_comes_back_when_it_may: Node, ["closes"];
    realtime_06_node_without_negotiation: Node, ["withoutNegotiation", "openHub"];
    realtime_25_node_misses_nothing_when_sockets_are_cut: Node, ["statefulReconnect"];
    chromium_over_all_transports: Node, ["browser"];
    pysignalr_does_what_it_can: Python, ["pysignalr_json", "pysignalr_packed"];
    signalrcore_does_what_it_can: Python, ["signalrcore_json", "signalrcore_packed", "signalrcore_transports"];
}
