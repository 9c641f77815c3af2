//! An entry as rows of the log.
//!
//! One entry is one record, cut into pieces of at most 256 KiB. The record names
//! the hash of its predecessor, so that a missing or exchanged one breaks the
//! chain, and for each event batch its place and checksum; the batch's bytes are
//! a row of their own. Each piece has a checksum over its place and its bytes.

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::id::{EntryNumber, Offset, Partition, Sequence, StreamId};
use steadfast_storage::engine::{BATCH_HEADER_BYTES, Entry, EventBatch};

/// The version of the record's form.
const FORMAT: u8 = 1;

/// Bytes of a record in one row.
pub(crate) const PIECE_BYTES: usize = 256 * 1024;

/// A record read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) previous: u64,
    pub(crate) hash: u64,
    pub(crate) body: Bytes,
    pub(crate) batches: Vec<BatchLocation>,
}

/// Where a batch is, and what it must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchLocation {
    pub(crate) stream: StreamId,
    pub(crate) first: Sequence,
    pub(crate) offset: Offset,
    pub(crate) count: u32,
    pub(crate) time: Timestamp,
    pub(crate) length: u32,
    pub(crate) checksum: u32,
}

impl BatchLocation {
    pub(crate) fn of(batch: &EventBatch) -> Self {
        Self {
            stream: batch.stream,
            first: batch.first,
            offset: batch.offset,
            count: batch.count,
            time: batch.time,
            length: batch.bytes.len() as u32,
            checksum: batch.checksum(),
        }
    }

    /// The sequence number after the batch.
    pub(crate) fn next(&self) -> Sequence {
        self.first.plus(self.count)
    }

    /// What the batch takes in its stream.
    pub(crate) fn weight(&self) -> usize {
        BATCH_HEADER_BYTES + self.length as usize
    }

    /// The offset after the batch.
    pub(crate) fn end(&self) -> Offset {
        Offset(self.offset.0 + self.weight() as u64)
    }
}

impl Record {
    /// What the record takes in memory, with its batches.
    pub(crate) fn weight(&self) -> usize {
        self.body.len()
            + self
                .batches
                .iter()
                .map(BatchLocation::weight)
                .sum::<usize>()
    }

    /// Reads a record from its joined pieces.
    pub(crate) fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        if reader.byte()? != FORMAT {
            return Err(DecodeError);
        }
        let (previous, hash) = (reader.u64_le()?, reader.u64_le()?);
        let mut batches = Vec::new();
        for _ in 0..reader.varint()? {
            batches.push(BatchLocation {
                stream: StreamId(reader.varint_u32()?),
                first: Sequence(reader.varint()?),
                offset: Offset(reader.varint()?),
                count: reader.varint_u32()?,
                time: Timestamp(reader.varint()? as i64),
                length: reader.varint_u32()?,
                checksum: reader.u32_le()?,
            });
        }
        let body = reader.bytes()?;
        if !reader.is_empty() {
            return Err(DecodeError);
        }
        Ok(Self {
            previous,
            hash,
            body,
            batches,
        })
    }
}

/// Writes an entry as a record.
pub(crate) fn encode(entry: &Entry, hash: u64, previous: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(entry.body.len() + 64 * (1 + entry.batches.len()));
    out.push(FORMAT);
    out.extend_from_slice(&previous.to_le_bytes());
    out.extend_from_slice(&hash.to_le_bytes());
    put_varint(&mut out, entry.batches.len() as u64);
    for batch in &entry.batches {
        let place = BatchLocation::of(batch);
        put_varint(&mut out, u64::from(place.stream.0));
        put_varint(&mut out, place.first.0);
        put_varint(&mut out, place.offset.0);
        put_varint(&mut out, u64::from(place.count));
        put_varint(&mut out, place.time.0 as u64);
        put_varint(&mut out, u64::from(place.length));
        out.extend_from_slice(&place.checksum.to_le_bytes());
    }
    put_bytes(&mut out, &entry.body);
    out
}

/// The checksum of a piece.
pub(crate) fn checksum(partition: Partition, number: EntryNumber, piece: i32, bytes: &[u8]) -> i32 {
    let mut head = [0; 16];
    head[..4].copy_from_slice(&partition.0.to_le_bytes());
    head[4..12].copy_from_slice(&number.0.to_le_bytes());
    head[12..].copy_from_slice(&piece.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&head), bytes) as i32
}

#[cfg(test)]
mod tests {
    use steadfast_core::id::Epoch;

    use super::*;

    fn entry() -> Entry {
        Entry {
            partition: Partition(3),
            epoch: Epoch(2),
            number: EntryNumber(7),
            body: Bytes::from_static(b"body"),
            batches: vec![EventBatch::new(
                StreamId(1),
                Sequence(10),
                Offset(900),
                3,
                Timestamp(-5),
                Bytes::from_static(b"events"),
            )],
        }
    }

    #[test]
    fn a_record_comes_back_as_written() {
        let entry = entry();
        let bytes = Bytes::from(encode(&entry, entry.hash(), 99));
        let record = Record::decode(bytes.clone()).unwrap();
        assert_eq!((record.previous, record.hash), (99, entry.hash()));
        assert_eq!(record.body, entry.body);
        let place = record.batches[0];
        assert_eq!(place, BatchLocation::of(&entry.batches[0]));
        assert_eq!(place.end(), entry.batches[0].end());
        for cut in 0..bytes.len() {
            assert_eq!(
                Record::decode(bytes.slice(..cut)),
                Err(DecodeError),
                "{cut}"
            );
        }
    }

    #[test]
    fn a_checksum_knows_its_place() {
        let at = |part, no, piece| checksum(Partition(part), EntryNumber(no), piece, b"x");
        assert_ne!(at(1, 1, 0), at(2, 1, 0));
        assert_ne!(at(1, 1, 0), at(1, 2, 0));
        assert_ne!(at(1, 1, 0), at(1, 1, 1));
    }
}
