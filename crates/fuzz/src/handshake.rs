//! Connections of other nodes, from the greeting on.
//!
//! What no proof came before must never reach the host behind them.

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
use steadfast_partition::cluster::{PROTOCOL, SCHEMA};
use steadfast_protocols::access::Secret;
use steadfast_protocols::cluster::{Answer, Credentials, serve};
use steadfast_protocols::listen::Stream;
use steadfast_wire::cluster::{Hello, Parcel, Prove, SERVICE, Welcome};
use tokio_util::sync::CancellationToken;

use crate::connection::{Manners, Port, converse};
use crate::http;
use crate::records;
use crate::session::{Bound, Session};
use crate::time::{due, settle};

/// The first byte of an input says what the rest is.
mod mode {
    /// What a client sends, as bytes. Else records, each one call.
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

type Serve =
    Arc<dyn Fn(Stream, SocketAddr) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Answers what it is asked, by one node only.
struct Echo {
    is_open: bool,
}

#[async_trait]
impl Answer for Echo {
    async fn answer(&self, from: &str, request: Bytes) -> Bytes {
        assert!(self.is_open, "a request comes through without a proof");
        assert_eq!(from, CLIENT, "a request comes through in another name");
        request
    }
}

pub(crate) struct Handshake {
    port: Port,
    /// For clients with a proof, and for those without one.
    open: Serve,
    shut: Serve,
}

impl Session for Handshake {
    const NAME: &'static str = "handshake";

    const BOUND: Bound = Bound {
        least: 384 * 1024,
        per_byte: 64,
    };

    async fn start() -> Self {
        let server = |is_open: bool| -> Serve {
            let secret = Secret::new(SECRET);
            let credentials = Credentials::new(SERVER, "a:1", CLUSTER, &secret);
            let host = Arc::new(Echo { is_open });
            Arc::new(serve(credentials, None, host, CancellationToken::new()))
        };
        Self {
            port: Port::new(),
            open: server(true),
            shut: server(false),
        }
    }

    async fn take(&mut self, input: &[u8]) {
        let Some((mode, rest)) = input.split_first() else {
            return;
        };
        let is_proven = mode & mode::PROVEN != 0;
        let serve = match is_proven {
            true => Arc::clone(&self.open),
            false => Arc::clone(&self.shut),
        };
        let (client, serving) = self.port.open(move |stream, peer| serve(stream, peer));
        if mode & mode::RAW != 0 {
            return converse(client, serving, rest, Manners::default()).await;
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
        let parcel = Parcel {
            body: Bytes::from_static(b"good"),
        };
        let answer = call(&mut sender, "Ask", &parcel.encode_to_vec()).await;
        let answer = answer.and_then(|bytes| Parcel::decode(&bytes[..]).ok());
        assert_eq!(answer, Some(parcel));
    }

    fn seeds() -> Vec<Vec<u8>> {
        seeds()
    }
}

/// Calls a method; answers the message of the answer, if it has one.
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
    let welcome = Welcome::decode(&welcome[..]).expect("a welcome");
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
    let proven = call(sender, "Prove", &Prove { proof }.encode_to_vec()).await;
    assert_eq!(proven, Some(Vec::new()), "a good proof counts");
}

fn hello(name: &str) -> Hello {
    Hello {
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
    let prove = record(1, Prove { proof }.encode_to_vec());
    let body = Bytes::from_static(&[1, 9]);
    let ask = record(2, Parcel { body }.encode_to_vec());
    let stranger = Hello {
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
