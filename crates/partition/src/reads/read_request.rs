//! Reads of a partition that travel between nodes.
//!
//! The five reads of a mailbox, as values. Nodes of different versions exchange their
//! encoding, so it never changes its meaning.

use std::ops::Bound;

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::id::{Offset, Sequence, StreamId, TableId};
use steadfast_core::limits;

use steadfast_storage::StreamHead;
use steadfast_storage::engine::{EventBatch as Batch, ReadPosition, TableRow};

/// A read request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadRequest {
    /// One row.
    Row(TableId, Bytes),
    /// Rows in key order.
    Rows {
        table: TableId,
        from: Bound<Bytes>,
        to: Bound<Bytes>,
        limit: usize,
    },
    /// Begin and end of a stream.
    Head(StreamId),
    /// Batches of a stream.
    Batches {
        stream: StreamId,
        from: ReadPosition,
        max_bytes: usize,
    },
    /// Begin and end of a stream, as soon as it grows beyond `after`, or after a
    /// time-out.
    Follow { stream: StreamId, after: Sequence },
}

/// The response to a read request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadResponse {
    Row(Option<Bytes>),
    /// The rows, and whether there may be more: they are cut off by size.
    Rows(Vec<TableRow>, bool),
    Head(Option<StreamHead>),
    Batches(Vec<Batch>),
}

impl ReadRequest {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Row(table, key) => {
                out.push(1);
                put_varint(out, u64::from(table.0));
                put_bytes(out, key);
            }
            Self::Rows {
                table,
                from,
                to,
                limit,
            } => {
                out.push(2);
                put_varint(out, u64::from(table.0));
                put_bound(out, from);
                put_bound(out, to);
                put_varint(out, *limit as u64);
            }
            Self::Head(stream) => {
                out.push(3);
                put_varint(out, u64::from(stream.0));
            }
            Self::Batches {
                stream,
                from,
                max_bytes,
            } => {
                out.push(4);
                put_varint(out, u64::from(stream.0));
                let (which, number) = match from {
                    ReadPosition::Sequence(sequence) => (0, sequence.0),
                    ReadPosition::Offset(offset) => (1, offset.0),
                    ReadPosition::Time(time) => (2, time.0 as u64),
                };
                out.push(which);
                put_varint(out, number);
                put_varint(out, *max_bytes as u64);
            }
            Self::Follow { stream, after } => {
                out.push(5);
                put_varint(out, u64::from(stream.0));
                put_varint(out, after.0);
            }
        }
    }

    pub(crate) fn decode(reader: &mut ByteReader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
            1 => Self::Row(TableId(reader.varint_u32()?), reader.bytes()?),
            2 => Self::Rows {
                table: TableId(reader.varint_u32()?),
                from: bound(reader)?,
                to: bound(reader)?,
                limit: size(reader)?,
            },
            3 => Self::Head(StreamId(reader.varint_u32()?)),
            4 => Self::Batches {
                stream: StreamId(reader.varint_u32()?),
                from: match (reader.byte()?, reader.varint()?) {
                    (0, number) => ReadPosition::Sequence(Sequence(number)),
                    (1, number) => ReadPosition::Offset(Offset(number)),
                    (2, number) => ReadPosition::Time(Timestamp(number as i64)),
                    _ => return Err(DecodeError),
                },
                max_bytes: size(reader)?,
            },
            5 => Self::Follow {
                stream: StreamId(reader.varint_u32()?),
                after: Sequence(reader.varint()?),
            },
            _ => return Err(DecodeError),
        })
    }
}

