//! App servers that come and go under load.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};
use steadfast_core::clock::Clock;
use steadfast_macros::hub;
use steadfast_net::listen::Certificate;
use steadfast_realtime::{Context, HubOptions, HubResult, ShutdownMode};
use steadfast_signalr::{AppServerRuntime, DialOptions};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::hub_stage::{SECRET, Stage};

const HUB: &str = "counter";
const PATIENCE: Duration = Duration::from_secs(60);

/// What all servers together have seen.
#[derive(Clone)]
struct Book {
    numbers: Arc<Mutex<HashMap<String, Vec<u64>>>>,
    hooks: Arc<Mutex<Vec<String>>>,
    /// A permit per call of `wait` that has begun.
    waiting: Arc<Semaphore>,
}

impl Default for Book {
    fn default() -> Self {
        Self {
            numbers: Arc::default(),
            hooks: Arc::default(),
            waiting: Arc::new(Semaphore::new(0)),
        }
    }
}

impl Book {
    async fn waited(&self, calls: u32) {
        let begun = tokio::time::timeout(PATIENCE, self.waiting.acquire_many(calls));
        begun.await.expect("it begins").unwrap().forget();
    }
}

struct Counter(Book);

#[hub(crate = "steadfast_realtime")]
impl Counter {
    async fn on_connected(&self, context: &Context) {
        if let Some(own) = context.migration() {
            let id = context.connection_id();
            self.0
                .hooks
                .lock()
                .push(format!("+{id} {} {}", own.from, own.to));
        }
    }

    async fn on_disconnected(&self, context: &Context, _error: Option<String>) {
        if let Some(own) = context.migration() {
            let id = context.connection_id();
            self.0
                .hooks
                .lock()
                .push(format!("-{id} {} {}", own.from, own.to));
        }
    }

    async fn note(&self, context: &Context, number: u64) -> u64 {
        let mut numbers = self.0.numbers.lock();
        let own = numbers.entry(context.connection_id().to_owned());
        own.or_default().push(number);
        number
    }

    async fn wait(&self, milliseconds: u64) -> u64 {
        self.0.waiting.add_permits(1);
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        milliseconds
    }

    async fn enter(&self, context: &Context, group: String) -> HubResult<()> {
        Ok(context.join(&group).await?)
    }

    /// Sends to the caller, and answers.
    async fn tick(&self, context: &Context, number: u64) -> HubResult<()> {
        let own = context.clients().connections([context.connection_id()]);
        Ok(own.send("tick", &(number,)).await?)
    }

    async fn ask(&self, context: &Context) -> HubResult<String> {
        let name: String = context.client().ask("name", &()).await?;
        Ok(format!("it is {name}"))
    }
}

fn options(stage: &Stage, name: &str, mode: ShutdownMode) -> DialOptions {
    DialOptions {
        address: stage.address.to_string(),
        is_encrypted: false,
        authorities: None,
        secret: SECRET.to_owned(),
        server: name.to_owned(),
        hub: HUB.to_owned(),
        mode,
        links: 1,
    }
}

fn dial(stage: &Stage, book: &Book, options: DialOptions) -> AppServerRuntime<Counter> {
    let clock = Arc::clone(&stage.clock) as Arc<dyn Clock>;
    let dialed =
        AppServerRuntime::start(Counter(book.clone()), options, HubOptions::default(), clock);
    dialed.expect("options that can be used")
}

fn serve(stage: &Stage, name: &str, book: &Book, mode: ShutdownMode) -> AppServerRuntime<Counter> {
    dial(stage, book, options(stage, name, mode))
}

/// A client that speaks JSON.
struct Client {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    said: std::collections::VecDeque<Value>,
    /// Broadcasts that have come.
    ticks: Vec<u64>,
}

impl Client {
    async fn start(stage: &Stage) -> Self {
        let token = stage.token(HUB);
        let url = format!(
            "ws://{}/client/?hub={HUB}&access_token={token}",
            stage.address
        );
        let request = url.into_client_request().unwrap();
        let (mut socket, _) = connect_async(request).await.unwrap();
        let hello = "{\"protocol\":\"json\",\"version\":1}\u{1e}";
        socket.send(Frame::text(hello)).await.unwrap();
        let mut client = Self {
            socket,
            said: Default::default(),
            ticks: Vec::new(),
        };
        assert_eq!(client.next().await, json!({}));
        client
    }

