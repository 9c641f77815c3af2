//! Hubs whose clients and app servers are at several nodes.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::{Method, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};
use steadfast_harness::Process;
use steadfast_wire::jwt;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::nodes::{database, three};
use crate::running::{PATIENCE, Server, steadfast, until};

/// The hub of `steadfast bench realtime-app`, and the key of `steadfast dev`.
const HUB: &str = "far";
const SECRET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEFGH";

/// An app server that is linked to one node.
fn app(server: &Server, name: &str) -> Process {
    let mut command = steadfast(server.folder.path());
    let service = format!("127.0.0.1:{}", server.port());
    command.args(["bench", "realtime-app", &service, name]);
    let mut process = Process::spawn(command).unwrap();
    let line = process.next_line(PATIENCE).unwrap();
    assert_eq!(line.trim(), "READY");
    process
}

fn token(server: &Server, user: &str) -> String {
    let path = format!("/v1/hubs/{HUB}/tokens");
    let (_, told) = server.post(&path, json!({ "user": user }));
    told["token"].as_str().unwrap().to_owned()
}

/// A client that speaks JSON.
struct Client {
    id: String,
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    said: VecDeque<Value>,
    /// Broadcasts that have come.
    ticks: Vec<u64>,
}

/// Negotiates at a node; the id of the connection, and its token.
async fn negotiate(server: &Server, token: &str) -> (String, String) {
    let query = format!("hub={HUB}&access_token={token}&negotiateVersion=1");
    let url = format!("{}/client/negotiate?{query}", server.url);
    let told = server.client.post(url).send().await.unwrap();
    let told: Value = told.json().await.unwrap();
    let text = |name: &str| told[name].as_str().unwrap().to_owned();
    (text("connectionId"), text("connectionToken"))
}

impl Client {
    /// Negotiates at one node, and comes to another.
    fn start(met: &Server, server: &Server, user: &str) -> Self {
        let access = token(server, user);
        server.block(async {
            let (id, shown) = negotiate(met, &access).await;
            let query = format!("hub={HUB}&access_token={access}&id={shown}");
            let url = format!("ws://127.0.0.1:{}/client/?{query}", server.port());
            let (mut socket, _) = connect_async(url).await.unwrap();
            let hello = json!({"protocol": "json", "version": 1});
            let hello = Message::text(format!("{hello}\u{1e}"));
            socket.send(hello).await.unwrap();
            let mut client = Self {
                id,
                socket,
                said: VecDeque::new(),
                ticks: Vec::new(),
            };
            assert_eq!(client.next().await, json!({}));
            client
        })
    }

    /// The next message that is no broadcast or ping.
    async fn next(&mut self) -> Value {
        loop {
            let said = self.any().await;
            match said["type"].as_i64() {
                Some(6) => {}
                Some(1) if said["target"] == "tick" => self.tick(&said),
                _ => return said,
            }
        }
    }

    fn tick(&mut self, said: &Value) {
        self.ticks.push(said["arguments"][0].as_u64().unwrap());
    }

