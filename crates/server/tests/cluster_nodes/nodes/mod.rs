//! Several servers on one database, for tests of the cluster.
#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod failover;
pub(crate) mod slots;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use steadfast_harness::postgres::PostgresCluster;

use crate::running::{KNOWN, Server, Start, until};

/// What all nodes of a test know.
pub(crate) const KEY: &str = "0123456789abcdef0123456789abcdef";

/// How long a silent node keeps its partitions in tests.
pub(crate) const LEASE: Duration = Duration::from_secs(3);

/// Partitions of a test's cluster.
pub(crate) const PARTITIONS: usize = 12;

/// The three servers of PostgreSQL that all tests of this process share.
fn postgres() -> &'static std::sync::Mutex<PostgresCluster> {
    static SHARED: OnceLock<std::sync::Mutex<PostgresCluster>> = OnceLock::new();
    SHARED.get_or_init(|| std::sync::Mutex::new(PostgresCluster::start().unwrap()))
}

/// A database of its own.
pub(crate) fn database() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("cluster_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    postgres().lock().unwrap().create_database(&name).unwrap()
}

/// Runs SQL in a database of [`database`].
pub(crate) fn sql(url: &str, statement: &str) -> String {
    let mut cluster = postgres().lock().unwrap();
    let primary = cluster.primary();
    let (_, name) = url.rsplit_once('/').unwrap();
    cluster.server(primary).sql_in(name, statement).unwrap()
}

/// A node that is about to start.
pub(crate) fn node(name: &str, database: &str) -> Start {
    Start::new("dev")
        .set(&format!("name={name}"))
        .set("engine=postgres")
        .set(&format!("postgres.url={database}"))
        .set(&format!("partitions={PARTITIONS}"))
        .set("cluster.port=0")
        .set(&format!("cluster.key={KEY}"))
        .set(&format!("cluster.lease={}s", LEASE.as_secs()))
        .set("drain.limit=10s")
        .set("log.level=info,steadfast_partition=debug,steadfast_cluster_rpc=debug")
}

/// The same, with a lease that does not end because the machine stands still for a while.
pub(crate) fn steady(name: &str, database: &str) -> Start {
    node(name, database).set("cluster.lease=10s")
}

/// Three nodes that have shared the partitions out.
pub(crate) fn three(database: &str) -> Vec<Server> {
    three_by(|name| node(name, database))
}

/// The same, with the given start of each node.
pub(crate) fn three_by(start: impl Fn(&str) -> Start) -> Vec<Server> {
    let nodes = ["a", "b", "c"].map(|name| start(name).ready());
    let nodes = Vec::from(nodes);
    for server in &nodes {
        settled(server, 3);
    }
    nodes
}

/// How the cluster stands, as a node sees it.
pub(crate) fn standing(server: &Server) -> Value {
    let (status, standing) = server.get("/v1/cluster");
    assert_eq!(status, StatusCode::OK, "{standing}");
    standing
}

/// How many partitions each living node has, by name.
pub(crate) fn shares(standing: &Value) -> Vec<(String, usize)> {
    let nodes = standing["nodes"].as_array().unwrap();
    let up = nodes.iter().filter(|node| node["state"] == "up");
    up.map(|node| {
        let name = node["name"].as_str().unwrap().to_owned();
        (name, node["partitions"].as_array().unwrap().len())
    })
    .collect()
}

/// What a node counts under a name, which may end with labels.
pub(crate) fn metric(server: &Server, name: &str) -> f64 {
    let (status, metrics) = server.get("/metrics");
    assert_eq!(status, StatusCode::OK, "{metrics}");
    let metrics = metrics.as_str().unwrap();
    let line = metrics.lines().find(|line| {
        let own = line.rsplit_once(' ').map_or("", |(own, _)| own);
        let own = own.trim_start_matches("steadfast_");
        own == name || own == format!("{name}_total")
    });
    let value = line.and_then(|line| line.rsplit(' ').next());
    let value = value.unwrap_or_else(|| panic!("no {name}: {metrics}"));
    value.parse().unwrap()
}

/// Waits until a node sees so many nodes, and everything shared out evenly.
pub(crate) fn settled(server: &Server, nodes: usize) -> Value {
    until(&format!("{nodes} nodes in balance"), || {
        let standing = standing(server);
        let shares = shares(&standing);
        let sum: usize = shares.iter().map(|(_, share)| share).sum();
        let fair = PARTITIONS / nodes;
        let is_fair = shares
            .iter()
            .all(|(_, share)| (fair..=fair + 1).contains(share));
        let is_settled = shares.len() == nodes
            && sum == PARTITIONS
            && is_fair
            && standing["idle"].as_array().unwrap().is_empty();
        is_settled.then_some(standing)
    })
}

