//! Digests of rows and tables.
//!
//! A table's digest is the sum of its rows' digests, so that its order does not
//! matter and a flush can bring it up to date from the rows it replaces. A row
//! that is missing, doubled or changed changes the sum.

use std::collections::BTreeMap;

use bytes::Bytes;
use steadfast_core::codec::{ByteReader, DecodeError, put_varint};
use steadfast_core::id::{Offset, Partition, Sequence, StreamId, TableId};
use xxhash_rust::xxh3::Xxh3;

/// Bytes of a key that are indexed.
const INDEXED: usize = 2_000;

/// How many rows a table has, and the sum of their digests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableSum {
    pub(crate) rows: u64,
    pub(crate) sum: u128,
}

impl TableSum {
    pub(crate) fn add(&mut self, digest: u128) {
        self.rows = self.rows.wrapping_add(1);
        self.sum = self.sum.wrapping_add(digest);
    }

    pub(crate) fn remove(&mut self, digest: u128) {
        self.rows = self.rows.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(digest);
    }
}

/// The digests of a partition's tables.
pub(crate) type TableSums = BTreeMap<u32, TableSum>;

/// The digest of one row.
pub(crate) fn row(partition: Partition, table: TableId, key: &[u8], value: &[u8]) -> u128 {
    let mut hash = Xxh3::new();
    hash.update(&partition.0.to_le_bytes());
    hash.update(&table.0.to_le_bytes());
    hash.update(&(key.len() as u64).to_le_bytes());
    hash.update(key);
    hash.update(value);
    hash.digest128()
}

/// A digest from its column; damaged if it is not 16 bytes.
pub(crate) fn from_column(bytes: &[u8]) -> Option<u128> {
    Some(u128::from_le_bytes(bytes.try_into().ok()?))
}

/// A key as columns: indexed part, digest of the rest, the rest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SplitKey<'a> {
    pub(crate) head: &'a [u8],
    pub(crate) tail: Vec<u8>,
    pub(crate) rest: Option<&'a [u8]>,
}

pub(crate) fn split(key: &[u8]) -> SplitKey<'_> {
    if key.len() <= INDEXED {
        return SplitKey {
            head: key,
            tail: Vec::new(),
            rest: None,
        };
    }
    let (head, rest) = key.split_at(INDEXED);
    let mut hash = Xxh3::new();
    hash.update(rest);
    SplitKey {
        head,
        tail: hash.digest128().to_le_bytes().to_vec(),
        rest: Some(rest),
    }
}

/// Writes the digests of tables; a table without rows is left out.
pub(crate) fn encode_tables(tables: &TableSums) -> Vec<u8> {
    let mut out = vec![1];
    let filled = tables
        .iter()
        .filter(|(_, sum)| **sum != TableSum::default());
    for (table, sum) in filled {
        put_varint(&mut out, u64::from(*table));
        put_varint(&mut out, sum.rows);
        out.extend_from_slice(&sum.sum.to_le_bytes());
    }
    out
}

/// Reads what [`encode_tables`] wrote.
pub(crate) fn decode_tables(bytes: Bytes) -> Result<TableSums, DecodeError> {
    let mut tables = TableSums::new();
    let mut reader = start(bytes)?;
    while !reader.is_empty() {
        let table = reader.varint_u32()?;
        let rows = reader.varint()?;
        let sum = reader.u128_le()?;
        tables.insert(table, TableSum { rows, sum });
    }
    Ok(tables)
}

/// Where a stream begins and ends, as far as it is flushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlushedEnds {
    /// Events before this one were trimmed.
    pub(crate) first: Sequence,
    pub(crate) next: Sequence,
    pub(crate) end: Offset,
}

/// The ends of a partition's streams.
pub(crate) type FlushedStreams = BTreeMap<StreamId, FlushedEnds>;

/// Writes the ends of streams.
pub(crate) fn encode_hubs(hubs: &FlushedStreams) -> Vec<u8> {
    let mut out = vec![1];
    for (stream, ends) in hubs {
        put_varint(&mut out, u64::from(stream.0));
        put_varint(&mut out, ends.first.0);
        put_varint(&mut out, ends.next.0);
        put_varint(&mut out, ends.end.0);
    }
    out
}

/// Reads what [`encode_hubs`] wrote.
pub(crate) fn decode_hubs(bytes: Bytes) -> Result<FlushedStreams, DecodeError> {
    let mut hubs = FlushedStreams::new();
    let mut reader = start(bytes)?;
    while !reader.is_empty() {
        let stream = StreamId(reader.varint_u32()?);
        let ends = FlushedEnds {
            first: Sequence(reader.varint()?),
            next: Sequence(reader.varint()?),
            end: Offset(reader.varint()?),
        };
        hubs.insert(stream, ends);
    }
    Ok(hubs)
}

/// Checks the form; nothing at all is what a new partition has.
fn start(bytes: Bytes) -> Result<ByteReader, DecodeError> {
    let is_new = bytes.is_empty();
    let mut reader = ByteReader::new(bytes);
    if !is_new && reader.byte()? != 1 {
        return Err(DecodeError);
    }
    Ok(reader)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_sum_forgets_order_and_what_was_removed(rows in proptest::collection::vec(any::<(u8, u8)>(), 0..40)) {
            let digests: Vec<u128> = rows
                .iter()
                .map(|(k, v)| row(Partition(1), TableId(1), &[*k], &[*v]))
                .collect();
            let mut forward = TableSum::default();
            digests.iter().for_each(|digest| forward.add(*digest));
            let mut backward = TableSum::default();
            digests.iter().rev().for_each(|digest| backward.add(*digest));
            prop_assert_eq!(forward, backward);
            digests.iter().for_each(|digest| forward.remove(*digest));
            prop_assert_eq!(forward, TableSum::default());
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut tables = TableSums::new();
        tables
            .entry(7)
            .or_default()
            .add(row(Partition(1), TableId(7), b"k", b"v"));
        tables.entry(8).or_default();
        let read = decode_tables(encode_tables(&tables).into()).unwrap();
        assert_eq!(read.len(), 1, "an empty table is left out");
        assert_eq!(read[&7], tables[&7]);
        let hubs = FlushedStreams::from([(
            StreamId(3),
            FlushedEnds {
                first: Sequence(1),
                next: Sequence(9),
                end: Offset(400),
            },
        )]);
        assert_eq!(decode_hubs(encode_hubs(&hubs).into()), Ok(hubs));
        assert_eq!(decode_hubs(Bytes::new()), Ok(FlushedStreams::new()));
        assert_eq!(decode_tables(Bytes::from_static(&[9])), Err(DecodeError));
    }

    #[test]
    fn long_keys_are_cut() {
        let long = [vec![1u8; INDEXED], vec![2; 50]].concat();
        let cut = split(&long);
        assert_eq!((cut.head.len(), cut.tail.len()), (INDEXED, 16));
        assert_eq!(cut.rest.unwrap(), &[2; 50]);
        assert_eq!(split(b"short").rest, None);
    }
}
