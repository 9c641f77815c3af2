//! The encoding of an entry's body: transactions as redo.
//!
//! Redo is absolute (put, delete, clear, trim), so replaying twice is harmless.
//! A transaction is encoded once, when it is filled; the overlay, the log and the
//! event cache share those bytes. The format byte at the front of each body is
//! checked when it is read.

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::id::{Lsn, Offset, Sequence, StreamId, TableId};
use steadfast_core::limits;

use crate::error::{Error, ErrorKind, Result};

/// The version of this encoding.
const FORMAT: u8 = 1;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const CLEAR: u8 = 3;
const TRIM: u8 = 4;

/// A row's address inside its partition: table (big-endian), then key. Ordered
/// like (table, key), and a slice of the transaction that wrote it.
pub type RowKey = Bytes;

/// Joins a table and a key to a row's address.
pub fn row_key(table: TableId, key: &[u8]) -> RowKey {
    let mut out = Vec::with_capacity(4 + key.len());
    out.extend_from_slice(&table.0.to_be_bytes());
    out.extend_from_slice(key);
    out.into()
}

/// Takes a row's address apart.
pub fn split_row_key(row: &RowKey) -> (TableId, Bytes) {
    let (table, _) = row
        .split_first_chunk::<4>()
        .expect("every row key starts with its table");
    (TableId(u32::from_be_bytes(*table)), row.slice(4..))
}

/// The table of a row's address.
pub fn table_of(row: &RowKey) -> TableId {
    split_row_key(row).0
}

/// What one transaction changes, filled operation by operation.
///
/// ```
/// use steadfast_core::id::{StreamId, TableId};
/// use steadfast_storage::Writes;
///
/// let mut writes = Writes::new();
/// writes.put(TableId(1), b"house 7", b"21.5");
/// writes.publish(StreamId(1), 1, b"21.5".as_slice().into());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Writes {
    pub(crate) id: u64,
    pub(crate) operations: Vec<u8>,
    pub(crate) publications: Vec<StagedPublication>,
    pub(crate) trims: Vec<(StreamId, Sequence)>,
    longest_key: usize,
}

/// Events to be appended: the owner gives them their numbers.
#[derive(Clone, Debug)]
pub(crate) struct StagedPublication {
    pub(crate) stream: StreamId,
    pub(crate) count: u32,
    pub(crate) bytes: Bytes,
}

