//! A publication: encoding and slicing of its events.
//!
//! Events are opaque bytes, one after the other in one blob: a format byte, the
//! partition key if there is one, then length and bytes of each. A sliced event
//! shares the blob's memory. The offset of an event is the position of its last byte
//! in its stream, so the last event of a stream has the offset before its end, and
//! an empty stream ends at -1.

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::limits;
use steadfast_partition::Batch as Stored;

use crate::error::{Error, ErrorKind, Result};

const FORMAT: u8 = 1;

/// Events that are published together: all or nothing, in one partition.
///
/// ```
/// use steadfast_events::EventDataBatch;
///
/// let mut batch = EventDataBatch::keyed("house-42")?;
/// batch.push(b"21.5")?;
/// batch.push(b"21.6")?;
/// assert_eq!(batch.count(), 2);
/// # Ok::<(), steadfast_events::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct EventDataBatch {
    key: Option<String>,
    blob: Vec<u8>,
    count: u32,
    /// Bytes of the events alone.
    event_bytes: usize,
}

impl EventDataBatch {
    /// An empty batch without a partition key.
    pub fn new() -> Self {
        Self {
            key: None,
            blob: vec![FORMAT, 0],
            count: 0,
            event_bytes: 0,
        }
    }

    /// An empty batch whose key decides the partition.
    pub fn keyed(key: impl Into<String>) -> Result<Self> {
        let key = key.into();
        if key.len() > limits::PARTITION_KEY_BYTES {
            let limit = limits::PARTITION_KEY_BYTES;
            let words = format!("a partition key has {limit} bytes at most; shorten it");
            return Err(Error::new(ErrorKind::BadPublication, words));
        }
        let mut blob = vec![FORMAT, 1];
        put_bytes(&mut blob, key.as_bytes());
        Ok(Self {
            key: Some(key),
            blob,
            count: 0,
            event_bytes: 0,
        })
    }

    /// A batch of one event.
    pub fn of(event: &[u8]) -> Result<Self> {
        let mut batch = Self::new();
        batch.push(event)?;
        Ok(batch)
    }

    /// Reserves capacity for this many bytes of events.
    pub fn reserve(&mut self, bytes: usize) {
        self.blob.reserve(bytes);
    }

    /// Adds an event. If it does not fit, the batch is unchanged.
    pub fn push(&mut self, event: &[u8]) -> Result<()> {
        self.push_parts(&[event])
    }

    /// Adds an event that is made of parts.
    pub fn push_parts(&mut self, parts: &[&[u8]]) -> Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let bytes = self.event_bytes + length;
        if bytes > limits::PUBLICATION_BYTES || self.count >= limits::PUBLICATION_EVENTS {
            let limit = limits::PUBLICATION_BYTES;
            let words =
                format!("a publication has {limit} bytes at most, not {bytes}; send less at once");
            return Err(Error::new(ErrorKind::TooLarge, words));
        }
        put_varint(&mut self.blob, length as u64);
        for part in parts {
            self.blob.extend_from_slice(part);
        }
        self.count += 1;
        self.event_bytes = bytes;
        Ok(())
    }

    /// How many events there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// How many bytes the events have.
    pub fn event_bytes(&self) -> usize {
        self.event_bytes
    }

    /// The partition key.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The stored form, and how many events it holds.
    pub(crate) fn finish(self) -> Result<(Bytes, u32)> {
        if self.count == 0 {
            let words = "a publication needs at least one event; add one";
            return Err(Error::new(ErrorKind::BadPublication, words));
        }
        Ok((self.blob.into(), self.count))
    }
}

impl Default for EventDataBatch {
    fn default() -> Self {
        Self::new()
    }
}

/// One event as a reader gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventData {
    pub sequence: i64,
    /// The position of its last byte in the partition's stream.
    pub offset: i64,
    /// When its publication was accepted; never decreases within a partition.
    pub time: Timestamp,
    /// As it was published, sharing the memory of its publication.
    pub body: Bytes,
}

/// A stored publication on its way to a reader, event by event.
#[derive(Debug)]
pub struct EventPublication {
    key: Option<Bytes>,
    time: Timestamp,
    /// The remaining bytes, and their start in the stream.
    rest: ByteReader,
    end: u64,
    next: u64,
    left: u32,
}

impl EventPublication {
    /// Opens a stored batch at the event with number `from`, or at its first.
    pub(crate) fn open(stored: Stored, from: u64) -> Result<Self> {
        let damaged = |_| Error::damaged("a publication");
        let mut publication = Self::read(stored).map_err(damaged)?;
        while publication.next < from && publication.left > 0 {
            publication.cut().map_err(damaged)?;
        }
        Ok(publication)
    }

