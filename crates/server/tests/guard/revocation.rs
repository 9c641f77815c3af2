//! Open connections end with the key that has let them in.

use std::fs;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::{Client, Method, Response, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};
use steadfast_client::amqp::{AmqpClient as Amqp, ReaderLinkOptions};
use steadfast_wire::amqp::performative::{self, Performative};
use steadfast_wire::amqp::sasl;
use steadfast_wire::{jwt, sas};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::running::{self, Server, Start, said};

const ROOT: &str = "Bearer root-secret-0123456789";
const LATER: i64 = 4_000_000_000;
const HUB: &str = "houses";

/// How long a connection may go on after its key has changed.
const LIMIT: Duration = Duration::from_secs(5);

/// How long it is looked whether a connection goes on.
const LOOK: Duration = Duration::from_millis(300);

const UNAUTHORIZED: &str = "amqp:unauthorized-access";

fn serve() -> Server {
    let root =
        "[[key]]\nname = 'root'\nprimary = 'root-secret-0123456789'\nrights = ['manage *']\n";
    let server = Start::new("serve")
        .set("realtime.mode=classic")
        .config(root)
        .ready();
    let hub = json!({"name": HUB, "partitions": 1});
    let (status, answer) = server.ask(Method::POST, "/v1/eventhubs", ROOT, Some(hub));
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    server
}

/// The port of a protocol, for instance `amqp`.
async fn port(server: &Server, name: &str) -> u16 {
    let request = server.client.get(format!("{}/v1/status", server.url));
    let answer = request.header("authorization", ROOT).send().await.unwrap();
    let status: Value = answer.json().await.unwrap();
    let addresses = status["addresses"].as_array().unwrap();
    let found = addresses.iter().find(|own| own[0] == name).unwrap();
    let url = found[1].as_str().unwrap();
    url.rsplit(':').next().unwrap().parse().unwrap()
}

/// A key of the server.
struct Key {
    name: String,
    secret: String,
}

impl Key {
    fn create(server: &Server, name: &str, right: &str) -> Self {
        let body = json!({"name": name, "rights": [right]});
        let (status, made) = server.ask(Method::POST, "/v1/keys", ROOT, Some(body));
        assert_eq!(status, StatusCode::CREATED, "{made}");
        Self {
            name: name.to_owned(),
            secret: made["secret"].as_str().unwrap().to_owned(),
        }
    }

    /// A web token for clients or for app servers of a hub.
    fn web_token(&self, server: &Server, path: &str) -> String {
        let audience = format!("{}/{path}/?hub=chat", server.url);
        let claims = json!({"aud": audience, "exp": LATER, "nameid": "me"});
        jwt::token(claims.as_object().unwrap(), &self.secret)
    }
}

/// How a key ceases to allow what it has allowed.
#[derive(Clone, Copy, Debug)]
enum Change {
    Delete,
    RotateTwice,
    /// Its rights shrink in the file of keys, which is read again.
    Shrink,
}

impl Change {
    fn make(self, server: &Server, key: &Key) {
        let path = format!("/v1/keys/{}", key.name);
        match self {
            Self::Delete => {
                let (status, _) = server.ask(Method::DELETE, &path, ROOT, None);
                assert_eq!(status, StatusCode::NO_CONTENT);
            }
            Self::RotateTwice => {
                for _ in 0..2 {
                    let path = format!("{path}/rotate");
                    let (status, _) = server.ask(Method::POST, &path, ROOT, None);
                    assert_eq!(status, StatusCode::OK);
                }
            }
            Self::Shrink => {
                let file = server.data().join("keys.toml");
                let text = fs::read_to_string(&file).unwrap();
                let (before, own) = text
                    .split_once(&format!("name = \"{}\"", key.name))
                    .unwrap();
                let (_, rest) = own.split_once("rights = [").unwrap();
                let (_, rest) = rest.split_once(']').unwrap();
                let name = &key.name;
                let shrunk = format!("{before}name = \"{name}\"\nrights = [\"send jobs\"]{rest}");
                fs::write(&file, shrunk).unwrap();
                server.signal(Signal::HUP);
            }
        }
    }
}

/// An open connection.
trait Connection {
    /// Waits for its end, and says how it ended.
    async fn ended(&mut self) -> String;
}

