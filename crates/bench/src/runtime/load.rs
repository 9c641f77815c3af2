//! The service under load: rows, messages and timers.
//!
//! It does almost nothing itself, so that the runtime is what is measured.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::id::TableId;
use steadfast_partition::{
    Address, Envelope, Message, Service, ServiceKind, Turn, TurnError, TurnOutcome, service_table,
};

use super::meter::LatenessMeter;

/// The size of a row's value.
pub(super) const VALUE_BYTES: usize = 100;

/// The size of a row: key and value.
pub(super) const ROW_BYTES: usize = 8 + VALUE_BYTES;

const LOAD: ServiceKind = ServiceKind(999);
const ROWS: TableId = service_table(LOAD, 0);

/// The service under load.
pub(super) struct LoadService {
    pub(super) meter: Arc<LatenessMeter>,
}

/// A command to an instance.
pub(super) enum LoadCommand {
    /// Put this row.
    Put(Bytes),
    /// Send this row to these instances.
    Tell(Vec<u64>, Bytes),
    /// Schedule timers at these times, in milliseconds, each repeated after `every`.
    Schedule { due: Vec<i64>, every: u64 },
    /// A timer has fired: its due time and its interval.
    Fired { due: i64, every: u64 },
}

/// The instance with a number.
pub(super) fn instance(number: u64) -> Address {
    let key = Bytes::copy_from_slice(&number.to_be_bytes());
    Address::new(LOAD, Bytes::from_static(b"load"), key)
}

impl Service for LoadService {
    type Command = LoadCommand;
    type Response = ();

    fn kind(&self) -> ServiceKind {
        LOAD
    }

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        to: &Address,
        ask: &LoadCommand,
    ) -> Result<TurnOutcome<()>, TurnError> {
        match ask {
            LoadCommand::Put(row) => turn.put(ROWS, &to.key, row.clone()),
            LoadCommand::Tell(others, row) => {
                let body = LoadCommand::Put(row.clone()).encode();
                for other in others {
                    turn.send(Envelope::new(instance(*other), body.clone()));
                }
            }
            LoadCommand::Schedule { due, every } => {
                for (tag, due) in (0..).zip(due) {
                    schedule(turn, *due, tag, *every);
                }
            }
            LoadCommand::Fired { due, every } => {
                self.meter.handled(*due);
                schedule(turn, *due + *every as i64, 0, *every);
                turn.push(due.to_be_bytes().to_vec());
            }
        }
        Ok(TurnOutcome::Now(()))
    }
}

fn schedule(turn: &mut Turn<'_>, due: i64, tag: u64, every: u64) {
    let body = LoadCommand::Fired { due, every }.encode();
    turn.schedule(Timestamp(due), tag, body);
}

impl Message for LoadCommand {
    fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(VALUE_BYTES + 16);
        match self {
            Self::Put(row) => {
                out.push(0);
                put_bytes(&mut out, row);
            }
            Self::Tell(others, row) => {
                out.push(1);
                put_bytes(&mut out, row);
                others.iter().for_each(|other| put_varint(&mut out, *other));
            }
            Self::Schedule { due, every } => {
                out.push(2);
                put_varint(&mut out, *every);
                due.iter().for_each(|due| put_varint(&mut out, *due as u64));
            }
            Self::Fired { due, every } => {
                out.push(3);
                put_varint(&mut out, *every);
                put_varint(&mut out, *due as u64);
            }
        }
        out.into()
    }

    fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes.clone());
        Ok(match reader.byte()? {
            0 => Self::Put(reader.bytes()?),
            1 => {
                let row = reader.bytes()?;
                Self::Tell(numbers(&mut reader)?, row)
            }
            2 => {
                let every = reader.varint()?;
                let due = numbers(&mut reader)?;
                let due = due.into_iter().map(|due| due as i64).collect();
                Self::Schedule { due, every }
            }
            3 => {
                let every = reader.varint()?;
                let due = reader.varint()? as i64;
                Self::Fired { due, every }
            }
            _ => return Err(DecodeError),
        })
    }
}

fn numbers(reader: &mut ByteReader) -> Result<Vec<u64>, DecodeError> {
    let mut numbers = Vec::new();
    while !reader.is_empty() {
        numbers.push(reader.varint()?);
    }
    Ok(numbers)
}

/// A duration in whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    duration.as_millis() as u64
}
