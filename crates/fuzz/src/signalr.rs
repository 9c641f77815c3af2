//! SignalR sessions: HTTP, WebSockets, hub messages.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::json;
use steadfast_core::clock::Clock;
use steadfast_net::access::{AccessControl, KeyRing};
use steadfast_realtime::{HubOptions, Realtime};
use steadfast_signalr::{Context, routes};
use steadfast_wire::signalr::{Protocol, write};

use crate::connection::ClientBehavior;
use crate::http::Web;
use crate::hub::FuzzHub;
use crate::records;
use crate::session::{MemoryBound, Session};
use crate::time::PausedClock;
use crate::websocket::{BINARY, TEXT, put_frame, upgrade};

/// The first byte of an input selects what is sent around the rest.
mod mode {
    /// The handshake for JSON is sent for the input.
    pub(super) const JSON: u8 = 1;
    /// The handshake for MessagePack is sent for the input.
    pub(super) const MESSAGE_PACK: u8 = 2;
    /// The rest consists of records, each one WebSocket message.
    pub(super) const FRAMED: u8 = 4;
    /// The client stays until its time-outs.
    pub(super) const STAYS: u8 = 8;
    /// The bytes come in small pieces.
    pub(super) const CHOPPED: u8 = 16;
    /// The client does not read.
    pub(super) const SLOW: u8 = 32;
    /// The rest is HTTP: no socket is opened for it.
    pub(super) const HTTP: u8 = 64;
}

/// How long a patient client stays.
const STAY: Duration = Duration::from_secs(120);

pub(crate) struct SignalR {
    web: Web,
}

impl Session for SignalR {
    const NAME: &'static str = "signalr";

    const BOUND: MemoryBound = MemoryBound {
        least: 256 * 1024,
        per_byte: 64,
    };

