//! The simulated service: rows tell what happened.
//!
//! An instance remembers which operations it had, what it sent to whom, what it
//! got from whom, which timers it set, took back and saw, and which work is open.
//! Afterwards the rows of all instances must fit together.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::id::TableId;
use steadfast_partition::{
    Address, Envelope, Message, Service, ServiceKind, Turn, TurnError, TurnOutcome, service_table,
};

pub(crate) const STORY: ServiceKind = ServiceKind(9);
pub(crate) const STATE: TableId = service_table(STORY, 0);
pub(crate) const INSTANCES: u64 = 10;

/// Stands in front of an operation's number wherever it is stored.
const MARK: &[u8] = b"<op>";

pub(crate) struct Story;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Happen {
    /// A client calls.
    Op {
        op: u64,
        targets: Vec<u64>,
        timer: Option<Timestamp>,
        cancel: bool,
        work: bool,
    },
    /// A message of another instance.
    Got { source: u64, seq: u64, op: u64 },
    /// A timer.
    Fired { op: u64 },
    /// The end of work.
    Worked { op: u64 },
}

/// An instance's row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) ops: Vec<u64>,
    pub(crate) sent: BTreeMap<u64, u64>,
    pub(crate) got: BTreeMap<u64, u64>,
    /// Timers that are set, with their due time.
    pub(crate) timers: BTreeMap<u64, i64>,
    pub(crate) cancelled: BTreeSet<u64>,
    pub(crate) fired: BTreeSet<u64>,
    pub(crate) work: BTreeSet<u64>,
    /// What must not have happened. Kept in the row, because a turn that is never
    /// committed may see anything: an owner that has lost its partition reads rows
    /// of its successor.
    pub(crate) faults: Vec<String>,
}

pub(crate) fn instance(number: u64) -> Address {
    Address::new(STORY, "story", number.to_be_bytes().to_vec())
}

impl Service for Story {
    type Command = Happen;
    type Response = ();

    fn kind(&self) -> ServiceKind {
        STORY
    }

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        to: &Address,
        what: &Happen,
    ) -> Result<TurnOutcome<()>, TurnError> {
        let me = u64::from_be_bytes(to.key[..].try_into().unwrap());
        let mut state = match turn.get(STATE, &to.key)? {
            Some(row) => State::decode(row).unwrap(),
            None => State::default(),
        };
        match what {
            Happen::Op {
                op,
                targets,
                timer,
                cancel,
                work,
            } => {
                state.ops.push(*op);
                for target in targets {
                    let seq = state.sent.entry(*target).or_default();
                    *seq += 1;
                    let (source, seq, op) = (me, *seq, *op);
                    let got = Happen::Got { source, seq, op };
                    turn.send(Envelope::new(instance(*target), got.encode()));
                }
                if *cancel && let Some((set, due)) = state.timers.pop_first() {
                    turn.cancel(Timestamp(due), set);
                    state.cancelled.insert(set);
                }
                if let Some(due) = timer {
                    turn.schedule(*due, *op, Happen::Fired { op: *op }.encode());
                    state.timers.insert(*op, due.0);
                }
                if *work {
                    turn.open_work(op.to_be_bytes().to_vec(), op.to_be_bytes().to_vec());
                    turn.push(op.to_be_bytes().to_vec());
                    state.work.insert(*op);
                }
            }
            Happen::Got { source, seq, .. } => {
                let last = state.got.entry(*source).or_default();
                if *seq != *last + 1 {
                    let what = format!("{me} got {seq} of {source} after {last}");
                    state.faults.push(what);
                }
                *last = *seq;
            }
            Happen::Fired { op } => fire(turn, me, *op, &mut state),
            Happen::Worked { op } => {
                turn.close_work(&op.to_be_bytes());
                state.work.remove(op);
            }
        }
        turn.put(STATE, &to.key, state.encode());
        Ok(TurnOutcome::Now(()))
    }
}

