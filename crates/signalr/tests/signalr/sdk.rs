//! What SDKs of Azure SignalR for .NET do, message by message.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use steadfast_core::limits;
use steadfast_realtime::ServiceMode;
use steadfast_wire::signalr::service::{
    ClientCompletion, ClientInvocation, CloseConnection, FlowControlKind, Message, OpenConnection,
    Target, status,
};
use steadfast_wire::signalr::{Protocol, write as hub};
use tokio::time::Instant;

use crate::hub_stage::Stage;
use crate::hub_stage::peers::{Client, PATIENCE, Server, completion, text};

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
        .say(Message::Ask(ClientInvocation {
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
        .say(Message::Answer(ClientCompletion {
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
        Message::Close(CloseConnection {
            connection: text(connection),
            error: text("enough"),
            headers: vec![],
        })
    };
    manager.say(close("absent")).await;
    manager.say(close(&id)).await;
    assert_eq!(client.next().await, json!({"type": 7, "error": "enough"}));
    drop(client);
    match owner.next().await {
        Message::Close(told) => assert_eq!(told.connection, id),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_diagnostic_client_is_marked_as_one() {
    let stage = Stage::start();
    let mut server = Server::start(&stage, "a", 0, 0).await;
    let marked = |open: &OpenConnection| {
        let mut headers = open.headers.iter();
        let found = headers.find(|(name, _)| name == "Asrs-Is-Diagnostic-Client");
        found.map(|(_, values)| values.clone())
    };
    let _traced = Client::dial(&stage, "u", &[("asrs.s.dc", "true")]).await;
    assert_eq!(marked(&server.open().await), Some(vec![text("true")]));
    let _other = Client::dial(&stage, "v", &[]).await;
    assert_eq!(marked(&server.open().await), None);
}

#[tokio::test]
async fn a_client_of_an_older_sdk_moves_at_once_and_misses_nothing() {
    let stage = Stage::start();
    let mut first = older(&stage, "a").await;
    let (mut client, id) = Client::on(&stage, "u", &mut first).await;
    let mut second = older(&stage, "b").await;
    first.fin("fin:1").await;
    let began = Instant::now();
    // It does not know how to pause, but sends back what is sent to it as an echo.
    let echo = first.next().await;
    match &echo {
        Message::Ping(words) => assert_eq!(words[0], "echo"),
        other => panic!("{other:?}"),
    }
    first
        .tell(Target::Connections(vec![id.clone()]), "last")
        .await;
    first.send(&id, completion("9", "9")).await;
    first.say(echo).await;
    let open = second.open().await;
    // The pause of a server that says nothing at all.
    assert!(
        began.elapsed() < limits::MOVE_PAUSE,
        "{:?}",
        began.elapsed()
    );
    assert_eq!(open.connection, id);
    match first.next().await {
        Message::Close(told) => assert_eq!(told.headers[0].1, [text("b")]),
        other => panic!("{other:?}"),
    }
    assert_eq!(client.told().await, "last");
    assert_eq!(client.next().await["invocationId"], "9");
    client.invoke(1, "x").await;
    assert_eq!(second.heard().await["target"], "x");
}

#[tokio::test]
async fn an_older_sdk_is_never_asked_to_pause() {
    let stage = Stage::start();
    let mut first = older(&stage, "a").await;
    let (_client, id) = Client::on(&stage, "u", &mut first).await;
    let mut second = older(&stage, "b").await;
    first.fin("fin:1").await;
    // One that does not even know the echo is waited for only shortly.
    let began = Instant::now();
    assert_eq!(second.open().await.connection, id);
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    loop {
        match first.next().await {
            Message::Flow(flow) => assert_ne!(flow.kind, FlowControlKind::Pause),
            Message::Ping(_) => {}
            Message::Close(_) => break,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn the_management_sdk_sends_by_persistent_links_without_app_servers() {
    let stage = Stage::start_in(ServiceMode::Serverless, Vec::new());
    let mut manager = Server::start(&stage, "m", 2, 0).await;
    let mut client = Client::dial(&stage, "u", &[]).await;
    assert_eq!(client.next().await, json!({}));
    manager.tell(Target::User(text("u")), "hi").await;
    assert_eq!(client.told().await, "hi");
    manager
        .say(Message::UserJoin {
            user: text("u"),
            group: text("g"),
            ttl_s: None,
            ack: Some(1),
        })
        .await;
    assert_eq!(manager.acked().await, (1, status::OK));
    manager.tell(Target::Groups(vec![text("g")]), "group").await;
    assert_eq!(client.told().await, "group");
    // Links that carry clients are still refused.
    let mut server = Server::dial(&stage, "a").await;
    server
        .raw(Bytes::from_static(&[8, 0x97, 1, 1, 0, 0xa0, 0, 0x80, 0xc2]))
        .await;
    match server.next().await {
        Message::Welcome { error, .. } => assert!(error.contains("Serverless"), "{error}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_drain_counts_the_calls_that_were_not_answered() {
    let stage = Stage::start();
    let mut server = Server::start(&stage, "a", 0, 0).await;
    let (mut client, id) = Client::on(&stage, "u", &mut server).await;
    let (_idle, _) = Client::on(&stage, "v", &mut server).await;
    for number in 1..=3 {
        client.invoke(number, "x").await;
        assert_eq!(server.heard().await["target"], "x");
    }
    client
        .say(json!({"type": 1, "target": "y", "arguments": []}))
        .await;
    assert_eq!(server.heard().await["target"], "y");
    server.send(&id, completion("2", "0")).await;
    assert_eq!(client.next().await["invocationId"], "2");
    let drained = tokio::time::timeout(PATIENCE, stage.realtime.drain(QUIET)).await;
    // Two calls wait; who calls without an id expects no answer.
    assert_eq!(drained.unwrap().unanswered, 2);
}

#[tokio::test]
async fn a_drain_counts_calls_that_are_held_while_their_client_moves() {
    let stage = Stage::start();
    let mut first = Server::start(&stage, "a", 0, 1).await;
    let (mut client, _) = Client::on(&stage, "u", &mut first).await;
    let _second = Server::start(&stage, "b", 0, 1).await;
    client.invoke(1, "slow").await;
    assert_eq!(first.heard().await["target"], "slow");
    // The move waits for the answer to the call.
    first.fin("fin:1").await;
    let mut sent = 1;
    loop {
        sent += 1;
        client.invoke(sent, "x").await;
        client.say(json!({"type": 6})).await;
        // A ping still goes to the old server: when it overtakes the call, that is held.
        if first.heard().await["type"] == 6 {
            break;
        }
        assert_eq!(first.heard().await["type"], 6);
    }
    client
        .say(json!({"type": 1, "target": "y", "arguments": []}))
        .await;
    let drained = tokio::time::timeout(PATIENCE, stage.realtime.drain(QUIET)).await;
    assert_eq!(drained.unwrap().unanswered as u64, sent);
}

/// SDKs send whatever their pipe holds as one payload.
#[tokio::test]
async fn several_messages_in_one_payload_are_noticed_one_by_one() {
    let stage = Stage::start();
    let mut server = Server::start(&stage, "a", 0, 0).await;
    let (mut client, id) = Client::on(&stage, "u", &mut server).await;
    for number in 1..=3 {
        client.invoke(number, "x").await;
        assert_eq!(server.heard().await["target"], "x");
    }
    let both = [completion("1", "0"), completion("2", "0")].concat();
    server.send(&id, both.into()).await;
    for number in ["1", "2"] {
        assert_eq!(client.next().await["invocationId"], number);
    }
    let drained = tokio::time::timeout(PATIENCE, stage.realtime.drain(QUIET)).await;
    assert_eq!(drained.unwrap().unanswered, 1);
}

#[tokio::test]
async fn names_of_groups_are_counted_in_characters() {
    let stage = Stage::start();
    let mut server = Server::start(&stage, "a", 0, 0).await;
    let (mut client, id) = Client::on(&stage, "u", &mut server).await;
    let longest = "ü".repeat(1024);
    let join = |group: &str, ack| Message::Join {
        connection: id.clone(),
        group: text(group),
        ack: Some(ack),
    };
    server.say(join(&longest, 1)).await;
    assert_eq!(server.acked().await, (1, status::OK));
    for (ack, group) in [(2, "ü".repeat(1025)), (3, text(" ")), (4, text(""))] {
        server.say(join(&group, ack)).await;
        assert_eq!(server.acked().await, (ack, status::NOT_FOUND));
    }
    server.tell(Target::Groups(vec![longest]), "hi").await;
    assert_eq!(client.told().await, "hi");
}
