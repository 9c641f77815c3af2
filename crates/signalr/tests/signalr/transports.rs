//! Negotiation and transports, byte by byte over real sockets.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::{Client, Method, Response, StatusCode};
use serde_json::{Value, json};
use steadfast_wire::signalr::message::Outcome;
use steadfast_wire::signalr::{Protocol, pack, write as hub};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::hub_stage::{self, Stage};

const PATIENCE: Duration = Duration::from_secs(10);
const HELLO: &str = "{\"protocol\":\"json\",\"version\":1}\u{1e}";
const ADD: &str =
    "{\"type\":1,\"invocationId\":\"1\",\"target\":\"add\",\"arguments\":[1,2]}\u{1e}";
const ADDED: &str = "{\"type\":3,\"invocationId\":\"1\",\"result\":3}\u{1e}";

/// A stage with a client that shows a token.
struct Scene {
    stage: Stage,
    token: String,
    http: Client,
}

impl Scene {
    fn new() -> Self {
        // The clients of these tests encrypt with ring, if they did.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let stage = Stage::start();
        let token = stage.token("room");
        let http = Client::builder().timeout(4 * PATIENCE).build().unwrap();
        Self { stage, token, http }
    }

    async fn ask(&self, method: Method, path: &str, body: &str) -> Response {
        let url = format!("{}{path}", self.stage.url());
        let request = self.http.request(method, url).bearer_auth(&self.token);
        request.body(body.to_owned()).send().await.unwrap()
    }

    async fn negotiate(&self, query: &str) -> Value {
        let path = format!("/client/negotiate?hub=room{query}");
        let response = self.ask(Method::POST, &path, "").await;
        assert_eq!(response.status(), StatusCode::OK);
        response.json().await.unwrap()
    }

    /// The path of a connection that was negotiated.
    async fn door(&self) -> String {
        let told = self.negotiate("&negotiateVersion=1").await;
        format!(
            "/client/?hub=room&id={}",
            told["connectionToken"].as_str().unwrap()
        )
    }

    async fn status(&self, method: Method, path: &str) -> (StatusCode, String) {
        let response = self.ask(method, path, "").await;
        (response.status(), response.text().await.unwrap())
    }

    async fn socket(&self, path: &str) -> Result<Socket, Error> {
        let url = format!("ws://{}{path}", self.stage.address);
        let mut request = url.into_client_request().unwrap();
        let bearer = format!("Bearer {}", self.token).parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        let (socket, _) = connect_async(request).await?;
        Ok(Socket(socket))
    }

    /// The status with which a socket is refused.
    async fn refused(&self, path: &str) -> u16 {
        match self.socket(path).await {
            Err(Error::Http(response)) => response.status().as_u16(),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("{path} was opened"),
        }
    }
}

struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    async fn say(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.unwrap();
    }

    async fn next(&mut self) -> Message {
        let next = tokio::time::timeout(PATIENCE, self.0.next()).await;
        next.expect("something comes").expect("a message").unwrap()
    }

    async fn text(&mut self) -> String {
        self.next().await.into_text().unwrap().to_string()
    }
}

#[tokio::test]
async fn realtime_01_the_public_id_does_not_let_anybody_in() {
    let scene = Scene::new();
    let told = scene.negotiate("&negotiateVersion=1").await;
    let (id, token) = (&told["connectionId"], &told["connectionToken"]);
    assert_ne!(id, token);
    assert_eq!(told["negotiateVersion"], 1);
    let by_id = format!("/client/?hub=room&id={}", id.as_str().unwrap());
    let refused = scene.status(Method::GET, &by_id).await;
    assert_eq!(
        refused,
        (
            StatusCode::NOT_FOUND,
            "No Connection with that ID".to_owned()
        )
    );
    assert_eq!(scene.refused(&by_id).await, 404);
    let expected = json!([
        {"transport": "WebSockets", "transferFormats": ["Text", "Binary"]},
        {"transport": "ServerSentEvents", "transferFormats": ["Text"]},
        {"transport": "LongPolling", "transferFormats": ["Text", "Binary"]},
    ]);
    assert_eq!(told["availableTransports"], expected);
}

#[tokio::test]
async fn realtime_02_without_a_version_it_is_0_and_the_id_lets_in() {
    let scene = Scene::new();
    let told = scene.negotiate("").await;
    assert_eq!(told["negotiateVersion"], 0);
    assert!(told.get("connectionToken").is_none());
    let path = format!(
        "/client/?hub=room&id={}",
        told["connectionId"].as_str().unwrap()
    );
    let mut socket = scene.socket(&path).await.unwrap();
    socket.say(HELLO).await;
    assert_eq!(socket.text().await, "{}\u{1e}");
}