    /// The number of the first event whose offset is greater than `offset`.
    pub(crate) fn first_after(stored: Stored, offset: i64) -> Result<u64> {
        let damaged = |_| Error::damaged("a publication");
        let mut publication = Self::read(stored).map_err(damaged)?;
        while publication.left > 0 {
            let event = publication.cut().map_err(damaged)?;
            if event.offset > offset {
                return Ok(event.sequence as u64);
            }
        }
        Ok(publication.next)
    }

    fn read(stored: Stored) -> std::result::Result<Self, DecodeError> {
        let end = stored.end().0;
        let mut rest = ByteReader::new(stored.bytes);
        if rest.byte()? != FORMAT {
            return Err(DecodeError);
        }
        let key = match rest.byte()? {
            0 => None,
            1 => Some(rest.bytes()?),
            _ => return Err(DecodeError),
        };
        Ok(Self {
            key,
            time: stored.time,
            rest,
            end,
            next: stored.first.0,
            left: stored.count,
        })
    }

    /// The partition key that the whole publication has.
    pub fn key(&self) -> Option<&str> {
        let key = self.key.as_deref()?;
        std::str::from_utf8(key).ok()
    }

    pub(crate) fn key_bytes(&self) -> Option<Bytes> {
        self.key.clone()
    }

    /// When it was accepted.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// How many events are left.
    pub fn left(&self) -> u32 {
        self.left
    }

    /// The number of the next event.
    pub fn next_sequence(&self) -> i64 {
        self.next as i64
    }

    /// Slices the next event; `None` after the last.
    pub fn next_event(&mut self) -> Result<Option<EventData>> {
        if self.left == 0 {
            return Ok(None);
        }
        let event = self.cut().map_err(|_| Error::damaged("a publication"))?;
        Ok(Some(event))
    }

    fn cut(&mut self) -> std::result::Result<EventData, DecodeError> {
        let body = self.rest.bytes()?;
        let behind = self.end - self.rest.remaining() as u64;
        let event = EventData {
            sequence: self.next as i64,
            offset: behind as i64 - 1,
            time: self.time,
            body,
        };
        self.next += 1;
        self.left -= 1;
        Ok(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use steadfast_core::id::{Offset, Sequence, StreamId};

    fn stored(batch: EventDataBatch) -> Stored {
        let (bytes, count) = batch.finish().unwrap();
        let (stream, first, offset) = (StreamId(1), Sequence(10), Offset(1000));
        Stored::new(stream, first, offset, count, Timestamp(5), bytes)
    }

    proptest! {
        #[test]
        fn events_come_back_as_published(
            key in proptest::option::of(".{0,30}"),
            bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..20),
            skip in 0u64..25,
        ) {
            let mut batch = match &key {
                Some(key) => EventDataBatch::keyed(key.clone()).unwrap(),
                None => EventDataBatch::new(),
            };
            for body in &bodies { batch.push(body).unwrap(); }
            let stored = stored(batch);
            let mut publication = EventPublication::open(stored.clone(), 10 + skip).unwrap();
            prop_assert_eq!(publication.key(), key.as_deref());
            let mut last = -1;
            for (index, body) in bodies.iter().enumerate().skip(skip as usize) {
                let event = publication.next_event().unwrap().unwrap();
                prop_assert_eq!(event.sequence, 10 + index as i64);
                prop_assert!(event.offset > last);
                prop_assert_eq!(&event.body[..], &body[..]);
                let after = EventPublication::first_after(stored.clone(), event.offset);
                prop_assert_eq!(after.unwrap(), event.sequence as u64 + 1);
                last = event.offset;
            }
            prop_assert!(publication.next_event().unwrap().is_none());
            if (skip as usize) < bodies.len() {
                prop_assert_eq!(last, stored.end().0 as i64 - 1);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..100), count in 0u32..50,
        ) {
            let mut stored = stored(EventDataBatch::of(b"x").unwrap());
            (stored.bytes, stored.count) = (bytes.into(), count);
            if let Ok(mut publication) = EventPublication::open(stored, 0) {
                while let Ok(Some(_)) = publication.next_event() {}
            }
        }
    }

    #[test]
    fn a_publication_over_the_limit_is_refused_and_nothing_is_lost() {
        let mut batch = EventDataBatch::of(b"first").unwrap();
        let event = vec![0; limits::PUBLICATION_BYTES - 4];
        assert_eq!(batch.push(&event).unwrap_err().kind(), ErrorKind::TooLarge);
        assert_eq!((batch.count(), batch.event_bytes()), (1, 5));
        assert_eq!(
            EventDataBatch::new().finish().unwrap_err().kind(),
            ErrorKind::BadPublication
        );
        let key = "k".repeat(limits::PARTITION_KEY_BYTES + 1);
        assert_eq!(
            EventDataBatch::keyed(key).unwrap_err().kind(),
            ErrorKind::BadPublication
        );
    }
}
