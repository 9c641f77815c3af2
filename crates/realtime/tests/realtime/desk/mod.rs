//! A hub and clients without a transport.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use steadfast_macros::hub;
use steadfast_realtime::{
    Binary, ClientConnection, ClientIdentity, ClientOptions, ClientOutput, ClientReader, Context,
    HubConnections, HubError, HubOptions, HubResult, KeepAlive, Realtime, Upload,
};
use steadfast_wire::signalr::Protocol;
use steadfast_wire::signalr::frame::Splitter;
use tokio::sync::Semaphore;

/// How long anything may take before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// What a test sees of its hub.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) events: Arc<Mutex<Vec<String>>>,
    /// Calls of `wait` go on when there is a permit.
    pub(crate) gate: Arc<Semaphore>,
}

pub(crate) struct Room(pub(crate) Seen);

#[hub(crate = "steadfast_realtime")]
impl Room {
    async fn on_connected(&self, context: &Context) -> HubResult<()> {
        self.note(format!("+{}", context.user().unwrap_or("absent")));
        match context.user() {
            Some("unwanted") => Err(HubError::new("go away")),
            _ => Ok(()),
        }
    }

    async fn on_disconnected(&self, context: &Context, error: Option<String>) {
        let error = error.unwrap_or_default();
        self.note(format!("-{} {error}", context.user().unwrap_or("absent")));
    }

    #[hub(skip)]
    fn note(&self, text: String) {
        self.0.events.lock().push(text);
    }

    async fn add(&self, one: i64, other: i64) -> i64 {
        one + other
    }

    fn nothing(&self) {}

    async fn log(&self, text: String) {
        self.note(text);
    }

    async fn wait(&self, number: u64) -> u64 {
        let permit = self.0.gate.acquire().await.expect("it is not closed");
        permit.forget();
        self.note(format!("waited {number}"));
        number
    }

    async fn fail(&self, is_told: bool) -> HubResult<()> {
        if is_told {
            return Err(HubError::new("as you wish"));
        }
        Err(std::io::Error::other("secret").into())
    }

    async fn panic(&self) -> u64 {
        panic!("as planned")
    }

    #[hub(name = "Echo")]
    async fn give_back(&self, value: Binary) -> Binary {
        value
    }

    async fn enter(&self, context: &Context, group: String) -> HubResult<()> {
        Ok(context.join(&group).await?)
    }

    async fn tell_group(&self, context: &Context, group: String, text: String) -> HubResult<()> {
        let except = [context.connection_id()];
        let group = context.clients().group_except(group, except);
        Ok(group.send("told", &(text,)).await?)
    }

    async fn tell_all(&self, context: &Context, text: String) -> HubResult<()> {
        Ok(context.clients().all().send("told", &(text,)).await?)
    }

    async fn tell_user(&self, context: &Context, user: String, text: String) -> HubResult<()> {
        Ok(context.clients().user(user).send("told", &(text,)).await?)
    }

    async fn ask(&self, context: &Context, connection: String) -> HubResult<String> {
        let answer: String = context
            .clients()
            .connection(connection)
            .ask("name", &())
            .await?;
        Ok(format!("it is {answer}"))
    }

    fn count(&self, to: u32, fails: bool) -> impl futures_util::Stream<Item = HubResult<u32>> {
        let items = (0..to).map(Ok);
        let last = fails.then(|| Err(HubError::new("enough")));
        futures_util::stream::iter(items.chain(last))
    }

    fn forever(&self) -> impl futures_util::Stream<Item = u64> {
        futures_util::stream::iter(0..)
    }

    async fn total(&self, factor: i64, mut numbers: Upload<i64>) -> HubResult<i64> {
        let mut total = 0;
        while let Some(number) = numbers.next().await {
            total += number?;
        }
        Ok(factor * total)
    }

    async fn go(&self, context: &Context) {
        context.abort();
    }
}

/// A service with one hub.
pub(crate) struct Desk {
    pub(crate) realtime: Realtime,
    pub(crate) seen: Seen,
}

impl Desk {
    pub(crate) fn new(options: HubOptions) -> Self {
        Self::named("here", options)
    }

    pub(crate) fn named(name: &str, options: HubOptions) -> Self {
        let seen = Seen {
            events: Arc::default(),
            gate: Arc::new(Semaphore::new(0)),
        };
        let realtime = Realtime::new(name);
        let hosted = realtime.host("Room", Room(seen.clone()), options);
        hosted.expect("a hub");
        Self { realtime, seen }
    }