impl ReadResponse {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Row(row) => {
                out.extend([1, u8::from(row.is_some())]);
                put_bytes(out, row.as_deref().unwrap_or_default());
            }
            Self::Rows(rows, is_cut) => {
                out.extend([2, u8::from(*is_cut)]);
                put_varint(out, rows.len() as u64);
                for row in rows {
                    put_bytes(out, &row.key);
                    put_bytes(out, &row.value);
                }
            }
            Self::Head(head) => {
                out.extend([3, u8::from(head.is_some())]);
                let head = head.unwrap_or_default();
                let numbers = [head.first.0, head.first_offset.0, head.next.0, head.end.0];
                numbers.iter().for_each(|number| put_varint(out, *number));
                put_varint(out, head.time.0 as u64);
            }
            Self::Batches(batches) => {
                out.push(4);
                put_varint(out, batches.len() as u64);
                for batch in batches {
                    put_varint(out, u64::from(batch.stream.0));
                    put_varint(out, batch.first.0);
                    put_varint(out, batch.offset.0);
                    put_varint(out, u64::from(batch.count));
                    put_varint(out, batch.time.0 as u64);
                    put_bytes(out, &batch.bytes);
                }
            }
        }
    }

    pub(crate) fn decode(reader: &mut ByteReader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
            1 => {
                let is_there = reader.byte()? != 0;
                let row = reader.bytes()?;
                Self::Row(is_there.then_some(row))
            }
            2 => {
                let is_cut = reader.byte()? != 0;
                let count = size(reader)?;
                let mut rows = Vec::with_capacity(count.min(limits::SCAN_ROWS));
                for _ in 0..count {
                    rows.push(TableRow {
                        key: reader.bytes()?,
                        value: reader.bytes()?,
                    });
                }
                Self::Rows(rows, is_cut)
            }
            3 => {
                let is_there = reader.byte()? != 0;
                let head = StreamHead {
                    first: Sequence(reader.varint()?),
                    first_offset: Offset(reader.varint()?),
                    next: Sequence(reader.varint()?),
                    end: Offset(reader.varint()?),
                    time: Timestamp(reader.varint()? as i64),
                };
                Self::Head(is_there.then_some(head))
            }
            4 => {
                let count = size(reader)?;
                let mut batches = Vec::with_capacity(count.min(1024));
                for _ in 0..count {
                    batches.push(Batch::new(
                        StreamId(reader.varint_u32()?),
                        Sequence(reader.varint()?),
                        Offset(reader.varint()?),
                        reader.varint_u32()?,
                        Timestamp(reader.varint()? as i64),
                        reader.bytes()?,
                    ));
                }
                Self::Batches(batches)
            }
            _ => return Err(DecodeError),
        })
    }
}

fn size(reader: &mut ByteReader) -> Result<usize, DecodeError> {
    usize::try_from(reader.varint()?).map_err(|_| DecodeError)
}

fn put_bound(out: &mut Vec<u8>, bound: &Bound<Bytes>) {
    let (which, key) = match bound {
        Bound::Unbounded => (0, &[][..]),
        Bound::Included(key) => (1, &key[..]),
        Bound::Excluded(key) => (2, &key[..]),
    };
    out.push(which);
    put_bytes(out, key);
}

fn bound(reader: &mut ByteReader) -> Result<Bound<Bytes>, DecodeError> {
    Ok(match (reader.byte()?, reader.bytes()?) {
        (0, _) => Bound::Unbounded,
        (1, key) => Bound::Included(key),
        (2, key) => Bound::Excluded(key),
        _ => return Err(DecodeError),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn questions() -> Vec<ReadRequest> {
        let batches = |from| ReadRequest::Batches {
            stream: StreamId(9),
            from,
            max_bytes: 1 << 20,
        };
        vec![
            ReadRequest::Row(TableId(7), "key".into()),
            ReadRequest::Rows {
                table: TableId(7),
                from: Bound::Excluded("a".into()),
                to: Bound::Unbounded,
                limit: 300,
            },
            ReadRequest::Head(StreamId(9)),
            batches(ReadPosition::Sequence(Sequence(1 << 40))),
            batches(ReadPosition::Offset(Offset(5))),
            batches(ReadPosition::Time(Timestamp(-1))),
            ReadRequest::Follow {
                stream: StreamId(9),
                after: Sequence(3),
            },
        ]
    }

    fn findings() -> Vec<ReadResponse> {
        let head = StreamHead {
            first: Sequence(1),
            first_offset: Offset(2),
            next: Sequence(3),
            end: Offset(4),
            time: Timestamp(5),
        };
        let batch = Batch::new(
            StreamId(9),
            Sequence(1),
            Offset(2),
            3,
            Timestamp(4),
            "events".into(),
        );
        let row = TableRow {
            key: "key".into(),
            value: "value".into(),
        };
        vec![
            ReadResponse::Row(None),
            ReadResponse::Row(Some("value".into())),
            ReadResponse::Rows(vec![row.clone(), row], true),
            ReadResponse::Head(None),
            ReadResponse::Head(Some(head)),
            ReadResponse::Batches(vec![batch.clone(), batch]),
        ]
    }

    #[test]
    fn questions_and_findings_come_back_as_written() {
        for question in questions() {
            let mut out = Vec::new();
            question.encode(&mut out);
            let all = Bytes::from(out);
            let back = ReadRequest::decode(&mut ByteReader::new(all.clone()));
            assert_eq!(back, Ok(question));
            for end in 0..all.len() {
                assert!(ReadRequest::decode(&mut ByteReader::new(all.slice(..end))).is_err());
            }
        }
        for finding in findings() {
            let mut out = Vec::new();
            finding.encode(&mut out);
            let all = Bytes::from(out);
            let back = ReadResponse::decode(&mut ByteReader::new(all.clone()));
            assert_eq!(back, Ok(finding));
            for end in 0..all.len() {
                assert!(ReadResponse::decode(&mut ByteReader::new(all.slice(..end))).is_err());
            }
        }
    }
}
