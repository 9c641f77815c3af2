//! Unmodified SignalR clients, scenario by scenario.
//!
//! The scenarios stand in `interop/signalr-node`, `interop/signalr-python`,
//! `interop/java/signalr`, `interop/go` and `interop/rust/signalr`.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

use clients::{Encryption, Stage};
use reqwest::Certificate;
use serde_json::{Value, json};
use steadfast::realtime::HubOptions;
use steadfast_harness::clients as programs;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

mod clients;
#[path = "../../signalr/tests/hub_stage/room.rs"]
mod room;

use room::Room;

#[derive(Debug)]
enum Client {
    /// @microsoft/signalr 10.0.11, on Node 22 or in Chromium.
    Node,
    /// signalrcore 1.0.2 and pysignalr 1.3.3.
    Python,
    /// com.microsoft.signalr 9.0.3.
    Java,
    /// philippseith/signalr 0.9.0.
    Go,
}

use Client::{Go, Java, Node, Python};

impl Client {
    fn command(&self) -> Command {
        match self {
            Node => programs::javascript("signalr/run.mjs"),
            Python => programs::python("signalr", "signalr-python/run.py"),
            Java => programs::java("signalr", "steadfast.signalr.Run"),
            Go => programs::go("signalr"),
        }
    }

    /// Has it trust a certificate, by the variables that its runtime reads.
    fn trust(&self, command: &mut Command, certificate: &Path) {
        match self {
            Node => command.env("NODE_EXTRA_CA_CERTS", certificate),
            Python => command
                .env("SSL_CERT_FILE", certificate)
                .env("REQUESTS_CA_BUNDLE", certificate),
            Java => command.env("JAVA_TOOL_OPTIONS", trust_store(certificate)),
            Go => command.env("SSL_CERT_FILE", certificate),
        };
    }
}

/// Writes a trust store beside a certificate; answers the options that name it.
fn trust_store(certificate: &Path) -> String {
    let store = certificate.with_extension("p12");
    let mut keytool = Command::new("keytool");
    keytool.args(["-importcert", "-noprompt", "-alias", "server"]);
    keytool.args(["-storetype", "PKCS12", "-storepass", "changeit"]);
    keytool
        .arg("-file")
        .arg(certificate)
        .arg("-keystore")
        .arg(&store);
    let output = keytool.output().expect("the JDK is installed");
    assert!(output.status.success(), "{output:?}");
    let option = "-Djavax.net.ssl.trustStore";
    format!("{option}={} {option}Password=changeit", store.display())
}

/// A token of a user for a hub.
async fn token(stage: &Stage, hub: &str, trusted: Option<&Certificate>) -> String {
    let url = format!("{}/v1/hubs/{hub}/tokens", stage.url("http"));
    let client = match trusted {
        Some(trusted) => reqwest::Client::builder().tls_certs_only([trusted.clone()]),
        None => reqwest::Client::builder(),
    };
    let asked = client.build().unwrap().post(url).bearer_auth(clients::KEY);
    let answer = asked.json(&json!({"user": "alice"})).send().await.unwrap();
    let answer: Value = answer.json().await.unwrap();
    answer["token"].as_str().unwrap().to_owned()
}

/// A stage with the hubs `room`, which needs a token, and `open`, which does not, and what
/// clients are told of it.
async fn start(settings: &[&str], trusted: Option<&Certificate>) -> (Stage, Value) {
    let realtime = Arc::new(OnceLock::new());
    let build = |builder: steadfast::Builder| {
        let room = Room {
            realtime: Arc::clone(&realtime),
        };
        let open = HubOptions {
            is_open: true,
            is_stateful: false,
            ..HubOptions::default()
        };
        builder
            .hub_with("/room", room, HubOptions::default())
            .hub_with("/open", Room::default(), open)
    };
    let stage = Stage::start(settings, build).await;
    let _ = realtime.set(stage.node().realtime().clone());
    let said = json!({
        "url": stage.url("http"),
        "other": stage.elsewhere("http"),
        "token": token(&stage, "room", trusted).await,
        "other_token": token(&stage, "open", trusted).await,
        "browser": programs::browser(),
    });
    (stage, said)
}

/// Runs scenarios of a client, all against one stage.
async fn run(client: Client, scenarios: &[&str]) {
    let (stage, said) = start(&[], None).await;
    let mut command = client.command();
    command.arg(said.to_string()).args(scenarios);
    let name = format!("signalr_clients {client:?}");
    clients::run(&name, command).await;
    stage.stop().await;
}

/// One test per line: its name, the client, and the scenarios that it runs.
macro_rules! scenarios {
    ($($name:ident: $client:expr, [$($scenario:literal),+];)+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            run($client, &[$($scenario),+]).await;
        })+
    };
}

