//! Peers that stop reading hold up only themselves.
//!
//! Peers are stopped under load for 30 s (SIGSTOP, an unread socket, a frozen proxy) and
//! then killed. Throughout, the node answers health checks within 100 ms, and clients,
//! readers, workers and writers beside them go on.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream as Blocking;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream::SplitSink;
use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};
use steadfast_client::amqp::{AmqpClient as Amqp, ReaderLinkOptions, payload};
use steadfast_harness::clients::python;
use steadfast_harness::{FaultProxy, Process};
use steadfast_wire::amqp::sasl;
use steadfast_wire::sas;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::nodes::{self, Over, database, now, steady};
use crate::running::stalls::Stalls;
use crate::running::{KNOWN, PATIENCE, Server, Start, said, steadfast, until};

/// How long peers do not read.
const STALL: Duration = Duration::from_secs(30);

/// How long a health check may take.
const HEALTHY: Duration = Duration::from_millis(100);

/// How long anything else may take beside peers that do not read.
const PROMPT: Duration = Duration::from_secs(5);

/// The hub of `steadfast bench realtime-app`.
const HUB: &str = "far";

/// Clients whose app server stops, and how often each of them calls it.
const CALLERS: usize = 40;
const EVERY: Duration = Duration::from_millis(50);

const ACCOUNT: &str = "devstoreaccount1";
const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Asks for `/livez` on a connection of its own until it is dropped.
struct Health {
    is_over: Arc<AtomicBool>,
    slowest_us: Arc<AtomicU64>,
    checks: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
    stalls: Stalls,
}

impl Health {
    fn watch(server: &Server) -> Self {
        let (is_over, slowest_us, checks) =
            <(Arc<AtomicBool>, Arc<AtomicU64>, Arc<AtomicU64>)>::default();
        let (over, slowest, count) = (is_over.clone(), slowest_us.clone(), checks.clone());
        let port = server.port();
        let watch = move || {
            while !over.load(Ordering::Relaxed) {
                let began = now();
                let answer = check(port);
                assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
                let took = began.elapsed().as_micros() as u64;
                slowest.fetch_max(took, Ordering::Relaxed);
                count.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        let thread = std::thread::Builder::new().name("health".into());
        Self {
            is_over,
            slowest_us,
            checks,
            thread: Some(thread.spawn(watch).unwrap()),
            stalls: Stalls::watch(),
        }
    }

    /// Every check so far was answered in time, but for time in which the machine stood still.
    fn was_good(mut self, what: &str) {
        self.is_over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().unwrap();
        thread.join().expect("every check is answered");
        let slowest = Duration::from_micros(self.slowest_us.load(Ordering::Relaxed));
        let (checks, lost) = (self.checks.load(Ordering::Relaxed), self.stalls.lost());
        println!("{what}: {checks} health checks, the slowest {slowest:?}; machine stood {lost:?}");
        assert!(checks > 100, "{checks} checks");
        assert!(
            slowest <= HEALTHY + lost,
            "{what}: {slowest:?}, lost {lost:?}"
        );
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// One health check, on a connection of its own: without a key none is kept for long.
fn check(port: u16) -> String {
    let mut stream = Blocking::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece).expect("a health check is answered");
        assert_ne!(count, 0, "the connection ended");
        answer.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&answer);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let lines = head.to_ascii_lowercase();
            let length = lines
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.trim().parse().unwrap()) {
                return text.into_owned();
            }
        }
    }
}

