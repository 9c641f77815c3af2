//! An app server and a client, written from the specification.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use steadfast_core::clock::Clock as _;
use steadfast_signalr::server_token;
use steadfast_wire::signalr::frame::{self, Splitter};
use steadfast_wire::signalr::service::{
    Ack, ConnectionData, Message, OpenConnection, ServerHandshake, Target, read, write,
};
use steadfast_wire::signalr::{Protocol, write as hub};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::{SECRET, Stage};

pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
pub(crate) const HUB: &str = "far";
pub(crate) const HELLO: &str = "{\"protocol\":\"json\",\"version\":1}\u{1e}";

pub(crate) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

pub(crate) fn text(own: &str) -> String {
    own.to_owned()
}

/// One server connection.
pub(crate) struct Server {
    pub(crate) socket: Socket,
    pub(crate) splitter: Splitter,
    /// What came while something else was waited for.
    pub(crate) seen: VecDeque<Message>,
}

impl Server {
    /// A link that the service has welcomed.
    pub(crate) async fn start(stage: &Stage, name: &str, kind: i64, migration: i64) -> Self {
        let mut server = Self::dial(stage, name).await;
        server
            .say(Message::Handshake(ServerHandshake {
                version: 1,
                kind,
                migration,
                elements: 7,
                ..ServerHandshake::default()
            }))
            .await;
        match server.next().await {
            Message::Welcome { error, id } => {
                assert_eq!(error, "");
                assert!(id.is_some());
            }
            other => panic!("{other:?}"),
        }
        server
    }

    pub(crate) async fn dial(stage: &Stage, name: &str) -> Self {
        let token = server_token(HUB, name, "localhost", SECRET, stage.clock.now());
        let url = format!("ws://{}/server/?hub={HUB}&cid=1", stage.address);
        let mut request = url.into_client_request().unwrap();
        let bearer = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        let id = name.parse().unwrap();
        request.headers_mut().insert("x-asrs-server-id", id);
        let (socket, _) = connect_async(request).await.unwrap();
        Self {
            socket,
            splitter: Splitter::default(),
            seen: VecDeque::new(),
        }
    }

    pub(crate) async fn say(&mut self, message: Message) {
        self.raw(write(&message)).await;
    }

    pub(crate) async fn raw(&mut self, bytes: Bytes) {
        self.socket.send(Frame::Binary(bytes)).await.unwrap();
    }

    /// The next message that is not a bare ping.
    pub(crate) async fn next(&mut self) -> Message {
        if let Some(message) = self.seen.pop_front() {
            return message;
        }
        loop {
            let message = self.any().await;
            if message != Message::Ping(vec![]) {
                return message;
            }
        }
    }

