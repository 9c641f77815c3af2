//! Messages between owners and holders of replicas.

use bytes::Bytes;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::id::{EntryNumber, Epoch, Partition, TableId};
use steadfast_storage::replica_content::{CopiedRow, ReplicaPosition};

/// A message from the owner of a partition, or from a claimant, to a holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplicationEnvelope {
    pub(crate) partition: Partition,
    /// The epoch of the sender; a holder that knows a later one refuses.
    pub(crate) epoch: Epoch,
    pub(crate) message: Message,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Refuse earlier epochs from now on, and report the position of the replica.
    Ask,
    /// Read rows after a key.
    Read { after: Option<(TableId, Bytes)> },
    /// Keep the current content if it is at this position: the sender begins from it.
    Adopt { base: ReplicaPosition },
    /// A full copy follows.
    Begin { session: u64 },
    /// Rows of the full copy; parts are numbered from 1.
    Rows {
        session: u64,
        part: u64,
        rows: Vec<CopiedRow>,
    },
    /// The full copy ends with this part, at this entry.
    Whole {
        session: u64,
        part: u64,
        number: EntryNumber,
        hash: u64,
        meta: Bytes,
    },
    /// Entries, dense and in order.
    Append { entries: Vec<(EntryNumber, Bytes)> },
    /// Drop the replica, unless a later copy was begun.
    Forget { session: u64 },
}

/// A holder's response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Response {
    Done,
    /// The holder knows of a later epoch.
    Deposed(Epoch),
    /// The message does not follow the holder's state.
    Strange,
    /// The position of its replica, if that is complete.
    Have(Option<ReplicaPosition>),
    /// Rows with the entry that they belong to; none at the end.
    Page {
        rows: Vec<CopiedRow>,
        number: EntryNumber,
        hash: u64,
        meta: Bytes,
    },
}

/// The version of the encodings.
const FORMAT: u8 = 1;

impl ReplicationEnvelope {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        put_varint(&mut out, u64::from(self.partition.0));
        put_varint(&mut out, self.epoch.0);
        match &self.message {
            Message::Ask => out.push(1),
            Message::Read { after: None } => out.push(2),
            Message::Read {
                after: Some((table, key)),
            } => {
                out.push(3);
                put_varint(&mut out, u64::from(table.0));
                put_bytes(&mut out, key);
            }
            Message::Adopt { base } => {
                out.push(4);
                put_position(&mut out, *base);
            }
            Message::Begin { session } => {
                out.push(5);
                put_varint(&mut out, *session);
            }
            Message::Rows {
                session,
                part,
                rows,
            } => {
                out.push(6);
                put_varint(&mut out, *session);
                put_varint(&mut out, *part);
                put_rows(&mut out, rows);
            }
            Message::Whole {
                session,
                part,
                number,
                hash,
                meta,
            } => {
                out.push(7);
                put_varint(&mut out, *session);
                put_varint(&mut out, *part);
                put_varint(&mut out, number.0);
                out.extend_from_slice(&hash.to_le_bytes());
                put_bytes(&mut out, meta);
            }
            Message::Append { entries } => {
                out.push(8);
                put_varint(&mut out, entries.len() as u64);
                for (number, body) in entries {
                    put_varint(&mut out, number.0);
                    put_bytes(&mut out, body);
                }
            }
            Message::Forget { session } => {
                out.push(9);
                put_varint(&mut out, *session);
            }
        }
        out.into()
    }

    /// Reads what [`ReplicationEnvelope::encode`] wrote, without copying.
    pub(crate) fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        if reader.byte()? != FORMAT {
            return Err(DecodeError);
        }
        let partition = Partition(reader.varint_u32()?);
        let epoch = Epoch(reader.varint()?);
        let word = match reader.byte()? {
            1 => Message::Ask,
            2 => Message::Read { after: None },
            3 => Message::Read {
                after: Some((TableId(reader.varint_u32()?), reader.bytes()?)),
            },
            4 => Message::Adopt {
                base: position(&mut reader)?,
            },
            5 => Message::Begin {
                session: reader.varint()?,
            },
            6 => Message::Rows {
                session: reader.varint()?,
                part: reader.varint()?,
                rows: rows(&mut reader)?,
            },
            7 => Message::Whole {
                session: reader.varint()?,
                part: reader.varint()?,
                number: EntryNumber(reader.varint()?),
                hash: reader.u64_le()?,
                meta: reader.bytes()?,
            },
            8 => {
                let count = reader.varint()?;
                let entries = (0..count).map(|_| {
                    let number = EntryNumber(reader.varint()?);
                    Ok((number, reader.bytes()?))
                });
                let entries = entries.collect::<Result<_, DecodeError>>()?;
                Message::Append { entries }
            }
            9 => Message::Forget {
                session: reader.varint()?,
            },
            _ => return Err(DecodeError),
        };
        if reader.is_empty() {
            Ok(Self {
                partition,
                epoch,
                message: word,
            })
        } else {
            Err(DecodeError)
        }
    }
}

