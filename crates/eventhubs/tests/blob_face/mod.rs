//! The port of blobs, and requests to it as clients sign them.
#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::{Clock, SystemClock};
use steadfast_core::limits;
use steadfast_wire::blob::path::parameters;
use steadfast_wire::blob::shared_key::{self, Request};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::amqp_setup::{self, ACCOUNT, ACCOUNT_KEY, Node};

pub(crate) struct Face {
    pub(crate) node: Node,
    pub(crate) port: u16,
    pub(crate) client: reqwest::Client,
    _folder: tempfile::TempDir,
}

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: bytes::Bytes,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }

    /// Status and the code of the error, which header and body say alike.
    pub(crate) fn error(&self) -> (u16, &str) {
        let code = self.header("x-ms-error-code");
        assert!(
            self.text().contains(&format!("<Code>{code}</Code>")),
            "{}",
            self.text()
        );
        assert!(self.text().contains("<Message>STF-"), "{}", self.text());
        (self.status, code)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// How a request is signed.
pub(crate) struct By<'a> {
    pub(crate) account: &'a str,
    pub(crate) key: &'a str,
    /// How long ago it was.
    pub(crate) ago: i64,
}

pub(crate) const OWNER: By<'_> = By {
    account: ACCOUNT,
    key: ACCOUNT_KEY,
    ago: 0,
};

impl Face {
    pub(crate) async fn start() -> Self {
        Self::start_at(Arc::new(SystemClock::new())).await
    }

    /// With a clock of the test's own.
    pub(crate) async fn start_at(clock: Arc<dyn Clock>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let node = amqp_setup::open(folder.path(), clock).await;
        Self::serve(node, folder)
    }

    /// With this limit of every account, and the box.
    pub(crate) async fn with_limit(limit: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let node = amqp_setup::open_limited(folder.path(), limit).await;
        let face = Self::serve(node, folder);
        face.make_box().await;
        face
    }

    /// On a store that holds little in memory.
    pub(crate) async fn start_small() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(SystemClock::new());
        let idle = limits::AMQP_IDLE;
        let node = amqp_setup::open_as(folder.path(), clock, idle, |options| {
            options.log_target = 8 * 1024 * 1024;
            options.log_limit = 32 * 1024 * 1024;
            options.row_cache = 8 * 1024 * 1024;
        });
        Self::serve(node.await, folder)
    }

    fn serve(node: Node, folder: tempfile::TempDir) -> Self {
        let port = amqp_setup::blobs::serve(&node);
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self {
            node,
            port,
            client: reqwest::Client::new(),
            _folder: folder,
        }
    }

    pub(crate) async fn with_box() -> Self {
        let face = Self::start().await;
        face.make_box().await;
        face
    }

    async fn make_box(&self) {
        let path = "/devstoreaccount1/box?restype=container";
        let made = self.ask("PUT", path, &[], "").await;
        assert_eq!(made.status, 201);
    }

    /// Asks as the owner of the account.
    pub(crate) async fn ask(
        &self,
        verb: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<bytes::Bytes>,
    ) -> Answer {
        self.ask_by(&OWNER, verb, path, headers, body.into()).await
    }

    pub(crate) async fn ask_by(
        &self,
        by: &By<'_>,
        verb: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: bytes::Bytes,
    ) -> Answer {
        let own = self.signed(by, (verb, path), headers, body.len());
        self.send(verb, path, &own, body).await
    }

    /// The headers of a request, with its signature.
    pub(crate) fn signed(
        &self,
        by: &By<'_>,
        (verb, path): (&str, &str),
        headers: &[(&str, &str)],
        length: usize,
    ) -> Vec<(String, String)> {
        let when = self.node.clock.now().0 / 1000 - by.ago;
        let when = std::time::UNIX_EPOCH + Duration::from_secs(when as u64);
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let mut own = vec![("x-ms-date".to_owned(), httpdate::fmt_http_date(when))];
        own.extend(headers.iter().map(pair));
        let mut signed = own.clone();
        if length > 0 {
            signed.push(("content-length".to_owned(), length.to_string()));
        }
        let (bare, query) = path.split_once('?').unwrap_or((path, ""));
        let request = Request {
            verb,
            path: bare,
            parameters: &parameters(query).unwrap(),
            headers: &signed,
        };
        let header = shared_key::header(by.account, by.key, &request);
        own.push(("authorization".to_owned(), header.unwrap()));
        own
    }

    /// Sends the head of a request as bytes, and answers the connection, so that a
    /// body of any length can follow.
    pub(crate) async fn begin(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        length: usize,
    ) -> TcpStream {
        let own = self.signed(&OWNER, ("PUT", path), headers, length);
        let mut head = format!("PUT {path} HTTP/1.1\r\nhost: localhost\r\n");
        for (name, value) in own {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {length}\r\n\r\n"));
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    /// Sends a request as it is.
    pub(crate) async fn send(
        &self,
        verb: &str,
        path: &str,
        headers: &[(String, String)],
        body: bytes::Bytes,
    ) -> Answer {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        let mut request = self.client.request(verb.parse().unwrap(), url);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if verb == "PUT" {
            request = request.header("content-length", body.len());
        }
        let answer = request.body(body).send().await.unwrap();
        Answer {
            status: answer.status().as_u16(),
            headers: answer.headers().clone(),
            body: answer.bytes().await.unwrap(),
        }
    }

    pub(crate) async fn put(&self, name: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let headers = [&[("x-ms-blob-type", "BlockBlob")], headers].concat();
        let path = format!("/devstoreaccount1/box/{name}");
        self.ask("PUT", &path, &headers, body.to_owned()).await
    }

    pub(crate) async fn describe(&self, name: &str, headers: &[(&str, &str)]) -> Answer {
        let path = format!("/devstoreaccount1/box/{name}?comp=metadata");
        self.ask("PUT", &path, headers, "").await
    }
}

/// The status of the answer on a connection.
pub(crate) async fn status(stream: &mut TcpStream) -> u16 {
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.unwrap();
    let head = std::str::from_utf8(&head).unwrap();
    head.rsplit(' ').next().unwrap().parse().unwrap()
}