/// Opens a connection by a key that changes and one by another key; the first ends in
/// time for the reason that `is_end` tells, and the other goes on.
fn follows<C: Connection>(
    right: &str,
    open: &impl AsyncFn(&Server, &Key) -> C,
    is_end: impl Fn(&str) -> bool,
) {
    let server = serve();
    for change in [Change::Delete, Change::RotateTwice, Change::Shrink] {
        let doomed = Key::create(&server, &format!("doomed-{change:?}"), right);
        let other = Key::create(&server, &format!("other-{change:?}"), right);
        let (mut first, mut second) =
            server.block(async { (open(&server, &doomed).await, open(&server, &other).await) });
        server.block(async {
            let early = tokio::time::timeout(LOOK, first.ended()).await;
            assert!(early.is_err(), "{change:?}: it ended before: {early:?}");
        });
        change.make(&server, &doomed);
        server.block(async {
            let end = tokio::time::timeout(LIMIT, first.ended()).await;
            let end = end.unwrap_or_else(|_| panic!("{change:?}: it goes on"));
            assert!(is_end(&end), "{change:?}: {end}");
            let other = tokio::time::timeout(LOOK, second.ended()).await;
            assert!(other.is_err(), "{change:?}: the other has ended: {other:?}");
        });
    }
    let (_, audit) = server.ask(Method::GET, "/v1/audit?limit=1000", ROOT, None);
    let events = audit["events"].as_array().unwrap();
    let revoked = events
        .iter()
        .filter(|event| event["event"] == "audit.connection_revoked");
    assert!(revoked.count() >= 3, "{audit}");
}

/// A link of AMQP, on a connection that has put a token or begun with PLAIN.
struct Link(Amqp<TcpStream>);

impl Link {
    async fn connect(server: &Server, init: &sasl::SaslInit<'_>) -> Self {
        let address = ("127.0.0.1", port(server, "amqp").await);
        let stream = TcpStream::connect(address).await.unwrap();
        Self(Amqp::connect(stream, init).await.unwrap())
    }

    async fn anonymous(server: &Server) -> Self {
        let init = sasl::SaslInit {
            mechanism: "ANONYMOUS",
            response: b"",
        };
        Self::connect(server, &init).await
    }

    async fn put(&mut self, name: &str, secret: &str) {
        let audience = format!("sb://localhost/{HUB}");
        let token = sas::token(&audience, LATER, name, secret);
        let put = self.0.put_token(0, &audience, &token).await;
        assert_eq!(put.unwrap(), 202);
    }

    async fn read(&mut self) {
        self.0.begin(1).await.unwrap();
        let place = format!("{HUB}/ConsumerGroups/$Default/Partitions/0");
        let client = &mut self.0;
        client.attach_reader(1, 0, "reader", &place, &ReaderLinkOptions::default());
        self.attached().await;
    }

    async fn send(&mut self) {
        self.0.begin(1).await.unwrap();
        self.0.attach_sender(1, 0, "sender", HUB);
        self.attached().await;
    }

    async fn attached(&mut self) {
        self.0.flush().await.unwrap();
        loop {
            let frame = self.0.next().await.unwrap();
            match performative::read(&frame.body).unwrap().0 {
                Performative::Attach(_) => return,
                Performative::Detach(_) => panic!("it was refused"),
                _ => {}
            }
        }
    }
}

impl Connection for Link {
    async fn ended(&mut self) -> String {
        loop {
            let frame = self.0.next().await.unwrap();
            if frame.body.is_empty() {
                continue;
            }
            if let Performative::Detach(detach) = performative::read(&frame.body).unwrap().0 {
                let problem = detach.error.unwrap();
                return problem.condition.to_owned();
            }
        }
    }
}

#[test]
fn an_amqp_receiver_is_detached_when_its_key_no_longer_counts() {
    let open = async |server: &Server, key: &Key| {
        let mut link = Link::anonymous(server).await;
        link.put(&key.name, &key.secret).await;
        link.read().await;
        link
    };
    follows("listen events", &open, |end| end == UNAUTHORIZED);
}

#[test]
fn an_amqp_sender_is_detached_when_its_key_no_longer_counts() {
    let open = async |server: &Server, key: &Key| {
        let response = format!("\0{}\0{}", key.name, key.secret);
        let init = sasl::SaslInit {
            mechanism: "PLAIN",
            response: response.as_bytes(),
        };
        let mut link = Link::connect(server, &init).await;
        link.send().await;
        link
    };
    follows("send events", &open, |end| end == UNAUTHORIZED);
}

