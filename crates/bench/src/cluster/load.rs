//! The service under load: it puts a row, or reads one.

use bytes::Bytes;
use steadfast_core::codec::{Malformed, Reader, put_bytes};
use steadfast_core::id::Table;
use steadfast_partition::{Address, Answer, Halt, Kind, Message, Service, Turn, service_table};

const LOAD: Kind = Kind(998);
const ROWS: Table = service_table(LOAD, 0);

/// The service under load.
pub(super) struct Load;

/// A command to an instance.
pub(super) enum Ask {
    /// Put this row.
    Put(Bytes),
    /// Answer the row; nothing is written, so the call does not wait for the database.
    Get,
}

/// The instance with a number.
pub(super) fn instance(number: u64) -> Address {
    let key = Bytes::copy_from_slice(&number.to_be_bytes());
    Address::new(LOAD, Bytes::from_static(b"load"), key)
}

impl Service for Load {
    type Command = Ask;
    type Reply = Bytes;

    fn kind(&self) -> Kind {
        LOAD
    }

    fn handle(&self, turn: &mut Turn<'_>, to: &Address, ask: &Ask) -> Result<Answer<Bytes>, Halt> {
        let answer = match ask {
            Ask::Put(row) => {
                turn.put(ROWS, &to.key, row.clone());
                Bytes::new()
            }
            Ask::Get => turn.get(ROWS, &to.key)?.unwrap_or_default(),
        };
        Ok(Answer::Now(answer))
    }
}

impl Message for Ask {
    fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        match self {
            Self::Put(row) => {
                out.push(0);
                put_bytes(&mut out, row);
            }
            Self::Get => out.push(1),
        }
        out.into()
    }

    fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes.clone());
        match reader.byte()? {
            0 => Ok(Self::Put(reader.bytes()?)),
            1 => Ok(Self::Get),
            _ => Err(Malformed),
        }
    }
}