    /// One that may come back after its socket was lost.
    async fn stateful(stage: &Stage) -> Self {
        let token = stage.token(HUB);
        let query = format!("hub={HUB}&access_token={token}");
        let url = format!(
            "{}/client/negotiate?{query}&negotiateVersion=1&useStatefulReconnect=true",
            stage.url()
        );
        let _ = rustls::crypto::ring::default_provider().install_default();
        let told = reqwest::Client::new().post(url).send().await.unwrap();
        let told: Value = told.json().await.unwrap();
        assert_eq!(told["useStatefulReconnect"], true);
        let id = told["connectionToken"].as_str().unwrap();
        let url = format!("ws://{}/client/?{query}&id={id}", stage.address);
        let (mut socket, _) = connect_async(url).await.unwrap();
        let hello = "{\"protocol\":\"json\",\"version\":2}\u{1e}";
        socket.send(Frame::text(hello)).await.unwrap();
        let mut client = Self {
            socket,
            said: Default::default(),
            ticks: Vec::new(),
        };
        assert_eq!(client.next().await, json!({}));
        client
    }

    /// The next message, whatever it is.
    async fn raw_next(&mut self) -> Value {
        let next = tokio::time::timeout(PATIENCE, self.socket.next()).await;
        let text = next.unwrap().unwrap().unwrap().into_text().unwrap();
        serde_json::from_str(text.trim_end_matches('\u{1e}')).unwrap()
    }

