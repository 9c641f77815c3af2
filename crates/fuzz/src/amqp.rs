//! Whole AMQP connections, from the greeting on.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::BytesMut;
use futures_util::FutureExt as _;
use steadfast_client::amqp::{AmqpClient, ReaderLinkOptions, write_event, write_request};
use steadfast_core::clock::Clock;
use steadfast_core::limits;
use steadfast_eventhubs::amqp::{Context, WEBSOCKETS, routes, serve};
use steadfast_events::{EventHubDefinition, EventHubs};
use steadfast_net::access::{AccessControl, Key, KeyRing, Secret};
use steadfast_partition::{NoopPerformer, Router, Services, SingleNode};
use steadfast_wire::amqp::code::descriptor;
use steadfast_wire::amqp::frame::{self, Kind, ProtocolHeader};
use steadfast_wire::amqp::performative::{self, Performative};
use steadfast_wire::amqp::{sasl, write};
use steadfast_wire::sas;
use tokio::io::{AsyncReadExt as _, DuplexStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::{ClientBehavior, MemoryPort, converse};
use crate::http::Web;
use crate::node::MemoryNode;
use crate::records;
use crate::session::{MemoryBound, Session};
use crate::time::{PausedClock, due};
use crate::websocket::{BINARY, put_frame, upgrade};

pub(crate) const KEY_NAME: &str = "RootManageSharedAccessKey";
pub(crate) const KEY: &str = "SAS_KEY_VALUE";

/// A key that signs requests for blobs.
pub(crate) const ACCOUNT: &str = "account";
pub(crate) const ACCOUNT_KEY: &str = "c2VjcmV0";

/// The event hub that exists.
pub(crate) const HUB: &str = "houses";

/// Long after every execution.
pub(crate) const LATER: i64 = 4_000_000_000;

const ANONYMOUS: sasl::SaslInit<'static> = sasl::SaslInit {
    mechanism: "ANONYMOUS",
    response: b"",
};

/// The first byte of an input selects what is sent around the rest.
mod mode {
    /// The greeting and the open are sent for the input.
    pub(super) const GREETED: u8 = 1;
    /// So are a valid token and the begin of a session on channel 1.
    pub(super) const PROVEN: u8 = 2;
    /// The rest consists of records: kind and channel in one byte, then the body of a
    /// frame, whose header is written for it.
    pub(super) const FRAMED: u8 = 4;
    /// The client stays until its idle time-out.
    pub(super) const STAYS: u8 = 8;
    /// The bytes come in small pieces.
    pub(super) const CHOPPED: u8 = 16;
    /// The client does not read.
    pub(super) const SLOW: u8 = 32;
    /// The connection is a WebSocket, with a message for all, or for each small piece.
    pub(super) const SOCKET: u8 = 64;
    /// The rest is the bytes of a WebSocket client, frames included.
    pub(super) const RAW_SOCKET: u8 = 128;
}

/// The WebSocket subprotocol of AMQP clients.
const SUBPROTOCOL: &str = "sec-websocket-protocol: AMQPWSB10\r\n";

/// The bytes of a WebSocket message of a chopped input.
const PIECE_BYTES: usize = 61;

/// The bit of a record that makes it a frame of SASL.
const SASL_BIT: u8 = 0x80;

pub(crate) struct Amqp {
    context: Arc<Context>,
    port: MemoryPort,
    web: Web,
    _node: MemoryNode,
}

impl Session for Amqp {
    const NAME: &'static str = "amqp";

    // A connection may hold its reply buffers and received messages for a while.
    const BOUND: MemoryBound = MemoryBound {
        least: 256 * 1024,
        per_byte: 64,
    };

    async fn start() -> Self {
        let (context, node) = start().await;
        let sockets = routes(Arc::clone(&context), CancellationToken::new());
        let clock = Arc::clone(&context.clock);
        Self {
            context,
            port: MemoryPort::new(),
            web: Web::new(sockets, &clock),
            _node: node,
        }
    }

