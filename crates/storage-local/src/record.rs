//! One group is one record of the log.
//!
//! ```text
//!  0 magic     u32   "STFL"
//!  4 length    u32   of the payload
//!  8 number    u64   of the group, dense
//! 16 segment   u64   tells a recycled file's old records from new ones
//! 24 mark      u64   replay starts at this group
//! 32 salt      u64   of the folder: no payload can look like a record
//! 40 previous  u32   checksum of the group before
//! 44 checksum  u32   CRC32C of bytes 0..44 and the payload
//! 48 payload         items, one after the other; zeros up to a multiple of 8
//! ```
//!
//! Numbers are little-endian.

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::id::{EntryNumber, Epoch, Offset, Owner, Partition, Sequence, StreamId};
use steadfast_storage::engine::{BATCH_HEADER_BYTES, Entry, EventBatch, ReadPosition};

/// Bytes before the payload.
pub(crate) const HEADER_BYTES: usize = 48;

/// Records start at multiples of this.
pub(crate) const ALIGNMENT: usize = 8;

/// The first bytes of every record.
pub(crate) const MAGIC: [u8; 4] = *b"STFL";

/// What a record says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) length: u32,
    pub(crate) number: u64,
    pub(crate) segment: u64,
    pub(crate) mark: u64,
    pub(crate) salt: u64,
    pub(crate) previous: u32,
    pub(crate) checksum: u32,
}

impl Header {
    /// Reads a header; `None` if there is no record.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        (bytes[..4] == MAGIC).then(|| Self {
            length: u32_at(4),
            number: u64_at(8),
            segment: u64_at(16),
            mark: u64_at(24),
            salt: u64_at(32),
            previous: u32_at(40),
            checksum: u32_at(44),
        })
    }

    /// Whether the payload is the one that was written under this header.
    pub(crate) fn fits(&self, payload: &[u8]) -> bool {
        let mut head = [0; HEADER_BYTES];
        self.encode(&mut head);
        self.checksum == checksum(&head, payload)
    }

    /// Bytes from this record to the next.
    pub(crate) fn size(&self) -> u64 {
        (HEADER_BYTES as u64 + u64::from(self.length)).next_multiple_of(ALIGNMENT as u64)
    }

    fn encode(&self, out: &mut [u8; HEADER_BYTES]) {
        out[..4].copy_from_slice(&MAGIC);
        out[4..8].copy_from_slice(&self.length.to_le_bytes());
        out[8..16].copy_from_slice(&self.number.to_le_bytes());
        out[16..24].copy_from_slice(&self.segment.to_le_bytes());
        out[24..32].copy_from_slice(&self.mark.to_le_bytes());
        out[32..40].copy_from_slice(&self.salt.to_le_bytes());
        out[40..44].copy_from_slice(&self.previous.to_le_bytes());
        out[44..].copy_from_slice(&self.checksum.to_le_bytes());
    }
}

/// Completes a record whose payload stands behind an empty header in `record`;
/// answers its checksum.
pub(crate) fn seal(record: &mut Vec<u8>, mut header: Header) -> u32 {
    header.length = u32::try_from(record.len() - HEADER_BYTES).expect("groups are bounded");
    let (head, payload) = record.split_first_chunk_mut().expect("room for a header");
    header.encode(head);
    header.checksum = checksum(head, payload);
    header.encode(head);
    record.resize(record.len().next_multiple_of(ALIGNMENT), 0);
    header.checksum
}

fn checksum(head: &[u8; HEADER_BYTES], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&head[..44]), payload)
}

/// One thing that a group makes durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogItem {
    Entry(LoggedEntry),
    Acquire {
        partition: Partition,
        epoch: Epoch,
        owner: Owner,
    },
    Release {
        partition: Partition,
        epoch: Epoch,
    },
    Record {
        key: String,
        version: u64,
        value: Bytes,
    },
}

/// An entry as the log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoggedEntry {
    pub(crate) partition: Partition,
    pub(crate) epoch: Epoch,
    pub(crate) number: EntryNumber,
    pub(crate) hash: u64,
    pub(crate) body: Bytes,
    pub(crate) batches: Vec<LoggedBatch>,
}