#[tokio::test]
async fn realtime_03_versions_beyond_1_are_1_and_what_is_none_is_an_error() {
    let scene = Scene::new();
    assert_eq!(
        scene.negotiate("&negotiateVersion=7").await["negotiateVersion"],
        1
    );
    assert_eq!(
        scene.negotiate("&NegotiateVersion=1").await["negotiateVersion"],
        1
    );
    assert!(scene.negotiate("&negotiateVersion=x").await["error"].is_string());
}

#[tokio::test]
async fn realtime_04_coming_back_is_granted_only_if_asked_for_and_allowed() {
    let scene = Scene::new();
    let asked = "&negotiateVersion=1&useStatefulReconnect=true";
    assert_eq!(scene.negotiate(asked).await["useStatefulReconnect"], true);
    let unasked = scene.negotiate("&negotiateVersion=1").await;
    assert!(unasked.get("useStatefulReconnect").is_none());
    let path = "/open/negotiate?negotiateVersion=1&useStatefulReconnect=true";
    let url = format!("{}{path}", scene.stage.url());
    let told: Value = scene
        .http
        .post(url)
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert!(
        told.get("useStatefulReconnect").is_none(),
        "the hub does not allow it"
    );
    assert!(told["connectionId"].is_string());
}

#[tokio::test]
async fn realtime_05_tokens_come_by_header_and_by_query() {
    let scene = Scene::new();
    let token = &scene.token;
    for path in ["/client/negotiate", "/client/negotiate/"] {
        let url = format!("{}{path}?hub=room&access_token={token}", scene.stage.url());
        let status = scene.http.post(url).send().await.unwrap().status();
        let expected = if path.ends_with('/') {
            StatusCode::NOT_FOUND
        } else {
            StatusCode::OK
        };
        assert_eq!(status, expected);
    }
    for path in ["/client", "/client/"] {
        let url = format!(
            "ws://{}{path}?hub=room&access_token={token}",
            scene.stage.address
        );
        let (socket, _) = connect_async(url).await.unwrap();
        let mut socket = Socket(socket);
        socket.say(HELLO).await;
        assert_eq!(socket.text().await, "{}\u{1e}");
    }
}

