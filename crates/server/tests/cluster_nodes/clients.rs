//! Unmodified SDKs through a node that owns nothing.
//!
//! There are fewer partitions than nodes, so one node has none: whatever its clients
//! want is elsewhere. The scenarios are some of those of the group `clients`;
//! `cargo xtask soak clients` runs all of Durable Task and of jobs here, and all others
//! where they stand, with three nodes instead of one.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use steadfast_harness::clients::{go, interpreter, java, javascript, python, rust};
use steadfast_harness::{FaultProxy, Process};

use crate::nodes::{self, database, now, shares, standing, steady};
use crate::running::{KNOWN, PATIENCE, Server, said, steadfast, until};

/// One less than nodes.
const PARTITIONS: &str = "partitions=2";

const ACCOUNT: &str = "devstoreaccount1";
const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

fn is_soak() -> bool {
    std::env::var_os("STEADFAST_ROUNDS").is_some()
}

/// Three nodes, the last of which owns nothing.
fn stage() -> Vec<Server> {
    let database = database();
    let start = |name: &str| steady(name, &database).set(PARTITIONS).ready();
    let mut nodes = vec![start("a"), start("b")];
    until("one partition each", || {
        let shares = shares(&standing(&nodes[1]));
        (shares.iter().filter(|(_, share)| *share == 1).count() == 2).then_some(())
    });
    nodes.push(start("c"));
    owns_nothing(&nodes[2]);
    nodes
}

/// The node is known to itself, and owns nothing.
fn owns_nothing(server: &Server) {
    let share = until("the node among the others", || {
        let shares = shares(&standing(server)).into_iter();
        shares
            .filter(|(name, _)| name == "c")
            .map(|own| own.1)
            .next()
    });
    assert_eq!(share, 0);
}

/// Runs a client until it ends.
fn run(what: &str, server: &Server, mut command: Command) {
    let began = now();
    let folder = tempfile::tempdir().unwrap();
    let (out, err) = (folder.path().join("out"), folder.path().join("err"));
    let file = |path: &Path| std::fs::File::create(path).unwrap();
    command.stdout(file(&out)).stderr(file(&err));
    let status = command.status().expect("the client is installed");
    let text = |path: &Path| std::fs::read_to_string(path).unwrap();
    assert!(
        status.success(),
        "{what}: {}{}{}",
        text(&out),
        text(&err),
        server.log()
    );
    println!("{what}: {:?}", began.elapsed());
}

/// What a command that succeeds prints.
fn done(server: &Server, arguments: &[&str]) {
    let (code, text, error) = said(&server.run(arguments));
    assert_eq!(code, 0, "{arguments:?}: {text}{error}");
}

#[test]
fn sdks_of_event_hubs() {
    let nodes = stage();
    let group = ["--group", "second"];
    for (name, partitions) in [("houses", "4"), ("keys", "16")] {
        let create = ["eventhub", "create", name, "--partitions", partitions];
        done(&nodes[0], &[&create[..], &group[..]].concat());
    }
    // Blobs have a library of their own; that of Python makes containers below.
    for (client, scenario) in [
        ("python", "send_and_read"),
        ("node", "keyedSends"),
        ("rust", "keyed_sends"),
        ("node", "blobsWithBodies"),
    ] {
        event_hubs(&nodes[2], client, scenario);
        owns_nothing(&nodes[2]);
    }
}

/// What clients of event hubs and blobs are told of a node.
fn told(c: &Server) -> Value {
    told_of(c.port_of("amqp"), c.port_of("blob"))
}

fn told_of(amqp: u16, blob: u16) -> Value {
    json!({
        "amqp": amqp, "blob": blob,
        "key_name": "RootManageSharedAccessKey", "key": KNOWN,
        "account": ACCOUNT, "account_key": ACCOUNT_KEY,
    })
}

/// Runs one scenario of a client.
fn event_hubs(c: &Server, client: &str, scenario: &str) {
    let server = told(c);
    let mut command = match client {
        "python" => python("eventhub", "python/run.py"),
        "node" => javascript("event-hubs/run.mjs"),
        _ => rust("event-hub-clients"),
    };
    command.arg(server.to_string()).arg(scenario);
    run(&format!("{client} {scenario}"), c, command);
}