    pub(crate) fn lobby(&self) -> Arc<HubConnections> {
        self.realtime.connections("room").expect("the hub")
    }

    /// A client that speaks JSON, connected.
    pub(crate) async fn json(&self, user: &str) -> Talker {
        self.connect(user, Protocol::Json).await
    }

    pub(crate) async fn connect(&self, user: &str, protocol: Protocol) -> Talker {
        let mut talker = self.open(user, &ClientOptions::default());
        talker.greet(protocol).await;
        talker
    }

    pub(crate) fn open(&self, user: &str, wishes: &ClientOptions) -> Talker {
        let caller = ClientIdentity {
            user: Some(user.to_owned()),
            ..ClientIdentity::default()
        };
        let (client, lobby) = self
            .realtime
            .connect("room", caller, wishes)
            .expect("a client");
        Talker {
            inlet: ClientReader::new(Arc::clone(&client), lobby, 1 << 20),
            client,
            splitter: Splitter::default(),
            protocol: Protocol::Json,
            socket: 0,
        }
    }

    pub(crate) fn events(&self) -> Vec<String> {
        self.seen.events.lock().clone()
    }

    /// Waits until the hub has noted this.
    pub(crate) async fn noted(&self, text: &str) {
        let noted = async {
            while !self.events().iter().any(|own| own == text) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let noted = tokio::time::timeout(PATIENCE, noted).await;
        noted.unwrap_or_else(|_| panic!("{text} is not in {:?}", self.events()));
    }
}

/// One client of a test.
pub(crate) struct Talker {
    pub(crate) client: Arc<ClientConnection>,
    pub(crate) inlet: ClientReader,
    splitter: Splitter,
    protocol: Protocol,
    pub(crate) socket: u64,
}

impl Talker {
    pub(crate) fn id(&self) -> String {
        self.client.id().to_string()
    }

    /// Says which protocol is spoken, and checks the answer.
    pub(crate) async fn greet(&mut self, protocol: Protocol) {
        let name = protocol.name();
        let text = format!("{{\"protocol\":\"{name}\",\"version\":1}}\u{1e}");
        self.raw(text.as_bytes()).await;
        assert_eq!(&self.bytes().await[..], b"{}\x1e");
        self.protocol = protocol;
    }

    pub(crate) async fn raw(&mut self, bytes: &[u8]) {
        let taken = self.inlet.take(Bytes::copy_from_slice(bytes));
        // A client that was turned away finds out by what it reads.
        let _ = tokio::time::timeout(PATIENCE, taken)
            .await
            .expect("it is taken");
    }

    pub(crate) async fn say(&mut self, message: Value) {
        self.raw(format!("{message}\u{1e}").as_bytes()).await;
    }

    pub(crate) async fn invoke(&mut self, id: &str, target: &str, arguments: Value) {
        let call = json!({"type": 1, "invocationId": id, "target": target, "arguments": arguments});
        self.say(call).await;
    }

    /// Calls a method, and returns the completion, which must come next.
    pub(crate) async fn call(&mut self, target: &str, arguments: Value) -> Value {
        self.invoke("call", target, arguments).await;
        let next = self.next().await;
        assert_eq!(
            (&next["type"], &next["invocationId"]),
            (&json!(3), &json!("call"))
        );
        next
    }

    /// The next message that is no ping or acknowledgement.
    pub(crate) async fn next(&mut self) -> Value {
        loop {
            let message = self.message().await;
            if !matches!(message["type"].as_i64(), Some(6 | 8)) {
                return message;
            }
        }
    }

    pub(crate) async fn message(&mut self) -> Value {
        loop {
            let next = self
                .splitter
                .next(Protocol::Json, usize::MAX)
                .expect("whole");
            if let Some(record) = next {
                let body = &record[..record.len() - 1];
                return serde_json::from_slice(body).expect("JSON");
            }
            let bytes = self.bytes().await;
            self.splitter.push(bytes);
        }
    }

    /// What is sent next.
    pub(crate) async fn bytes(&mut self) -> Bytes {
        match self.outgoing().await {
            ClientOutput::Data(bytes) => bytes,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn outgoing(&mut self) -> ClientOutput {
        let next = self.client.outgoing(self.socket, KeepAlive::Pings);
        tokio::time::timeout(4 * PATIENCE, next)
            .await
            .expect("something is sent")
    }
}
