//! Requests for blobs, signed as clients sign them.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::body::{Body, HttpBody as _};
use axum::http::{HeaderValue, Method, Request};
use steadfast_core::clock::Clock;
use steadfast_eventhubs::blob::{Context, routes};
use steadfast_events::Blobs;
use steadfast_wire::blob::path::parameters;
use steadfast_wire::blob::shared_key;

use crate::amqp::{self, ACCOUNT, ACCOUNT_KEY};
use crate::connection::ClientBehavior;
use crate::http::{self, Web};
use crate::node::MemoryNode;
use crate::records;
use crate::session::{MemoryBound, Session};
use crate::time::settle;

/// The first byte of an input selects what the rest is.
mod mode {
    /// The bytes of a connection. Without it: records, each one request.
    pub(super) const RAW: u8 = 1;
    /// The requests of the records are not signed.
    pub(super) const UNSIGNED: u8 = 2;
}

/// What `~` at the start of a line stands for.
const BOX: &str = "/account/box";

pub(crate) struct BlobSession {
    web: Web,
    clock: Arc<dyn Clock>,
    _node: MemoryNode,
}

impl Session for BlobSession {
    const NAME: &'static str = "blob";

    const BOUND: MemoryBound = MemoryBound {
        least: 256 * 1024,
        per_byte: 64,
    };

    async fn start() -> Self {
        let (events, node) = amqp::start().await;
        let blobs = Blobs::new(&node.runtime, events.hubs.clone());
        let access = events.access.clone().expect("keys are checked");
        let clock = Arc::clone(&events.clock);
        let context = Context::new(blobs, access, Arc::clone(&clock), false);
        let server = Self {
            web: Web::new(routes(Arc::new(context)), &clock),
            clock,
            _node: node,
        };
        let made = http::record(&Method::PUT, "~?restype=container", "");
        assert_eq!(server.ask(&made, true).await, Some(201));
        server
    }

    async fn take(&mut self, input: &[u8]) {
        let Some((mode, rest)) = input.split_first() else {
            return;
        };
        if mode & mode::RAW != 0 {
            return self.web.say(rest, ClientBehavior::default()).await;
        }
        for record in records::split(rest) {
            self.ask(record, mode & mode::UNSIGNED == 0).await;
            settle().await;
        }
    }

    async fn answers(&mut self) {
        let made = http::record(&Method::PUT, "/account/good?restype=container", "");
        let made = self.ask(&made, true).await;
        assert!(matches!(made, Some(201 | 409)), "{made:?}");
        let read = http::record(&Method::GET, "/account/good?restype=container", "");
        assert_eq!(self.ask(&read, true).await, Some(200));
    }

    fn seeds() -> Vec<Vec<u8>> {
        seeds()
    }
}

impl BlobSession {
    /// Sends a record as a request, and returns the status of the response.
    async fn ask(&self, record: &[u8], is_signed: bool) -> Option<u16> {
        let mut request = http::request(record, complete)?;
        if is_signed {
            self.sign(&mut request)?;
        }
        let answer = self.web.ask(request).await?;
        Some(answer.status.as_u16())
    }

    fn sign(&self, request: &mut Request<Body>) -> Option<()> {
        let now = u64::try_from(self.clock.now().0).unwrap_or_default();
        let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(now));
        let date = HeaderValue::from_str(&date).ok()?;
        request.headers_mut().entry("x-ms-date").or_insert(date);
        let headers = request.headers().iter();
        let headers = headers.map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes());
            (name.as_str().to_owned(), value.into_owned())
        });
        let mut headers: Vec<_> = headers.collect();
        let length = request.body().size_hint().exact();
        if let Some(length @ 1..) = length {
            headers.push(("content-length".to_owned(), length.to_string()));
        }
        let signed = shared_key::Request {
            verb: request.method().as_str(),
            path: request.uri().path(),
            parameters: &parameters(request.uri().query().unwrap_or("")).ok()?,
            headers: &headers,
        };
        let header = shared_key::header(ACCOUNT, ACCOUNT_KEY, &signed)?;
        let header = HeaderValue::from_str(&header).ok()?;
        request.headers_mut().insert("authorization", header);
        Some(())
    }
}

