//! A place for real clients: one node, or a cluster.
//!
//! With `STEADFAST_NODES=3`, as in `cargo xtask soak clients`, there are three nodes
//! and two partitions, and clients come to the node that owns none: whatever they want
//! is elsewhere. What clients need is installed by `cargo xtask test --only clients`,
//! which also says where.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use serde_json::{Value, json};
use steadfast::config::{Config, Layers};
use steadfast::{Builder, Node};
use steadfast_harness::clients as programs;
use steadfast_harness::postgres::PostgresCluster;
use tempfile::TempDir;

#[path = "../members/mod.rs"]
mod members;

pub(crate) use members::PATIENCE;

/// The keys that everybody knows.
pub(crate) const KEY: &str = "SAS_KEY_VALUE";
pub(crate) const ACCOUNT: &str = "devstoreaccount1";
const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Where clients come.
pub(crate) struct Stage {
    /// Clients come to the last.
    pub(crate) nodes: Vec<Node>,
    pub(crate) folder: TempDir,
}

fn is_cluster() -> bool {
    std::env::var("STEADFAST_NODES").is_ok_and(|nodes| nodes == "3")
}

/// A database of its own, on servers that all tests of this process share.
fn database() -> String {
    static SHARED: OnceLock<Mutex<PostgresCluster>> = OnceLock::new();
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let shared = SHARED.get_or_init(|| Mutex::new(PostgresCluster::start().expect("PostgreSQL")));
    let name = format!("clients_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let mut cluster = shared.lock().expect("no test panics with it");
    cluster.create_database(&name).expect("a database")
}

/// A certificate of this machine, and the settings that encrypt everything by it.
pub(crate) struct Encryption {
    folder: TempDir,
    pub(crate) pem: String,
}

impl Encryption {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let own = Self {
            folder,
            pem: made.cert.pem(),
        };
        std::fs::write(own.certificate(), &own.pem).expect("a file");
        std::fs::write(own.key(), made.signing_key.serialize_pem()).expect("a file");
        own
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.path().join("chain.pem")
    }

    fn key(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }

    pub(crate) fn settings(&self) -> [String; 2] {
        [
            format!("tls.certificate={}", self.certificate().display()),
            format!("tls.key={}", self.key().display()),
        ]
    }
}

/// Free ports, and whatever pages a browser has.
const OPEN: [&str; 6] = [
    "http.port=0",
    "events.amqp_port=0",
    "events.amqps_port=0",
    "events.blob_port=0",
    "durable.port=0",
    "realtime.port=0",
];

impl Stage {
    /// Starts it; each node is built by this, with these settings.
    pub(crate) async fn start(settings: &[&str], build: impl Fn(Builder) -> Builder) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let settings: Vec<&str> = OPEN.iter().chain(settings).copied().collect();
        let start = async |config: Config| {
            let node = build(Node::builder().config(config));
            let starting = Box::pin(node.development().serve().start());
            starting.await.expect("a node")
        };
        let mut nodes = Vec::new();
        if is_cluster() {
            let url = database();
            for name in ["a", "b", "c"] {
                let config = members::config_with(name, &url, 2, &settings);
                nodes.push(start(config).await);
                // One partition each, before the third comes.
                if nodes.len() == 2 {
                    members::serves(&nodes[0], 1).await;
                    members::serves(&nodes[1], 1).await;
                }
            }
            assert_eq!(nodes[2].runtime().serving(), []);
        } else {
            let data = format!("data={}", folder.path().join("data").display());
            let mut all = settings.iter().copied().chain([data.as_str()]);
            let layers = all.try_fold(Layers::new(), |layers, flag| layers.flag(flag));
            let config = Config::new(&layers.expect("settings")).expect("a config");
            nodes.push(start(config).await);
        }
        Self { nodes, folder }
    }

    /// The node to which clients come.
    pub(crate) fn node(&self) -> &Node {
        self.nodes.last().expect("a node")
    }

    /// Where something is spoken at this node.
    pub(crate) fn url(&self, name: &str) -> String {
        url(self.node(), name)
    }

    /// Where hubs of another node are, if there is one.
    pub(crate) fn elsewhere(&self, name: &str) -> String {
        url(&self.nodes[0], name)
    }

    fn port(&self, name: &str) -> u16 {
        let url = self.url(name);
        let port = url.rsplit(':').next().expect("a port");
        port.parse().expect("a number")
    }

    /// What clients of event hubs and blobs are told.
    pub(crate) fn told(&self) -> Value {
        json!({
            "amqp": self.port("amqp"), "blob": self.port("blob"),
            "key_name": "RootManageSharedAccessKey", "key": KEY,
            "account": ACCOUNT, "account_key": ACCOUNT_KEY,
        })
    }

    /// The same where everything is encrypted by this certificate too.
    pub(crate) fn told_encrypted(&self, certificate: &Path) -> Value {
        let mut told = self.told();
        told["amqps"] = json!(self.port("amqps"));
        told["https"] = json!(self.port("http"));
        told["certificate"] = json!(certificate);
        told
    }

    /// Ends all nodes. The one without partitions still has none.
    pub(crate) async fn stop(self) {
        if is_cluster() {
            assert_eq!(self.node().runtime().serving(), []);
        }
        for node in self.nodes.iter().rev() {
            let sheet = node.drain(PATIENCE).await;
            assert_eq!((sheet.left, sheet.lost), (0, 0), "{sheet:?}");
            node.stop(PATIENCE).await;
        }
    }
}

fn url(node: &Node, name: &str) -> String {
    let addresses = node.addresses();
    let found = addresses.iter().find(|own| own.name == name);
    found.map(|own| own.url.clone()).expect("an address")
}

/// Runs scenarios of a client until it ends, and says which have passed: the test command
/// reads that. `name` is the test file and the client.
pub(crate) async fn run(name: &str, command: Command) {
    let mut command = tokio::process::Command::from(command);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.expect("the client is installed");
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    programs::show(name, &output.stdout);
}