    async fn take(&mut self, input: &[u8]) {
        let Some((mode, rest)) = input.split_first() else {
            return;
        };
        let has = |bit: u8| mode & bit != 0;
        let is_socket = has(mode::SOCKET) || has(mode::RAW_SOCKET);
        let mut bytes = match (has(mode::PROVEN), has(mode::GREETED)) {
            (true, _) => PROVEN.clone(),
            (false, true) => GREETED.clone(),
            (false, false) => Vec::new(),
        };
        if has(mode::FRAMED) {
            write_frames(&mut bytes, rest);
        } else if !has(mode::RAW_SOCKET) {
            bytes.extend_from_slice(rest);
        }
        let manners = ClientBehavior {
            is_chopped: has(mode::CHOPPED),
            is_slow: has(mode::SLOW),
            stays: if has(mode::STAYS) {
                2 * limits::AMQP_IDLE
            } else {
                Duration::ZERO
            },
        };
        if is_socket {
            let piece = if has(mode::CHOPPED) {
                PIECE_BYTES
            } else {
                bytes.len().max(1)
            };
            let mut sent = upgrade(WEBSOCKETS[0], SUBPROTOCOL);
            for piece in bytes.chunks(piece) {
                put_frame(&mut sent, BINARY, piece);
            }
            if has(mode::RAW_SOCKET) && !has(mode::FRAMED) {
                sent.extend_from_slice(rest);
            }
            return self.web.say(&sent, manners).await;
        }
        let (client, serving) = self.open();
        converse(client, serving, &bytes, manners).await;
    }

    async fn answers(&mut self) {
        let (stream, _serving) = self.open();
        due("an answer", async {
            let client = AmqpClient::connect(stream, &ANONYMOUS).await;
            let mut client = client.expect("a client is greeted");
            let (audience, token) = token();
            let status = client.put_token(0, &audience, &token).await;
            assert_eq!(status.expect("a reply"), 202);
            client.begin(1).await.expect("a session");
            client.attach_sender(1, 0, "sender", &format!("{HUB}/Partitions/0"));
            client.send(1, 0, 0, 0, &event(b"good"));
            client.flush().await.expect("the server reads");
            loop {
                let frame = client.next().await.expect("a frame");
                if let Ok((Performative::Disposition(_), _)) = performative::read(&frame.body) {
                    return;
                }
            }
        })
        .await;
    }

    fn seeds() -> Vec<Vec<u8>> {
        seeds()
    }
}

impl Amqp {
    fn open(&self) -> (DuplexStream, tokio::task::JoinHandle<()>) {
        let context = Arc::clone(&self.context);
        self.port
            .open(|stream, _| serve(stream, context, CancellationToken::new()))
    }
}

/// Starts a server with an event hub.
pub(crate) async fn start() -> (Arc<Context>, MemoryNode) {
    let clock: Arc<dyn Clock> = Arc::new(PausedClock::new());
    let services = steadfast_events::register(Services::new());
    let router = Arc::new(Router::new(Arc::new(SingleNode)));
    let node = MemoryNode::start(
        services,
        Arc::new(NoopPerformer),
        router,
        Arc::clone(&clock),
    )
    .await;
    let hubs = EventHubs::new(&node.runtime);
    let made = hubs.create(EventHubDefinition::new(HUB, 2)).await;
    made.expect("the hub is new");
    let context = Context {
        hubs,
        access: Some(Arc::new(AccessControl::new(ring(), Arc::clone(&clock)))),
        clock,
        container: "steadfast-fuzz".to_owned(),
        idle: limits::AMQP_IDLE,
        served: TaskTracker::new(),
    };
    (Arc::new(context), node)
}

