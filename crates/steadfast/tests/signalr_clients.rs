//! Unmodified SignalR clients, scenario by scenario.
//!
//! The scenarios stand in `interop/signalr-node`, `interop/signalr-python`,
//! `interop/java/signalr` and `interop/go`.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::{Arc, OnceLock};

use clients::Stage;
use serde_json::{Value, json};
use steadfast::realtime::HubOptions;
use steadfast_harness::clients as programs;

mod clients;
#[path = "../../protocols/tests/hub_stage/room.rs"]
mod room;

use room::Room;

enum Client {
    /// @microsoft/signalr 10.0.11, on Node 22 or in Chromium.
    Node,
    /// signalrcore 1.0.2 and pysignalr 1.3.3.
    Python,
    /// com.microsoft.signalr 9.0.3.
    Java,
    /// philippseith/signalr 0.9.0.
    Go,
}

use Client::{Go, Java, Node, Python};

/// A token of a user for a hub.
async fn token(stage: &Stage, hub: &str) -> String {
    let url = format!("{}/v1/hubs/{hub}/tokens", stage.url("http"));
    let asked = reqwest::Client::new().post(url).bearer_auth(clients::KEY);
    let answer = asked.json(&json!({"user": "alice"})).send().await.unwrap();
    let answer: Value = answer.json().await.unwrap();
    answer["token"].as_str().unwrap().to_owned()
}

/// Runs scenarios of a client, all against one stage with the hubs `room`, which needs
/// a token, and `open`, which does not.
async fn run(client: Client, scenarios: &[&str]) {
    let realtime = Arc::new(OnceLock::new());
    let build = |builder: steadfast::Builder| {
        let room = Room {
            realtime: Arc::clone(&realtime),
        };
        let open = HubOptions {
            is_open: true,
            is_stateful: false,
            ..HubOptions::default()
        };
        builder
            .hub_with("/room", room, HubOptions::default())
            .hub_with("/open", Room::default(), open)
    };
    let stage = Stage::start(&[], build).await;
    let _ = realtime.set(stage.node().realtime().clone());
    let said = json!({
        "url": stage.url("http"),
        "other": stage.elsewhere("http"),
        "token": token(&stage, "room").await,
        "other_token": token(&stage, "open").await,
        "browser": programs::browser(),
    });
    let mut command = match client {
        Node => programs::javascript("signalr/run.mjs"),
        Python => programs::python("signalr", "signalr-python/run.py"),
        Java => programs::java("signalr", "steadfast.signalr.Run"),
        Go => programs::go("signalr"),
    };
    command.arg(said.to_string()).args(scenarios);
    clients::run(command).await;
    stage.stop().await;
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
    java_does_what_it_can: Java, ["webSocketsJson", "pollingJson", "defaultTransport", "wrongToken", "otherHub", "closes", "withoutNegotiation", "openHub"];
    pysignalr_does_what_it_can: Python, ["pysignalr_json", "pysignalr_packed"];
    go_over_websockets: Go, ["web_sockets_json", "web_sockets_packed"];
    go_over_server_sent_events: Go, ["events_json"];
    realtime_13_go_with_wrong_tokens: Go, ["wrong_token", "other_hub"];
    realtime_24_go_comes_back_when_it_may: Go, ["comes_back_when_it_may"];
    realtime_06_go_at_an_open_hub: Go, ["open_hub"];
    signalrcore_does_what_it_can: Python, ["signalrcore_json", "signalrcore_packed", "signalrcore_transports"];
}