impl Writes {
    /// An empty transaction.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty transaction with room for about so many bytes: filling it step by step
    /// would move them again and again.
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            operations: Vec::with_capacity(bytes),
            ..Self::default()
        }
    }

    /// How many bytes its rows take.
    pub fn bytes(&self) -> usize {
        self.operations.len()
    }

    /// Names the transaction, so that its outcome can be looked up in the log.
    pub fn with_id(mut self, id: u64) -> Self {
        self.id = id;
        self
    }

    /// A transaction of another store, to be applied here as redo. It has no events.
    pub fn redo(bytes: &Bytes) -> std::result::Result<Self, DecodeError> {
        let mut longest_key = 0;
        for operation in operations(bytes.clone()) {
            match operation? {
                RedoOperation::Put(row, _) | RedoOperation::Delete(row) => {
                    longest_key = longest_key.max(row.len() - 4);
                }
                RedoOperation::Clear(_) => {}
                RedoOperation::Trim(..) => return Err(DecodeError),
            }
        }
        Ok(Self {
            operations: bytes.to_vec(),
            longest_key,
            ..Self::default()
        })
    }

    /// The rows of this transaction as redo, for [`Writes::redo`] of another store.
    pub fn into_redo(self) -> Bytes {
        self.operations.into()
    }

    /// Whether this one and `next` fit in one transaction.
    pub fn fits(&self, next: &Self) -> bool {
        self.operations.len() + next.operations.len() <= limits::TRANSACTION_BYTES
    }

    /// Appends the operations of `next` to this transaction. Neither has events.
    pub fn append(&mut self, next: &Self) {
        self.operations.extend_from_slice(&next.operations);
        self.longest_key = self.longest_key.max(next.longest_key);
    }

    /// Sets a row.
    pub fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) {
        // Two lengths and a tag stand beside them; growing step by step copies.
        self.operations.reserve(key.len() + value.len() + 16);
        self.operation(PUT, table, key);
        put_bytes(&mut self.operations, value);
    }

    /// Removes a row.
    pub fn delete(&mut self, table: TableId, key: &[u8]) {
        self.operation(DELETE, table, key);
    }

    /// Removes all rows of a table.
    pub fn clear(&mut self, table: TableId) {
        self.operation(CLEAR, table, &[]);
    }

    /// Removes the events of a stream before `first`, whose batch starts at
    /// `offset`.
    pub fn trim(&mut self, stream: StreamId, first: Sequence, offset: Offset) {
        self.trims.push((stream, first));
        self.operations.push(TRIM);
        put_varint(&mut self.operations, u64::from(stream.0));
        put_varint(&mut self.operations, first.0);
        put_varint(&mut self.operations, offset.0);
    }

    /// Appends `count` events, encoded in `bytes`, to a stream.
    pub fn publish(&mut self, stream: StreamId, count: u32, bytes: Bytes) {
        self.publications.push(StagedPublication {
            stream,
            count,
            bytes,
        });
    }

    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty() && self.publications.is_empty()
    }

    /// Refuses what is over a limit, before anything changes.
    pub(crate) fn check(&self) -> Result<()> {
        within("a key", self.longest_key, limits::KEY_BYTES)?;
        let mut bytes = self.operations.len();
        for publication in &self.publications {
            let length = publication.bytes.len();
            within("an event batch", length, limits::EVENT_BATCH_BYTES)?;
            bytes += length;
        }
        within("a transaction", bytes, limits::TRANSACTION_BYTES)
    }

    fn operation(&mut self, tag: u8, table: TableId, key: &[u8]) {
        self.longest_key = self.longest_key.max(key.len());
        self.operations.push(tag);
        put_varint(&mut self.operations, 4 + key.len() as u64);
        self.operations.extend_from_slice(&table.0.to_be_bytes());
        self.operations.extend_from_slice(key);
    }
}

fn within(what: &'static str, bytes: usize, limit: usize) -> Result<()> {
    if bytes <= limit {
        return Ok(());
    }
    Err(Error::new(ErrorKind::TooLarge { what, bytes, limit }))
}

/// One change of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedoOperation {
    Put(RowKey, Bytes),
    Delete(RowKey),
    Clear(TableId),
    Trim(StreamId, Sequence, Offset),
}

/// Reads the operations of one transaction, without copying.
pub fn operations(
    bytes: Bytes,
) -> impl Iterator<Item = std::result::Result<RedoOperation, DecodeError>> {
    let mut reader = ByteReader::new(bytes);
    std::iter::from_fn(move || (!reader.is_empty()).then(|| operation(&mut reader)))
}

fn operation(reader: &mut ByteReader) -> std::result::Result<RedoOperation, DecodeError> {
    let tag = reader.byte()?;
    if tag == TRIM {
        let stream = StreamId(reader.varint_u32()?);
        let first = Sequence(reader.varint()?);
        return Ok(RedoOperation::Trim(stream, first, Offset(reader.varint()?)));
    }
    let row = reader.bytes()?;
    if row.len() < 4 {
        return Err(DecodeError);
    }
    match tag {
        PUT => Ok(RedoOperation::Put(row, reader.bytes()?)),
        DELETE => Ok(RedoOperation::Delete(row)),
        CLEAR => Ok(RedoOperation::Clear(table_of(&row))),
        _ => Err(DecodeError),
    }
}

/// The transactions of an entry: the first has LSN `first_lsn`, and so on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryBody {
    pub first_lsn: Lsn,
    /// The owner's time when the entry was closed.
    pub time: Timestamp,
    pub transactions: Vec<Transaction>,
}

