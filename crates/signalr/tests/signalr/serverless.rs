//! Clients without app servers: REST and upstreams.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use steadfast_core::clock::Clock as _;
use steadfast_realtime::ServiceMode;
use steadfast_signalr::{UpstreamRule, server_token};
use steadfast_wire::jwt;
use steadfast_wire::signalr::frame::{self, Splitter};
use steadfast_wire::signalr::service::{Message, ServerHandshake, read, write};
use steadfast_wire::signalr::{Protocol, pack, write as hub};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::hub_stage::{SECOND, SECRET, Stage};

const PATIENCE: Duration = Duration::from_secs(10);
const HUB: &str = "far";

/// Something that an upstream was told.
struct Told {
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Told {
    fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |own| std::str::from_utf8(own.as_bytes()).unwrap())
    }
}

type Ears = mpsc::UnboundedSender<Told>;

/// An upstream that answers as the name of the method wants it.
async fn upstream() -> (SocketAddr, mpsc::UnboundedReceiver<Told>) {
    let (ears, told) = mpsc::unbounded_channel();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Router::new().fallback(hear).with_state(Arc::new(ears));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (address, told)
}

async fn hear(State(ears): State<Arc<Ears>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let path = parts.uri.path().to_owned();
    let name = path.rsplit('/').next().unwrap().to_owned();
    let told = Told {
        path,
        headers: parts.headers,
        body: body.clone(),
    };
    ears.send(told).unwrap();
    match name.as_str() {
        "value" => {
            let call: Value = serde_json::from_slice(&body).unwrap();
            let done = json!({"type": 3, "invocationId": call["invocationId"], "result": 42});
            format!("{done}\u{1e}").into_response()
        }
        "empty" => StatusCode::OK.into_response(),
        "fails" => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        "nonsense" => "hello".into_response(),
        _ => StatusCode::NO_CONTENT.into_response(),
    }
}

fn rules(address: SocketAddr) -> Vec<UpstreamRule> {
    let rule = |category: &str, event: &str| UpstreamRule {
        url: format!("http://{address}/{{hub}}/{{category}}/{{event}}"),
        hub: HUB.to_owned(),
        category: category.to_owned(),
        event: event.to_owned(),
    };
    vec![
        rule("connections", "*"),
        rule("messages", "value, empty, none, fails, nonsense, packed"),
    ]
}

/// A client that speaks one of the protocols.
struct Client {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl Client {
    async fn start(stage: &Stage, protocol: &str, claims: &[(&str, &str)]) -> Self {
        let token = stage.token_with(HUB, claims, Duration::from_secs(60));
        let url = format!("ws://{}/client/?hub={HUB}&colour=blue", stage.address);
        let mut request = url.into_client_request().unwrap();
        let bearer = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        let (socket, _) = connect_async(request).await.unwrap();
        let mut client = Self { socket };
        let hello = format!("{{\"protocol\":\"{protocol}\",\"version\":1}}\u{1e}");
        client.say(Frame::text(hello)).await;
        assert_eq!(client.bytes().await, "{}\u{1e}");
        client
    }

    async fn say(&mut self, frame: Frame) {
        self.socket.send(frame).await.unwrap();
    }

    async fn bytes(&mut self) -> Bytes {
        let next = tokio::time::timeout(PATIENCE, self.socket.next()).await;
        next.expect("something comes").unwrap().unwrap().into_data()
    }

    async fn next(&mut self) -> Value {
        let bytes = self.bytes().await;
        serde_json::from_slice(&bytes[..bytes.len() - 1]).unwrap()
    }