/// Each processor of a real client reads everything, with checkpoints in blobs.
#[test]
fn sdks_of_processors() {
    let nodes = stage();
    let c = &nodes[2];
    let mut create = vec!["eventhub", "create", "read", "--partitions", "2"];
    for group in ["sync", "asyncio", "node", "rust"] {
        create.extend(["--group", group]);
    }
    done(&nodes[0], &create);
    let mut sent = BTreeSet::new();
    for number in 0..4 {
        let text = format!("event {number}");
        done(c, &["event", "send", "read", &text]);
        sent.insert(text);
    }
    let processors = [
        ("sync", python("eventhub", "python/processor.py")),
        ("asyncio", python("eventhub", "python/processor.py")),
        ("node", javascript("event-hubs/processor.mjs")),
        ("rust", rust("event-hub-processor")),
    ];
    let mut running = Vec::new();
    for (kind, mut command) in processors {
        let container = format!("box-{kind}");
        make_container(c, &container);
        let options = json!({
            "hub": "read", "group": kind, "container": container, "interval": 2, "expiry": 12,
            "kind": kind,
        });
        command.arg(told(c).to_string()).arg(options.to_string());
        running.push((kind, Process::spawn(command).unwrap()));
    }
    for (kind, mut processor) in running {
        keeps(&mut processor, &sent);
        processor.kill().unwrap();
        println!("{kind}: all events are behind checkpoints");
    }
    owns_nothing(c);
}

/// Waits until all of these are behind checkpoints of a processor.
fn keeps(processor: &mut Process, sent: &BTreeSet<String>) {
    let mut kept = BTreeSet::new();
    while !sent.is_subset(&kept) {
        let line = processor.next_line(PATIENCE);
        let line = line.unwrap_or_else(|error| panic!("kept {kept:?}: {error}"));
        let line: Value = serde_json::from_str(&line).unwrap_or_default();
        kept.extend(line["kept"].as_str().map(str::to_owned));
    }
}

/// By azure-storage-blob.
fn make_container(c: &Server, name: &str) {
    let code = "import sys; from azure.storage.blob import BlobServiceClient; \
                url, account, key, name = sys.argv[1:]; \
                credential = {'account_name': account, 'account_key': key}; \
                BlobServiceClient(url, credential).create_container(name)";
    let url = format!("http://127.0.0.1:{}/{ACCOUNT}", c.port_of("blob"));
    let mut command = interpreter("eventhub");
    command.args(["-c", code, &url, ACCOUNT, ACCOUNT_KEY, name]);
    run("a container", c, command);
}

/// Answers every request for as long as the test runs; its address.
fn target() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answering = std::thread::Builder::new().name("target".to_owned());
    let answering = answering.spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // What is asked fits into one piece here.
            let _ = stream.read(&mut [0; 16 * 1024]);
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    answering.unwrap();
    format!("http://{address}")
}

#[test]
fn sdks_of_durable_task() {
    let nodes = stage();
    let c = &nodes[2];
    let server = json!({
        "port": c.port_of("durable"), "managed": false, "blob": c.port_of("blob"),
        "account": ACCOUNT, "account_key": ACCOUNT_KEY,
    });
    let server = server.to_string();
    let mut command = python("durable", "durable-python/run.py");
    command.arg(&server);
    if !is_soak() {
        command.arg("activities_in_sequence");
    }
    run("durabletask of Python", c, command);
    let managed = json!({"port": c.port_of("durable"), "managed": true}).to_string();
    let mut command = python("durable", "durable-python/run.py");
    command.arg(&managed).arg("activities_in_sequence");
    if is_soak() {
        command.args([
            "children_report_to_their_parent",
            "signals_make_entities",
            "money_is_transferred",
            "histories_are_told_in_order",
        ]);
    }
    run("durabletask.azuremanaged", c, command);
    let mut command = javascript("durable/run.mjs");
    command.arg(&server);
    if !is_soak() {
        command.args(["activitiesInSequence", "entitiesAreSignalledAndCalled"]);
    }
    run("durabletask-js", c, command);
    owns_nothing(c);
}

#[derive(Clone, Copy, Debug)]
enum Client {
    Node,
    Python,
    Java,
    Go,
}

use Client::{Go, Java, Node, Python};