/// One transaction's share of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// As given by [`Writes::with_id`], else 0.
    pub id: u64,
    /// Its changes as redo; [`operations`] reads them.
    pub operations: Bytes,
}

impl EntryBody {
    /// Encodes the body for the log.
    pub fn encode(&self) -> Bytes {
        let size: usize = self
            .transactions
            .iter()
            .map(|t| t.operations.len() + 8)
            .sum();
        let mut out = Vec::with_capacity(size + 24);
        out.push(FORMAT);
        put_varint(&mut out, self.first_lsn.0);
        put_varint(&mut out, self.time.0.max(0) as u64);
        put_varint(&mut out, self.transactions.len() as u64);
        for transaction in &self.transactions {
            put_varint(&mut out, transaction.id);
            put_bytes(&mut out, &transaction.operations);
        }
        out.into()
    }

    /// Decodes a body, checking all of it, without copying.
    pub fn decode(bytes: Bytes) -> std::result::Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        if reader.byte()? != FORMAT {
            return Err(DecodeError);
        }
        let first_lsn = Lsn(reader.varint()?);
        let time = Timestamp(i64::try_from(reader.varint()?).map_err(|_| DecodeError)?);
        let count = reader.varint()?;
        let mut transactions = Vec::new();
        for _ in 0..count {
            let id = reader.varint()?;
            let bytes = reader.bytes()?;
            for operation in operations(bytes.clone()) {
                operation?;
            }
            transactions.push(Transaction {
                id,
                operations: bytes,
            });
        }
        if !reader.is_empty() {
            return Err(DecodeError);
        }
        Ok(Self {
            first_lsn,
            time,
            transactions,
        })
    }

    /// The LSN of the last transaction; one before the first if there is none.
    pub fn last_lsn(&self) -> Lsn {
        let count = self.transactions.len() as u64;
        Lsn(self.first_lsn.0.saturating_add(count).saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_body_comes_back_as_written() {
        let mut writes = Writes::new().with_id(7);
        writes.clear(TableId(9));
        writes.put(TableId(9), b"k", b"v");
        writes.delete(TableId(1), b"gone");
        writes.trim(StreamId(3), Sequence(10), Offset(400));
        let body = EntryBody {
            first_lsn: Lsn(5),
            time: Timestamp(1234),
            transactions: vec![Transaction {
                id: writes.id,
                operations: writes.operations.clone().into(),
            }],
        };
        let decoded = EntryBody::decode(body.encode()).unwrap();
        assert_eq!(decoded, body);
        assert_eq!(decoded.last_lsn(), Lsn(5));
        let found: Vec<_> = operations(decoded.transactions[0].operations.clone())
            .map(std::result::Result::unwrap)
            .collect();
        assert_eq!(
            found,
            [
                RedoOperation::Clear(TableId(9)),
                RedoOperation::Put(row_key(TableId(9), b"k"), Bytes::from_static(b"v")),
                RedoOperation::Delete(row_key(TableId(1), b"gone")),
                RedoOperation::Trim(StreamId(3), Sequence(10), Offset(400)),
            ]
        );
    }

    #[test]
    fn limits_are_checked_before_anything_changes() {
        let mut writes = Writes::new();
        writes.put(TableId(1), &vec![0; limits::KEY_BYTES + 1], b"");
        let error = writes.check().unwrap_err();
        assert_eq!(error.code().0, "STF-2009");
        let mut writes = Writes::new();
        writes.put(TableId(1), b"k", &vec![0; limits::TRANSACTION_BYTES]);
        assert_eq!(writes.check().unwrap_err().code().0, "STF-2009");
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut with_format = vec![FORMAT];
            with_format.extend(&bytes);
            for input in [bytes, with_format] {
                if let Ok(body) = EntryBody::decode(input.into()) {
                    let _ = body.encode();
                }
            }
        }
    }
}
