//! What a test says to the server, and what it hears.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use steadfast_client::amqp::{AmqpClient, ReaderLinkOptions};
use steadfast_wire::amqp::delivery::Outcome;
use steadfast_wire::amqp::link;
use steadfast_wire::amqp::message::{MessageSections, SectionKind};
use steadfast_wire::amqp::performative::{self, Performative};
use steadfast_wire::amqp::{event, sasl};
use steadfast_wire::sas;
use tokio::net::TcpStream;

use super::{KEY, KEY_NAME};

pub(crate) type Peer = AmqpClient<TcpStream>;

pub(crate) const ANONYMOUS: sasl::SaslInit<'static> = sasl::SaslInit {
    mechanism: "ANONYMOUS",
    response: b"",
};

/// Whether the client of these tests pipelines every frame that it may: the same tests
/// are compiled for both ways.
pub(crate) const PIPELINES: bool = {
    let (name, other) = (env!("CARGO_CRATE_NAME").as_bytes(), b"amqp_pipelined");
    let mut at = 0;
    while at < name.len() && at < other.len() && name[at] == other[at] {
        at += 1;
    }
    at == other.len() && at == name.len()
};

/// A frame, as far as tests look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Attach {
        handle: u32,
        has_source: bool,
        has_target: bool,
        rcv_settle: Option<u8>,
        max_message: Option<u64>,
    },
    Detach {
        handle: u32,
        condition: String,
        words: String,
    },
    Flow {
        handle: Option<u32>,
        count: Option<u32>,
        credit: Option<u32>,
        drain: bool,
    },
    Transfer(Bytes),
    Accepted(u32, u32),
    /// With its condition and description.
    Rejected(u32, String, String),
    Close(String),
    Other,
}

impl Heard {
    pub(crate) fn is_attach(&self) -> bool {
        matches!(self, Self::Attach { .. })
    }

    /// The condition of a detach.
    pub(crate) fn condition(&self) -> &str {
        match self {
            Self::Detach { condition, .. } => condition,
            other => panic!("a detach, not {other:?}"),
        }
    }
}

/// Long from now.
pub(crate) const LATER: i64 = 4_000_000_000;

pub(crate) fn token(hub: &str) -> (String, String) {
    let audience = format!("sb://localhost/{hub}");
    let token = sas::token(&audience, LATER, KEY_NAME, KEY);
    (audience, token)
}

/// A connection with a token for an event hub, and a session on channel 1.
pub(crate) async fn connect(address: SocketAddr, hub: &str) -> Peer {
    let mut peer = connect_bare(address).await;
    let (audience, token) = token(hub);
    assert_eq!(peer.put_token(0, &audience, &token).await.unwrap(), 202);
    peer.begin(1).await.unwrap();
    peer
}

/// A connection without a token.
pub(crate) async fn connect_bare(address: SocketAddr) -> Peer {
    let stream = TcpStream::connect(address).await.unwrap();
    if PIPELINES {
        AmqpClient::pipelined(stream, &ANONYMOUS)
    } else {
        AmqpClient::connect(stream, &ANONYMOUS).await.unwrap()
    }
}

/// Long enough for every answer: a test fails rather than waits.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn hear(peer: &mut Peer) -> Heard {
    let frame = tokio::time::timeout(PATIENCE, peer.next()).await;
    let frame = frame.expect("an answer in time").unwrap();
    let (performative, length) = performative::read(&frame.body).unwrap();
    match performative {
        Performative::Attach(attach) => Heard::Attach {
            handle: attach.handle,
            has_source: !attach.source.is_null(),
            has_target: !attach.target.is_null(),
            rcv_settle: attach.rcv_settle,
            max_message: attach.max_message,
        },
        Performative::Detach(link::Detach {
            handle,
            error: problem,
            ..
        }) => Heard::Detach {
            handle,
            condition: problem.map_or(String::new(), |problem| problem.condition.to_owned()),
            words: problem.map_or(String::new(), |problem| problem.description.to_owned()),
        },
        Performative::Flow(flow) => Heard::Flow {
            handle: flow.handle,
            count: flow.delivery_count,
            credit: flow.credit,
            drain: flow.drain,
        },
        Performative::Transfer(_) => Heard::Transfer(frame.body.slice(length..)),
        Performative::Disposition(told) => match told.outcome {
            Some(Outcome::Accepted) => Heard::Accepted(told.first, told.last.unwrap()),
            Some(Outcome::Rejected(problem)) => {
                let problem = problem.unwrap();
                let (condition, words) = (problem.condition, problem.description);
                Heard::Rejected(told.first, condition.to_owned(), words.to_owned())
            }
            _ => Heard::Other,
        },
        Performative::Close(close) => Heard::Close(
            close
                .error
                .map_or(String::new(), |problem| problem.condition.to_owned()),
        ),
        _ => Heard::Other,
    }
}