#[test]
fn an_amqp_link_ends_with_the_policy_of_its_event_hub() {
    let server = serve();
    let path = |name: &str| format!("/v1/eventhubs/{HUB}/policies/{name}");
    let put = |name: &str, rights: &[&str]| {
        let body = json!({"rights": rights});
        let (status, answer) = server.ask(Method::PUT, &path(name), ROOT, Some(body));
        assert!(status.is_success(), "{answer}");
        let string = answer["connection_string"].as_str().unwrap();
        let parts = string.split_once("SharedAccessKey=").unwrap().1;
        parts.split(';').next().unwrap().to_owned()
    };
    let open = async |name: &str, secret: &str| {
        let mut link = Link::anonymous(&server).await;
        link.put(name, secret).await;
        link.read().await;
        link
    };
    let kept = put("kept", &["listen"]);
    let mut other = server.block(open("kept", &kept));
    for name in ["deleted", "changed", "shrunk"] {
        let secret = put(name, &["listen"]);
        let mut link = server.block(open(name, &secret));
        match name {
            "shrunk" => drop(put(name, &["send"])),
            "changed" => {
                let (status, _) = server.ask(Method::DELETE, &path(name), ROOT, None);
                assert!(status.is_success());
                put(name, &["listen"]);
            }
            _ => {
                let (status, _) = server.ask(Method::DELETE, &path(name), ROOT, None);
                assert!(status.is_success());
            }
        }
        server.block(async {
            let end = tokio::time::timeout(LIMIT, link.ended()).await;
            assert_eq!(
                end.unwrap_or_else(|_| panic!("{name}: it goes on")),
                UNAUTHORIZED
            );
            let other = tokio::time::timeout(LOOK, other.ended()).await;
            assert!(other.is_err(), "{name}: the other has ended: {other:?}");
        });
    }
}

/// The answer of a request that is still open.
struct Stream(Response);

impl Connection for Stream {
    async fn ended(&mut self) -> String {
        let mut all = Vec::new();
        loop {
            match self.0.chunk().await {
                Ok(Some(bytes)) => all.extend_from_slice(&bytes),
                Ok(None) => return String::from_utf8_lossy(&all).into_owned(),
                Err(error) => return format!("{}{error:?}", String::from_utf8_lossy(&all)),
            }
        }
    }
}

#[test]
fn a_worker_stream_ends_when_its_key_no_longer_counts() {
    let open = async |server: &Server, key: &Key| {
        let url = format!("http://127.0.0.1:{}", port(server, "durable").await);
        let client = Client::builder().http2_prior_knowledge().build().unwrap();
        let request = client
            .post(format!("{url}/TaskHubSidecarService/GetWorkItems"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .bearer_auth(&key.secret)
            // An empty message.
            .body(vec![0; 5]);
        let answer = request.send().await.unwrap();
        assert!(answer.headers().get("grpc-status").is_none());
        Stream(answer)
    };
    follows("listen durable", &open, |_| true);
}

#[test]
fn a_wait_for_events_ends_when_its_key_no_longer_counts() {
    let open = async |server: &Server, key: &Key| {
        let url = format!(
            "{}/v1/eventhubs/{HUB}/events?partition=0&wait_s=30",
            server.url
        );
        let request = server.client.get(url).bearer_auth(&key.secret);
        Waiting(tokio::spawn(async move {
            let answer = request.send().await.unwrap();
            answer.status().as_u16().to_string()
        }))
    };
    follows("listen events", &open, |end| matches!(end, "401" | "403"));
}

/// Requests that have no last answer yet.
struct Waiting(JoinHandle<String>);

impl Connection for Waiting {
    async fn ended(&mut self) -> String {
        (&mut self.0).await.unwrap()
    }
}

/// A WebSocket of a client or of an app server.
struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    async fn open(server: &Server, path: &str, token: &str) -> Self {
        let port = server.port();
        let url = format!("ws://127.0.0.1:{port}/{path}/?hub=chat&access_token={token}");
        Self(connect_async(url).await.unwrap().0)
    }
}

impl Connection for Socket {
    async fn ended(&mut self) -> String {
        let mut said = String::new();
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => said.push_str(&text),
                Some(Ok(Message::Close(_))) | None => return said,
                Some(Ok(_)) => {}
                Some(Err(error)) => return format!("{said}{error}"),
            }
        }
    }
}