fn ring() -> KeyRing {
    let mut ring = KeyRing::new();
    for (name, secret) in [(KEY_NAME, KEY), (ACCOUNT, ACCOUNT_KEY)] {
        ring.add(Key {
            name: name.to_owned(),
            grants: vec!["manage *".parse().expect("a grant")],
            primary: Secret::new(secret),
            secondary: None,
        });
    }
    ring
}

fn token() -> (String, String) {
    let audience = format!("sb://localhost/{HUB}");
    let token = sas::token(&audience, LATER, KEY_NAME, KEY);
    (audience, token)
}

/// Writes records as frames.
fn write_frames(out: &mut Vec<u8>, records: &[u8]) {
    for record in records::split(records) {
        let Some((&first, body)) = record.split_first() else {
            continue;
        };
        let kind = match first & SASL_BIT {
            0 => Kind::Amqp,
            _ => Kind::Sasl,
        };
        let channel = u16::from(first & !SASL_BIT);
        frame::put(out, kind, channel, |out| out.extend_from_slice(body));
    }
}

/// The records of the frames that a client sends.
fn read_frames(bytes: &[u8]) -> Vec<u8> {
    let mut rest = BytesMut::from(bytes);
    let mut records = Vec::new();
    loop {
        while let Ok(Some(_)) = frame::take_protocol(&mut rest) {}
        let Ok(Some(frame)) = frame::take(&mut rest) else {
            break;
        };
        let first = match frame.kind {
            Kind::Amqp => frame.channel as u8,
            Kind::Sasl => SASL_BIT,
        };
        records.push([&[first], &frame.body[..]].concat());
    }
    records::join(&records)
}

/// What a pipelining client sends: greeting, open, and what `fill` appends.
fn sent(fill: impl FnOnce(&mut AmqpClient<DuplexStream>)) -> Vec<u8> {
    let sending = async {
        let (stream, mut other) = tokio::io::duplex(1 << 20);
        let mut client = AmqpClient::pipelined(stream, &ANONYMOUS);
        fill(&mut client);
        client.send_all().await?;
        drop(client);
        let mut bytes = Vec::new();
        other.read_to_end(&mut bytes).await?;
        Ok::<_, std::io::Error>(bytes)
    };
    let sent = sending.now_or_never().expect("the pipe has room");
    sent.expect("the pipe is open")
}

static GREETED: LazyLock<Vec<u8>> = LazyLock::new(|| sent(|_| {}));
static PROVEN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    sent(|client| {
        put_token(client, KEY);
        begin(client, 1);
    })
});

fn begin(client: &mut AmqpClient<DuplexStream>, channel: u16) {
    let begun = client.begin(channel).now_or_never();
    let begun = begun.expect("a pipelining client does not wait");
    begun.expect("nothing is sent");
}

/// Appends the frames that put a token signed with this key.
fn put_token(client: &mut AmqpClient<DuplexStream>, key: &str) {
    let audience = format!("sb://localhost/{HUB}");
    let token = sas::token(&audience, LATER, KEY_NAME, key);
    let wishes = [
        ("operation", "put-token"),
        ("type", "servicebus.windows.net:sastoken"),
        ("name", audience.as_str()),
    ];
    request(client, 0, "$cbs", &wishes, Some(&token));
}

/// Appends a request to a node of the server.
fn request(
    client: &mut AmqpClient<DuplexStream>,
    channel: u16,
    node: &str,
    wishes: &[(&str, &str)],
    body: Option<&str>,
) {
    begin(client, channel);
    client.attach_sender(channel, 0, "out", node);
    client.attach_reader(channel, 1, "in", node, &ReaderLinkOptions::default());
    client.grant(channel, 1, 0, 10, 0);
    let mut message = Vec::new();
    write_request(&mut message, wishes);
    if let Some(body) = body {
        write::descriptor(&mut message, descriptor::VALUE);
        write::string(&mut message, body);
    }
    client.send(channel, 0, 0, 0, &message);
}

