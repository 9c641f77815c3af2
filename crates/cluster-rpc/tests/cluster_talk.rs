//! Node to node: who is let in, and what becomes of requests.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response};
use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::{BodyExt, Full};
use prost::Message;
use steadfast_cluster_rpc::{ClusterClient, Credentials, PeerHandler, serve};
use steadfast_core::id::Owner;
use steadfast_net::access::Secret;
use steadfast_net::http;
use steadfast_net::listen::{Certificate, Listener, ListenerOptions};
use steadfast_partition::cluster::{ClusterNetwork, ClusterPeer, NetworkError, PROTOCOL, SCHEMA};
use steadfast_wire::cluster::{HelloRequest, HelloResponse, ProofRequest, RuntimeMessage, SERVICE};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const KEY: &str = "0123456789abcdef0123456789abcdef";
const LIMIT: Duration = Duration::from_secs(10);

/// Says back what it is told, and by whom.
struct Echo;

#[async_trait]
impl PeerHandler for Echo {
    async fn answer(&self, from: &str, request: Bytes) -> Bytes {
        match &request[..] {
            b"never" => std::future::pending().await,
            other => [from.as_bytes(), b": ", other].concat().into(),
        }
    }
}

/// A node that answers; it ends with the token.
struct Node {
    peer: ClusterPeer,
    stop: CancellationToken,
}

fn credentials(name: &str, cluster: &str, key: &str) -> Credentials {
    Credentials::new(name, "127.0.0.1:1", cluster, &Secret::new(key))
}

fn start(mut own: Credentials, certificate: Option<Arc<Certificate>>) -> Node {
    own.incarnation = 7;
    let name = own.identity.name.clone();
    let listener = Listener::bind(ListenerOptions {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        tls: certificate.as_ref().map(|own| own.server(&["h2"])),
        connections: 10,
    })
    .unwrap();
    let peer = ClusterPeer {
        name,
        owner: Owner {
            node: 1,
            incarnation: 7,
        },
        address: listener.address().to_string(),
    };
    let stop = CancellationToken::new();
    let serving = serve(own, certificate, Arc::new(Echo), stop.clone());
    tokio::spawn(listener.run(stop.clone(), TaskTracker::new(), serving));
    Node { peer, stop }
}

async fn say(
    wire: &ClusterClient,
    to: &ClusterPeer,
    words: &'static str,
) -> Result<Bytes, NetworkError> {
    wire.send(to, Bytes::from_static(words.as_bytes()), LIMIT)
        .await
}