/// What a client of a hub is told at its end: it may come back, with a good token.
fn is_goodbye(said: &str) -> bool {
    said.contains("\"type\":7") && said.contains("\"allowReconnect\":true")
}

const HELLO: &str = "{\"protocol\":\"json\",\"version\":1}\u{1e}";

#[test]
fn a_hub_client_on_a_websocket_is_closed_when_its_key_no_longer_counts() {
    let open = async |server: &Server, key: &Key| {
        let token = key.web_token(server, "client");
        let mut socket = Socket::open(server, "client", &token).await;
        socket.0.send(Message::text(HELLO)).await.unwrap();
        let answer = socket.0.next().await.unwrap().unwrap();
        assert_eq!(answer.to_text().unwrap(), "{}\u{1e}");
        socket
    };
    follows("listen realtime", &open, is_goodbye);
}

#[test]
fn a_hub_client_with_a_token_of_the_server_is_closed_when_the_asking_key_no_longer_counts() {
    let open = async |server: &Server, key: &Key| {
        let request = server
            .client
            .post(format!("{}/v1/hubs/chat/tokens", server.url));
        let request = request
            .bearer_auth(&key.secret)
            .json(&json!({"user": "alice"}));
        let made: Value = request.send().await.unwrap().json().await.unwrap();
        let token = made["token"].as_str().unwrap();
        let mut socket = Socket::open(server, "client", token).await;
        socket.0.send(Message::text(HELLO)).await.unwrap();
        let answer = socket.0.next().await.unwrap().unwrap();
        assert_eq!(answer.to_text().unwrap(), "{}\u{1e}");
        socket
    };
    follows("manage realtime", &open, is_goodbye);
}

#[test]
fn a_link_of_an_app_server_is_closed_when_its_key_no_longer_counts() {
    let open = async |server: &Server, key: &Key| {
        let token = key.web_token(server, "server");
        Socket::open(server, "server", &token).await
    };
    follows("send realtime", &open, |_| true);
}

/// Negotiates; answers the address of the connection.
async fn negotiate(server: &Server, token: &str) -> String {
    let query = format!("hub=chat&access_token={token}");
    let url = format!("{}/client/negotiate?{query}&negotiateVersion=1", server.url);
    let told = server.client.post(url).send().await.unwrap();
    let told: Value = told.json().await.unwrap();
    let id = told["connectionToken"].as_str().unwrap();
    format!("{}/client/?{query}&id={id}", server.url)
}

async fn post(server: &Server, url: &str, body: &'static str) {
    let said = server.client.post(url).body(body).send().await.unwrap();
    assert_eq!(said.status(), StatusCode::OK);
}

#[test]
fn a_hub_client_on_server_sent_events_is_closed_when_its_key_no_longer_counts() {
    let open = async |server: &Server, key: &Key| {
        let url = negotiate(server, &key.web_token(server, "client")).await;
        let request = server
            .client
            .get(&url)
            .header("accept", "text/event-stream");
        let stream = request.send().await.unwrap();
        post(server, &url, HELLO).await;
        Stream(stream)
    };
    follows("listen realtime", &open, is_goodbye);
}

/// Polls until that fails; answers the status, and all that was said.
async fn poll(client: Client, url: String) -> String {
    let mut said = String::new();
    loop {
        let answer = client.get(&url).send().await.unwrap();
        let status = answer.status();
        said.push_str(&answer.text().await.unwrap());
        if status != StatusCode::OK {
            return format!("{} {said}", status.as_u16());
        }
    }
}

#[test]
fn a_hub_client_that_polls_is_closed_when_its_key_no_longer_counts() {
    let open = async |server: &Server, key: &Key| {
        let url = negotiate(server, &key.web_token(server, "client")).await;
        let first = server.client.get(&url).send().await.unwrap();
        assert_eq!(first.status(), StatusCode::OK);
        post(server, &url, HELLO).await;
        Waiting(tokio::spawn(poll(server.client.clone(), url)))
    };
    follows("listen realtime", &open, |end| {
        matches!(end.get(..3), Some("401" | "403")) && is_goodbye(end)
    });
}