fn complete(line: &str) -> String {
    match line.strip_prefix('~') {
        Some(rest) => format!("{BOX}{rest}"),
        None => line.to_owned(),
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let put = |line: &str, headers: &[(&str, &str)], body: &str| {
        http::record_with(&Method::PUT, line, headers, body.as_bytes())
    };
    let get =
        |line: &str, headers: &[(&str, &str)]| http::record_with(&Method::GET, line, headers, b"");
    let kind = ("x-ms-blob-type", "BlockBlob");
    let written = put("~/one", &[kind, ("x-ms-meta-offset", "5")], "text");
    let after = [
        get("~/one", &[("range", "bytes=1-2")]),
        get(
            "~/one",
            &[("x-ms-range", "bytes=2-"), ("if-none-match", "*")],
        ),
        http::record_with(&Method::HEAD, "~/one", &[("if-match", "\"0x1\"")], b""),
        put(
            "~/one?comp=metadata",
            &[("x-ms-meta-ownerid", "me"), ("if-match", "*")],
            "",
        ),
        put(
            "~/one?comp=lease",
            &[
                ("x-ms-lease-action", "acquire"),
                ("x-ms-lease-duration", "15"),
                (
                    "x-ms-proposed-lease-id",
                    "00000000-0000-0000-0000-000000000001",
                ),
            ],
            "",
        ),
        put(
            "~/one?comp=lease",
            &[
                ("x-ms-lease-action", "break"),
                ("x-ms-lease-break-period", "0"),
            ],
            "",
        ),
        http::record_with(
            &Method::DELETE,
            "~/one",
            &[("if-unmodified-since", "Wed, 18 Nov 2026 12:00:00 GMT")],
            b"",
        ),
        get(
            "~?restype=container&comp=list&prefix=o&include=metadata&maxresults=2&delimiter=/",
            &[],
        ),
    ];
    let blocks = [
        put("~/two?comp=block&blockid=MDAwMQ==", &[], "first"),
        put(
            "~/two?comp=block&blockid=MDAwMg==",
            &[("content-md5", "x")],
            "second",
        ),
        put(
            "~/two?comp=blocklist",
            &[("x-ms-blob-content-type", "text/plain")],
            "<?xml version=\"1.0\"?><BlockList><Latest>MDAwMQ==</Latest>\
             <Uncommitted>MDAwMg==</Uncommitted></BlockList>",
        ),
        get("~/two?comp=blocklist&blocklisttype=all", &[]),
        get("~/two", &[]),
    ];
    let owner = "~/ns/houses/$Default/ownership/0";
    let owned = [
        put(
            owner,
            &[kind, ("if-none-match", "*"), ("x-ms-meta-ownerid", "me")],
            "",
        ),
        get(
            "~?restype=container&comp=list&prefix=ns/houses/$Default/ownership/",
            &[],
        ),
        http::record(&Method::DELETE, "~?restype=container", ""),
    ];
    let signature = "~/one?sv=2021-08-06&sr=b&sp=rw&st=2020-01-01T00:00:00Z&\
        se=2030-01-01T00:00:00Z&sip=127.0.0.1&spr=https,http&sig=AAAA";
    let raw = b"PUT /account/box/one HTTP/1.1\r\nhost: localhost\r\nx-ms-blob-type: BlockBlob\r\n\
        transfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\n4\r\ntext\r\n0\r\n\r\n";
    let mut seeds: Vec<_> = after
        .iter()
        .map(|record| records::join(&[written.clone(), record.clone()]))
        .collect();
    seeds.push(records::join(&blocks));
    seeds.push(records::join(&owned));
    let mut seeds: Vec<_> = seeds.iter().map(|own| records::with_mode(0, own)).collect();
    seeds.push(records::with_mode(mode::UNSIGNED, &get(signature, &[])));
    seeds.push(records::with_mode(mode::RAW, raw));
    seeds
}
