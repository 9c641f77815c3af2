//! Peers that stop reading, and a node that goes on.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::Client as Http;
use serde_json::json;
use steadfast_wire::signalr::service::{ConnectionData, Message, write};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::hub_stage::Stage;
use crate::hub_stage::peers::{Client, PATIENCE, Server, completion, text};

/// A service on worker threads of its own, which end with the test whatever they do.
struct Apart {
    runtime: Option<Runtime>,
    stage: Stage,
}

impl Apart {
    fn start() -> Self {
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        let stage = {
            let _entered = runtime.enter();
            Stage::start()
        };
        Self {
            runtime: Some(runtime),
            stage,
        }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Says more and more until nothing of it is taken any more.
async fn fill(mut client: Client) -> Client {
    let call = json!({"type": 1, "target": "x", "arguments": ["y".repeat(200_000)]});
    let record = Frame::text(format!("{call}\u{1e}"));
    loop {
        let sending = client.socket.send(record.clone());
        let sent = tokio::time::timeout(Duration::from_millis(500), sending).await;
        match sent {
            Ok(sent) => sent.unwrap(),
            Err(_) => return client,
        }
    }
}

/// Reads until the connection is closed; whether the client may come back.
async fn may_return(mut client: Client) -> bool {
    loop {
        let next = tokio::time::timeout(2 * PATIENCE, client.socket.next()).await;
        match next.expect("it is closed").expect("it is told").unwrap() {
            Frame::Text(said) if said.contains("\"type\":7") => {
                return said.contains("\"allowReconnect\":true");
            }
            Frame::Text(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_node_answers_while_an_app_server_stops_reading_and_goes() {
    let apart = Apart::start();
    let mut server = Server::start(&apart.stage, "a", 0, 0).await;
    let mut clients = Vec::new();
    for number in 0..20 {
        let user = format!("u{number}");
        let (client, _) = Client::on(&apart.stage, &user, &mut server).await;
        clients.push(client);
    }
    // From here on the server does not read.
    let filled: JoinSet<_> = clients.into_iter().map(fill).collect();
    let clients = filled.join_all().await;
    drop(server);
    let mut closed: JoinSet<_> = clients.into_iter().map(may_return).collect();
    let http = Http::builder().timeout(Duration::from_secs(2)).build();
    let http = http.unwrap();
    let health = format!("{}/api/health", apart.stage.url());
    loop {
        let answer = http.head(&health).send().await;
        assert_eq!(answer.expect("the node answers").status(), 200);
        match tokio::time::timeout(Duration::from_millis(100), closed.join_next()).await {
            Ok(Some(may_return)) => assert!(may_return.unwrap()),
            Ok(None) => break,
            Err(_) => {}
        }
    }
    // Another server takes clients as if nothing had happened.
    let mut server = Server::start(&apart.stage, "b", 0, 0).await;
    let (mut client, _) = Client::on(&apart.stage, "late", &mut server).await;
    client.invoke(1, "x").await;
    assert_eq!(server.heard().await["target"], "x");
}

#[tokio::test]
async fn a_client_that_reads_gets_small_messages_behind_large_ones() {
    let stage = Stage::start();
    let mut server = Server::start(&stage, "a", 0, 0).await;
    let (mut client, id) = Client::on(&stage, "u", &mut server).await;
    let large: &'static str = format!("\"{}\"", "x".repeat(5 << 20)).leak();
    let sent = [
        completion("1", large),
        completion("2", "\"a\""),
        completion("3", large),
        completion("4", "\"b\""),
    ];
    // In one piece, as a server writes what it has when three calls end together.
    let written = sent.map(|payload| {
        write(&Message::Data(ConnectionData {
            connection: text(&id),
            payload,
            ..ConnectionData::default()
        }))
    });
    server.raw(written.concat().into()).await;
    for (number, length) in [("1", 5 << 20), ("2", 1), ("3", 5 << 20), ("4", 1)] {
        let said = client.next().await;
        assert_eq!(said["invocationId"], number, "{}", said["error"]);
        assert_eq!(said["result"].as_str().unwrap().len(), length);
    }
}

#[tokio::test]
async fn a_client_whose_message_is_too_long_is_told_so() {
    let stage = Stage::start();
    let mut server = Server::start(&stage, "a", 0, 0).await;
    let (client, _) = Client::on(&stage, "u", &mut server).await;
    let (mut sink, mut stream) = client.socket.split();
    let call = json!({"type": 1, "target": "x", "arguments": ["y".repeat(17 << 20)]});
    let sending = tokio::spawn(async move {
        // The service stops reading before its end.
        let _ = sink.send(Frame::text(format!("{call}\u{1e}"))).await;
        sink
    });
    let mut next = async || {
        let next = tokio::time::timeout(PATIENCE, stream.next()).await;
        next.expect("something comes").expect("a frame").unwrap()
    };
    let Frame::Text(said) = next().await else {
        panic!("no word");
    };
    let expected = "Connection closed with an error. \
                    The maximum message size of 16777216B was exceeded.";
    assert_eq!(
        said,
        format!("{{\"type\":7,\"error\":\"{expected}\"}}\u{1e}")
    );
    match next().await {
        Frame::Close(Some(frame)) => assert_eq!(frame.code, CloseCode::Size),
        other => panic!("{other:?}"),
    }
    sending.abort();
}

#[tokio::test]
async fn a_message_in_parts_without_end_closes_its_client_and_no_other() {
    let stage = Stage::start();
    let mut server = Server::start(&stage, "a", 0, 0).await;
    let (mut client, id) = Client::on(&stage, "u", &mut server).await;
    let (mut other, other_id) = Client::on(&stage, "v", &mut server).await;
    let part = |id: &str| {
        Message::Data(ConnectionData {
            connection: text(id),
            payload: vec![b'x'; 1 << 20].into(),
            is_partial: true,
            ..ConnectionData::default()
        })
    };
    // Less than what one client may be sent in parts.
    for _ in 0..15 {
        server.say(part(&other_id)).await;
    }
    for _ in 0..40 {
        server.say(part(&id)).await;
    }
    let said = client.next().await;
    assert_eq!(said["type"], 7);
    let error = said["error"].as_str().unwrap();
    assert!(error.ends_with("The message is too long."), "{error}");
    // The other message ends, and nothing of it was lost: it is no JSON.
    server.send(&other_id, b"\x1e".to_vec().into()).await;
    let next = tokio::time::timeout(PATIENCE, other.socket.next()).await;
    let frame = next.expect("it comes").expect("a frame").unwrap();
    assert_eq!(frame.len(), (15 << 20) + 1);
}