/// Why a request was surely not handled.
fn unsent(answer: Result<Bytes, NetworkError>) -> String {
    match answer {
        Err(NetworkError::Unsent(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn both_sides_prove_that_they_have_the_key() {
    let node = start(credentials("b", "c", KEY), None);
    let wire = ClusterClient::new(credentials("a", "c", KEY), false);
    assert_eq!(say(&wire, &node.peer, "hello").await.unwrap(), "a: hello");
    let other = "ffffffffffffffffffffffffffffffff";
    let stranger = ClusterClient::new(credentials("x", "c", other), false);
    let why = unsent(say(&stranger, &node.peer, "hello").await);
    assert!(why.contains("STF-7010"), "{why}");
}

/// A peer that knows the protocol but not the key.
#[tokio::test]
async fn a_wrong_proof_is_refused_and_nothing_is_answered() {
    let node = start(credentials("b", "c", KEY), None);
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().http2_prior_knowledge();
    let client = client.build().unwrap();
    let ask = async |method: &str, message: Vec<u8>| {
        let url = format!("http://{}{SERVICE}{method}", node.peer.address);
        let length = (message.len() as u32).to_be_bytes();
        let body = [&[0], &length[..], &message].concat();
        let request = client.post(url).header("content-type", "application/grpc");
        let answer = request.body(body).send().await.unwrap();
        let header = |name: &str| {
            let value = answer.headers().get(name);
            value.map(|value| value.to_str().unwrap().to_owned())
        };
        (header("grpc-status"), header("grpc-message"))
    };
    let hello = HelloRequest {
        protocol: PROTOCOL,
        schema: SCHEMA,
        cluster: "c".to_owned(),
        name: "x".to_owned(),
        nonce: Bytes::from_static(&[1; 32]),
    };
    // It is greeted: no status in front of the answer.
    assert_eq!(ask("Hello", hello.encode_to_vec()).await, (None, None));
    let prove = ProofRequest {
        proof: Bytes::from_static(&[2; 32]),
    };
    let (status, message) = ask("Prove", prove.encode_to_vec()).await;
    assert_eq!(status.as_deref(), Some("16"), "{message:?}");
    assert!(message.unwrap().contains("STF-7010"));
    let parcel = RuntimeMessage {
        body: Bytes::from_static(b"hello"),
    };
    for _ in 0..2 {
        let (status, message) = ask("Ask", parcel.encode_to_vec()).await;
        assert_eq!(status.as_deref(), Some("16"), "{message:?}");
        assert!(message.unwrap().contains("STF-7016"));
    }
}

/// Greets everybody with the same words, and counts what else it is asked.
fn impostor(welcome: HelloResponse) -> (ClusterPeer, Arc<AtomicUsize>) {
    let listener = Listener::bind(ListenerOptions {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        tls: None,
        connections: 10,
    });
    let listener = listener.unwrap();
    let peer = ClusterPeer {
        name: welcome.name.clone(),
        owner: Owner {
            node: 1,
            incarnation: 7,
        },
        address: listener.address().to_string(),
    };
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let routes = Router::new().fallback(move |request: Request| async move {
        if !request.uri().path().ends_with("/Hello") {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        let message = welcome.encode_to_vec();
        let length = (message.len() as u32).to_be_bytes();
        let body = Bytes::from([&[0], &length[..], &message].concat());
        let status = HeaderMap::from_iter([(
            HeaderName::from_static("grpc-status"),
            HeaderValue::from_static("0"),
        )]);
        let body = Full::new(body).with_trailers(std::future::ready(Some(Ok(status))));
        let answer = Response::builder().header("content-type", "application/grpc");
        answer.body(Body::new(body)).unwrap()
    });
    let stop = CancellationToken::new();
    let serving = listener.run(stop.clone(), TaskTracker::new(), move |stream, peer| {
        http::serve(stream, peer, routes.clone(), stop.clone())
    });
    tokio::spawn(serving);
    (peer, asked)
}

/// A client sends no proof to a server that has not proven that it has the key.
#[tokio::test]
async fn a_node_without_the_key_learns_nothing_from_who_asks() {
    let welcome = HelloResponse {
        protocol: PROTOCOL,
        schema: SCHEMA,
        cluster: "c".to_owned(),
        name: "b".to_owned(),
        nonce: Bytes::from_static(&[3; 32]),
        proof: Bytes::from_static(&[4; 32]),
        incarnation: Bytes::copy_from_slice(&7u128.to_le_bytes()),
    };
    let other = |change: fn(&mut HelloResponse)| {
        let mut other = welcome.clone();
        change(&mut other);
        other
    };
    for (welcome, code) in [
        (welcome.clone(), "STF-7010"),
        (other(|own| own.proof = Bytes::new()), "STF-7010"),
        (other(|own| own.cluster = "d".to_owned()), "STF-7011"),
        (other(|own| own.protocol += 2), "STF-7012"),
    ] {
        let (peer, asked) = impostor(welcome);
        let wire = ClusterClient::new(credentials("a", "c", KEY), false);
        let why = unsent(say(&wire, &peer, "hello").await);
        assert!(why.contains(code), "{code}: {why}");
        assert_eq!(asked.load(Ordering::SeqCst), 0, "{code}");
    }
}

#[tokio::test]
async fn another_cluster_is_refused_by_both_sides() {
    let node = start(credentials("b", "c", KEY), None);
    let stranger = ClusterClient::new(credentials("x", "d", KEY), false);
    let why = unsent(say(&stranger, &node.peer, "hello").await);
    assert!(why.contains("STF-7011"), "{why}");
}

#[tokio::test]
async fn the_version_before_is_let_in_and_no_other() {
    let node = start(credentials("b", "c", KEY), None);
    let with = |protocol, schema| {
        let mut own = credentials("a", "c", KEY);
        (own.identity.protocol, own.identity.schema) = (protocol, schema);
        ClusterClient::new(own, false)
    };
    for wire in [
        with(PROTOCOL - 1, SCHEMA),
        with(PROTOCOL, SCHEMA - 1),
        with(PROTOCOL + 1, SCHEMA),
    ] {
        assert_eq!(say(&wire, &node.peer, "hello").await.unwrap(), "a: hello");
    }
    for wire in [
        with(PROTOCOL - 2, SCHEMA),
        with(PROTOCOL + 2, SCHEMA),
        with(PROTOCOL, SCHEMA + 2),
    ] {
        let why = unsent(say(&wire, &node.peer, "hello").await);
        assert!(why.contains("STF-7012"), "{why}");
    }
}

/// Each would wait behind all others, for three seconds each.
#[tokio::test]
async fn those_who_wait_for_a_silent_node_wait_together() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = ClusterPeer {
        name: "b".to_owned(),
        owner: Owner {
            node: 1,
            incarnation: 7,
        },
        address: silent.local_addr().unwrap().to_string(),
    };
    let wire = ClusterClient::new(credentials("a", "c", KEY), false);
    let hello = || wire.send(&peer, Bytes::from_static(b"hello"), LIMIT * 6);
    let all = join_all((0..10).map(|_| hello()));
    for answer in tokio::time::timeout(LIMIT, all).await.unwrap() {
        let why = unsent(answer);
        assert!(why.contains("does not answer"), "{why}");
    }
    // No caller waits beyond its own time-out.
    let short = Duration::from_millis(200);
    let asked = wire.send(&peer, Bytes::from_static(b"hello"), short);
    unsent(tokio::time::timeout(short * 5, asked).await.unwrap());
}

#[tokio::test]
async fn a_node_in_another_life_is_not_mistaken() {
    let node = start(credentials("b", "c", KEY), None);
    let wire = ClusterClient::new(credentials("a", "c", KEY), false);
    let mut other = node.peer.clone();
    other.owner.incarnation = 8;
    let why = unsent(say(&wire, &other, "hello").await);
    assert!(why.contains("another incarnation"), "{why}");
    assert_eq!(say(&wire, &node.peer, "again").await.unwrap(), "a: again");
}

#[tokio::test]
async fn what_was_on_its_way_when_a_node_ended_is_unknown() {
    let node = start(credentials("b", "c", KEY), None);
    let wire = Arc::new(ClusterClient::new(credentials("a", "c", KEY), false));
    say(&wire, &node.peer, "hello").await.unwrap();
    let limited = wire.send(
        &node.peer,
        Bytes::from_static(b"never"),
        Duration::from_millis(200),
    );
    assert!(matches!(limited.await, Err(NetworkError::Unknown(_))));
    node.stop.cancel();
    let gone = ClusterPeer {
        address: "127.0.0.1:1".to_owned(),
        ..node.peer.clone()
    };
    unsent(say(&wire, &gone, "hello").await);
}

#[tokio::test]
async fn encrypted_nodes_are_known_by_the_key_and_their_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["b".to_owned()]).unwrap();
    let (chain, key) = (
        folder.path().join("chain.pem"),
        folder.path().join("key.pem"),
    );
    std::fs::write(&chain, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let certificate = Certificate::load(&chain, &key).unwrap();
    let node = start(credentials("b", "c", KEY), Some(certificate));
    let wire = ClusterClient::new(credentials("a", "c", KEY), true);
    assert_eq!(say(&wire, &node.peer, "hello").await.unwrap(), "a: hello");
    // A client without TLS is refused.
    let plain = ClusterClient::new(credentials("a", "c", KEY), false);
    assert!(say(&plain, &node.peer, "hello").await.is_err());
}

#[tokio::test]
async fn whoever_has_proven_nothing_is_not_answered() {
    let node = start(credentials("b", "c", KEY), None);
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().http2_prior_knowledge();
    let client = client.build().unwrap();
    for method in ["Ask", "Prove"] {
        let url = format!(
            "http://{}/steadfast.cluster.Node/{method}",
            node.peer.address
        );
        let request = client.post(url).header("content-type", "application/grpc");
        // One empty message.
        let answer = request.body(vec![0u8; 5]).send().await.unwrap();
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("grpc-status"), "16", "{method}");
        assert!(header("grpc-message").contains("STF-7016"), "{method}");
    }
}