impl Response {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        match self {
            Self::Done => out.push(1),
            Self::Deposed(epoch) => {
                out.push(2);
                put_varint(&mut out, epoch.0);
            }
            Self::Strange => out.push(3),
            Self::Have(None) => out.push(4),
            Self::Have(Some(position)) => {
                out.push(5);
                put_position(&mut out, *position);
            }
            Self::Page {
                rows,
                number,
                hash,
                meta,
            } => {
                out.push(6);
                put_varint(&mut out, number.0);
                out.extend_from_slice(&hash.to_le_bytes());
                put_bytes(&mut out, meta);
                put_rows(&mut out, rows);
            }
        }
        out.into()
    }

    /// Reads what [`Response::encode`] wrote, without copying.
    pub(crate) fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        if reader.byte()? != FORMAT {
            return Err(DecodeError);
        }
        let answer = match reader.byte()? {
            1 => Self::Done,
            2 => Self::Deposed(Epoch(reader.varint()?)),
            3 => Self::Strange,
            4 => Self::Have(None),
            5 => Self::Have(Some(position(&mut reader)?)),
            6 => Self::Page {
                number: EntryNumber(reader.varint()?),
                hash: reader.u64_le()?,
                meta: reader.bytes()?,
                rows: rows(&mut reader)?,
            },
            _ => return Err(DecodeError),
        };
        if reader.is_empty() {
            Ok(answer)
        } else {
            Err(DecodeError)
        }
    }
}

fn put_position(out: &mut Vec<u8>, position: ReplicaPosition) {
    put_varint(out, position.epoch.0);
    put_varint(out, position.number.0);
}

fn position(reader: &mut ByteReader) -> Result<ReplicaPosition, DecodeError> {
    Ok(ReplicaPosition {
        epoch: Epoch(reader.varint()?),
        number: EntryNumber(reader.varint()?),
    })
}

fn put_rows(out: &mut Vec<u8>, rows: &[CopiedRow]) {
    put_varint(out, rows.len() as u64);
    for (table, key, value) in rows {
        put_varint(out, u64::from(table.0));
        put_bytes(out, key);
        put_bytes(out, value);
    }
}

fn rows(reader: &mut ByteReader) -> Result<Vec<CopiedRow>, DecodeError> {
    let count = reader.varint()?;
    let rows = (0..count).map(|_| {
        let table = TableId(reader.varint_u32()?);
        Ok((table, reader.bytes()?, reader.bytes()?))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Vec<Message> {
        let bytes = Bytes::from_static;
        let rows = vec![
            (TableId(4), bytes(b"k"), bytes(b"v")),
            (TableId(5), bytes(b""), bytes(b"")),
        ];
        let base = ReplicaPosition {
            epoch: Epoch(3),
            number: EntryNumber(300),
        };
        vec![
            Message::Ask,
            Message::Read { after: None },
            Message::Read {
                after: Some((TableId(9), bytes(b"key"))),
            },
            Message::Adopt { base },
            Message::Begin { session: 7 },
            Message::Forget { session: 8 },
            Message::Rows {
                session: 7,
                part: 1,
                rows,
            },
            Message::Whole {
                session: 7,
                part: 2,
                number: EntryNumber(12),
                hash: u64::MAX,
                meta: bytes(b"meta"),
            },
            Message::Append {
                entries: vec![
                    (EntryNumber(13), bytes(b"body")),
                    (EntryNumber(14), bytes(b"")),
                ],
            },
        ]
    }

    #[test]
    fn letters_come_back_as_written_and_cut_off_ones_are_refused() {
        for word in words() {
            let letter = ReplicationEnvelope {
                partition: Partition::new(2, 7),
                epoch: Epoch(9),
                message: word,
            };
            let bytes = letter.encode();
            assert_eq!(ReplicationEnvelope::decode(bytes.clone()), Ok(letter));
            for end in 0..bytes.len() {
                assert!(ReplicationEnvelope::decode(bytes.slice(..end)).is_err());
            }
        }
    }

    #[test]
    fn answers_come_back_as_written_and_cut_off_ones_are_refused() {
        let at = ReplicaPosition {
            epoch: Epoch(3),
            number: EntryNumber(300),
        };
        let answers = [
            Response::Done,
            Response::Deposed(Epoch(8)),
            Response::Strange,
            Response::Have(None),
            Response::Have(Some(at)),
            Response::Page {
                rows: vec![(
                    TableId(4),
                    Bytes::from_static(b"k"),
                    Bytes::from_static(b"v"),
                )],
                number: EntryNumber(1),
                hash: 5,
                meta: Bytes::from_static(b"m"),
            },
        ];
        for answer in answers {
            let bytes = answer.encode();
            assert_eq!(Response::decode(bytes.clone()), Ok(answer));
            for end in 0..bytes.len() {
                assert!(Response::decode(bytes.slice(..end)).is_err());
            }
        }
    }
}