#[tokio::test]
async fn realtime_06_a_socket_without_an_id_connects() {
    let scene = Scene::new();
    let mut socket = scene.socket("/client/?hub=room").await.unwrap();
    socket.say(&format!("{HELLO}{ADD}")).await;
    let mut said = String::new();
    while said.matches('\u{1e}').count() < 2 {
        said.push_str(&socket.text().await);
    }
    assert_eq!(said, format!("{{}}\u{1e}{ADDED}"));
    socket.say("{\"type\":7}\u{1e}").await;
    match socket.next().await {
        Message::Close(Some(frame)) => assert_eq!(frame.code, CloseCode::Normal),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn realtime_07_ids_are_refused_as_clients_expect_it() {
    let scene = Scene::new();
    let unknown = "/client/?hub=room&id=unknown";
    for method in [Method::GET, Method::POST, Method::DELETE] {
        let refused = scene.status(method.clone(), unknown).await;
        assert_eq!(refused.0, StatusCode::NOT_FOUND, "{method}");
        let refused = scene.status(method, "/client/?hub=room").await;
        let expected = (StatusCode::BAD_REQUEST, "Connection ID required".to_owned());
        assert_eq!(refused, expected);
    }
    let door = scene.door().await;
    let mut socket = scene.socket(&door).await.unwrap();
    assert_eq!(scene.refused(&door).await, 409);
    assert_eq!(
        scene.status(Method::GET, &door).await.0,
        StatusCode::BAD_REQUEST
    );
    assert_eq!(
        scene.status(Method::POST, &door).await.0,
        StatusCode::METHOD_NOT_ALLOWED
    );
    assert_eq!(
        scene.status(Method::DELETE, &door).await.0,
        StatusCode::BAD_REQUEST
    );
    assert_eq!(
        scene.status(Method::PUT, &door).await.0,
        StatusCode::METHOD_NOT_ALLOWED
    );
    socket.say(HELLO).await;
    assert_eq!(socket.text().await, "{}\u{1e}", "the first one lives on");
    let polled = scene.door().await;
    scene.status(Method::GET, &polled).await;
    assert_eq!(scene.refused(&polled).await, 400, "it polls");
}

#[tokio::test]
async fn an_id_counts_in_its_own_hub_only() {
    let mut scene = Scene::new();
    let door = scene.door().await;
    let elsewhere = door.replace("hub=room", "hub=other");
    scene.token = scene.stage.token("other");
    for method in [Method::GET, Method::POST, Method::DELETE] {
        let refused = scene.status(method.clone(), &elsewhere).await;
        assert_eq!(refused.0, StatusCode::NOT_FOUND, "{method}");
    }
    assert_eq!(scene.refused(&elsewhere).await, 404);
    scene.token = scene.stage.token("room");
    let mut socket = scene.socket(&door).await.unwrap();
    socket.say(HELLO).await;
    assert_eq!(socket.text().await, "{}\u{1e}", "it was not used up");
}

#[tokio::test]
async fn realtime_08_the_first_poll_returns_at_once() {
    let scene = Scene::new();
    let door = scene.door().await;
    let first = tokio::time::timeout(Duration::from_secs(1), scene.status(Method::GET, &door));
    assert_eq!(first.await.unwrap(), (StatusCode::OK, String::new()));
    assert_eq!(
        scene.ask(Method::POST, &door, HELLO).await.status(),
        StatusCode::OK
    );
    let answer = scene.status(Method::GET, &door).await;
    assert_eq!(answer, (StatusCode::OK, "{}\u{1e}".to_owned()));
}

#[tokio::test]
async fn realtime_09_a_polling_client_gets_everything_then_the_end_then_nothing() {
    let scene = Scene::new();
    let door = scene.door().await;
    scene.status(Method::GET, &door).await;
    scene.ask(Method::POST, &door, HELLO).await;
    assert_eq!(scene.status(Method::GET, &door).await.1, "{}\u{1e}");
    scene.ask(Method::POST, &door, ADD).await;
    let end = "{\"type\":1,\"target\":\"end_me\",\"arguments\":[false]}\u{1e}";
    scene.ask(Method::POST, &door, end).await;
    let mut said = String::new();
    loop {
        let (status, text) = scene.status(Method::GET, &door).await;
        if status == StatusCode::NO_CONTENT {
            break;
        }
        assert_eq!(status, StatusCode::OK);
        said.push_str(&text);
    }
    assert_eq!(
        said,
        format!("{ADDED}{{\"type\":7,\"error\":\"ended\"}}\u{1e}")
    );
    assert_eq!(
        scene.status(Method::GET, &door).await.0,
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        scene.ask(Method::POST, &door, ADD).await.status(),
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn realtime_10_a_new_poll_ends_the_older_one_and_loses_nothing() {
    let scene = Scene::new();
    let door = scene.door().await;
    scene.status(Method::GET, &door).await;
    scene.ask(Method::POST, &door, HELLO).await;
    assert_eq!(scene.status(Method::GET, &door).await.1, "{}\u{1e}");
    let older = scene.status(Method::GET, &door);
    tokio::pin!(older);
    // The older one must have arrived before the newer one is sent.
    let waited = tokio::time::timeout(Duration::from_millis(300), &mut older).await;
    assert!(waited.is_err(), "nothing has come");
    let newer = scene.status(Method::GET, &door);
    let (older, newer, _) = tokio::join!(older, newer, async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        scene.ask(Method::POST, &door, ADD).await
    });
    assert_eq!(older.0, StatusCode::NO_CONTENT);
    assert_eq!(newer, (StatusCode::OK, ADDED.to_owned()));
    let waiting = scene.status(Method::GET, &door);
    let ending = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        scene.status(Method::DELETE, &door).await
    };
    let (waiting, ended) = tokio::join!(waiting, ending);
    assert_eq!(
        (waiting.0, ended.0),
        (StatusCode::NO_CONTENT, StatusCode::ACCEPTED)
    );
}

#[tokio::test]
async fn realtime_11_events_begin_at_once() {
    let scene = Scene::new();
    let door = scene.door().await;
    let url = format!("{}{door}", scene.stage.url());
    let request = scene.http.get(url).bearer_auth(&scene.token);
    let mut response = request
        .header("accept", "text/event-stream")
        .send()
        .await
        .unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    let mut said = String::new();
    while !said.ends_with("\r\n\r\n") {
        said.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
    }
    assert_eq!(said, ":\r\n\r\n");
    scene
        .ask(Method::POST, &door, &format!("{HELLO}{ADD}"))
        .await;
    let mut said = String::new();
    while said.matches('\u{1e}').count() < 2 || !said.ends_with("\r\n\r\n") {
        said.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
    }
    let data: String = said
        .split("\r\n\r\n")
        .map(|own| own.trim_start_matches("data: "))
        .collect();
    assert_eq!(data, format!("{{}}\u{1e}{ADDED}"));
}

#[tokio::test]
async fn realtime_12_messagepack_over_long_polling_carries_all_bytes() {
    let scene = Scene::new();
    let door = scene.door().await;
    assert_eq!(scene.status(Method::GET, &door).await.0, StatusCode::OK);
    let post = async |body: Bytes| {
        let url = format!("{}{door}", scene.stage.url());
        let request = scene.http.post(url).bearer_auth(&scene.token).body(body);
        assert_eq!(request.send().await.unwrap().status(), StatusCode::OK);
    };
    let poll = async || {
        let response = scene.ask(Method::GET, &door, "").await;
        assert_eq!(response.status(), StatusCode::OK);
        response.bytes().await.unwrap()
    };
    let hello = "{\"protocol\":\"messagepack\",\"version\":1}\u{1e}";
    post(Bytes::from_static(hello.as_bytes())).await;
    assert_eq!(poll().await, "{}\u{1e}");
    let all: Vec<u8> = (0..=255).collect();
    let mut argument = Vec::new();
    pack::bin(&mut argument, &all);
    let mut arguments = Vec::new();
    pack::array(&mut arguments, 1);
    arguments.extend_from_slice(&argument);
    let protocol = Protocol::MessagePack;
    let call = hub::invocation(protocol, Some("1"), "echo_bytes", &arguments);
    post(call).await;
    let outcome = Outcome::Value(Bytes::from(argument));
    assert_eq!(poll().await, hub::completion(protocol, "1", &outcome));
}

#[tokio::test]
async fn realtime_13_tokens_that_do_not_count_are_refused() {
    let mut scene = Scene::new();
    let status = |scene: &Scene| {
        let url = format!("{}/client/negotiate?hub=room", scene.stage.url());
        let request = scene.http.post(url).bearer_auth(&scene.token);
        async move { request.send().await.unwrap().status() }
    };
    scene.token = scene.stage.token("open");
    assert_eq!(status(&scene).await, StatusCode::FORBIDDEN, "another hub's");
    // Expired for longer than clocks may differ.
    let past = steadfast_core::clock::Timestamp(1_000_000_000_000);
    let wish = steadfast_net::access::ClientTokenOptions {
        hub: "room".to_owned(),
        ..Default::default()
    };
    let made = |secret| steadfast_net::access::client_token(&wish, "localhost", secret, past);
    scene.token = made(hub_stage::SECRET);
    assert_eq!(status(&scene).await, StatusCode::UNAUTHORIZED, "expired");
    scene.token = made("another secret");
    assert_eq!(status(&scene).await, StatusCode::UNAUTHORIZED, "wrong");
    scene.token = String::new();
    assert_eq!(status(&scene).await, StatusCode::UNAUTHORIZED, "missing");
    assert_eq!(scene.refused("/client/?hub=room").await, 401);
    scene.token = scene.stage.token("room");
    assert_eq!(scene.refused("/client/?hub=nothing").await, 403);
    assert_eq!(scene.refused("/client/").await, 400);
}

#[tokio::test]
async fn a_token_may_forbid_transports() {
    let mut scene = Scene::new();
    let lifetime = Duration::from_secs(60);
    scene.token = scene
        .stage
        .token_with("room", &[("asrs.s.htt", "4")], lifetime);
    let told = scene.negotiate("&negotiateVersion=1").await;
    let only = json!([{"transport": "LongPolling", "transferFormats": ["Text", "Binary"]}]);
    assert_eq!(told["availableTransports"], only);
    assert_eq!(scene.refused("/client/?hub=room").await, 404);
}

#[tokio::test]
async fn realtime_16_large_messages_are_whole_in_their_frames() {
    let scene = Scene::new();
    let mut socket = scene.socket("/client/?hub=room").await.unwrap();
    socket.say(HELLO).await;
    assert_eq!(socket.text().await, "{}\u{1e}");
    let clients = scene.stage.realtime.clients("room").unwrap();
    for size in [10 << 20, 100_000, 1] {
        clients
            .all()
            .send("told", &("z".repeat(size),))
            .await
            .unwrap();
        let text = socket.text().await;
        assert!(text.ends_with('\u{1e}') && text.len() > size);
        assert_eq!(text.matches('\u{1e}').count(), 1);
    }
}

#[tokio::test]
async fn realtime_23_pings_of_the_socket_are_answered() {
    let scene = Scene::new();
    let mut socket = scene.socket("/client/?hub=room").await.unwrap();
    socket
        .0
        .send(Message::Ping("are you there".into()))
        .await
        .unwrap();
    assert_eq!(socket.next().await, Message::Pong("are you there".into()));
}

#[tokio::test]
async fn realtime_23_no_ping_of_the_socket_is_sent() {
    let scene = Scene::new();
    let mut socket = scene.socket("/client/?hub=room").await.unwrap();
    socket.say(HELLO).await;
    assert_eq!(socket.text().await, "{}\u{1e}");
    // The first sign of life of an idle connection is a hub's ping.
    let next = tokio::time::timeout(Duration::from_secs(20), socket.0.next()).await;
    let next = next.unwrap().unwrap().unwrap();
    assert_eq!(next, Message::text("{\"type\":6}\u{1e}"));
}

#[tokio::test]
async fn pages_of_other_origins_may_ask() {
    let scene = Scene::new();
    let url = format!("{}/client/negotiate?hub=room", scene.stage.url());
    let request = scene.http.request(Method::OPTIONS, url);
    let request = request.header("origin", "http://elsewhere.example");
    let names = "authorization,x-requested-with,x-signalr-user-agent";
    let request = request.header("access-control-request-headers", names);
    let request = request.header("access-control-request-method", "POST");
    let response = request.send().await.unwrap();
    let header = |name: &str| response.headers().get(name)?.to_str().ok();
    // The stage lists `*`, which is for requests without credentials.
    assert_eq!(header("access-control-allow-origin"), Some("*"));
    assert_eq!(header("access-control-allow-credentials"), None);
    assert_eq!(header("access-control-allow-headers"), Some(names));
}

#[tokio::test]
async fn realtime_25_a_killed_socket_is_resumed_without_a_handshake() {
    let scene = Scene::new();
    let told = scene
        .negotiate("&negotiateVersion=1&useStatefulReconnect=true")
        .await;
    let token = told["connectionToken"].as_str().unwrap();
    let door = format!("/client/?hub=room&id={token}");
    let mut first = scene.socket(&door).await.unwrap();
    first
        .say("{\"protocol\":\"json\",\"version\":2}\u{1e}")
        .await;
    assert_eq!(first.text().await, "{}\u{1e}");
    let mut second = scene.socket(&door).await.unwrap();
    assert_eq!(second.text().await, "{\"type\":9,\"sequenceId\":1}\u{1e}");
    second
        .say(&format!("{{\"type\":9,\"sequenceId\":1}}\u{1e}{ADD}"))
        .await;
    assert_eq!(second.text().await, ADDED);
    let ended = tokio::time::timeout(PATIENCE, first.0.next())
        .await
        .unwrap();
    assert!(!matches!(ended, Some(Ok(Message::Text(_)))), "{ended:?}");
}

#[tokio::test]
async fn what_is_too_large_or_malformed_ends_only_its_own_connection() {
    let scene = Scene::new();
    let mut good = scene.socket("/client/?hub=room").await.unwrap();
    good.say(HELLO).await;
    assert_eq!(good.text().await, "{}\u{1e}");
    let bad = [
        "x".repeat(40_000),
        "{\"type\":1}\u{1e}".to_owned(),
        "[[[\u{1e}".to_owned(),
    ];
    for bytes in bad {
        let mut socket = scene.socket("/client/?hub=room").await.unwrap();
        socket.say(HELLO).await;
        assert_eq!(socket.text().await, "{}\u{1e}");
        socket.say(&bytes).await;
        let said: Value =
            serde_json::from_str(socket.text().await.trim_end_matches('\u{1e}')).unwrap();
        assert_eq!(said["type"], 7);
        assert!(
            said["error"]
                .as_str()
                .unwrap()
                .starts_with("Connection closed with an error.")
        );
        assert!(said.get("allowReconnect").is_none());
    }
    let door = scene.door().await;
    scene.status(Method::GET, &door).await;
    let large = scene
        .ask(Method::POST, &door, &"x".repeat((1 << 20) + 1))
        .await;
    assert_eq!(large.status(), StatusCode::PAYLOAD_TOO_LARGE);
    good.say(ADD).await;
    assert_eq!(good.text().await, ADDED);
}