#[test]
fn key_changes_and_refusals_are_audited_without_a_secret() {
    let server = serve();
    let key = Key::create(&server, "made", "send events/houses");
    let bearer = format!("Bearer {}", key.secret);
    let refused = [
        ("", "STF-6001", "audit.proof_refused"),
        (
            "SharedAccessSignature nonsense",
            "STF-6002",
            "audit.proof_refused",
        ),
        ("Bearer wrong-secret", "STF-6003", "audit.proof_refused"),
        (&*bearer, "STF-6005", "audit.right_refused"),
    ];
    for (proof, _, _) in refused {
        for _ in 0..20 {
            server.ask(Method::GET, "/v1/status", proof, None);
        }
    }
    server.ask(Method::POST, "/v1/keys/made/rotate", ROOT, None);
    server.ask(Method::DELETE, "/v1/keys/made", ROOT, None);
    server.ask(Method::POST, "/v1/reload", ROOT, None);
    let (status, audit) = server.ask(Method::GET, "/v1/audit", ROOT, None);
    assert_eq!(status, StatusCode::OK, "{audit}");
    let events = audit["events"].as_array().unwrap();
    let changes: Vec<_> = events
        .iter()
        .filter(|event| event["code"].is_null())
        .map(|event| {
            (
                event["event"].as_str().unwrap(),
                event["by"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        changes,
        [
            ("audit.keys_reloaded", "root"),
            ("audit.key_deleted", "root"),
            ("audit.key_rotated", "root"),
            ("audit.key_created", "root"),
        ]
    );
    for (proof, code, event) in refused {
        let found = events.iter().find(|own| own["code"] == code).unwrap();
        assert_eq!(found["event"], event, "{proof}");
        assert_eq!(found["count"], 20, "{proof}");
        assert_eq!(found["client"], "127.0.0.1", "{proof}");
    }
    let log = server.log();
    for (event, count) in [
        ("audit.key_created", 1),
        ("audit.key_rotated", 1),
        ("audit.key_deleted", 1),
        ("audit.proof_refused", 3),
        ("audit.right_refused", 1),
    ] {
        assert_eq!(log.matches(event).count(), count, "{event}: {log}");
    }
    for text in [&log, &audit.to_string()] {
        for secret in [&*key.secret, "root-secret-0123456789", "wrong-secret"] {
            assert!(!text.contains(secret), "{secret} is in {text}");
        }
    }
}

#[test]
fn the_audit_is_read_page_by_page_and_by_the_command() {
    let server = serve();
    for number in 0..5 {
        Key::create(&server, &format!("k{number}"), "send events");
    }
    let (mut path, mut seen) = ("/v1/audit?limit=2".to_owned(), Vec::new());
    loop {
        let (_, page) = server.ask(Method::GET, &path, ROOT, None);
        let events = page["events"].as_array().unwrap();
        assert!(events.len() <= 2);
        seen.extend(events.iter().map(|event| event["key"].clone()));
        let Some(cursor) = page["cursor"].as_u64() else {
            break;
        };
        path = format!("/v1/audit?limit=2&cursor={cursor}");
    }
    assert_eq!(seen, ["k4", "k3", "k2", "k1", "k0"]);
    for bad in ["limit=0", "limit=1001", "limit=x", "cursor=x", "other=1"] {
        let path = format!("/v1/audit?{bad}");
        let (status, _) = server.ask(Method::GET, &path, ROOT, None);
        assert_eq!(status, StatusCode::BAD_REQUEST, "{bad}");
    }
    let sender = Key::create(&server, "sender", "send events");
    let bearer = format!("Bearer {}", sender.secret);
    let (status, _) = server.ask(Method::GET, "/v1/audit", &bearer, None);
    assert_eq!(status, StatusCode::FORBIDDEN);
    let secret = ROOT.trim_start_matches("Bearer ");
    let list = [
        "--url",
        &server.url,
        "audit",
        "list",
        "--limit",
        "3",
        "--json",
    ];
    let listed = running::run_with_key(server.folder.path(), secret, &list);
    let (code, printed, errors) = said(&listed);
    assert_eq!(code, 0, "{errors}");
    let printed: Value = serde_json::from_str(&printed).unwrap();
    let events = printed["events"].as_array().unwrap();
    assert_eq!(events.len(), 3);
    assert_eq!(events[0]["event"], "audit.right_refused");
    assert_eq!(events[1]["key"], "sender");
}
