//! Reads of a partition that travel between nodes.
//!
//! The five reads of a mailbox, as values. Nodes of different versions exchange their
//! encoding, so it never changes its meaning.

use std::ops::Bound;

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::codec::{Malformed, Reader, put_bytes, put_varint};
use steadfast_core::id::{Offset, Sequence, Stream, Table};
use steadfast_core::limits;

use steadfast_storage::Head;
use steadfast_storage::engine::{EventBatch as Batch, Row, Start};

/// A read request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// One row.
    Row(Table, Bytes),
    /// Rows in key order.
    Rows {
        table: Table,
        from: Bound<Bytes>,
        to: Bound<Bytes>,
        limit: usize,
    },
    /// Begin and end of a stream.
    Head(Stream),
    /// Batches of a stream.
    Batches {
        stream: Stream,
        from: Start,
        max_bytes: usize,
    },
    /// Begin and end of a stream, as soon as it grows beyond `after`, or after a
    /// time-out.
    Follow { stream: Stream, after: Sequence },
}

/// The response to a read request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    Row(Option<Bytes>),
    /// The rows, and whether there may be more: they are cut off by size.
    Rows(Vec<Row>, bool),
    Head(Option<Head>),
    Batches(Vec<Batch>),
}

impl Question {
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
                    Start::Sequence(sequence) => (0, sequence.0),
                    Start::Offset(offset) => (1, offset.0),
                    Start::Time(time) => (2, time.0 as u64),
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

    pub(crate) fn decode(reader: &mut Reader) -> Result<Self, Malformed> {
        Ok(match reader.byte()? {
            1 => Self::Row(Table(reader.varint_u32()?), reader.bytes()?),
            2 => Self::Rows {
                table: Table(reader.varint_u32()?),
                from: bound(reader)?,
                to: bound(reader)?,
                limit: size(reader)?,
            },
            3 => Self::Head(Stream(reader.varint_u32()?)),
            4 => Self::Batches {
                stream: Stream(reader.varint_u32()?),
                from: match (reader.byte()?, reader.varint()?) {
                    (0, number) => Start::Sequence(Sequence(number)),
                    (1, number) => Start::Offset(Offset(number)),
                    (2, number) => Start::Time(Timestamp(number as i64)),
                    _ => return Err(Malformed),
                },
                max_bytes: size(reader)?,
            },
            5 => Self::Follow {
                stream: Stream(reader.varint_u32()?),
                after: Sequence(reader.varint()?),
            },
            _ => return Err(Malformed),
        })
    }
}

impl Finding {
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

    pub(crate) fn decode(reader: &mut Reader) -> Result<Self, Malformed> {
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
                    rows.push(Row {
                        key: reader.bytes()?,
                        value: reader.bytes()?,
                    });
                }
                Self::Rows(rows, is_cut)
            }
            3 => {
                let is_there = reader.byte()? != 0;
                let head = Head {
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
                        Stream(reader.varint_u32()?),
                        Sequence(reader.varint()?),
                        Offset(reader.varint()?),
                        reader.varint_u32()?,
                        Timestamp(reader.varint()? as i64),
                        reader.bytes()?,
                    ));
                }
                Self::Batches(batches)
            }
            _ => return Err(Malformed),
        })
    }
}

fn size(reader: &mut Reader) -> Result<usize, Malformed> {
    usize::try_from(reader.varint()?).map_err(|_| Malformed)
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

fn bound(reader: &mut Reader) -> Result<Bound<Bytes>, Malformed> {
    Ok(match (reader.byte()?, reader.bytes()?) {
        (0, _) => Bound::Unbounded,
        (1, key) => Bound::Included(key),
        (2, key) => Bound::Excluded(key),
        _ => return Err(Malformed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn questions() -> Vec<Question> {
        let batches = |from| Question::Batches {
            stream: Stream(9),
            from,
            max_bytes: 1 << 20,
        };
        vec![
            Question::Row(Table(7), "key".into()),
            Question::Rows {
                table: Table(7),
                from: Bound::Excluded("a".into()),
                to: Bound::Unbounded,
                limit: 300,
            },
            Question::Head(Stream(9)),
            batches(Start::Sequence(Sequence(1 << 40))),
            batches(Start::Offset(Offset(5))),
            batches(Start::Time(Timestamp(-1))),
            Question::Follow {
                stream: Stream(9),
                after: Sequence(3),
            },
        ]
    }

    fn findings() -> Vec<Finding> {
        let head = Head {
            first: Sequence(1),
            first_offset: Offset(2),
            next: Sequence(3),
            end: Offset(4),
            time: Timestamp(5),
        };
        let batch = Batch::new(
            Stream(9),
            Sequence(1),
            Offset(2),
            3,
            Timestamp(4),
            "events".into(),
        );
        let row = Row {
            key: "key".into(),
            value: "value".into(),
        };
        vec![
            Finding::Row(None),
            Finding::Row(Some("value".into())),
            Finding::Rows(vec![row.clone(), row], true),
            Finding::Head(None),
            Finding::Head(Some(head)),
            Finding::Batches(vec![batch.clone(), batch]),
        ]
    }

    #[test]
    fn questions_and_findings_come_back_as_written() {
        for question in questions() {
            let mut out = Vec::new();
            question.encode(&mut out);
            let all = Bytes::from(out);
            let back = Question::decode(&mut Reader::new(all.clone()));
            assert_eq!(back, Ok(question));
            for end in 0..all.len() {
                assert!(Question::decode(&mut Reader::new(all.slice(..end))).is_err());
            }
        }
        for finding in findings() {
            let mut out = Vec::new();
            finding.encode(&mut out);
            let all = Bytes::from(out);
            let back = Finding::decode(&mut Reader::new(all.clone()));
            assert_eq!(back, Ok(finding));
            for end in 0..all.len() {
                assert!(Finding::decode(&mut Reader::new(all.slice(..end))).is_err());
            }
        }
    }
}