impl Client {
    /// Runs its scenarios of hubs.
    fn command(self) -> Command {
        match self {
            Node => javascript("signalr/run.mjs"),
            Python => python("signalr", "signalr-python/run.py"),
            Java => java("signalr", "steadfast.signalr.Run"),
            Go => go("signalr"),
        }
    }
}

/// Lists of scenarios of clients at an app server's hub.
macro_rules! scenarios {
    ($($name:ident: $(($client:expr, $scenario:literal)),+;)+) => {
        $(const $name: &[(Client, &str)] = &[$(($client, $scenario)),+];)+
    };
}

scenarios! {
    AT_TWO_NODES: (Node, "appServer"), (Python, "pysignalr_app_server"), (Python, "signalrcore_app_server"), (Java, "appServer"), (Go, "app_server");
    THROUGH_A_DRAIN: (Node, "comesBack"), (Go, "comes_back_from_node");
}

/// An app server of the hub `far`, linked to a node.
fn app_server(node: &Server) -> Process {
    let mut app = steadfast(node.folder.path());
    let service = format!("127.0.0.1:{}", node.port());
    app.args(["bench", "realtime-app", &service, "first"]);
    let mut app = Process::spawn(app).unwrap();
    assert_eq!(app.next_line(PATIENCE).unwrap().trim(), "READY");
    app
}

#[test]
fn sdks_of_jobs_and_hubs() {
    let nodes = stage();
    let (a, b, c) = (&nodes[0], &nodes[1], &nodes[2]);
    let mut command = python("scheduler", "python-scheduler/scenario.py");
    let part = if is_soak() { "all" } else { "lists" };
    command.args([part, &c.url, &target()]);
    command.env("STEADFAST_TOKEN", KNOWN);
    run("azure-mgmt-scheduler", c, command);
    // One client is at a node without partitions, the other one elsewhere, and the app
    // server at a third node.
    let _app = app_server(a);
    let (_, told) = c.post("/v1/hubs/far/tokens", json!({"user": "alice"}));
    let told: Value = json!({"url": c.url, "other": b.url, "token": told["token"]});
    for (client, scenario) in AT_TWO_NODES {
        let mut command = client.command();
        command.arg(told.to_string()).arg(scenario);
        run(&format!("{client:?} {scenario}"), c, command);
    }
    owns_nothing(c);
}

/// Ways to a node that lead to another one later, as those of a load balancer.
struct Ways {
    runtime: tokio::runtime::Runtime,
    proxies: Vec<(&'static str, FaultProxy)>,
}

impl Ways {
    fn to(node: &Server) -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let way = |name| {
            let target = ([127, 0, 0, 1], node.port_of(name)).into();
            let proxy = runtime.block_on(FaultProxy::start(target));
            (name, proxy.unwrap())
        };
        let proxies = ["amqp", "blob", "durable", "http"].map(way).into();
        Self { runtime, proxies }
    }

    fn lead_to(&self, node: &Server) {
        for (name, proxy) in &self.proxies {
            proxy.route(([127, 0, 0, 1], node.port_of(name)).into());
        }
    }

    fn port(&self, name: &str) -> u16 {
        let found = self.proxies.iter().find(|(own, _)| *own == name);
        found.unwrap().1.address().port()
    }
}

impl Drop for Ways {
    fn drop(&mut self) {
        let _inside = self.runtime.enter();
        self.proxies.clear();
    }
}

/// A program of the bank of entities.
fn bank(what: &str, port: u16) -> Command {
    let mut command = python("durable", "durable-python/bank.py");
    command.args([what, &json!({"port": port}).to_string()]);
    command
}

fn worker(port: u16) -> Process {
    let mut worker = Process::spawn(bank("work", port)).unwrap();
    let at_work = worker.wait_for(|line| line == "at work", PATIENCE);
    at_work.unwrap();
    worker
}

/// Begins transfers, waits for all of them, and counts the money.
fn transfers(port: u16) -> Process {
    let mut transfers = bank("transfers", port);
    transfers.args(["bank", "50"]);
    Process::spawn(transfers).unwrap()
}

/// Waits until so many more transfers have begun.
fn begun(transfers: &mut Process, count: usize) {
    for _ in 0..count {
        let begun = transfers.wait_for(|line| line == "begun", PATIENCE);
        begun.unwrap();
    }
}

