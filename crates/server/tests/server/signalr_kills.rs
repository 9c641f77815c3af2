//! App servers as processes, and `kill -9` of one.

use std::collections::VecDeque;

use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::StatusCode;
use serde_json::{Value, json};
use steadfast_harness::Process;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::running::{PATIENCE, Server, Start, steadfast, until};

/// The hub of `steadfast bench realtime-app`.
const HUB: &str = "far";

/// An app server of a running service.
fn app(server: &Server, name: &str) -> Process {
    let mut command = steadfast(server.folder.path());
    let service = format!("127.0.0.1:{}", server.port());
    command.args(["bench", "realtime-app", &service, name]);
    let mut process = Process::spawn(command).unwrap();
    let line = process.next_line(PATIENCE).unwrap();
    assert_eq!(line.trim(), "READY");
    process
}

/// A client that speaks JSON.
struct Client {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    said: VecDeque<Value>,
    /// Broadcasts that have come.
    ticks: Vec<u64>,
}

impl Client {
    async fn start(server: &Server, token: &str, is_stateful: bool) -> Self {
        let query = format!("hub={HUB}&access_token={token}");
        let mut id = String::new();
        if is_stateful {
            let url = format!(
                "{}/client/negotiate?{query}&negotiateVersion=1&useStatefulReconnect=true",
                server.url
            );
            let told = server.client.post(url).send().await.unwrap();
            let told: Value = told.json().await.unwrap();
            assert_eq!(told["useStatefulReconnect"], true, "{told}");
            id = format!("&id={}", told["connectionToken"].as_str().unwrap());
        }
        let url = format!("ws://127.0.0.1:{}/client/?{query}{id}", server.port());
        let (mut socket, _) = connect_async(url).await.unwrap();
        let version = if is_stateful { 2 } else { 1 };
        let hello = json!({"protocol": "json", "version": version});
        let hello = Message::text(format!("{hello}\u{1e}"));
        socket.send(hello).await.unwrap();
        let mut client = Self {
            socket,
            said: VecDeque::new(),
            ticks: Vec::new(),
        };
        assert_eq!(client.next().await, json!({}));
        client
    }

    /// The next message that is no broadcast, ping or number.
    async fn next(&mut self) -> Value {
        loop {
            while let Some(said) = self.said.pop_front() {
                match said["type"].as_i64() {
                    Some(6 | 8) => {}
                    Some(1) if said["target"] == "tick" => {
                        self.ticks.push(said["arguments"][0].as_u64().unwrap());
                    }
                    _ => return said,
                }
            }
            let next = tokio::time::timeout(PATIENCE, self.socket.next()).await;
            let frame = next.expect("something comes").expect("a frame").unwrap();
            for record in frame.to_text().unwrap().split('\u{1e}') {
                if !record.is_empty() {
                    self.said.push_back(serde_json::from_str(record).unwrap());
                }
            }
        }
    }

    async fn call(&mut self, id: u64, target: &str, arguments: Value) -> Value {
        let id = id.to_string();
        let call = json!({"type": 1, "invocationId": id, "target": target, "arguments": arguments});
        let call = Message::text(format!("{call}\u{1e}"));
        self.socket.send(call).await.unwrap();
        let done = self.next().await;
        assert!(done["type"] == 7 || done["invocationId"] == id, "{done}");
        done
    }
}

fn broadcast(server: &Server, number: u64) {
    let body = json!({"target": "tick", "arguments": [number], "group": "g"});
    let (status, told) = server.post(&format!("/v1/hubs/{HUB}/send"), body);
    assert_eq!(status, StatusCode::ACCEPTED, "{told}");
}

#[test]
fn nothing_is_missed_when_an_app_server_is_killed() {
    let server = Start::new("dev").ready();
    let mut first = app(&server, "first");
    let path = format!("/v1/hubs/{HUB}/tokens");
    let (_, told) = server.post(&path, json!({"user": "alice"}));
    let token = told["token"].as_str().unwrap().to_owned();
    let mut stateful = server.block(Client::start(&server, &token, true));
    let mut plain = server.block(Client::start(&server, &token, false));
    server.block(stateful.call(0, "enter", json!(["g"])));
    let process = server.block(plain.call(0, "process", json!([])));
    assert_eq!(process["result"], first.id());
    let _second = app(&server, "second");
    let mut lost = 0;
    for number in 1..=60_u64 {
        if number == 20 {
            first.kill().unwrap();
        }
        broadcast(&server, number);
        // A call that was under way is answered with an error, and made again.
        loop {
            let done = server.block(stateful.call(number, "note", json!([number])));
            if done["result"] == number {
                break;
            }
            assert_eq!(done["error"], "The app server was lost.", "{done}");
            lost += 1;
        }
    }
    assert!(lost <= 1, "{lost} calls were under way");
    let (before, after): (Vec<_>, Vec<_>) = ((1..=60).collect(), stateful.ticks.clone());
    assert_eq!(after, before, "no broadcast is missed, doubled or late");
    let process = server.block(stateful.call(100, "process", json!([])));
    assert_ne!(process["result"], first.id());
    // Clients that cannot be kept are asked to reconnect, and do.
    let closed = server.block(plain.next());
    assert_eq!(
        (&closed["type"], &closed["allowReconnect"]),
        (&7.into(), &true.into())
    );
    let mut again = server.block(Client::start(&server, &token, false));
    let done = server.block(again.call(1, "note", json!([1])));
    assert_eq!(done["result"], 1);
    until("the service notices", || {
        let (_, told) = server.get(&format!("/v1/hubs/{HUB}/servers"));
        let servers = told["servers"].as_array().unwrap().len();
        (servers == 1).then_some(())
    });
    let metrics = server.get("/metrics").1;
    let metrics = metrics.as_str().unwrap();
    let expected = "steadfast_realtime_clients{hub=\"far\"} 2";
    assert!(metrics.contains(expected), "{metrics}");
    for name in [
        "deliveries_total",
        "dropped_total",
        "moved_total",
        "servers",
    ] {
        assert!(metrics.contains(&format!("steadfast_realtime_{name}{{hub=\"far\"}}")));
    }
}