fn fire(turn: &Turn<'_>, me: u64, op: u64, state: &mut State) {
    match state.timers.remove(&op) {
        Some(due) if turn.time().0 < due => {
            state.faults.push(format!("timer {op} of {me} fired early"));
        }
        Some(_) => {}
        None => {
            let what = format!("timer {op} of {me} fired, but is not set: {state:?}");
            state.faults.push(what);
        }
    }
    state.fired.insert(op);
}

/// The operations that a commit holds.
pub(crate) fn ops_in(body: &[u8]) -> Vec<u64> {
    let mut found = Vec::new();
    let mut rest = body;
    while rest.len() >= MARK.len() + 8 {
        match rest.strip_prefix(MARK).and_then(|rest| rest.first_chunk()) {
            Some(op) => {
                found.push(u64::from_be_bytes(*op));
                rest = &rest[MARK.len() + 8..];
            }
            None => rest = &rest[1..],
        }
    }
    found
}

impl State {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.ops.len() as u64);
        for op in &self.ops {
            out.extend_from_slice(MARK);
            out.extend_from_slice(&op.to_be_bytes());
        }
        for map in [&self.sent, &self.got] {
            put_varint(&mut out, map.len() as u64);
            for (key, value) in map {
                put_varint(&mut out, *key);
                put_varint(&mut out, *value);
            }
        }
        put_varint(&mut out, self.timers.len() as u64);
        for (op, due) in &self.timers {
            put_varint(&mut out, *op);
            put_varint(&mut out, *due as u64);
        }
        for set in [&self.cancelled, &self.fired, &self.work] {
            put_varint(&mut out, set.len() as u64);
            set.iter().for_each(|op| put_varint(&mut out, *op));
        }
        put_varint(&mut out, self.faults.len() as u64);
        self.faults
            .iter()
            .for_each(|fault| put_bytes(&mut out, fault.as_bytes()));
        out
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        let mut state = Self::default();
        for _ in 0..reader.varint()? {
            reader.take(MARK.len())?;
            let op = reader.take(8)?;
            state
                .ops
                .push(u64::from_be_bytes(op[..].try_into().unwrap()));
        }
        for map in [&mut state.sent, &mut state.got] {
            for _ in 0..reader.varint()? {
                map.insert(reader.varint()?, reader.varint()?);
            }
        }
        for _ in 0..reader.varint()? {
            state
                .timers
                .insert(reader.varint()?, reader.varint()? as i64);
        }
        for set in [&mut state.cancelled, &mut state.fired, &mut state.work] {
            for _ in 0..reader.varint()? {
                set.insert(reader.varint()?);
            }
        }
        for _ in 0..reader.varint()? {
            let fault = String::from_utf8_lossy(&reader.bytes()?).into_owned();
            state.faults.push(fault);
        }
        Ok(state)
    }
}

impl Message for Happen {
    fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        let mut put = |numbers: &[u64]| numbers.iter().for_each(|n| put_varint(&mut out, *n));
        match self {
            Self::Op {
                op,
                targets,
                timer,
                cancel,
                work,
            } => {
                let due = timer.map_or(0, |due| due.0 as u64);
                put(&[0, *op, due, u64::from(*cancel), u64::from(*work)]);
                put(&[targets.len() as u64]);
                put(targets);
            }
            Self::Got { source, seq, op } => put(&[1, *source, *seq, *op]),
            Self::Fired { op } => put(&[2, *op]),
            Self::Worked { op } => put(&[3, *op]),
        }
        out.into()
    }

    fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes.clone());
        let mut next = || reader.varint();
        Ok(match next()? {
            0 => {
                let op = next()?;
                let timer = Some(next()?).filter(|due| *due > 0);
                let timer = timer.map(|due| Timestamp(due as i64));
                let (cancel, work) = (next()? == 1, next()? == 1);
                let count = next()?;
                let targets = (0..count).map(|_| next()).collect::<Result<_, _>>()?;
                Self::Op {
                    op,
                    targets,
                    timer,
                    cancel,
                    work,
                }
            }
            1 => Self::Got {
                source: next()?,
                seq: next()?,
                op: next()?,
            },
            2 => Self::Fired { op: next()? },
            3 => Self::Worked { op: next()? },
            _ => return Err(DecodeError),
        })
    }
}