/// One node is killed that has a part of everything, and then the one at which worker and
/// client are.
#[test]
fn no_money_of_entities_is_lost_when_nodes_are_killed() {
    let mut nodes = nodes::three(&database());
    let ways = Ways::to(&nodes[0]);
    let mut worker = worker(ways.port("durable"));
    let mut transfers = transfers(ways.port("durable"));
    begun(&mut transfers, 12);
    nodes[2].process.kill().unwrap();
    begun(&mut transfers, 12);
    ways.lead_to(&nodes[1]);
    nodes[0].process.kill().unwrap();
    let whole = transfers.wait_for(|line| line == "no money was lost", 3 * PATIENCE);
    whole.unwrap_or_else(|error| panic!("{error}: {}", nodes[1].log()));
    worker.kill().unwrap();
    let (code, out, err) = said(&nodes[1].run(&["lock", "list", "--json"]));
    assert_eq!((code, out.contains("holder")), (0, false), "{out}{err}");
}

/// A processor and a worker go on elsewhere when their node is drained, and are in its
/// balance sheet.
#[test]
fn sdks_go_on_elsewhere_when_their_node_leaves() {
    let database = database();
    let mut nodes = nodes::three_by(|name| steady(name, &database));
    let ways = Ways::to(&nodes[2]);
    done(
        &nodes[0],
        &["eventhub", "create", "read", "--partitions", "4"],
    );
    make_container(&nodes[0], "checkpoints");
    let publish = |node: &Server, name: &str| {
        let texts: BTreeSet<_> = (0..4).map(|number| format!("{name} {number}")).collect();
        for text in &texts {
            done(node, &["event", "send", "read", text]);
        }
        texts
    };
    let mut processor = python("eventhub", "python/processor.py");
    let options = json!({
        "hub": "read", "group": "$Default", "container": "checkpoints", "interval": 2, "expiry": 12,
        "kind": "asyncio",
    });
    let told = told_of(ways.port("amqp"), ways.port("blob"));
    processor.arg(told.to_string()).arg(options.to_string());
    let mut processor = Process::spawn(processor).unwrap();
    keeps(&mut processor, &publish(&nodes[0], "before"));
    let _app = app_server(&nodes[0]);
    let (_, token) = nodes[2].post("/v1/hubs/far/tokens", json!({"user": "alice"}));
    let url = format!("http://127.0.0.1:{}", ways.port("http"));
    let told = json!({"url": url, "token": token["token"]}).to_string();
    let mut clients: Vec<_> = THROUGH_A_DRAIN
        .iter()
        .map(|(client, scenario)| {
            let mut command = client.command();
            command.arg(&told).arg(scenario);
            let mut process = Process::spawn(command).unwrap();
            process.wait_for(|line| line == "here", PATIENCE).unwrap();
            process
        })
        .collect();
    let mut worker = worker(ways.port("durable"));
    let mut transfers = transfers(nodes[0].port_of("durable"));
    begun(&mut transfers, 12);
    ways.lead_to(&nodes[1]);
    let (code, out, err) =
        said(&nodes[2].run(&["drain", "--node", "c", "--limit", "30", "--json"]));
    assert_eq!(code, 0, "{out}{err}{}", nodes[2].log());
    println!("{out}");
    let sheet: Value = serde_json::from_str(&out).unwrap();
    for (name, expected) in [("moved", 4), ("left", 0), ("lost", 0), ("dropped", 0)] {
        assert_eq!(sheet[name], expected, "{name}: {sheet}");
    }
    assert!(sheet["clients"].as_u64() >= Some(4), "{sheet}");
    for client in &mut clients {
        assert!(client.wait(PATIENCE).unwrap().success(), "it came back");
    }
    assert_eq!(nodes[2].ended().0, 0);
    // What comes now comes through the node that is left.
    let sent = publish(&nodes[0], "after");
    keeps(&mut processor, &sent);
    let whole = transfers.wait_for(|line| line == "no money was lost", 3 * PATIENCE);
    whole.unwrap_or_else(|error| panic!("{error}: {}", nodes[1].log()));
    worker.kill().unwrap();
    processor.kill().unwrap();
}