    /// The next message that is no broadcast and no ping. An end is a failure.
    async fn next(&mut self) -> Value {
        loop {
            while let Some(said) = self.said.pop_front() {
                match said["type"].as_i64() {
                    Some(6 | 8) => {}
                    Some(7) => panic!("closed: {said}"),
                    Some(1) if said["target"] == "tick" => {
                        self.ticks.push(said["arguments"][0].as_u64().unwrap());
                    }
                    _ => return said,
                }
            }
            let next = tokio::time::timeout(PATIENCE, self.socket.next()).await;
            match next.expect("something comes").expect("a frame").unwrap() {
                Frame::Text(text) => {
                    for record in text.split('\u{1e}').filter(|own| !own.is_empty()) {
                        self.said.push_back(serde_json::from_str(record).unwrap());
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }

    async fn invoke(&mut self, id: u64, target: &str, arguments: Value) {
        let id = id.to_string();
        let call = json!({"type": 1, "invocationId": id, "target": target, "arguments": arguments});
        self.socket
            .send(Frame::text(format!("{call}\u{1e}")))
            .await
            .unwrap();
    }

    async fn call(&mut self, id: u64, target: &str, arguments: Value) -> Value {
        self.invoke(id, target, arguments).await;
        let done = self.next().await;
        assert_eq!(done["invocationId"], id.to_string(), "{done}");
        assert!(done.get("error").is_none(), "{done}");
        done["result"].clone()
    }
}

/// Calls until it is told to stop; how many calls it made.
async fn work(
    mut client: Client,
    mut stop: tokio::sync::watch::Receiver<Option<u64>>,
) -> (u64, Vec<u64>) {
    let mut number = 0;
    while stop.borrow_and_update().is_none() {
        assert_eq!(client.call(number, "note", json!([number])).await, number);
        number += 1;
    }
    // Everything that was broadcast must come.
    let last = stop.borrow().unwrap();
    while client.ticks.len() < last as usize {
        assert_eq!(client.call(number, "note", json!([number])).await, number);
        number += 1;
    }
    (number, client.ticks)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn realtime_44_servers_are_replaced_under_load_and_no_client_notices() {
    // `cargo xtask soak drain` says how often, and has more clients.
    let told = std::env::var("STEADFAST_ROUNDS").ok();
    let rounds: usize = told.as_ref().map_or(5, |own| own.parse().unwrap());
    let clients = if told.is_some() { 2000 } else { 1000 };
    let stage = Stage::start();
    let book = Book::default();
    let mut server = serve(&stage, "s0", &book, ShutdownMode::MigrateClients);
    server.ready().await;
    let (stop, stopped) = tokio::sync::watch::channel(None);
    let mut working = Vec::new();
    for _ in 0..clients {
        let client = Client::start(&stage).await;
        working.push(tokio::spawn(work(client, stopped.clone())));
    }
    let lobby = stage.realtime.connections(HUB).unwrap();
    let ticking = tokio::spawn(async move {
        let mut number = 0;
        while !stopped.has_changed().unwrap_or(true) {
            let both = steadfast_realtime::ProtocolSet::BOTH;
            let payload = steadfast_realtime::HubPayload::call(both, None, "tick", &(number,));
            let to = steadfast_realtime::gateway::Recipients::All { except: vec![] };
            lobby.send(&to, &payload.unwrap());
            number += 1;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        number
    });
    for round in 1..=rounds {
        let next = serve(
            &stage,
            &format!("s{round}"),
            &book,
            ShutdownMode::MigrateClients,
        );
        next.ready().await;
        let left = server.shutdown(Duration::from_secs(30), async {}).await;
        assert_eq!(left, 0, "round {round}");
        let homes = stage.realtime.connections(HUB).unwrap().clients();
        let name = Some(format!("s{round}"));
        assert!(homes.len() == clients && homes.iter().all(|own| own.server() == name));
        server = next;
    }
    // The ticker is told first, so that it can say how many there were.
    stop.send_replace(Some(0));
    let ticks = ticking.await.unwrap();
    stop.send_replace(Some(ticks));
    for working in working {
        let (_, seen) = working.await.unwrap();
        assert!(
            seen.windows(2).all(|pair| pair[1] == pair[0] + 1),
            "{seen:?}"
        );
    }
    for numbers in book.numbers.lock().values() {
        let expected: Vec<_> = (0..numbers.len() as u64).collect();
        assert_eq!(*numbers, expected, "once each, in order");
    }
    let hooks = book.hooks.lock();
    let came = hooks.iter().filter(|own| own.starts_with('+')).count();
    assert_eq!(came, clients * rounds);
    let mut unique = hooks.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), hooks.len(), "each hook once");
}

#[tokio::test]
async fn realtime_51_a_rolling_restart_is_not_seen() {
    let stage = Stage::start();
    let book = Book::default();
    let mode = ShutdownMode::MigrateClients;
    let first = serve(&stage, "a", &book, mode);
    first.ready().await;
    let mut client = Client::start(&stage).await;
    client.call(0, "enter", json!(["g"])).await;
    let second = serve(&stage, "b", &book, mode);
    second.ready().await;
    assert_eq!(first.shutdown(PATIENCE, async {}).await, 0);
    assert_eq!(client.call(1, "note", json!([1])).await, 1);
    let third = serve(&stage, "a", &book, mode);
    third.ready().await;
    assert_eq!(second.shutdown(PATIENCE, async {}).await, 0);
    let tick = third.clients().group("g").send("tick", &(7,)).await;
    tick.unwrap();
    assert_eq!(client.call(2, "note", json!([2])).await, 2);
    assert_eq!(client.ticks, [7]);
    let id = {
        let numbers = book.numbers.lock();
        numbers.keys().next().unwrap().clone()
    };
    let hooks = book.hooks.lock().clone();
    let expected = ["a b", "b a"].map(|own| [format!("+{id} {own}"), format!("-{id} {own}")]);
    for hook in expected.iter().flatten() {
        assert_eq!(
            hooks.iter().filter(|own| *own == hook).count(),
            1,
            "{hooks:?}"
        );
    }
}

#[tokio::test]
async fn a_killed_server_loses_nothing_of_clients_that_may_come_back() {
    let stage = Stage::start();
    let book = Book::default();
    let mode = ShutdownMode::MigrateClients;
    let first = serve(&stage, "a", &book, mode);
    first.ready().await;
    let mut client = Client::stateful(&stage).await;
    let mut plain = Client::start(&stage).await;
    client.call(0, "enter", json!(["g"])).await;
    assert_eq!(client.call(1, "note", json!([1])).await, 1);
    client.invoke(2, "wait", json!([60_000])).await;
    book.waited(1).await;
    first.kill();
    let lost = client.next().await;
    assert_eq!(lost["error"], "The app server was lost.", "{lost}");
    let closed = plain.raw_next().await;
    assert_eq!(
        (&closed["type"], &closed["allowReconnect"]),
        (&json!(7), &json!(true))
    );
    // It is held until another server comes.
    client.invoke(3, "note", json!([3])).await;
    let second = serve(&stage, "b", &book, mode);
    second.ready().await;
    assert_eq!(client.next().await["result"], 3);
    second
        .clients()
        .group("g")
        .send("tick", &(9,))
        .await
        .unwrap();
    assert_eq!(client.call(4, "note", json!([4])).await, 4);
    assert_eq!(client.ticks, [9]);
}

#[tokio::test]
async fn hooks_broadcast_through_a_server_that_is_offline() {
    let stage = Stage::start();
    let book = Book::default();
    let server = serve(&stage, "a", &book, ShutdownMode::WaitForClientsClose);
    server.ready().await;
    let mut client = Client::start(&stage).await;
    let clients = server.clients();
    let leaving = tokio::spawn(async move {
        let hook = async { clients.all().send("exit", &()).await.unwrap() };
        server.shutdown(PATIENCE, hook).await
    });
    let exit = client.next().await;
    assert_eq!(exit["target"], "exit");
    // A client that is asked to leave finishes its call first.
    assert_eq!(client.call(1, "wait", json!([50])).await, 50);
    drop(client);
    assert_eq!(leaving.await.unwrap(), 0);
}

#[tokio::test]
async fn clients_of_other_servers_are_asked_through_the_service() {
    let stage = Stage::start();
    let book = Book::default();
    let server = serve(&stage, "a", &book, ShutdownMode::MigrateClients);
    server.ready().await;
    let mut client = Client::start(&stage).await;
    client.invoke(1, "ask", json!([])).await;
    let question = client.next().await;
    assert_eq!(question["target"], "name");
    let answer = json!({"type": 3, "invocationId": question["invocationId"], "result": "Bob"});
    client
        .socket
        .send(Frame::text(format!("{answer}\u{1e}")))
        .await
        .unwrap();
    assert_eq!(client.next().await["result"], "it is Bob");
    let other = serve(&stage, "b", &book, ShutdownMode::MigrateClients);
    other.ready().await;
    let id = stage.realtime.connections(HUB).unwrap().clients()[0]
        .id()
        .to_string();
    let clients = other.clients();
    let asking = tokio::spawn(async move {
        let answer: String = clients.connection(id).ask("name", &()).await.unwrap();
        answer
    });
    let question = client.next().await;
    let answer = json!({"type": 3, "invocationId": question["invocationId"], "result": "Eve"});
    client
        .socket
        .send(Frame::text(format!("{answer}\u{1e}")))
        .await
        .unwrap();
    assert_eq!(asking.await.unwrap(), "Eve");
}

#[tokio::test]
async fn clients_are_spread_over_the_links_of_a_server_and_move_together() {
    let stage = Stage::start();
    let book = Book::default();
    let mode = ShutdownMode::MigrateClients;
    let three = |name: &str| DialOptions {
        links: 3,
        ..options(&stage, name, mode)
    };
    let first = dial(&stage, &book, three("a"));
    first.ready().await;
    assert_eq!(first.links(), 3);
    let mut clients = Vec::new();
    for number in 0..6 {
        let mut client = Client::start(&stage).await;
        assert_eq!(client.call(0, "note", json!([number])).await, number);
        clients.push(client);
    }
    let servers = stage.realtime.servers(HUB).unwrap();
    assert_eq!((servers[0].links, servers[0].clients), (3, 6));
    // What a call sends comes before its answer, whichever link it takes.
    for client in &mut clients {
        client.call(1, "enter", json!(["g"])).await;
        client.call(2, "tick", json!([7])).await;
    }
    for client in &mut clients {
        client.call(3, "note", json!([3])).await;
        assert_eq!(client.ticks, [7]);
    }
    let second = dial(&stage, &book, three("b"));
    second.ready().await;
    assert_eq!(first.shutdown(PATIENCE, async {}).await, 0);
    for client in &mut clients {
        assert_eq!(client.call(4, "note", json!([4])).await, 4);
    }
    assert_eq!((second.count(), second.links()), (6, 3));
    assert_eq!(
        second.shutdown(Duration::from_millis(100), async {}).await,
        6
    );
}

#[tokio::test]
async fn a_link_that_the_service_asks_for_is_opened() {
    let stage = Stage::start();
    let book = Book::default();
    let server = serve(&stage, "a", &book, ShutdownMode::MigrateClients);
    server.ready().await;
    // So many clients are made without sockets.
    let mut homeless = Vec::new();
    for _ in 0..steadfast_core::limits::LINK_CLIENTS {
        let wishes = steadfast_realtime::ClientOptions::default();
        let caller = steadfast_realtime::ClientIdentity::default();
        let (client, lobby) = stage.realtime.connect(HUB, caller, &wishes).unwrap();
        let mut inlet = steadfast_realtime::ClientReader::new(Arc::clone(&client), lobby, 1000);
        let hello = "{\"protocol\":\"json\",\"version\":1}\u{1e}";
        inlet.take(hello.into()).await.expect("a home");
        homeless.push((client, inlet));
    }
    let opened = tokio::time::timeout(PATIENCE, async {
        while server.links() < 2 {
            tokio::task::yield_now().await;
        }
    });
    opened.await.expect("one more link");
    // New clients are given to it.
    let _client = Client::start(&stage).await;
    let own = &stage.realtime.servers(HUB).unwrap()[0];
    assert_eq!(own.links, 2);
    server.kill();
}

#[tokio::test]
async fn links_are_encrypted_and_trust_only_who_they_should() {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (chain, key) = (folder.path().join("tls.pem"), folder.path().join("tls.key"));
    std::fs::write(&chain, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let certificate = Certificate::load(&chain, &key).unwrap();
    let stage = Stage::start_encrypted(&certificate);
    let book = Book::default();
    let encrypted = |authorities: Option<Vec<u8>>| DialOptions {
        is_encrypted: true,
        authorities,
        ..options(&stage, "a", ShutdownMode::MigrateClients)
    };
    let distrustful = dial(&stage, &book, encrypted(None));
    let trusting = dial(&stage, &book, encrypted(Some(made.cert.pem().into_bytes())));
    let ready = tokio::time::timeout(PATIENCE, trusting.ready()).await;
    ready.expect("the service welcomes it");
    assert_eq!(distrustful.links(), 0);
    distrustful.kill();
    let (client, lobby) = {
        let wishes = steadfast_realtime::ClientOptions::default();
        let caller = steadfast_realtime::ClientIdentity::default();
        stage.realtime.connect(HUB, caller, &wishes).unwrap()
    };
    let mut inlet = steadfast_realtime::ClientReader::new(Arc::clone(&client), lobby, 1000);
    let hello = "{\"protocol\":\"json\",\"version\":1}\u{1e}";
    inlet.take(hello.into()).await.expect("a home");
    let call = "{\"type\":1,\"invocationId\":\"1\",\"target\":\"note\",\"arguments\":[5]}\u{1e}";
    inlet.take(call.into()).await.expect("it goes on");
    let mut said = String::new();
    while !said.contains("\"result\":5") {
        let next = client.outgoing(0, steadfast_realtime::KeepAlive::Pings);
        match tokio::time::timeout(PATIENCE, next)
            .await
            .expect("an answer")
        {
            steadfast_realtime::ClientOutput::Data(bytes) => {
                said.push_str(std::str::from_utf8(&bytes).unwrap());
            }
            other => panic!("{other:?}"),
        }
    }
    let nothing = DialOptions {
        is_encrypted: true,
        authorities: Some(b"nothing".to_vec()),
        ..options(&stage, "a", ShutdownMode::MigrateClients)
    };
    let clock = Arc::clone(&stage.clock) as Arc<dyn Clock>;
    let refused = AppServerRuntime::start(Counter(book), nothing, HubOptions::default(), clock);
    assert!(refused.is_err());
}
