//! Messages between the regions of a pair.

use bytes::Bytes;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::id::Partition;

/// One step of copying. Steps of a session are numbered from 1 and applied in order,
/// each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyRequest {
    /// The epoch of the sender.
    pub epoch: u64,
    /// The number of the full copy that it belongs to; it grows within an epoch.
    pub session: u64,
    pub number: u64,
    pub step: CopyStep,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyStep {
    /// A full copy follows, beside the current one.
    Begin,
    /// Changes of partitions, in order, as redo.
    Changes(Vec<(Partition, Bytes)>),
    /// The copy is complete from here on.
    Whole,
}

/// The other region's response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyResponse {
    /// The step is durable.
    Done,
    /// The other region knows of a later epoch.
    Deposed(u64),
    /// The session is unknown, or a step is missing: begin again.
    Strange,
    /// The step failed and may be retried.
    Failed(String),
}

/// The version of the encodings.
const FORMAT: u8 = 1;

impl CopyRequest {
    /// Encodes the message.
    pub fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        put_varint(&mut out, self.epoch);
        out.extend_from_slice(&self.session.to_le_bytes());
        put_varint(&mut out, self.number);
        match &self.step {
            CopyStep::Begin => out.push(1),
            CopyStep::Changes(parts) => {
                out.push(2);
                put_varint(&mut out, parts.len() as u64);
                for (partition, operations) in parts {
                    put_varint(&mut out, u64::from(partition.0));
                    put_bytes(&mut out, operations);
                }
            }
            CopyStep::Whole => out.push(3),
        }
        out.into()
    }

    /// Reads what [`CopyRequest::encode`] wrote, without copying.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        if reader.byte()? != FORMAT {
            return Err(DecodeError);
        }
        let epoch = reader.varint()?;
        let session = reader.u64_le()?;
        let number = reader.varint()?;
        let step = match reader.byte()? {
            1 => CopyStep::Begin,
            2 => {
                let count = reader.varint()?;
                let mut parts = Vec::new();
                for _ in 0..count {
                    parts.push((Partition(reader.varint_u32()?), reader.bytes()?));
                }
                CopyStep::Changes(parts)
            }
            3 => CopyStep::Whole,
            _ => return Err(DecodeError),
        };
        if reader.is_empty() {
            Ok(Self {
                epoch,
                session,
                number,
                step,
            })
        } else {
            Err(DecodeError)
        }
    }
}

impl CopyResponse {
    /// Encodes the message.
    pub fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        match self {
            Self::Done => out.push(1),
            Self::Deposed(epoch) => {
                out.push(2);
                put_varint(&mut out, *epoch);
            }
            Self::Strange => out.push(3),
            Self::Failed(why) => {
                out.push(4);
                put_bytes(&mut out, why.as_bytes());
            }
        }
        out.into()
    }

    /// Reads what [`CopyResponse::encode`] wrote.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        if reader.byte()? != FORMAT {
            return Err(DecodeError);
        }
        Ok(match reader.byte()? {
            1 => Self::Done,
            2 => Self::Deposed(reader.varint()?),
            3 => Self::Strange,
            4 => Self::Failed(String::from_utf8_lossy(&reader.bytes()?).into_owned()),
            _ => return Err(DecodeError),
        })
    }
}
