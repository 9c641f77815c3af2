//! HTTP/1.1 and HTTP/2 as bytes, before any route.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Version};
use axum::routing::{get, post};
use steadfast_core::clock::Clock;
use steadfast_net::listen::proven;
use tokio::io::AsyncReadExt as _;

use crate::connection::ClientBehavior;
use crate::http::{self, Web};
use crate::records;
use crate::session::{MemoryBound, Session};
use crate::time::{PausedClock, runtime, settle};

/// The first byte of an input selects how the rest is sent.
mod mode {
    /// The client stays until its time-outs.
    pub(super) const STAYS: u8 = 1;
    /// The bytes come in small pieces.
    pub(super) const CHOPPED: u8 = 2;
    /// The client does not read.
    pub(super) const SLOW: u8 = 4;
}

/// How long a patient client stays.
const STAY: Duration = Duration::from_secs(300);

pub(crate) struct Requests {
    web: Web,
}

impl Session for Requests {
    const NAME: &'static str = "http";

    const BOUND: MemoryBound = MemoryBound {
        least: 256 * 1024,
        per_byte: 64,
    };

    async fn start() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(PausedClock::new());
        let routes = Router::new()
            .route("/", get(async || "here"))
            .route("/echo", post(echo));
        Self {
            web: Web::new(routes, &clock),
        }
    }

    async fn take(&mut self, input: &[u8]) {
        let Some((mode, rest)) = input.split_first() else {
            return;
        };
        let has = |bit: u8| mode & bit != 0;
        let manners = ClientBehavior {
            is_chopped: has(mode::CHOPPED),
            is_slow: has(mode::SLOW),
            stays: if has(mode::STAYS) {
                STAY
            } else {
                Duration::ZERO
            },
        };
        self.web.say(rest, manners).await;
    }

    async fn answers(&mut self) {
        for version in [Version::HTTP_11, Version::HTTP_2] {
            let answer = self.web.ask(request(version, "/", "")).await;
            let answer = answer.expect("an answer");
            assert_eq!(answer.status, 200);
            assert_eq!(answer.body, b"here");
        }
    }

    fn seeds() -> Vec<Vec<u8>> {
        seeds()
    }
}

/// Sends the body back. A header of the request is its proof.
async fn echo(request: Request<Body>) -> Body {
    if request.headers().contains_key("authorization") {
        proven();
    }
    request.into_body()
}

fn request(version: Version, path: &str, body: &'static str) -> Request<Body> {
    let method = if body.is_empty() { "GET" } else { "POST" };
    let uri = match version {
        Version::HTTP_2 => format!("http://localhost{path}"),
        _ => path.to_owned(),
    };
    let request = Request::builder().method(method).uri(uri).version(version);
    let request = match version {
        Version::HTTP_2 => request,
        _ => request.header("host", "localhost"),
    };
    let request = request.header("authorization", "key");
    request.body(Body::from(body)).expect("a request")
}

/// What an HTTP/2 client sends before it receives a response.
fn sent(requests: Vec<Request<Body>>) -> Vec<u8> {
    let sending = async {
        let (client, mut other) = tokio::io::duplex(1 << 20);
        let mut sender = http::connect_two(client).await?;
        for request in requests {
            tokio::spawn(sender.send_request(request));
        }
        settle().await;
        let mut bytes = vec![0; 1 << 20];
        let length = other.read(&mut bytes).await.ok()?;
        bytes.truncate(length);
        Some(bytes)
    };
    runtime().block_on(sending).expect("the client sends")
}

fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "GET / HTTP/1.1\r\nhost: localhost\r\n\r\nGET / HTTP/1.0\r\n\r\n",
        "POST /echo HTTP/1.1\r\nhost: localhost\r\nauthorization: key\r\ncontent-length: 4\r\n\r\ntext",
        "POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n\
         4;x=y\r\ntext\r\n0\r\ntrailer: t\r\n\r\n",
        "POST /echo HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n\
         content-length: 1\r\n\r\nx",
        "OPTIONS /echo HTTP/1.1\r\nhost: localhost\r\norigin: https://example.org\r\n\
         access-control-request-method: POST\r\nforwarded: for=1.2.3.4;proto=https\r\n\
         x-forwarded-for: 1.2.3.4\r\ntraceparent: 00-1-2-01\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade, http2-settings\r\n\
         upgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n\r\n",
        "HEAD /absent HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    ];
    let two = sent(vec![
        request(Version::HTTP_2, "/", ""),
        request(Version::HTTP_2, "/echo", "text"),
    ]);
    let mut seeds: Vec<_> = texts
        .iter()
        .map(|text| records::with_mode(0, text.as_bytes()))
        .collect();
    for mode in [0, mode::STAYS, mode::CHOPPED, mode::SLOW | mode::STAYS] {
        seeds.push(records::with_mode(mode, &two));
        seeds.push(records::with_mode(mode, texts[1].as_bytes()));
    }
    seeds
}