/// An app server of a running service.
fn app(server: &Server, name: &str) -> Process {
    let mut command = steadfast(server.folder.path());
    let service = format!("127.0.0.1:{}", server.port());
    command.args(["bench", "realtime-app", &service, name]);
    let mut process = Process::spawn(command).unwrap();
    assert_eq!(process.next_line(PATIENCE).unwrap().trim(), "READY");
    process
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A SignalR client that has shaken hands.
async fn connected(url: &str) -> Socket {
    let (mut socket, _) = connect_async(url).await.unwrap();
    let hello = json!({"protocol": "json", "version": 1});
    let hello = Message::text(format!("{hello}\u{1e}"));
    socket.send(hello).await.unwrap();
    loop {
        let frame = socket.next().await.unwrap().unwrap();
        if frame.to_text().unwrap().starts_with("{}") {
            return socket;
        }
    }
}

fn call(number: u64, target: &str, arguments: &Value) -> Message {
    let id = number.to_string();
    let call = json!({"type": 1, "invocationId": id, "target": target, "arguments": arguments});
    Message::text(format!("{call}\u{1e}"))
}

/// The result of a call, past broadcasts and pings.
async fn result(socket: &mut Socket, number: u64) -> Value {
    let id = number.to_string();
    loop {
        let frame = socket.next().await.expect("it stays open").unwrap();
        let Ok(text) = frame.to_text() else { continue };
        for record in text.split('\u{1e}').filter(|record| !record.is_empty()) {
            let message: Value = serde_json::from_str(record).unwrap();
            assert_ne!(message["type"], 7, "{message}");
            if message["type"] == 3 && message["invocationId"] == *id {
                return message["result"].clone();
            }
        }
    }
}

/// Which process answers this client.
async fn process(socket: &mut Socket) -> u64 {
    socket.send(call(0, "process", &json!([]))).await.unwrap();
    result(socket, 0).await.as_u64().unwrap()
}

/// Calls its app server again and again, as long as its connection is open.
async fn press(mut sink: SplitSink<Socket, Message>) {
    let text = "x".repeat(20_000);
    let mut ticks = interval(EVERY);
    for number in 1.. {
        ticks.tick().await;
        let call = call(number, "echo", &json!([text]));
        if sink.send(call).await.is_err() {
            return;
        }
    }
}

/// Reads every event of a partition as it comes, or nothing at all.
async fn reader(amqp: u16, name: &str) -> Amqp<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", amqp)).await.unwrap();
    let anonymous = sasl::SaslInit {
        mechanism: "ANONYMOUS",
        response: b"",
    };
    let mut client = Amqp::connect(stream, &anonymous).await.unwrap();
    let audience = "sb://localhost/read";
    let token = sas::token(audience, 4_000_000_000, "RootManageSharedAccessKey", KNOWN);
    assert_eq!(client.put_token(0, audience, &token).await.unwrap(), 202);
    client.begin(1).await.unwrap();
    let place = "read/ConsumerGroups/$Default/Partitions/0";
    client.attach_reader(1, 0, name, place, &ReaderLinkOptions::default());
    client.grant(1, 0, 0, 1_000_000, 0);
    client.flush().await.unwrap();
    client
}

/// What all load has in common.
#[derive(Clone)]
struct Load {
    url: String,
    client: reqwest::Client,
    is_over: Arc<AtomicBool>,
}

impl Load {
    async fn post(&self, path: &str, body: &Value) -> (StatusCode, String) {
        let request = self.client.post(format!("{}{path}", self.url));
        let request = request.bearer_auth(KNOWN).json(body);
        let answer = timeout(PROMPT, request.send()).await;
        let answer = answer.unwrap_or_else(|_| panic!("{path} takes longer than {PROMPT:?}"));
        let answer = answer.unwrap();
        (answer.status(), answer.text().await.unwrap())
    }