scenarios! {
    node_over_websockets: Node, ["webSocketsJson", "webSocketsPacked"];
    node_over_server_sent_events: Node, ["eventsJson"];
    realtime_12_node_over_long_polling: Node, ["pollingJson", "pollingPacked"];
    realtime_13_node_with_wrong_tokens: Node, ["wrongToken", "otherHub"];
    realtime_24_node_comes_back_when_it_may: Node, ["closes"];
    realtime_06_node_without_negotiation: Node, ["withoutNegotiation", "openHub"];
    realtime_25_node_misses_nothing_when_sockets_are_cut: Node, ["statefulReconnect"];
    chromium_over_all_transports: Node, ["browser"];
    java_does_what_it_can: Java, ["webSocketsJson", "pollingJson", "defaultTransport", "wrongToken", "otherHub", "closes", "withoutNegotiation", "openHub"];
    pysignalr_does_what_it_can: Python, ["pysignalr_json", "pysignalr_packed"];
    go_over_websockets: Go, ["web_sockets_json", "web_sockets_packed"];
    go_over_server_sent_events: Go, ["events_json"];
    realtime_13_go_with_wrong_tokens: Go, ["wrong_token", "other_hub"];
    realtime_24_go_comes_back_when_it_may: Go, ["comes_back_when_it_may"];
    realtime_06_go_at_an_open_hub: Go, ["open_hub"];
    signalrcore_does_what_it_can: Python, ["signalrcore_json", "signalrcore_packed", "signalrcore_transports"];
}

#[tokio::test(flavor = "multi_thread")]
async fn signalr_clients_trust_a_certificate_of_the_user() {
    let encryption = Encryption::new();
    let (settings, chain) = (encryption.settings(), encryption.certificate());
    let trusted = Certificate::from_pem(encryption.pem.as_bytes()).unwrap();
    let settings = settings.each_ref().map(String::as_str);
    let (stage, said) = start(&settings, Some(&trusted)).await;
    let scenarios = [
        (Node, &["webSocketsJson", "pollingJson"][..]),
        (Python, &["pysignalr_json", "signalrcore_json"]),
        (Java, &["webSocketsJson", "pollingJson"]),
        (Go, &["web_sockets_json", "events_json"]),
    ];
    for (client, names) in scenarios {
        let mut command = client.command();
        client.trust(&mut command, &chain);
        command.arg(said.to_string()).args(names);
        clients::run(&format!("signalr_clients {client:?}"), command).await;
    }
    // signalr-client negotiates with the authorities that are compiled into it.
    let mut command = programs::rust("signalr-clients");
    command.arg(said.to_string()).env("SSL_CERT_FILE", &chain);
    let refused = command.stdin(Stdio::null()).output().unwrap();
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{errors}");
    assert!(errors.contains("UnknownIssuer"), "{errors}");
    stage.stop().await;
}

/// A client that sends its input to all, and prints what it receives.
struct Talker {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Talker {
    fn new(mut command: Command, said: &Value) -> Self {
        command.arg(said.to_string());
        let mut command = tokio::process::Command::from(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.kill_on_drop(true).spawn();
        let mut child = child.expect("the client is installed");
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let input = child.stdin.take().unwrap();
        Self {
            child,
            input,
            output,
        }
    }

    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(clients::PATIENCE, self.output.next_line()).await;
        line.expect("a line in time").unwrap().expect("a line")
    }

    async fn leave(mut self) {
        drop(self.input);
        let ended = tokio::time::timeout(clients::PATIENCE, self.child.wait()).await;
        assert!(ended.expect("it leaves").unwrap().success());
    }
}

/// pysignalr, @microsoft/signalr, com.microsoft.signalr, philippseith/signalr, and
/// signalr-client 0.3.2 of Rust.
#[tokio::test(flavor = "multi_thread")]
async fn a_hub_has_clients_in_five_languages_that_all_hear_one_another() {
    let (stage, said) = start(&[], None).await;
    let programs = [
        (
            "Python",
            programs::python("signalr", "signalr-python/chat.py"),
        ),
        ("JavaScript", programs::javascript("signalr/chat.mjs")),
        ("Java", programs::java("signalr", "steadfast.signalr.Chat")),
        ("Go", programs::go("chat")),
        ("Rust", programs::rust("signalr-clients")),
    ];
    let mut talkers = programs.map(|(name, program)| (name, Talker::new(program, &said)));
    for (name, talker) in &mut talkers {
        assert_eq!(talker.line().await, "connected", "{name}");
    }
    for (name, talker) in &mut talkers {
        let line = format!("hello from {name}\n");
        talker.input.write_all(line.as_bytes()).await.unwrap();
    }
    let expected: BTreeSet<_> = talkers
        .each_ref()
        .map(|(name, _)| format!("told hello from {name}"))
        .into();
    for (name, talker) in &mut talkers {
        let mut told = BTreeSet::new();
        for _ in 0..expected.len() {
            told.insert(talker.line().await);
        }
        assert_eq!(told, expected, "{name}");
    }
    for (_, talker) in talkers {
        talker.leave().await;
    }
    stage.stop().await;
}
