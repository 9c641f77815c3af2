//! Batches of messages between two nodes.

use bytes::Bytes;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::limits;

/// A batch of messages from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeerBatch {
    /// The sending node and its incarnation.
    pub(crate) from: String,
    pub(crate) life: u128,
    /// Numbers of lanes and batches only grow.
    pub(crate) lane: u64,
    pub(crate) number: u64,
    pub(crate) words: Vec<Bytes>,
}

/// The version of the encoding.
const FORMAT: u8 = 1;

impl PeerBatch {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        put_bytes(&mut out, self.from.as_bytes());
        out.extend_from_slice(&self.life.to_le_bytes());
        put_varint(&mut out, self.lane);
        put_varint(&mut out, self.number);
        put_list(&mut out, &self.words);
        out.into()
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        if reader.byte()? != FORMAT {
            return Err(DecodeError);
        }
        Ok(Self {
            from: text(&mut reader)?,
            life: reader.u128_le()?,
            lane: reader.varint()?,
            number: reader.varint()?,
            words: list(&mut reader)?,
        })
    }

    /// Encodes the responses to the messages of a batch.
    pub(crate) fn replies(replies: &[Bytes]) -> Bytes {
        let mut out = vec![FORMAT];
        put_list(&mut out, replies);
        out.into()
    }

    pub(crate) fn read_replies(bytes: Bytes) -> Result<Vec<Bytes>, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        match reader.byte()? {
            FORMAT => list(&mut reader),
            _ => Err(DecodeError),
        }
    }
}

fn put_list(out: &mut Vec<u8>, parts: &[Bytes]) {
    put_varint(out, parts.len() as u64);
    for part in parts {
        put_bytes(out, part);
    }
}

fn list(reader: &mut ByteReader) -> Result<Vec<Bytes>, DecodeError> {
    let count = reader.varint()?;
    if count > limits::NODE_BATCH as u64 {
        return Err(DecodeError);
    }
    (0..count).map(|_| reader.bytes()).collect()
}

pub(crate) fn text(reader: &mut ByteReader) -> Result<String, DecodeError> {
    String::from_utf8(reader.bytes()?.into()).map_err(|_| DecodeError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_come_back_as_written() {
        let batch = PeerBatch {
            from: "a".to_owned(),
            life: 1 << 100,
            lane: 3,
            number: 300,
            words: vec!["one".into(), Bytes::new()],
        };
        let bytes = batch.encode();
        assert_eq!(PeerBatch::decode(bytes.clone()), Ok(batch));
        for end in 0..bytes.len() {
            assert!(PeerBatch::decode(bytes.slice(..end)).is_err(), "{end}");
        }
        let replies = [Bytes::from("yes")];
        let read = PeerBatch::read_replies(PeerBatch::replies(&replies));
        assert_eq!(read, Ok(replies.to_vec()));
    }
}
