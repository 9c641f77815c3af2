//! Unmodified SDKs through a node that owns nothing.
//!
//! There are fewer partitions than nodes, so one node has none: whatever its clients
//! want is elsewhere. The scenarios are those of the group `interop`; with
//! `cargo xtask soak interop` it is all of them.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod nodes;
mod running;

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use nodes::{database, node, now, shares, standing};
use running::{KNOWN, PATIENCE, Server, said, steadfast, until};
use serde_json::{Value, json};
use steadfast_harness::Process;

/// One less than nodes.
const PARTITIONS: &str = "partitions=2";

const ACCOUNT: &str = "devstoreaccount1";
const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

const HUBS: [(&str, &str); 8] = [
    ("houses", "4"),
    ("positions", "1"),
    ("keys", "16"),
    ("even", "4"),
    ("typed", "1"),
    ("epochs", "1"),
    ("large", "1"),
    ("idempotent", "2"),
];

fn tools() -> PathBuf {
    let tools = std::env::var_os("STEADFAST_TOOLS").map(PathBuf::from);
    tools.expect("run `cargo xtask test --only cluster`, which sets STEADFAST_TOOLS")
}

fn interop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop")
}

fn is_soak() -> bool {
    std::env::var_os("STEADFAST_ROUNDS").is_some()
}

fn python(environment: &str, program: &str) -> Command {
    let path = format!("python/{environment}/bin/python");
    let mut command = Command::new(tools().join(path));
    // No compiled files among the sources.
    command.arg("-B").arg(interop().join(program));
    command
}

fn javascript(package: &str) -> Command {
    let mut command = Command::new(tools().join("node/bin/node"));
    let program = format!("packages/{package}/run.mjs");
    command.arg(tools().join(program));
    command
}

