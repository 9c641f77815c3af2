//! Connections of other nodes, from the greeting on.
//!
//! No request may reach the handler before a proof.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::client::conn::http2::SendRequest;
use prost::Message;
use ring::hmac;
use steadfast_cluster_rpc::{Credentials, PeerHandler, serve};
use steadfast_net::access::Secret;
use steadfast_net::listen::ConnectionStream;
use steadfast_partition::cluster::{PROTOCOL, SCHEMA};
use steadfast_wire::cluster::{HelloRequest, HelloResponse, ProofRequest, RuntimeMessage, SERVICE};
use tokio_util::sync::CancellationToken;

use crate::connection::{ClientBehavior, MemoryPort, converse};
use crate::http;
use crate::records;
use crate::session::{MemoryBound, Session};
use crate::time::{due, settle};

/// The first byte of an input selects what the rest is.
mod mode {
    /// The bytes of a connection. Without it: records, each one call.
    pub(super) const RAW: u8 = 1;
    /// The client proves who it is before the records.
    pub(super) const PROVEN: u8 = 2;
}

/// The methods that the first byte of a record chooses.
const METHODS: [&str; 4] = ["Hello", "Prove", "Ask", "Other"];

const CLUSTER: &str = "c";
const SERVER: &str = "a";
const CLIENT: &str = "b";
const SECRET: &str = "a secret that all nodes of the cluster know";
const NONCE: [u8; 32] = [7; 32];

type ServeFn = Arc<
    dyn Fn(ConnectionStream, SocketAddr) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync,
>;

/// Echoes requests; panics if one has no proof or is from another node.
struct Echo {
    is_open: bool,
}

#[async_trait]
impl PeerHandler for Echo {
    async fn answer(&self, from: &str, request: Bytes) -> Bytes {
        assert!(self.is_open, "a request comes through without a proof");
        assert_eq!(from, CLIENT, "a request comes through in another name");
        request
    }
}

pub(crate) struct HandshakeSession {
    port: MemoryPort,
    /// The servers for clients with a proof, and for those without one.
    open: ServeFn,
    shut: ServeFn,
}

impl Session for HandshakeSession {
    const NAME: &'static str = "handshake";

    const BOUND: MemoryBound = MemoryBound {
        least: 384 * 1024,
        per_byte: 64,
    };

    async fn start() -> Self {
        let server = |is_open: bool| -> ServeFn {
            let secret = Secret::new(SECRET);
            let credentials = Credentials::new(SERVER, "a:1", CLUSTER, &secret);
            let host = Arc::new(Echo { is_open });
            Arc::new(serve(credentials, None, host, CancellationToken::new()))
        };
        Self {
            port: MemoryPort::new(),
            open: server(true),
            shut: server(false),
        }
    }

    async fn take(&mut self, input: &[u8]) {
        let Some((mode, rest)) = input.split_first() else {
            return;
        };
        let is_proven = mode & mode::PROVEN != 0;
        let serve = if is_proven {
            Arc::clone(&self.open)
        } else {
            Arc::clone(&self.shut)
        };
        let (client, serving) = self.port.open(move |stream, peer| serve(stream, peer));
        if mode & mode::RAW != 0 {
            return converse(client, serving, rest, ClientBehavior::default()).await;
        }
        let Some(mut sender) = http::connect_two(client).await else {
            return;
        };
        if is_proven {
            introduce(&mut sender).await;
        }
        for record in records::split(rest) {
            let Some((method, message)) = record.split_first() else {
                continue;
            };
            let method = METHODS[usize::from(*method) % METHODS.len()];
            call(&mut sender, method, message).await;
            settle().await;
        }
        drop(sender);
        let ended = due("the end of a connection", serving).await;
        ended.expect("the connection does not panic");
    }

