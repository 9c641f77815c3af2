//! A service for tests: it counts, tells others, and waits.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::clock::{Clock, SystemClock, Timestamp};
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::error::Code;
use steadfast_core::id::{Owner, TableId};
use steadfast_partition::{
    Address, CallId, Effect, Envelope, Message, NodeTransport, Options, Performer, Router, Runtime,
    Service, ServiceError, ServiceKind, Services, SingleNode, Space, Turn, TurnError, TurnOutcome,
    service_table,
};
use steadfast_storage::memory::MemoryEngine;
use steadfast_storage::{Engine, Store};
use tokio::sync::mpsc;

pub(crate) const COUNTER: ServiceKind = ServiceKind(7);
pub(crate) const COUNTS: TableId = service_table(COUNTER, 0);
/// What an instance was told, in order.
pub(crate) const TOLD: TableId = service_table(COUNTER, 1);
/// Who waits until an instance has been told so many things.
pub(crate) const WAITS: TableId = service_table(COUNTER, 2);
pub(crate) const PARTITIONS: u16 = 8;

/// Counts. A service keeps no state, but a test may: who waits, by instance.
#[derive(Default)]
pub(crate) struct Counter {
    calls: parking_lot::Mutex<Vec<(Bytes, u64, CallId)>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Get,
    Add(u64),
    /// Adds and then says no.
    AddAndRefuse(u64),
    /// Counts up and tells the count to others.
    Tell(Vec<String>),
    TellNonsense(String),
    Told(u64),
    /// Answers what was told, as soon as it is that many.
    Until(u64),
    Schedule(Timestamp, u64),
    Cancel(Timestamp, u64),
    Open(String),
    Close(String),
    /// Writes a row of so many bytes under a number.
    Put(u64, u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Say {
    Now(u64),
    Told(Vec<u64>),
}

pub(crate) fn counter(key: &str) -> Address {
    Address::new(COUNTER, "counter", key.to_string())
}

pub(crate) fn envelope(key: &str, ask: &Ask) -> Envelope {
    Envelope::new(counter(key), ask.encode())
}

impl Service for Counter {
    type Command = Ask;
    type Response = Say;

    fn kind(&self) -> ServiceKind {
        COUNTER
    }

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        to: &Address,
        ask: &Ask,
    ) -> Result<TurnOutcome<Say>, TurnError> {
        let key = &to.key;
        let read = |value: Option<Bytes>| {
            value.map_or(0, |v| u64::from_be_bytes(v[..].try_into().unwrap()))
        };
        match ask {
            Ask::Get => Ok(TurnOutcome::Now(Say::Now(read(turn.get(COUNTS, key)?)))),
            Ask::Add(more) | Ask::AddAndRefuse(more) => {
                let now = read(turn.get(COUNTS, key)?) + more;
                turn.put(COUNTS, key, now.to_be_bytes().to_vec());
                if matches!(ask, Ask::AddAndRefuse(_)) {
                    return Err(ServiceError::new(Code("STF-9999"), "no").into());
                }
                Ok(TurnOutcome::Now(Say::Now(now)))
            }
            Ask::Tell(others) => {
                let now = read(turn.get(COUNTS, key)?) + 1;
                turn.put(COUNTS, key, now.to_be_bytes().to_vec());
                for other in others {
                    turn.send(envelope(other, &Ask::Told(now)));
                }
                Ok(TurnOutcome::Now(Say::Now(now)))
            }
            Ask::TellNonsense(other) => {
                turn.send(Envelope::new(counter(other), &b"\xff"[..]));
                Ok(TurnOutcome::Now(Say::Now(0)))
            }
            Ask::Told(what) => {
                let mut told = list(turn.get(TOLD, key)?);
                told.push(*what);
                turn.put(TOLD, key, encode_list(&told));
                self.wake(turn, key, &told);
                Ok(TurnOutcome::Now(Say::Now(0)))
            }
            Ask::Until(count) => {
                let told = list(turn.get(TOLD, key)?);
                if told.len() as u64 >= *count {
                    return Ok(TurnOutcome::Now(Say::Told(told)));
                }
                let wait = turn.call().map(|call| (key.clone(), *count, call));
                self.calls.lock().extend(wait);
                Ok(TurnOutcome::Later)
            }
            Ask::Schedule(due, tag) => {
                turn.schedule(*due, *tag, Ask::Told(*tag).encode());
                Ok(TurnOutcome::Now(Say::Now(0)))
            }
            Ask::Cancel(due, tag) => {
                turn.cancel(*due, *tag);
                Ok(TurnOutcome::Now(Say::Now(0)))
            }
            Ask::Open(id) => {
                turn.open_work(id.clone(), "body");
                Ok(TurnOutcome::Now(Say::Now(0)))
            }
            Ask::Close(id) => {
                turn.close_work(id.as_bytes());
                Ok(TurnOutcome::Now(Say::Now(0)))
            }
            Ask::Put(number, bytes) => {
                turn.put(COUNTS, &number.to_be_bytes(), vec![7; *bytes as usize]);
                Ok(TurnOutcome::Now(Say::Now(0)))
            }
        }
    }
}

impl Counter {
    fn wake(&self, turn: &mut Turn<'_>, key: &Bytes, told: &[u64]) {
        for (waits, count, call) in &*self.calls.lock() {
            if waits == key && told.len() as u64 >= *count {
                turn.answer(*call, Say::Told(told.to_vec()));
            }
        }
    }
}

fn list(value: Option<Bytes>) -> Vec<u64> {
    let value = value.unwrap_or_default();
    value
        .chunks(8)
        .map(|n| u64::from_be_bytes(n.try_into().unwrap()))
        .collect()
}

fn encode_list(list: &[u64]) -> Vec<u8> {
    list.iter().flat_map(|n| n.to_be_bytes()).collect()
}

impl Message for Ask {
    fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        let mut numbers = |tag: u8, numbers: &[u64]| {
            out.push(tag);
            numbers.iter().for_each(|n| put_varint(&mut out, *n));
        };
        match self {
            Self::Get => numbers(0, &[]),
            Self::Add(n) => numbers(1, &[*n]),
            Self::AddAndRefuse(n) => numbers(2, &[*n]),
            Self::Tell(others) => {
                numbers(3, &[others.len() as u64]);
                others
                    .iter()
                    .for_each(|o| put_bytes(&mut out, o.as_bytes()));
            }
            Self::TellNonsense(other) => {
                numbers(4, &[]);
                put_bytes(&mut out, other.as_bytes());
            }
            Self::Told(n) => numbers(5, &[*n]),
            Self::Until(n) => numbers(6, &[*n]),
            Self::Schedule(due, tag) => numbers(7, &[due.0 as u64, *tag]),
            Self::Cancel(due, tag) => numbers(8, &[due.0 as u64, *tag]),
            Self::Open(id) => {
                numbers(9, &[]);
                put_bytes(&mut out, id.as_bytes());
            }
            Self::Close(id) => {
                numbers(10, &[]);
                put_bytes(&mut out, id.as_bytes());
            }
            Self::Put(n, bytes) => numbers(11, &[*n, *bytes]),
        }
        out.into()
    }

    fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes.clone());
        let text = |reader: &mut ByteReader| -> Result<String, DecodeError> {
            String::from_utf8(reader.bytes()?.to_vec()).map_err(|_| DecodeError)
        };
        Ok(match reader.byte()? {
            0 => Self::Get,
            1 => Self::Add(reader.varint()?),
            2 => Self::AddAndRefuse(reader.varint()?),
            3 => {
                let count = reader.varint()?;
                Self::Tell(
                    (0..count)
                        .map(|_| text(&mut reader))
                        .collect::<Result<_, _>>()?,
                )
            }
            4 => Self::TellNonsense(text(&mut reader)?),
            5 => Self::Told(reader.varint()?),
            6 => Self::Until(reader.varint()?),
            7 => Self::Schedule(Timestamp(reader.varint()? as i64), reader.varint()?),
            8 => Self::Cancel(Timestamp(reader.varint()? as i64), reader.varint()?),
            9 => Self::Open(text(&mut reader)?),
            10 => Self::Close(text(&mut reader)?),
            11 => Self::Put(reader.varint()?, reader.varint()?),
            _ => return Err(DecodeError),
        })
    }
}

impl Message for Say {
    fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        match self {
            Self::Now(n) => {
                out.push(0);
                put_varint(&mut out, *n);
            }
            Self::Told(told) => {
                out.push(1);
                out.extend(encode_list(told));
            }
        }
        out.into()
    }

    fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes.clone());
        Ok(match reader.byte()? {
            0 => Self::Now(reader.varint()?),
            1 => Self::Told(list(Some(bytes.slice(1..)))),
            _ => return Err(DecodeError),
        })
    }
}

pub(crate) fn space(partitions: u16) -> Space {
    Space {
        number: 0,
        name: "main".into(),
        partitions,
        incarnation: 1,
    }
}

/// A node for tests, on an engine that outlives it.
pub(crate) struct Setup {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The bytes at which the log is flushed, and at which it is full.
    pub(crate) log: Option<(u64, u64)>,
}

pub(crate) struct Node {
    pub(crate) runtime: Runtime,
    pub(crate) store: Arc<Store>,
    pub(crate) effects: mpsc::UnboundedReceiver<Effect>,
}

struct Collect(mpsc::UnboundedSender<Effect>);

impl Performer for Collect {
    fn perform(&self, effect: Effect) {
        let _ = self.0.send(effect);
    }
}

impl Setup {
    pub(crate) fn new() -> Self {
        Self::on(Arc::new(MemoryEngine::new()))
    }

    pub(crate) fn on(engine: Arc<dyn Engine>) -> Self {
        let clock = Arc::new(SystemClock::new());
        let log = None;
        Self { engine, clock, log }
    }

    pub(crate) async fn start(&self) -> Node {
        let node = self.start_with(Arc::new(SingleNode)).await;
        node.runtime.serve_all().await.unwrap();
        node
    }

    pub(crate) async fn start_with(&self, beyond: Arc<dyn NodeTransport>) -> Node {
        let owner = Owner {
            node: 1,
            incarnation: fastrand::u128(..),
        };
        let mut options = steadfast_storage::Options::new(owner);
        options.clock = Arc::clone(&self.clock);
        if let Some(log) = self.log {
            (options.log_target, options.log_limit) = log;
        }
        let store = Arc::new(Store::start(Arc::clone(&self.engine), options));
        let (effects_out, effects) = mpsc::unbounded_channel();
        let options = Options {
            services: Services::new().with(Counter::default()),
            performer: Arc::new(Collect(effects_out)),
            router: Arc::new(Router::new(beyond)),
            clock: Arc::clone(&self.clock),
        };
        let space = Space::open(&*self.engine, space(PARTITIONS)).await.unwrap();
        let runtime = Runtime::new(Arc::clone(&store), space, options);
        Node {
            runtime,
            store,
            effects,
        }
    }
}
