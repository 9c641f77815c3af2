//! What SDKs of Azure SignalR for .NET do, message by message.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use steadfast_realtime::Mode;
use steadfast_wire::signalr::service::{
    Close, Completion, FlowKind, Message, Open, Question, Target, status,
};
use steadfast_wire::signalr::{Protocol, write as hub};
use tokio::time::Instant;

mod hub_stage;

use hub_stage::Stage;
use hub_stage::peers::{Client, PATIENCE, Server, completion, text};

const QUIET: Duration = Duration::from_millis(200);

/// The handshake of an SDK up to 1.25: six elements, and clients may be moved.
const OLDER: &[u8] = &[7, 0x96, 1, 1, 0, 0xa0, 1, 0x80];

async fn older(stage: &Stage, name: &str) -> Server {
    let mut server = Server::dial(stage, name).await;
    server.raw(Bytes::from_static(OLDER)).await;
    match server.next().await {
        Message::Welcome { error, .. } => assert_eq!(error, ""),
        other => panic!("{other:?}"),
    }
    server
}

#[tokio::test]
async fn realtime_38_a_server_asks_its_own_client_by_another_of_its_links() {
    let stage = Stage::start();
    let mut owner = Server::start(&stage, "a", 0, 0).await;
    let (mut client, id) = Client::on(&stage, "u", &mut owner).await;
    let mut sibling = Server::start(&stage, "a", 0, 0).await;
    sibling
        .say(Message::Ask(Question {
            id: text("q"),
            connection: id.clone(),
            caller: text("a"),
            payloads: vec![(
                text("json"),
                hub::invocation(Protocol::Json, Some("q"), "name", b"[]"),
            )],
        }))
        .await;
    assert_eq!(client.next().await["invocationId"], "q");
    client
        .say(json!({"type": 3, "invocationId": "q", "result": "Bob"}))
        .await;
    // Neither link is told of the call: the server knows it, and reads the answer as what
    // its client says.
    assert_eq!(owner.heard().await["result"], "Bob");
    owner
        .say(Message::Answer(Completion {
            id: text("q"),
            connection: id,
            caller: text("a"),
            outcome: Ok((text("json"), completion("q", "\"Bob\""))),
        }))
        .await;
    sibling.silent(QUIET).await;
    owner.silent(QUIET).await;
}

#[tokio::test]
async fn a_link_that_only_sends_closes_a_client_of_any_server() {
    let stage = Stage::start();
    let mut owner = Server::start(&stage, "a", 0, 0).await;
    let (mut client, id) = Client::on(&stage, "u", &mut owner).await;
    let mut manager = Server::start(&stage, "m", 2, 0).await;
    let close = |connection: &str| {
        Message::Close(Close {
            connection: text(connection),
            error: text("enough"),
            headers: vec![],
        })
    };
    manager.say(close("nobody")).await;
    manager.say(close(&id)).await;
    assert_eq!(client.next().await, json!({"type": 7, "error": "enough"}));
    drop(client);
    match owner.next().await {
        Message::Close(told) => assert_eq!(told.connection, id),
        other => panic!("{other:?}"),
    }
}