    pub(crate) async fn any(&mut self) -> Message {
        loop {
            let next = self.splitter.next(Protocol::MessagePack, 1 << 30).unwrap();
            if let Some(message) = next {
                return read(&frame::body(Protocol::MessagePack, &message).unwrap()).unwrap();
            }
            let next = tokio::time::timeout(PATIENCE, self.socket.next()).await;
            match next.expect("something comes").expect("a frame").unwrap() {
                Frame::Binary(bytes) => self.splitter.push(bytes),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Asserts that nothing comes but pings.
    pub(crate) async fn silent(&mut self, time: Duration) {
        let next = tokio::time::timeout(time, self.next()).await;
        assert!(next.is_err(), "{next:?}");
    }

    /// A client moves in, and is greeted.
    pub(crate) async fn open(&mut self) -> OpenConnection {
        let open = match self.next().await {
            Message::Open(open) => open,
            other => panic!("{other:?}"),
        };
        let shake = self.data().await;
        assert_eq!(shake.connection, open.connection);
        let is_new = open
            .headers
            .iter()
            .all(|(name, _)| name != "Asrs-Migrate-From");
        if is_new {
            self.send(&open.connection, Bytes::from_static(b"{}\x1e"))
                .await;
        }
        open
    }

    pub(crate) async fn data(&mut self) -> ConnectionData {
        match self.next().await {
            Message::Data(data) => data,
            other => panic!("{other:?}"),
        }
    }

    /// What a client says next, as JSON.
    pub(crate) async fn heard(&mut self) -> Value {
        let data = self.data().await;
        serde_json::from_slice(&data.payload[..data.payload.len() - 1]).unwrap()
    }

    pub(crate) async fn send(&mut self, connection: &str, payload: Bytes) {
        self.say(Message::Data(ConnectionData {
            connection: text(connection),
            payload,
            ..ConnectionData::default()
        }))
        .await;
    }

    /// Sends `told` with a text to some clients.
    pub(crate) async fn tell(&mut self, to: Target, word: &str) {
        self.say(Message::Send {
            to,
            payloads: told(word),
        })
        .await;
    }

    pub(crate) async fn acked(&mut self) -> (i64, i64) {
        match self.next().await {
            Message::Ack(Ack { id, status, .. }) => (id, status),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn fin(&mut self, how: &str) {
        let words = vec![text("shutdown"), text(how)];
        self.say(Message::Ping(words)).await;
        let acknowledged = Message::Ping(vec![text("shutdown"), text("finack")]);
        let waited = tokio::time::timeout(PATIENCE, async {
            loop {
                let message = self.any().await;
                if message == acknowledged {
                    return;
                }
                if message != Message::Ping(vec![]) {
                    self.seen.push_back(message);
                }
            }
        });
        waited.await.expect("finack within a second");
    }
}

pub(crate) fn told(word: &str) -> Vec<(String, Bytes)> {
    let json = hub::invocation(
        Protocol::Json,
        None,
        "told",
        format!("[\"{word}\"]").as_bytes(),
    );
    let packed = [&[0x91, 0xa0 | word.len() as u8], word.as_bytes()].concat();
    let packed = hub::invocation(Protocol::MessagePack, None, "told", &packed);
    vec![(text("json"), json), (text("messagepack"), packed)]
}

/// One client on a socket.
pub(crate) struct Client {
    pub(crate) socket: Socket,
    pub(crate) said: VecDeque<Value>,
}

impl Client {
    pub(crate) async fn dial(stage: &Stage, user: &str, claims: &[(&str, &str)]) -> Self {
        let own: Vec<_> = claims
            .iter()
            .copied()
            .chain([("asrs.s.uid", user)])
            .collect();
        let token = stage.token_with(HUB, &own, Duration::from_secs(60));
        Self::with(stage, &token).await
    }

    pub(crate) async fn with(stage: &Stage, token: &str) -> Self {
        let url = format!("ws://{}/client/?hub={HUB}&colour=blue", stage.address);
        let mut request = url.into_client_request().unwrap();
        let bearer = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        let (mut socket, _) = connect_async(request).await.unwrap();
        socket.send(Frame::text(HELLO)).await.unwrap();
        Self {
            socket,
            said: VecDeque::new(),
        }
    }

    /// A client whose home is this server.
    pub(crate) async fn on(stage: &Stage, user: &str, server: &mut Server) -> (Self, String) {
        let mut client = Self::dial(stage, user, &[]).await;
        let open = server.open().await;
        assert_eq!(client.next().await, json!({}));
        (client, open.connection)
    }

    pub(crate) async fn say(&mut self, message: Value) {
        let record = format!("{message}\u{1e}");
        self.socket.send(Frame::text(record)).await.unwrap();
    }

    pub(crate) async fn invoke(&mut self, id: u64, target: &str) {
        let id = id.to_string();
        let call = json!({"type": 1, "invocationId": id, "target": target, "arguments": []});
        self.say(call).await;
    }

    pub(crate) async fn next(&mut self) -> Value {
        loop {
            if let Some(said) = self.said.pop_front() {
                return said;
            }
            let next = tokio::time::timeout(PATIENCE, self.socket.next()).await;
            let frame = next.expect("something comes").expect("a frame").unwrap();
            let Frame::Text(text) = frame else {
                panic!("{frame:?}");
            };
            for record in text.split('\u{1e}').filter(|own| !own.is_empty()) {
                self.said.push_back(serde_json::from_str(record).unwrap());
            }
        }
    }

    pub(crate) async fn told(&mut self) -> String {
        let said = self.next().await;
        assert_eq!(said["target"], "told", "{said}");
        text(said["arguments"][0].as_str().unwrap())
    }

    pub(crate) async fn silent(&mut self) {
        let next = tokio::time::timeout(Duration::from_millis(200), self.next()).await;
        assert!(next.is_err(), "{next:?}");
    }
}

pub(crate) fn completion(id: &str, value: &'static str) -> Bytes {
    let value = Bytes::from_static(value.as_bytes());
    let outcome = steadfast_wire::signalr::message::Outcome::Value(value);
    hub::completion(Protocol::Json, id, &outcome)
}