    async fn any(&mut self) -> Value {
        loop {
            if let Some(said) = self.said.pop_front() {
                return said;
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

    /// Waits until the last broadcast is this one; all that have come.
    async fn until(&mut self, number: u64) -> Vec<u64> {
        while self.ticks.last() != Some(&number) {
            let said = self.any().await;
            if said["type"] == 1 {
                self.tick(&said);
            }
        }
        std::mem::take(&mut self.ticks)
    }

    /// So many broadcasts, sorted.
    async fn some(&mut self, count: usize) -> Vec<u64> {
        while self.ticks.len() < count {
            let said = self.any().await;
            if said["type"] == 1 {
                self.tick(&said);
            }
        }
        self.ticks.sort_unstable();
        std::mem::take(&mut self.ticks)
    }

    async fn say(&mut self, message: &Value) {
        let message = Message::text(format!("{message}\u{1e}"));
        self.socket.send(message).await.unwrap();
    }

    async fn call(&mut self, target: &str, arguments: Value) -> Value {
        let call =
            json!({"type": 1, "invocationId": "1", "target": target, "arguments": arguments});
        self.say(&call).await;
        let done = self.next().await;
        assert_eq!(done["type"], 3, "{done}");
        done["result"].clone()
    }
}

/// Sends a number by our own interface.
fn send(server: &Server, to: &Value, number: u64) {
    let mut body = json!({"target": "tick", "arguments": [number]});
    body.as_object_mut()
        .unwrap()
        .extend(to.as_object().unwrap().clone());
    let (status, told) = server.post(&format!("/v1/hubs/{HUB}/send"), body);
    assert_eq!(status, StatusCode::ACCEPTED, "{told}");
}

/// Asks as the management SDKs do.
fn manage(server: &Server, method: Method, path: &str, body: Option<Value>) -> StatusCode {
    let path = format!("/api/hubs/{HUB}{path}");
    let bare = path.split('?').next().unwrap();
    let audience = format!("http://127.0.0.1{bare}");
    let claims = json!({"aud": audience, "exp": 4_000_000_000_u64});
    let token = jwt::token(claims.as_object().unwrap(), SECRET);
    let (status, _) = server.ask(method, &path, &format!("Bearer {token}"), body);
    status
}

#[test]
fn a_hub_is_one_hub_at_all_nodes() {
    let database = database();
    let mut nodes = three(&database);
    let (a, b, c) = (&nodes[0], &nodes[1], &nodes[2]);
    let first = app(a, "first");
    // Clients negotiate at one node and come to another; one server serves them all.
    let mut x = Client::start(a, a, "alice");
    let mut y = Client::start(a, b, "bob");
    let mut z = Client::start(b, c, "alice");
    for (node, client) in [(a, &mut x), (b, &mut y), (c, &mut z)] {
        let process = node.block(client.call("process", json!([])));
        assert_eq!(process, first.id());
    }
    b.block(y.call("enter", json!(["g"])));
    c.block(z.call("enter", json!(["g"])));
    audiences(&nodes, [&mut x, &mut y, &mut z]);
    memberships(&nodes, [&mut x, &mut y, &mut z]);
    questions(&nodes, [&mut x, &mut y, &mut z]);
    polls(&nodes);
    // A node that leaves tells its clients to come back.
    let mut leaving = nodes.pop().unwrap();
    leaving.signal(Signal::TERM);
    let closed = nodes[0].block(z.next());
    assert_eq!(closed["allowReconnect"], true, "{closed}");
    let (code, said) = leaving.ended();
    assert_eq!(code, 0, "{said}");
    // The sheet says how many of them there were.
    let line = |name: &str| {
        let line = said.lines().find(|line| line.starts_with(name));
        let count = line.and_then(|line| line.split_whitespace().last());
        count.and_then(|count| count.parse::<u64>().ok())
    };
    assert!(line("clients").unwrap() >= 1, "{said}");
    assert_eq!(line("dropped"), Some(0), "{said}");
    // And so does a node whose server was linked to one that is killed.
    let mut killed = nodes.remove(0);
    killed.process.kill().unwrap();
    let closed = nodes[0].block(y.next());
    assert_eq!(closed["type"], 7, "{closed}");
    assert_eq!(closed["allowReconnect"], true, "{closed}");
}

/// Groups, users, connections, everybody, and everybody but some; in order.
fn audiences(nodes: &[Server], [x, y, z]: [&mut Client; 3]) {
    let (a, b, c) = (&nodes[0], &nodes[1], &nodes[2]);
    let all = json!({});
    let mut number = 0;
    for node in [a, b, c] {
        for _ in 0..100 {
            number += 1;
            send(node, &all, number);
        }
        // Nothing of the next sender before the last of this one.
        for client in [&mut *x, &mut *y, &mut *z] {
            let told = a.block(client.until(number));
            assert_eq!(told, (number - 99..=number).collect::<Vec<_>>());
        }
    }
    send(a, &json!({"group": "g"}), 1001);
    send(b, &json!({"user": "alice"}), 1002);
    send(c, &json!({"connection": y.id}), 1003);
    let except = format!("/:send?excluded={}", x.id);
    let body = json!({"target": "tick", "arguments": [1004]});
    assert_eq!(
        manage(c, Method::POST, &except, Some(body)),
        StatusCode::ACCEPTED
    );
    // The one who shouts hears nothing.
    b.block(y.call("shout", json!([1005])));
    // Senders at different nodes have no order among them.
    assert_eq!(a.block(x.some(2)), [1002, 1005]);
    assert_eq!(b.block(y.some(3)), [1001, 1003, 1004]);
    assert_eq!(c.block(z.some(4)), [1001, 1002, 1004, 1005]);
    send(a, &all, 1006);
    for client in [x, y, z] {
        assert_eq!(a.block(client.until(1006)), [1006]);
    }
}

/// Joined, asked for and closed at nodes that do not have the connection.
fn memberships(nodes: &[Server], [x, y, z]: [&mut Client; 3]) {
    let (a, b, c) = (&nodes[0], &nodes[1], &nodes[2]);
    let member = format!("/groups/h/connections/{}", y.id);
    assert_eq!(manage(a, Method::PUT, &member, None), StatusCode::OK);
    let absent = "/groups/h/connections/absent";
    assert_eq!(manage(a, Method::PUT, absent, None), StatusCode::NOT_FOUND);
    let one = format!("/connections/{}", y.id);
    for node in [a, b, c] {
        for path in ["/groups/h", "/users/bob", &one] {
            assert_eq!(manage(node, Method::HEAD, path, None), StatusCode::OK);
        }
        for path in ["/groups/i", "/users/carol", "/connections/absent"] {
            assert_eq!(
                manage(node, Method::HEAD, path, None),
                StatusCode::NOT_FOUND
            );
        }
    }
    // A user is in a group wherever it comes from now on.
    let user = "/users/carol/groups/h";
    assert_eq!(manage(c, Method::PUT, user, None), StatusCode::OK);
    let mut carol = Client::start(b, b, "carol");
    until("a user in its group", || {
        let (_, told) = b.get(&format!("/v1/hubs/{HUB}/clients/{}", carol.id));
        (told["groups"] == json!(["h"])).then_some(())
    });
    send(a, &json!({"group": "h"}), 2001);
    send(a, &json!({}), 2002);
    assert_eq!(b.block(carol.until(2002)), [2001, 2002]);
    assert_eq!(b.block(y.until(2002)), [2001, 2002]);
    assert_eq!(a.block(x.until(2002)), [2002]);
    assert_eq!(c.block(z.until(2002)), [2002]);
    assert_eq!(manage(a, Method::DELETE, &member, None), StatusCode::OK);
    let other = format!("/connections/{}?reason=enough", carol.id);
    assert_eq!(manage(c, Method::DELETE, &other, None), StatusCode::OK);
    let closed = b.block(carol.next());
    assert_eq!(
        (&closed["type"], &closed["error"]),
        (&json!(7), &json!("enough"))
    );
}

/// A hub asks a client of another node.
fn questions(nodes: &[Server], [x, y, _]: [&mut Client; 3]) {
    let (a, b) = (&nodes[0], &nodes[1]);
    let id = y.id.clone();
    let asking = async { x.call("ask", json!([id])).await };
    let answering = async {
        let asked = y.next().await;
        assert_eq!(asked["target"], "name", "{asked}");
        let id = &asked["invocationId"];
        y.say(&json!({"type": 3, "invocationId": id, "result": "bob"}))
            .await;
    };
    let (told, ()) = a.block(async { tokio::join!(asking, answering) });
    assert_eq!(told, "bob");
    // A call to an unknown client fails at once.
    let call = json!({"type": 1, "invocationId": "2", "target": "ask", "arguments": ["absent"]});
    let done = b.block(async {
        y.say(&call).await;
        y.next().await
    });
    assert!(done["error"].is_string(), "{done}");
}

/// Negotiated here, polled there, posted elsewhere.
fn polls(nodes: &[Server]) {
    let (a, b, c) = (&nodes[0], &nodes[1], &nodes[2]);
    let access = token(a, "dora");
    let (_, shown) = a.block(negotiate(a, &access));
    let url = |node: &Server| {
        let query = format!("hub={HUB}&access_token={access}&id={shown}");
        format!("{}/client/?{query}", node.url)
    };
    let poll = |node: &Server| {
        node.block(async {
            let request = node.client.get(url(node)).timeout(Duration::from_secs(25));
            let answer = request.send().await.unwrap();
            (answer.status(), answer.text().await.unwrap())
        })
    };
    let post = |node: &Server, message: &Value| {
        node.block(async {
            let body = format!("{message}\u{1e}");
            let sent = node.client.post(url(node)).body(body).send().await.unwrap();
            assert_eq!(sent.status(), StatusCode::OK);
        });
    };
    assert_eq!(poll(b), (StatusCode::OK, String::new()));
    post(c, &json!({"protocol": "json", "version": 1}));
    assert_eq!(poll(b), (StatusCode::OK, "{}\u{1e}".to_owned()));
    let call = json!({"type": 1, "invocationId": "1", "target": "echo", "arguments": ["hi"]});
    post(b, &call);
    let (status, text) = poll(c);
    assert_eq!(status, StatusCode::OK);
    assert!(text.contains(r#""result":"hi""#), "{text}");
    let ended = c.block(async { c.client.delete(url(c)).send().await.unwrap() });
    assert_eq!(ended.status(), StatusCode::ACCEPTED);
    assert_eq!(poll(b).0, StatusCode::NOT_FOUND);
}