/// A batch as the log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoggedBatch {
    pub(crate) stream: StreamId,
    pub(crate) first: Sequence,
    pub(crate) offset: Offset,
    pub(crate) count: u32,
    pub(crate) time: Timestamp,
    pub(crate) checksum: u32,
    pub(crate) length: u32,
    /// Where the bytes start in the payload; `None`: they are in the stream's own
    /// file already.
    pub(crate) inline: Option<u32>,
}

impl LoggedBatch {
    /// A batch whose bytes are at `inline` in the payload, or in its stream's file.
    pub(crate) fn new(batch: &EventBatch, inline: Option<u32>) -> Self {
        Self {
            stream: batch.stream,
            first: batch.first,
            offset: batch.offset,
            count: batch.count,
            time: batch.time,
            checksum: batch.checksum(),
            length: batch.bytes.len() as u32,
            inline,
        }
    }

    /// The batch with its bytes; `None` if they are not the ones that were logged.
    pub(crate) fn with_bytes(&self, bytes: Bytes) -> Option<EventBatch> {
        let batch = EventBatch::new(
            self.stream,
            self.first,
            self.offset,
            self.count,
            self.time,
            bytes,
        );
        (batch.checksum() == self.checksum).then_some(batch)
    }

    /// Whether the batch ends before `from`.
    pub(crate) fn is_before(&self, from: ReadPosition) -> bool {
        from.is_after(self.next(), self.end(), self.time)
    }

    /// The sequence number after the batch.
    pub(crate) fn next(&self) -> Sequence {
        self.first.plus(self.count)
    }

    /// The offset after the batch.
    pub(crate) fn end(&self) -> Offset {
        Offset(self.offset.0 + BATCH_HEADER_BYTES as u64 + u64::from(self.length))
    }
}

const ENTRY: u8 = 1;
const ACQUIRE: u8 = 2;
const RELEASE: u8 = 3;
const RECORD: u8 = 4;

/// Appends an entry to a record. `is_inline` says which batches bring their bytes
/// along. Answers where each batch's bytes start in the payload.
pub(crate) fn put_entry(
    record: &mut Vec<u8>,
    entry: &Entry,
    hash: u64,
    is_inline: impl Fn(&EventBatch) -> bool,
) -> Vec<Option<u32>> {
    record.push(ENTRY);
    put_varint(record, u64::from(entry.partition.0));
    put_varint(record, entry.epoch.0);
    put_varint(record, entry.number.0);
    record.extend_from_slice(&hash.to_le_bytes());
    put_bytes(record, &entry.body);
    put_varint(record, entry.batches.len() as u64);
    let mut places = Vec::with_capacity(entry.batches.len());
    for batch in &entry.batches {
        put_varint(record, u64::from(batch.stream.0));
        put_varint(record, batch.first.0);
        put_varint(record, batch.offset.0);
        put_varint(record, u64::from(batch.count));
        put_varint(record, batch.time.0.max(0) as u64);
        record.extend_from_slice(&batch.checksum().to_le_bytes());
        put_varint(record, batch.bytes.len() as u64);
        let inline = is_inline(batch);
        record.push(u8::from(inline));
        let place = inline.then(|| (record.len() - HEADER_BYTES) as u32);
        if inline {
            record.extend_from_slice(&batch.bytes);
        }
        places.push(place);
    }
    places
}

/// Appends an acquisition to a record.
pub(crate) fn put_acquire(record: &mut Vec<u8>, partition: Partition, epoch: Epoch, owner: Owner) {
    record.push(ACQUIRE);
    put_varint(record, u64::from(partition.0));
    put_varint(record, epoch.0);
    put_varint(record, u64::from(owner.node));
    record.extend_from_slice(&owner.incarnation.to_le_bytes());
}

/// Appends a release to a record.
pub(crate) fn put_release(record: &mut Vec<u8>, partition: Partition, epoch: Epoch) {
    record.push(RELEASE);
    put_varint(record, u64::from(partition.0));
    put_varint(record, epoch.0);
}

/// Appends a cluster record to a record.
pub(crate) fn put_record(record: &mut Vec<u8>, key: &str, version: u64, value: &[u8]) {
    record.push(RECORD);
    put_bytes(record, key.as_bytes());
    put_varint(record, version);
    put_bytes(record, value);
}