    async fn invoke(&mut self, id: &str, target: &str) -> Value {
        let call = json!({"type": 1, "invocationId": id, "target": target, "arguments": [1]});
        self.say(Frame::text(format!("{call}\u{1e}"))).await;
        self.next().await
    }
}

async fn heard(told: &mut mpsc::UnboundedReceiver<Told>) -> Told {
    let told = tokio::time::timeout(PATIENCE, told.recv()).await;
    told.expect("the upstream is told").unwrap()
}

#[tokio::test]
async fn realtime_55_upstreams_are_told_and_their_answers_passed_on() {
    let (address, mut told) = upstream().await;
    let stage = Stage::start_in(ServiceMode::Serverless, rules(address));
    let claims = [("asrs.s.uid", "bob"), ("role", "admin")];
    let mut client = Client::start(&stage, "json", &claims).await;
    let connected = heard(&mut told).await;
    assert_eq!(connected.path, "/far/connections/connected");
    assert_eq!(connected.body, "{\"type\":10}");
    let id = connected.header("x-asrs-connection-id").to_owned();
    assert!(stage.realtime.hub(HUB).unwrap().client(&id).is_some());
    for (name, value) in [
        ("content-type", "application/json"),
        ("x-asrs-hub", HUB),
        ("x-asrs-category", "connections"),
        ("x-asrs-event", "connected"),
        ("x-asrs-user-id", "bob"),
        ("x-asrs-client-query", "hub=far&colour=blue"),
    ] {
        assert_eq!(connected.header(name), value, "{name}");
    }
    let claims = connected.header("x-asrs-user-claims");
    assert!(
        claims.contains("role: admin") && claims.contains(", "),
        "{claims}"
    );
    let expected = [SECRET, SECOND].map(|secret| signed(secret, &id)).join(",");
    assert_eq!(connected.header("x-asrs-signature"), expected);

    let answers = [
        (
            "value",
            json!({"type": 3, "invocationId": "value", "result": 42}),
        ),
        ("empty", json!({"type": 3, "invocationId": "empty"})),
        ("none", json!({"type": 3, "invocationId": "none"})),
        (
            "fails",
            failed("fails", "Invocation failed, status code 500"),
        ),
        (
            "nonsense",
            failed("nonsense", "Invocation failed, the answer is no completion"),
        ),
    ];
    for (target, expected) in answers {
        assert_eq!(client.invoke(target, target).await, expected);
        let own = heard(&mut told).await;
        assert_eq!(own.path, format!("/far/messages/{target}"));
        assert_eq!(own.header("x-asrs-event"), target);
        let body: Value = serde_json::from_slice(&own.body).unwrap();
        assert_eq!(
            (&body["type"], &body["target"]),
            (&json!(1), &json!(target))
        );
    }
    // No rule matches these.
    let why = "No upstream is configured for the method 'other'.";
    assert_eq!(client.invoke("7", "other").await, failed("7", why));
    let stream = json!({"type": 4, "invocationId": "8", "target": "value", "arguments": []});
    client.say(Frame::text(format!("{stream}\u{1e}"))).await;
    let why = "Streams need an app server, and none serves this client.";
    assert_eq!(client.next().await, failed("8", why));

    drop(client);
    let gone = heard(&mut told).await;
    assert_eq!(gone.path, "/far/connections/disconnected");
    let body: Value = serde_json::from_slice(&gone.body).unwrap();
    assert_eq!(body["type"], 11);
}

fn failed(id: &str, why: &str) -> Value {
    json!({"type": 3, "invocationId": id, "error": why})
}

fn signed(secret: &str, connection: &str) -> String {
    let hex = steadfast_wire::signature::sign(secret.as_bytes(), connection);
    let hex: String = hex.iter().map(|byte| format!("{byte:02X}")).collect();
    format!("sha256={hex}")
}

#[tokio::test]
async fn realtime_55_messagepack_goes_up_as_it_is() {
    let (address, mut told) = upstream().await;
    let stage = Stage::start_in(ServiceMode::Serverless, rules(address));
    let mut client = Client::start(&stage, "messagepack", &[]).await;
    assert_eq!(
        heard(&mut told).await.header("content-type"),
        "application/json"
    );
    let mut arguments = Vec::new();
    pack::array(&mut arguments, 0);
    let protocol = Protocol::MessagePack;
    let call = hub::invocation(protocol, Some("1"), "packed", &arguments);
    client.say(Frame::Binary(call.clone())).await;
    let own = heard(&mut told).await;
    assert_eq!(own.header("content-type"), "application/x-msgpack");
    assert_eq!(own.body, frame::body(protocol, &call).unwrap());
    let void = steadfast_wire::signalr::message::Outcome::Void;
    assert_eq!(client.bytes().await, hub::completion(protocol, "1", &void));
}

#[tokio::test]
async fn calls_of_one_client_go_up_in_their_order() {
    let (address, mut told) = upstream().await;
    let stage = Stage::start_in(ServiceMode::Serverless, rules(address));
    let mut client = Client::start(&stage, "json", &[]).await;
    heard(&mut told).await;
    for number in 0..50 {
        let call = json!({"type": 1, "target": "none", "arguments": [number]});
        client.say(Frame::text(format!("{call}\u{1e}"))).await;
    }
    for number in 0..50 {
        let body: Value = serde_json::from_slice(&heard(&mut told).await.body).unwrap();
        assert_eq!(body["arguments"][0], number);
    }
}

/// What the service answers to an app server.
async fn welcome(stage: &Stage) -> (WebSocketStream<MaybeTlsStream<TcpStream>>, String) {
    let token = server_token(HUB, "a", "localhost", SECRET, stage.clock.now());
    let url = format!("ws://{}/server/?hub={HUB}", stage.address);
    let mut request = url.into_client_request().unwrap();
    let bearer = format!("Bearer {token}").parse().unwrap();
    request.headers_mut().insert("authorization", bearer);
    let (mut socket, _) = connect_async(request).await.unwrap();
    let hello = Message::Handshake(ServerHandshake {
        version: 1,
        elements: 7,
        ..ServerHandshake::default()
    });
    socket.send(Frame::Binary(write(&hello))).await.unwrap();
    let answer = tokio::time::timeout(PATIENCE, socket.next()).await.unwrap();
    let bytes = answer.unwrap().unwrap().into_data();
    let body = frame::body(Protocol::MessagePack, &bytes).unwrap();
    match read(&body).unwrap() {
        Message::Welcome { error, .. } => (socket, error),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_service_without_servers_says_so_to_them() {
    let stage = Stage::start_in(ServiceMode::Serverless, Vec::new());
    let (_, error) = welcome(&stage).await;
    assert!(error.contains("Serverless"), "{error}");
}

#[tokio::test]
async fn in_the_classic_mode_a_server_is_used_if_one_is_there() {
    let stage = Stage::start_in(ServiceMode::Classic, Vec::new());
    // No client is connected: the service itself answers.
    let _without = Client::start(&stage, "json", &[]).await;
    let (mut server, error) = welcome(&stage).await;
    assert_eq!(error, "");
    let token = stage.token(HUB);
    let url = format!(
        "ws://{}/client/?hub={HUB}&access_token={token}",
        stage.address
    );
    let (mut socket, _) = connect_async(url).await.unwrap();
    let hello = "{\"protocol\":\"json\",\"version\":1}\u{1e}";
    socket.send(Frame::text(hello)).await.unwrap();
    let mut splitter = Splitter::default();
    let opened = tokio::time::timeout(PATIENCE, async {
        loop {
            let whole = splitter.next(Protocol::MessagePack, 1 << 20).unwrap();
            let Some(whole) = whole else {
                splitter.push(server.next().await.unwrap().unwrap().into_data());
                continue;
            };
            let body = frame::body(Protocol::MessagePack, &whole).unwrap();
            if let Ok(Message::Open(open)) = read(&body) {
                return open;
            }
        }
    });
    let opened = opened.await.expect("the server gets the client");
    assert_eq!(opened.protocol.as_deref(), Some("json"));
}

#[tokio::test]
async fn rest_reaches_clients_without_a_server() {
    let stage = Stage::start_in(ServiceMode::Serverless, Vec::new());
    let mut client = Client::start(&stage, "json", &[]).await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::new();
    for path in ["/api/hubs/far/:send", "/api/v1/hubs/far"] {
        let ends = stage.clock.now().0 / 1000 + 60;
        let claims = json!({"aud": format!("http://localhost{path}"), "exp": ends});
        let token = jwt::token(claims.as_object().unwrap(), SECRET);
        let url = format!("{}{path}?api-version=2022-06-01", stage.url());
        let request = http.post(url).bearer_auth(token);
        let body = json!({"target": "told", "arguments": [path]});
        let sent = request.json(&body).send().await.unwrap();
        assert_eq!(sent.status(), StatusCode::ACCEPTED, "{path}");
        assert_eq!(client.next().await["arguments"][0], path);
    }
    for path in ["/api/health", "/api/v1/health"] {
        let url = format!("{}{path}", stage.url());
        assert_eq!(http.head(url).send().await.unwrap().status(), 200);
    }
}