fn event(body: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    write_event(&mut message, body);
    message
}

fn seeds() -> Vec<Vec<u8>> {
    let greeted = mode::GREETED | mode::FRAMED;
    let proven = mode::PROVEN | mode::FRAMED;
    let ask = |kind: &str, name: &str| {
        let wishes = [
            ("operation", "READ"),
            ("type", kind),
            ("name", HUB),
            ("partition", name),
        ];
        sent(|client| request(client, 2, "$management", &wishes, None))
    };
    let sending = |address: String| {
        sent(|client| {
            client.attach_sender(1, 0, "sender", &address);
            client.send(1, 0, 0, 0, &event(b"one"));
            let batch = [&event(b"two")[..], &event(b"three")[..]].concat();
            client.send(1, 0, 1, 0x8001_3700, &batch);
        })
    };
    let reading = |reading: ReaderLinkOptions<'_>| {
        sent(|client| {
            client.attach_sender(1, 0, "sender", &format!("{HUB}/Partitions/1"));
            client.send(1, 0, 0, 0, &event(b"one"));
            let address = format!("{HUB}/ConsumerGroups/$Default/Partitions/1");
            client.attach_reader(1, 1, "reader", &address, &reading);
            client.grant(1, 1, 0, 10, 0);
        })
    };
    let from_offset = ReaderLinkOptions {
        start: Some("amqp.annotation.x-opt-offset > '-1'"),
        epoch: Some(3),
        desired: Some("com.microsoft:enable-receiver-runtime-metric"),
    };
    let from_time = ReaderLinkOptions {
        start: Some("amqp.annotation.x-opt-enqueued-time > '1600000000000'"),
        ..ReaderLinkOptions::default()
    };
    let whole = sent(|client| put_token(client, KEY));
    let bare = [&ProtocolHeader::Amqp.header()[..], &whole[..16]].concat();
    let mut seeds = vec![
        records::with_mode(0, &whole),
        records::with_mode(0, &bare),
        records::with_mode(mode::CHOPPED, &whole),
        records::with_mode(greeted, &own(&sent(|client| put_token(client, KEY)))),
        records::with_mode(greeted, &own(&sent(|client| put_token(client, "wrong")))),
    ];
    let proven_seeds = [
        ask("com.microsoft:eventhub", ""),
        ask("com.microsoft:partition", "1"),
        sending(HUB.to_owned()),
        sending(format!("{HUB}/Partitions/1")),
        reading(from_offset),
        reading(from_time),
        reading(ReaderLinkOptions::default()),
    ];
    for seed in &proven_seeds {
        seeds.push(records::with_mode(proven, &own(seed)));
    }
    let last = own(&proven_seeds[4]);
    for more in [
        mode::STAYS,
        mode::SLOW | mode::STAYS,
        mode::CHOPPED,
        mode::SOCKET,
        mode::SOCKET | mode::CHOPPED,
        mode::SOCKET | mode::SLOW | mode::STAYS,
    ] {
        seeds.push(records::with_mode(proven | more, &last));
    }
    let mut framed = Vec::new();
    put_frame(&mut framed, BINARY, &whole[..20]);
    put_frame(&mut framed, 0x89, b"ping");
    put_frame(&mut framed, 0x02, &whole[20..40]);
    put_frame(&mut framed, 0x80, &whole[40..]);
    put_frame(&mut framed, 0x88, &[3, 232]);
    seeds.push(records::with_mode(mode::RAW_SOCKET, &framed));
    seeds.push(records::with_mode(
        mode::RAW_SOCKET | mode::GREETED,
        &framed,
    ));
    seeds
}

/// The records of a client without its greeting and its open, which the mode adds.
fn own(bytes: &[u8]) -> Vec<u8> {
    let all = read_frames(bytes);
    let all: Vec<_> = records::split(&all).skip(2).map(<[u8]>::to_vec).collect();
    records::join(&all)
}