/// The nodes of a standing that serve a partition.
pub(crate) fn owner(standing: &Value, partition: u64) -> Option<String> {
    let nodes = standing["nodes"].as_array().unwrap();
    let serves = |node: &&Value| {
        let all = node["partitions"].as_array().unwrap();
        all.iter().any(|one| one["partition"] == partition)
    };
    let node = nodes
        .iter()
        .filter(|node| node["state"] == "up")
        .find(serves)?;
    Some(node["name"].as_str().unwrap().to_owned())
}

/// Who serves what in which epoch, as a node sees it.
fn owners(server: &Server) -> Vec<(u64, String, u64)> {
    let standing = standing(server);
    let nodes = standing["nodes"].as_array().unwrap();
    let mut owners = Vec::new();
    for node in nodes.iter().filter(|node| node["state"] == "up") {
        for one in node["partitions"].as_array().unwrap() {
            let name = node["name"].as_str().unwrap().to_owned();
            let number = |field: &str| one[field].as_u64().unwrap();
            owners.push((number("partition"), name, number("epoch")));
        }
    }
    owners.sort_unstable();
    owners
}

/// Waits until all nodes name the same owner, in the same epoch, for every partition.
pub(crate) fn agreed(nodes: &[Server]) {
    until("all nodes name the same owners", || {
        let views: Vec<_> = nodes.iter().map(owners).collect();
        let whole = (0..PARTITIONS as u64).eq(views[0].iter().map(|(partition, ..)| *partition));
        (whole && views.iter().all(|view| *view == views[0])).then_some(())
    });
}

/// Waits until every partition has an owner; returns how long that took.
pub(crate) fn taken_over(server: &Server, nodes: usize, since: Instant) -> Duration {
    settled_anyhow(server, nodes);
    since.elapsed()
}

/// Waits until so many nodes serve everything, evenly or not.
fn settled_anyhow(server: &Server, nodes: usize) {
    until(&format!("{nodes} nodes serve everything"), || {
        let standing = standing(server);
        let is_whole = standing["idle"].as_array().unwrap().is_empty();
        (is_whole && shares(&standing).len() == nodes).then_some(())
    });
}

#[expect(clippy::disallowed_methods, reason = "processes run in real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Puts a value into a dictionary by REST.
pub(crate) fn put(server: &Server, service: &str, key: &str, value: &str) -> (StatusCode, Value) {
    let path = format!("/v1/state/{service}");
    let step = json!({"op": "put", "collection": "texts", "key": key, "value": value});
    server.post(&path, json!({"steps": [step]}))
}

/// Reads a value of a dictionary by REST.
pub(crate) fn get(server: &Server, service: &str, key: &str) -> (StatusCode, Value) {
    let path = format!("/v1/state/{service}/texts/{key}");
    server.ask(Method::GET, &path, &format!("Bearer {KNOWN}"), None)
}

/// Says at its end that it is over, also if a test fails before: threads of a scope are
/// waited for.
pub(crate) struct Over<'a>(pub(crate) &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A client of one node, for any thread.
pub(crate) struct Caller {
    url: String,
    client: reqwest::Client,
    runtime: tokio::runtime::Runtime,
}

impl Caller {
    pub(crate) fn of(server: &Server) -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        Self {
            url: server.url.clone(),
            client: server.client.clone(),
            runtime: runtime.worker_threads(1).enable_all().build().unwrap(),
        }
    }

    /// Sends a request; no response counts as 503.
    pub(crate) fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> (StatusCode, Value) {
        let request = self.client.request(method, format!("{}{path}", self.url));
        let mut request = request.header("authorization", format!("Bearer {KNOWN}"));
        if let Some(body) = body {
            request = request.json(&body);
        }
        self.runtime.block_on(async {
            let Ok(answer) = request.send().await else {
                return (StatusCode::SERVICE_UNAVAILABLE, Value::Null);
            };
            let status = answer.status();
            let text = answer.text().await.unwrap_or_default();
            (
                status,
                serde_json::from_str(&text).unwrap_or(Value::String(text)),
            )
        })
    }
}