/// Three nodes, the last of which owns nothing.
fn stage() -> Vec<Server> {
    let database = database();
    let start = |name: &str| node(name, &database).set(PARTITIONS).ready();
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

fn port(server: &Server, name: &str) -> u16 {
    let (_, status) = server.get("/v1/status");
    let addresses = status["addresses"].as_array().unwrap();
    let found = addresses.iter().find(|own| own[0] == name).unwrap();
    let url = found[1].as_str().unwrap();
    url.rsplit(':').next().unwrap().parse().unwrap()
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
    let all = |known: &[&'static str]| match is_soak() {
        true => known.to_vec(),
        false => vec![known[0]],
    };
    let python_known = [
        "send_and_read",
        "keyed_sends",
        "properties",
        "batch_of_500",
        "keyless_sends_spread_evenly",
        "typed_properties",
        "every_kind_of_position",
        "latest_sees_what_comes",
        "stolen_by_owner_level",
        "parallel_senders_keep_order",
        "single_and_batch_of_one",
        "sends_return_at_once",
        "beyond_the_end",
        "too_large",
        "bad_key",
        "errors",
        "unknown_event_hub",
        "blobs_with_bodies",
        "lists_and_conditions",
        "signatures",
        "a_bad_account_key",
    ];
    let node_known = [
        "keyedSends",
        "properties",
        "batchOf500",
        "typedProperties",
        "everyKindOfPosition",
        "stolenByOwnerLevel",
        "bufferedAndIdempotent",
        "beyondTheEnd",
        "tooLarge",
        "badKey",
        "unknownEventHub",
        "lastEnqueuedProperties",
        "blobsWithBodies",
    ];
    let rust_known = [
        "keyed_sends",
        "properties",
        "batch_of_500",
        "typed_properties",
        "every_kind_of_position",
        "stolen_by_owner_level",
        "too_large",
        "bad_key",
        "unknown_event_hub",
    ];
    let scenarios = all(&python_known).into_iter().map(|name| ("python", name));
    let scenarios = scenarios.chain(all(&node_known).into_iter().map(|name| ("node", name)));
    let scenarios = scenarios.chain(all(&rust_known).into_iter().map(|name| ("rust", name)));
    // Blobs have a library of their own; that of Python makes containers below.
    let blobs = [("node", "blobsWithBodies")];
    let blobs = blobs.into_iter().filter(|_| !is_soak());
    let mut nodes = with_hubs();
    for (client, scenario) in scenarios.chain(blobs) {
        event_hubs(&nodes[2], client, scenario);
        owns_nothing(&nodes[2]);
        if is_soak() {
            // Most scenarios count on empty event hubs.
            nodes = with_hubs();
        }
    }
}

/// Three nodes, with event hubs that were made at the first.
fn with_hubs() -> Vec<Server> {
    let nodes = stage();
    let is_used = |name: &str| is_soak() || ["houses", "keys"].contains(&name);
    for (name, partitions) in HUBS.iter().filter(|(name, _)| is_used(name)) {
        let group = ["--group", "second"];
        let create = ["eventhub", "create", name, "--partitions", partitions];
        done(&nodes[0], &[&create[..], &group[..]].concat());
    }
    nodes
}

/// What clients of event hubs and blobs are told of a node.
fn told(c: &Server) -> Value {
    json!({
        "amqp": port(c, "amqp"), "blob": port(c, "blob"),
        "key_name": "RootManageSharedAccessKey", "key": KNOWN,
        "account": ACCOUNT, "account_key": ACCOUNT_KEY,
    })
}

/// Runs one scenario of a client.
fn event_hubs(c: &Server, client: &str, scenario: &str) {
    let server = told(c);
    let mut command = match client {
        "python" => python("eventhub", "python/run.py"),
        "node" => javascript("event-hubs"),
        _ => Command::new(tools().join("rust/debug/event-hub-clients")),
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
        ("node", {
            let mut command = Command::new(tools().join("node/bin/node"));
            command.arg(tools().join("packages/event-hubs/processor.mjs"));
            command
        }),
        (
            "rust",
            Command::new(tools().join("rust/debug/event-hub-processor")),
        ),
    ];
    let mut running = Vec::new();
    for (kind, mut command) in processors {
        let container = format!("box-{kind}");
        make_container(c, &container);
        let options = json!({
            "hub": "read", "group": kind, "container": container, "interval": 2, "kind": kind,
        });
        command.arg(told(c).to_string()).arg(options.to_string());
        running.push((kind, Process::spawn(command).unwrap()));
    }
    for (kind, mut processor) in running {
        let mut kept = BTreeSet::new();
        while kept != sent {
            let line = processor.next_line(PATIENCE);
            let line = line.unwrap_or_else(|error| panic!("{kind} has {kept:?}: {error}"));
            let line: Value = serde_json::from_str(&line).unwrap_or_default();
            kept.extend(line["kept"].as_str().map(str::to_owned));
        }
        processor.kill().unwrap();
        println!("{kind}: all events are behind checkpoints");
    }
    owns_nothing(c);
}

/// By azure-storage-blob.
fn make_container(c: &Server, name: &str) {
    let code = "import sys; from azure.storage.blob import BlobServiceClient; \
                url, account, key, name = sys.argv[1:]; \
                credential = {'account_name': account, 'account_key': key}; \
                BlobServiceClient(url, credential).create_container(name)";
    let url = format!("http://127.0.0.1:{}/{ACCOUNT}", port(c, "blob"));
    let mut command = Command::new(tools().join("python/eventhub/bin/python"));
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
    let server = json!({"port": port(c, "durable"), "managed": false}).to_string();
    let mut command = python("durable", "durable-python/run.py");
    command.arg(&server);
    if !is_soak() {
        command.arg("activities_in_sequence");
    }
    run("durabletask of Python", c, command);
    let managed = json!({"port": port(c, "durable"), "managed": true}).to_string();
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
    let mut command = javascript("durable");
    command.arg(&server);
    if !is_soak() {
        command.args(["activitiesInSequence", "entitiesAreSignalledAndCalled"]);
    }
    run("durabletask-js", c, command);
    owns_nothing(c);
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
    let mut app = steadfast(a.folder.path());
    let service = format!("127.0.0.1:{}", a.port());
    app.args(["bench", "realtime-app", &service, "first"]);
    let mut app = Process::spawn(app).unwrap();
    assert_eq!(app.next_line(PATIENCE).unwrap().trim(), "READY");
    let (_, told) = c.post("/v1/hubs/far/tokens", json!({"user": "alice"}));
    let told: Value = json!({"url": c.url, "other": b.url, "token": told["token"]});
    let mut command = javascript("signalr");
    command.arg(told.to_string()).arg("appServer");
    run("@microsoft/signalr", c, command);
    for client in ["pysignalr", "signalrcore"] {
        let mut command = python("signalr", "signalr-python/run.py");
        command.arg(told.to_string());
        command.arg(format!("{client}_app_server"));
        run(client, c, command);
    }
    owns_nothing(c);
}
