//! The recipe of the guide, and where nodes are reached.
//!
//! Three servers with TLS: each has an address of its own, the same file, and a key for
//! its clients.

use std::fs;
use std::net::SocketAddr;

use reqwest::{Certificate, Client, Method, StatusCode};
use serde_json::{Value, json};
use steadfast_harness::{FaultProxy, reserve_port};

use crate::nodes;
use crate::running::{PATIENCE, Server, Start, until};

const SECRET: &str = "a long random text that only the tests know";
const HOSTS: [&str; 3] = ["127.0.0.1", "127.0.0.2", "127.0.0.3"];

/// A server of the recipe, and a client that trusts its certificate only.
fn start(name: &str, host: &str, database: &str, (chain, key): &(String, String)) -> Server {
    let config = format!(
        "engine = 'postgres'\npartitions = 12\n\n[postgres]\nurl = '{database}'\n\n\
         [tls]\ncertificate = 'node.pem'\nkey = 'node.key'\n\n\
         [[key]]\nname = 'admin'\nprimary = '{SECRET}'\nrights = ['manage *']\n"
    );
    let mut start = Start::new("serve")
        .config(&config)
        .set(&format!("listen={host}"))
        .set(&format!("name={name}"))
        .set("cluster.port=0");
    start.command.env("STEADFAST_CLUSTER__KEY", nodes::KEY);
    fs::write(start.folder.path().join("node.pem"), chain).unwrap();
    fs::write(start.folder.path().join("node.key"), key).unwrap();
    let mut server = start.ready();
    let trusted = Certificate::from_pem(chain.as_bytes()).unwrap();
    let client = Client::builder().tls_certs_only([trusted]);
    server.client = client.timeout(PATIENCE).build().unwrap();
    server
}

fn ask(server: &Server, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
    server.ask(method, path, &format!("Bearer {SECRET}"), body)
}

#[test]
fn three_servers_with_tls_are_one() {
    let database = nodes::database();
    let made = rcgen::generate_simple_self_signed(HOSTS.map(str::to_owned)).unwrap();
    let pem = (made.cert.pem(), made.signing_key.serialize_pem());
    let servers: Vec<_> = ["a", "b", "c"]
        .iter()
        .zip(HOSTS)
        .map(|(name, host)| start(name, host, &database, &pem))
        .collect();
    for (server, host) in servers.iter().zip(HOSTS) {
        assert!(
            server.url.starts_with(&format!("https://{host}:")),
            "{}",
            server.url
        );
    }
    // They share everything out, and each is known by its address.
    let standing = until("three nodes in balance", || {
        let (status, standing) = ask(&servers[0], Method::GET, "/v1/cluster", None);
        assert_eq!(status, StatusCode::OK, "{standing}");
        let shares = nodes::shares(&standing);
        let is_fair = shares.len() == 3 && shares.iter().all(|(_, share)| *share == 4);
        is_fair.then_some(standing)
    });
    for (node, host) in standing["nodes"].as_array().unwrap().iter().zip(HOSTS) {
        let address = node["address"].as_str().unwrap();
        assert!(address.starts_with(&format!("{host}:")), "{standing}");
    }
    // Each reaches what the others have.
    for number in 0..12 {
        let path = format!("/v1/state/s{number}");
        let step = json!({"op": "put", "collection": "texts", "key": "k", "value": path});
        let body = json!({"steps": [step]});
        let (status, answer) = ask(&servers[number % 3], Method::POST, &path, Some(body));
        assert!(status.is_success(), "{answer}");
        for server in &servers {
            let found = ask(server, Method::GET, &format!("{path}/texts/k"), None);
            assert_eq!(found, (StatusCode::OK, json!(path)));
        }
    }
    // A client without a key is rejected.
    let (status, _) = servers[1].ask(Method::GET, "/v1/cluster", "Bearer no", None);
    assert_eq!(status, StatusCode::UNAUTHORIZED);
}

/// Others come where a node says, not where it listens.
#[test]
fn a_node_is_reached_where_it_says() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let listens = SocketAddr::from(([127, 0, 0, 1], reserve_port().unwrap()));
    let proxy: FaultProxy = runtime.block_on(FaultProxy::start(listens)).unwrap();
    let says: SocketAddr = proxy.address();
    let database = nodes::database();
    let a = nodes::node("a", &database).ready();
    let b = nodes::node("b", &database)
        .set(&format!("cluster.port={}", listens.port()))
        .set(&format!("cluster.advertise={says}"))
        .ready();
    nodes::settled(&b, 2);
    let standing = nodes::settled(&a, 2);
    let nodes_of = standing["nodes"].as_array().unwrap();
    let address = nodes_of.iter().find(|node| node["name"] == "b").unwrap();
    assert_eq!(address["address"], says.to_string(), "{standing}");
    for number in 0..12 {
        let service = format!("s{number}");
        let (status, answer) = nodes::put(&a, &service, "k", "v");
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert_eq!(nodes::get(&b, &service, "k").1, json!("v"));
    }
    assert!(proxy.connections() > 0, "no connection came through");
    let _inside = runtime.enter();
    drop(proxy);
}
