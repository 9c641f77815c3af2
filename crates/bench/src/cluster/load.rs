//! The service under load: it puts a row, or reads one.

use bytes::Bytes;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes};
use steadfast_core::id::TableId;
use steadfast_partition::{
    Address, Message, Service, ServiceKind, Turn, TurnError, TurnOutcome, service_table,
};

const LOAD: ServiceKind = ServiceKind(998);
const ROWS: TableId = service_table(LOAD, 0);

/// The service under load.
pub(super) struct RowService;

/// A command to an instance.
pub(super) enum RowCommand {
    /// Put this row.
    Put(Bytes),
    /// Return the row; nothing is written, so the call does not wait for the database.
    Get,
}

/// The instance with a number.
pub(super) fn instance(number: u64) -> Address {
    let key = Bytes::copy_from_slice(&number.to_be_bytes());
    Address::new(LOAD, Bytes::from_static(b"load"), key)
}

impl Service for RowService {
    type Command = RowCommand;
    type Response = Bytes;

    fn kind(&self) -> ServiceKind {
        LOAD
    }

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        to: &Address,
        ask: &RowCommand,
    ) -> Result<TurnOutcome<Bytes>, TurnError> {
        let answer = match ask {
            RowCommand::Put(row) => {
                turn.put(ROWS, &to.key, row.clone());
                Bytes::new()
            }
            RowCommand::Get => turn.get(ROWS, &to.key)?.unwrap_or_default(),
        };
        Ok(TurnOutcome::Now(answer))
    }
}

impl Message for RowCommand {
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

    fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes.clone());
        match reader.byte()? {
            0 => Ok(Self::Put(reader.bytes()?)),
            1 => Ok(Self::Get),
            _ => Err(DecodeError),
        }
    }
}