    async fn answers(&mut self) {
        let serve = Arc::clone(&self.open);
        let (client, _serving) = self.port.open(move |stream, peer| serve(stream, peer));
        let sender = http::connect_two(client).await;
        let mut sender = sender.expect("a connection");
        introduce(&mut sender).await;
        let parcel = RuntimeMessage {
            body: Bytes::from_static(b"good"),
        };
        let answer = call(&mut sender, "Ask", &parcel.encode_to_vec()).await;
        let answer = answer.and_then(|bytes| RuntimeMessage::decode(&bytes[..]).ok());
        assert_eq!(answer, Some(parcel));
    }

    fn seeds() -> Vec<Vec<u8>> {
        seeds()
    }
}

/// Calls a method; returns the message of the response, if it has one.
async fn call(sender: &mut SendRequest<Body>, method: &str, message: &[u8]) -> Option<Vec<u8>> {
    let request = http::grpc(&format!("{SERVICE}{method}"), message);
    let answer = due("an answer to a node", sender.send_request(request)).await;
    let body = due("the body of an answer", answer.ok()?.collect()).await;
    let body = body.ok()?.to_bytes();
    body.get(5..).map(<[u8]>::to_vec)
}

/// Proves that the client has the key, as another node would.
async fn introduce(sender: &mut SendRequest<Body>) {
    let welcome = call(sender, "Hello", &hello(CLIENT).encode_to_vec()).await;
    let welcome = welcome.expect("a welcome");
    let welcome = HelloResponse::decode(&welcome[..]).expect("a welcome");
    let parts: [&[u8]; 8] = [
        b"steadfast cluster proof",
        b"client",
        CLUSTER.as_bytes(),
        CLIENT.as_bytes(),
        &NONCE,
        SERVER.as_bytes(),
        &welcome.nonce,
        b"",
    ];
    let mut words = Vec::new();
    for part in parts {
        words.extend_from_slice(&(part.len() as u64).to_le_bytes());
        words.extend_from_slice(part);
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let proof = Bytes::copy_from_slice(hmac::sign(&key, &words).as_ref());
    let proven = call(sender, "Prove", &ProofRequest { proof }.encode_to_vec()).await;
    assert_eq!(proven, Some(Vec::new()), "a good proof counts");
}

fn hello(name: &str) -> HelloRequest {
    HelloRequest {
        protocol: PROTOCOL,
        schema: SCHEMA,
        cluster: CLUSTER.to_owned(),
        name: name.to_owned(),
        nonce: Bytes::from_static(&NONCE),
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let record = |method: u8, message: Vec<u8>| [&[method][..], &message].concat();
    let greet = record(0, hello(CLIENT).encode_to_vec());
    let other = record(0, hello("x").encode_to_vec());
    let proof = Bytes::from_static(&[9; 32]);
    let prove = record(1, ProofRequest { proof }.encode_to_vec());
    let body = Bytes::from_static(&[1, 9]);
    let ask = record(2, RuntimeMessage { body }.encode_to_vec());
    let stranger = HelloRequest {
        cluster: "another".to_owned(),
        protocol: PROTOCOL + 1,
        ..hello(CLIENT)
    };
    let stranger = record(0, stranger.encode_to_vec());
    let join = |mode: u8, all: &[&Vec<u8>]| {
        let all: Vec<_> = all.iter().map(|own| (*own).clone()).collect();
        records::with_mode(mode, &records::join(&all))
    };
    vec![
        join(0, &[&greet, &prove, &ask]),
        join(0, &[&ask]),
        join(0, &[&stranger, &prove]),
        join(0, &[&greet, &greet, &prove, &prove]),
        join(mode::PROVEN, &[&ask, &ask]),
        join(mode::PROVEN, &[&other, &ask]),
        join(mode::PROVEN, &[&greet, &ask]),
        records::with_mode(
            mode::RAW,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        ),
        records::with_mode(
            mode::RAW,
            b"POST /steadfast.cluster.Node/Ask HTTP/1.1\r\n\r\n",
        ),
    ]
}