/// Reads the items of a payload, each with its range in the payload.
pub(crate) fn items(payload: &Bytes) -> Result<Vec<(std::ops::Range<u32>, LogItem)>, DecodeError> {
    let mut reader = ByteReader::new(payload.clone());
    let place = |reader: &ByteReader| (payload.len() - reader.remaining()) as u32;
    let mut found = Vec::new();
    while !reader.is_empty() {
        let start = place(&reader);
        let item = item(&mut reader, &place)?;
        found.push((start..place(&reader), item));
    }
    Ok(found)
}

/// Reads the one item that `bytes` hold; places count from its start.
pub(crate) fn only_item(bytes: &Bytes) -> Result<LogItem, DecodeError> {
    let (_, item) = items(bytes)?.pop().ok_or(DecodeError)?;
    Ok(item)
}

fn item(
    reader: &mut ByteReader,
    place: &dyn Fn(&ByteReader) -> u32,
) -> Result<LogItem, DecodeError> {
    match reader.byte()? {
        ENTRY => entry(reader, place),
        ACQUIRE => Ok(LogItem::Acquire {
            partition: Partition(reader.varint_u32()?),
            epoch: Epoch(reader.varint()?),
            owner: Owner {
                node: reader.varint_u32()?,
                incarnation: reader.u128_le()?,
            },
        }),
        RELEASE => Ok(LogItem::Release {
            partition: Partition(reader.varint_u32()?),
            epoch: Epoch(reader.varint()?),
        }),
        RECORD => Ok(LogItem::Record {
            key: String::from_utf8(reader.bytes()?.to_vec()).map_err(|_| DecodeError)?,
            version: reader.varint()?,
            value: reader.bytes()?,
        }),
        _ => Err(DecodeError),
    }
}

fn entry(
    reader: &mut ByteReader,
    place: &dyn Fn(&ByteReader) -> u32,
) -> Result<LogItem, DecodeError> {
    let partition = Partition(reader.varint_u32()?);
    let epoch = Epoch(reader.varint()?);
    let number = EntryNumber(reader.varint()?);
    let hash = reader.u64_le()?;
    let body = reader.bytes()?;
    let mut batches = Vec::new();
    for _ in 0..reader.varint()? {
        let stream = StreamId(reader.varint_u32()?);
        let first = Sequence(reader.varint()?);
        let offset = Offset(reader.varint()?);
        let count = reader.varint_u32()?;
        let time = Timestamp(i64::try_from(reader.varint()?).map_err(|_| DecodeError)?);
        let checksum = reader.u32_le()?;
        let length = reader.varint_u32()?;
        let mut inline = None;
        if reader.byte()? == 1 {
            inline = Some(place(reader));
            reader.take(length as usize)?;
        }
        batches.push(LoggedBatch {
            stream,
            first,
            offset,
            count,
            time,
            checksum,
            length,
            inline,
        });
    }
    Ok(LogItem::Entry(LoggedEntry {
        partition,
        epoch,
        number,
        hash,
        body,
        batches,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> (Vec<u8>, Header) {
        let mut record = vec![0; HEADER_BYTES];
        put_acquire(
            &mut record,
            Partition(3),
            Epoch(9),
            Owner {
                node: 1,
                incarnation: 77,
            },
        );
        put_record(&mut record, "nodes/1", 4, b"here");
        let header = Header {
            length: 0,
            number: 12,
            segment: 2,
            mark: 5,
            salt: 99,
            previous: 1234,
            checksum: 0,
        };
        seal(&mut record, header);
        (record, header)
    }

    #[test]
    fn a_record_comes_back_as_written() {
        let (record, written) = sample();
        let header = Header::decode(&record).unwrap();
        assert_eq!((header.number, header.mark), (written.number, written.mark));
        assert_eq!(record.len() as u64, header.size());
        let payload = Bytes::copy_from_slice(&record[HEADER_BYTES..][..header.length as usize]);
        assert!(header.fits(&payload));
        assert_eq!(items(&payload).unwrap().len(), 2);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let (record, _) = sample();
        let length = Header::decode(&record).unwrap().length as usize;
        for bit in 0..(HEADER_BYTES + length) * 8 {
            let mut damaged = record.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let is_valid = Header::decode(&damaged).is_some_and(|header| {
                let payload = damaged.get(HEADER_BYTES..HEADER_BYTES + header.length as usize);
                payload.is_some_and(|payload| header.fits(payload))
            });
            assert!(!is_valid, "bit {bit} was not noticed");
        }
    }

    proptest! {
        #[test]
        fn any_payload_decodes_or_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = items(&bytes.into());
        }
    }
}