    async fn start() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(PausedClock::new());
        let realtime = Realtime::with_clock("here", Arc::clone(&clock));
        let options = HubOptions {
            is_open: true,
            ..HubOptions::default()
        };
        let hosted = realtime.host("open", FuzzHub, options);
        hosted.expect("the hub is new");
        let access = AccessControl::new(KeyRing::new(), Arc::clone(&clock));
        let context = Context {
            realtime,
            access: Arc::new(access),
            clock: Arc::clone(&clock),
        };
        let paths = [("/open".to_owned(), "open".to_owned())];
        Self {
            web: Web::new(routes(&Arc::new(context), &paths), &clock),
        }
    }

    async fn take(&mut self, input: &[u8]) {
        let Some((mode, rest)) = input.split_first() else {
            return;
        };
        let has = |bit: u8| mode & bit != 0;
        let mut bytes = Vec::new();
        if !has(mode::HTTP) {
            bytes.extend_from_slice(&upgrade("/open", ""));
        }
        let protocol = match (has(mode::JSON), has(mode::MESSAGE_PACK)) {
            (true, _) => Some("json"),
            (false, true) => Some("messagepack"),
            (false, false) => None,
        };
        if let Some(protocol) = protocol {
            let handshake = format!("{{\"protocol\":\"{protocol}\",\"version\":1}}\u{1e}");
            put_frame(&mut bytes, TEXT, handshake.as_bytes());
        }
        if has(mode::FRAMED) {
            let kind = if has(mode::MESSAGE_PACK) {
                BINARY
            } else {
                TEXT
            };
            for record in records::split(rest) {
                put_frame(&mut bytes, kind, record);
            }
        } else {
            bytes.extend_from_slice(rest)
        }
        let manners = ClientBehavior {
            is_chopped: has(mode::CHOPPED),
            is_slow: has(mode::SLOW),
            stays: if has(mode::STAYS) {
                STAY
            } else {
                Duration::ZERO
            },
        };
        self.web.say(&bytes, manners).await;
    }

    async fn answers(&mut self) {
        let request = Request::builder().method(Method::POST);
        let request = request.uri("/open/negotiate?negotiateVersion=1");
        let request = request.header("host", "localhost");
        let request = request.body(Body::empty()).expect("a request");
        let answer = self.web.ask(request).await;
        let answer = answer.expect("an answer");
        assert_eq!(answer.status, 200);
        let text = String::from_utf8_lossy(&answer.body);
        assert!(text.contains("connectionToken"), "{text}");
    }

    fn seeds() -> Vec<Vec<u8>> {
        seeds()
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let say = |value: serde_json::Value| format!("{value}\u{1e}").into_bytes();
    let call = |target: &str, arguments: serde_json::Value| {
        say(json!({"type": 1, "invocationId": "1", "target": target, "arguments": arguments}))
    };
    let json = mode::JSON | mode::FRAMED;
    let packed = mode::MESSAGE_PACK | mode::FRAMED;
    let stream = [
        say(
            json!({"type": 1, "invocationId": "2", "target": "Total", "arguments": [],
            "streamIds": ["3"]}),
        ),
        say(json!({"type": 2, "invocationId": "3", "item": 5})),
        say(json!({"type": 3, "invocationId": "3"})),
        say(json!({"type": 4, "invocationId": "4", "target": "Count", "arguments": [3]})),
        say(json!({"type": 5, "invocationId": "4"})),
        say(json!({"type": 6})),
        say(json!({"type": 7, "error": "bye", "allowReconnect": true})),
        say(json!({"type": 8, "sequenceId": 1})),
        say(json!({"type": 9, "sequenceId": 1})),
    ];
    let calls = [
        call("Add", json!([1, 2])),
        call("EchoText", json!(["ü\u{0}"])),
        call("Enter", json!(["group"])),
        call("TellAll", json!(["hello"])),
        call("Fail", json!([])),
        call("Go", json!([])),
    ];
    let asked = [
        call("Ask", json!([])),
        say(json!({"type": 3, "invocationId": "1", "result": "me"})),
    ];
    let pack = |target: &str, arguments: &[u8]| {
        write::invocation(Protocol::MessagePack, Some("1"), target, arguments).to_vec()
    };
    let packs = [
        pack("Add", &[0x92, 1, 2]),
        pack("EchoBytes", &[0x91, 0xc4, 2, 1, 2]),
        pack("TellAll", &[0x91, 0xa2, b'h', b'i']),
        vec![2, 0x91, 6],
    ];
    let mut framed = Vec::new();
    put_frame(
        &mut framed,
        TEXT,
        b"{\"protocol\":\"json\",\"version\":1}\x1e",
    );
    put_frame(&mut framed, 0x89, b"ping");
    put_frame(&mut framed, 0x01, b"{\"type\"");
    put_frame(&mut framed, 0x80, b":6}\x1e");
    put_frame(&mut framed, 0x88, &[3, 232]);
    let negotiate = "POST /open/negotiate?negotiateVersion=1 HTTP/1.1\r\nhost: localhost\r\n\
        content-length: 0\r\n\r\n";
    let polling = "GET /open?id=unknown HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let events = "GET /open?hub=open HTTP/1.1\r\nhost: localhost\r\n\
        accept: text/event-stream\r\n\r\n";
    let mut seeds = vec![
        records::with_mode(json, &records::join(&stream)),
        records::with_mode(json, &records::join(&calls)),
        records::with_mode(json | mode::STAYS, &records::join(&asked)),
        records::with_mode(json | mode::SLOW | mode::STAYS, &records::join(&calls)),
        records::with_mode(packed, &records::join(&packs)),
        records::with_mode(packed | mode::CHOPPED, &records::join(&packs)),
        records::with_mode(0, &framed),
        records::with_mode(mode::CHOPPED, &framed),
    ];
    for text in [negotiate, polling, events] {
        seeds.push(records::with_mode(mode::HTTP, text.as_bytes()));
    }
    seeds
}