/// Attaches a sender as handle `handle`, and waits for its credit.
pub(crate) async fn open_sender(peer: &mut Peer, handle: u32, address: &str) {
    peer.attach_sender(1, handle, &format!("sender-{handle}"), address);
    peer.flush().await.unwrap();
    assert!(hear(peer).await.is_attach());
    assert!(matches!(hear(peer).await, Heard::Flow { .. }));
}

/// Attaches a reader as handle `handle`; what is heard next is its answer.
pub(crate) async fn ask_to_read(
    peer: &mut Peer,
    handle: u32,
    address: &str,
    reading: &ReaderLinkOptions<'_>,
) -> Heard {
    peer.attach_reader(1, handle, &format!("reader-{handle}"), address, reading);
    peer.flush().await.unwrap();
    let heard = hear(peer).await;
    assert!(heard.is_attach(), "{heard:?}");
    heard
}

/// Attaches a reader and reads so many events. A pipelining client grants its credit
/// together with the attach.
pub(crate) async fn read_from(
    peer: &mut Peer,
    handle: u32,
    address: &str,
    reading: &ReaderLinkOptions<'_>,
    count: u32,
) -> Vec<(i64, Vec<u8>)> {
    if !PIPELINES {
        ask_to_read(peer, handle, address, reading).await;
        return read(peer, handle, 0, count).await;
    }
    peer.attach_reader(1, handle, &format!("reader-{handle}"), address, reading);
    peer.grant(1, handle, 0, count, 0);
    peer.flush().await.unwrap();
    assert!(hear(peer).await.is_attach());
    events(peer, count).await
}

/// Where a partition of an event hub is read.
pub(crate) fn place(hub: &str, partition: u32) -> String {
    format!("{hub}/ConsumerGroups/$Default/Partitions/{partition}")
}

/// Sends events, each in a message of its own, and waits until they are accepted.
pub(crate) async fn send(peer: &mut Peer, handle: u32, first: u32, bodies: &[&[u8]]) {
    for (index, body) in bodies.iter().enumerate() {
        let mut message = Vec::new();
        steadfast_client::amqp::write_event(&mut message, body);
        peer.send(1, handle, first + index as u32, 0, &message);
    }
    peer.flush().await.unwrap();
    let mut left = bodies.len() as u32;
    while left > 0 {
        match hear(peer).await {
            Heard::Accepted(first, last) => left -= last - first + 1,
            Heard::Flow { .. } => {}
            other => panic!("accepted, not {other:?}"),
        }
    }
}

/// Grants credit and reads so many events: sequence number and body.
pub(crate) async fn read(
    peer: &mut Peer,
    handle: u32,
    seen: u32,
    count: u32,
) -> Vec<(i64, Vec<u8>)> {
    peer.grant(1, handle, seen, count, seen);
    peer.flush().await.unwrap();
    events(peer, count).await
}

/// Waits for so many events.
async fn events(peer: &mut Peer, count: u32) -> Vec<(i64, Vec<u8>)> {
    let mut events = Vec::new();
    while events.len() < count as usize {
        match hear(peer).await {
            Heard::Transfer(message) => events.push(opened(&message)),
            other => panic!("an event, not {other:?}"),
        }
    }
    events
}

/// Sequence number and body of a delivered event.
pub(crate) fn opened(message: &[u8]) -> (i64, Vec<u8>) {
    let stamp = event::read_stamp(message).unwrap().unwrap();
    let mut sections = MessageSections::new(message);
    while let Some(section) = sections.next().unwrap() {
        if section.part == SectionKind::Data {
            return (stamp.sequence, section.data().unwrap().to_vec());
        }
    }
    panic!("no body");
}