    /// Does something at a rate until the load is over; how often.
    async fn repeat(self, every: Duration, path: &str, body: impl Fn(u64) -> Value) -> u64 {
        let mut ticks = interval(every);
        let mut number = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            ticks.tick().await;
            let path = path.replace("{}", &number.to_string());
            let (status, told) = self.post(&path, &body(number)).await;
            assert!(status.is_success(), "{path}: {status} {told}");
            number += 1;
        }
        number
    }

    /// Calls the healthy app server.
    async fn echo(self, mut socket: Socket) -> u64 {
        let mut ticks = interval(EVERY);
        let mut number = 1;
        while !self.is_over.load(Ordering::Relaxed) {
            ticks.tick().await;
            let echo = async {
                let call = call(number, "echo", &json!(["hello"]));
                socket.send(call).await.unwrap();
                result(&mut socket, number).await
            };
            let echo = timeout(PROMPT, echo).await.expect("an echo comes promptly");
            assert_eq!(echo, "hello");
            number += 1;
        }
        number
    }

    /// Reads events until the load is over and none is left.
    async fn read(self, mut client: Amqp<TcpStream>, seen: Arc<AtomicU64>) {
        loop {
            let frame = timeout(PROMPT, client.next()).await;
            let Ok(frame) = frame else {
                assert!(self.is_over.load(Ordering::Relaxed), "no event comes");
                return;
            };
            if payload(&frame.unwrap()).is_some() {
                seen.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// A processor of Python with its checkpoints in blobs.
fn processor(server: &Server) -> Process {
    let told = json!({
        "amqp": server.port_of("amqp"), "blob": server.port_of("blob"),
        "key_name": "RootManageSharedAccessKey", "key": KNOWN,
        "account": ACCOUNT, "account_key": ACCOUNT_KEY,
    });
    let options = json!({
        "hub": "read", "group": "second", "container": "box", "interval": 1, "expiry": 6, "kind": "sync",
    });
    let mut command = python("eventhub", "python/processor.py");
    command.arg(told.to_string()).arg(options.to_string());
    Process::spawn(command).unwrap()
}

/// Waits until a processor has a checkpoint behind an event of this number.
fn keeps(processor: &mut Process, number: u64) {
    let wanted = format!("{number} ");
    loop {
        let line = processor.next_line(PATIENCE).unwrap();
        let line: Value = serde_json::from_str(&line).unwrap_or_default();
        if line["kept"]
            .as_str()
            .is_some_and(|kept| kept.starts_with(&wanted))
        {
            return;
        }
    }
}

/// A durable worker of Python.
fn worker(server: &Server) -> Process {
    let mut command = python("durable", "durable-python/bank.py");
    let told = json!({"port": server.port_of("durable")}).to_string();
    command.args(["work", &told]);
    let mut process = Process::spawn(command).unwrap();
    assert_eq!(process.next_line(PATIENCE).unwrap().trim(), "at work");
    process
}

/// How many instances have ended well.
fn completed(server: &Server) -> BTreeSet<String> {
    let path = "/runtime/webhooks/durabletask/instances?runtimeStatus=Completed&top=1000";
    let (status, found) = server.get(path);
    assert_eq!(status, StatusCode::OK, "{found}");
    let found = found.as_array().unwrap().iter();
    found
        .map(|one| one["instanceId"].as_str().unwrap().to_owned())
        .collect()
}

fn done(server: &Server, arguments: &[&str]) {
    let (code, text, error) = said(&server.run(arguments));
    assert_eq!(code, 0, "{arguments:?}: {text}{error}");
}

fn address(server: &Server) -> String {
    let path = format!("/v1/hubs/{HUB}/tokens");
    let (_, told) = server.post(&path, json!({"user": "alice"}));
    let token = told["token"].as_str().unwrap();
    let port = server.port();
    format!("ws://127.0.0.1:{port}/client/?hub={HUB}&access_token={token}")
}

/// Clients of the app server that will stop, and one of the app server that will not.
async fn clients(url: &str, stopping: u32) -> (Vec<Socket>, Vec<Socket>) {
    let (mut doomed, mut healthy) = (Vec::new(), Vec::new());
    while doomed.len() < CALLERS || healthy.len() < 2 {
        let mut socket = connected(url).await;
        if process(&mut socket).await == u64::from(stopping) {
            doomed.push(socket);
        } else {
            healthy.push(socket);
        }
    }
    (doomed, healthy)
}

#[test]
fn peers_that_stop_reading_hold_up_only_themselves() {
    let mut server = Start::new("dev").set("drain.limit=10s").ready();
    done(
        &server,
        &[
            "eventhub",
            "create",
            "read",
            "--partitions",
            "1",
            "--group",
            "second",
        ],
    );
    let make = format!("http://127.0.0.1:{}/{ACCOUNT}", server.port_of("blob"));
    container(&make);
    let (mut stopping, _lasting) = (app(&server, "stopping"), app(&server, "lasting"));
    let (mut processing, mut working) = (processor(&server), worker(&server));
    let (url, amqp) = (address(&server), server.port_of("amqp"));
    let load = Load {
        url: server.url.clone(),
        client: server.client.clone(),
        is_over: Arc::default(),
    };
    let over = load.is_over.clone();
    let _over = Over(&over);
    let tasks = Runtime::new().unwrap();
    let (doomed, mut healthy) = tasks.block_on(clients(&url, stopping.id()));
    // Two peers that never read: a client of the hub, and a receiver of events.
    let unread = (
        healthy.pop().unwrap(),
        tasks.block_on(reader(amqp, "unread")),
    );
    let seen: Arc<AtomicU64> = Arc::default();
    let reading = tasks.block_on(reader(amqp, "reading"));
    let reading = tasks.spawn(load.clone().read(reading, seen.clone()));
    let mut pressing = JoinSet::new();
    for socket in doomed {
        let (sink, stream) = socket.split();
        pressing.spawn_on(press(sink), tasks.handle());
        tasks.spawn(stream.for_each(|_| async {}));
    }
    let pad = "x".repeat(20_000);
    let (own, long) = (load.clone(), pad.clone());
    let broadcasts = tasks.spawn(async move {
        let body = |number| json!({"target": "tick", "arguments": [number, long]});
        let path = format!("/v1/hubs/{HUB}/send");
        own.repeat(EVERY, &path, body).await
    });
    let (own, long) = (load.clone(), pad);
    let events = tasks.spawn(async move {
        let body = |number| json!({"events": [{"body": format!("{number} {long}")}]});
        own.repeat(EVERY, "/v1/eventhubs/read/events", body).await
    });
    let own = load.clone();
    let instances = tasks.spawn(async move {
        let path = "/runtime/webhooks/durabletask/orchestrators/pay_in/pay-{}";
        let every = Duration::from_millis(500);
        own.repeat(every, path, |_| json!(["alice", 1])).await
    });
    let echoes: Vec<_> = healthy
        .into_iter()
        .map(|socket| tasks.spawn(load.clone().echo(socket)))
        .collect();
    // Everything is under way.
    keeps(&mut processing, 10);
    until("the first instances", || {
        (completed(&server).len() > 2).then_some(())
    });
    let health = Health::watch(&server);
    for peer in [&stopping, &processing, &working] {
        peer.freeze().unwrap();
    }
    // This is a measure of time, and not a wait for something.
    std::thread::sleep(STALL);
    for peer in [&mut stopping, &mut processing, &mut working] {
        peer.kill().unwrap();
    }
    drop(unread);
    std::thread::sleep(Duration::from_secs(2));
    health.was_good("peers that stop reading");
    // Others take over where they were.
    let (mut processing, _working) = (processor(&server), worker(&server));
    load.is_over.store(true, Ordering::Relaxed);
    let (events, instances) = tasks.block_on(async {
        for echo in echoes {
            assert!(echo.await.unwrap() > 100);
        }
        assert!(broadcasts.await.unwrap() > 100);
        let counts = (events.await.unwrap(), instances.await.unwrap());
        reading.await.unwrap();
        counts
    });
    assert_eq!(
        seen.load(Ordering::Relaxed),
        events,
        "a reader gets every event"
    );
    keeps(&mut processing, events - 1);
    until("every instance", || {
        (completed(&server).len() as u64 >= instances).then_some(())
    });
    pressing.abort_all();
    server.signal(Signal::TERM);
    assert_eq!(server.ended().0, 0, "{}", server.log());
}

/// Makes the container of the processors, by azure-storage-blob.
fn container(url: &str) {
    let code = "import sys; from azure.storage.blob import BlobServiceClient; \
                url, account, key = sys.argv[1:]; \
                credential = {'account_name': account, 'account_key': key}; \
                BlobServiceClient(url, credential).create_container('box')";
    let mut command = steadfast_harness::clients::interpreter("eventhub");
    command.args(["-c", code, url, ACCOUNT, ACCOUNT_KEY]);
    assert!(command.status().unwrap().success());
}

/// The address of a database through a proxy.
fn through(database: &str, tasks: &Runtime) -> (FaultProxy, String) {
    let (start, rest) = database.split_once("127.0.0.1:").unwrap();
    let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap();
    let upstream = ([127, 0, 0, 1], rest[..digits].parse().unwrap()).into();
    let proxy = tasks.block_on(FaultProxy::start(upstream)).unwrap();
    let url = format!(
        "{start}127.0.0.1:{}{}",
        proxy.address().port(),
        &rest[digits..]
    );
    (proxy, url)
}

#[test]
fn a_database_that_stops_answering_leaves_the_node_responsive() {
    let tasks = Runtime::new().unwrap();
    let (proxy, url) = through(&database(), &tasks);
    let mut server = steady("a", &url).ready();
    let _app = app(&server, "lasting");
    let address = address(&server);
    let load = Load {
        url: server.url.clone(),
        client: server.client.clone(),
        is_over: Arc::default(),
    };
    let over = load.is_over.clone();
    let _over = Over(&over);
    let socket = tasks.block_on(connected(&address));
    let echo = tasks.spawn(load.clone().echo(socket));
    put(&server, 0);
    let health = Health::watch(&server);
    proxy.freeze(true);
    // Commits under way when the connection stops, and while it is stopped.
    let writers: Vec<_> = (0..20).map(|number| writer(&server, number)).collect();
    std::thread::sleep(STALL);
    proxy.cut();
    proxy.freeze(false);
    until("a commit after the database is back", || {
        (write(&server, 1) == StatusCode::OK).then_some(())
    });
    for writer in writers {
        writer.join().unwrap();
    }
    health.was_good("a database that stops answering");
    load.is_over.store(true, Ordering::Relaxed);
    assert!(tasks.block_on(echo).unwrap() > 100);
    server.signal(Signal::TERM);
    assert_eq!(server.ended().0, 0, "{}", server.log());
}

fn put(server: &Server, number: u64) {
    assert_eq!(write(server, number), StatusCode::OK);
}

fn write(server: &Server, number: u64) -> StatusCode {
    nodes::put(server, "stalled", &number.to_string(), "x").0
}

/// Writes until a commit succeeds or the node refuses it.
fn writer(server: &Server, number: u64) -> std::thread::JoinHandle<()> {
    let caller = nodes::Caller::of(server);
    let writing = std::thread::Builder::new().name("writer".into());
    let writing = writing.spawn(move || {
        let step =
            json!({"op": "put", "collection": "texts", "key": format!("w{number}"), "value": "x"});
        let body = json!({"steps": [step]});
        let began: Instant = now();
        caller.ask(reqwest::Method::POST, "/v1/state/stalled", Some(body));
        // Answered or refused, but never left waiting without a bound.
        assert!(began.elapsed() < PATIENCE * 2);
    });
    writing.unwrap()
}
