//! Messages between regions and their witness.

use bytes::Bytes;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_storage_replicated::mirror::{CopyRequest, VoteRequest};

/// A request to another region, or to a witness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionRequest {
    /// The space that it is about: `jobs@West US`.
    pub space: String,
    pub action: RegionAction,
}

/// The requested action on a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegionAction {
    /// Vote on it.
    Vote(VoteRequest),
    /// Apply a step of copying.
    Copy(CopyRequest),
    /// The owner of this epoch has handed the space over to the receiver, which
    /// acquires it.
    Take(u64),
    /// Hand the space over to the sender.
    HandOver,
    /// Report the current ballot.
    Status,
    /// A request to the interface of the service, for the owner.
    Proxy(Bytes),
}

/// The version of the encoding.
const FORMAT: u8 = 2;

impl RegionRequest {
    /// For the wire.
    pub fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        put_bytes(&mut out, self.space.as_bytes());
        match &self.action {
            RegionAction::Vote(ask) => {
                out.push(1);
                put_bytes(&mut out, &ask.encode());
            }
            RegionAction::Copy(copy) => {
                out.push(2);
                put_bytes(&mut out, &copy.encode());
            }
            RegionAction::Take(epoch) => {
                out.push(3);
                put_varint(&mut out, *epoch);
            }
            RegionAction::HandOver => out.push(4),
            RegionAction::Status => out.push(5),
            RegionAction::Proxy(request) => {
                out.push(6);
                put_bytes(&mut out, request);
            }
        }
        out.into()
    }

    /// Reads what [`RegionRequest::encode`] wrote.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        if reader.byte()? != FORMAT {
            return Err(DecodeError);
        }
        let space = String::from_utf8(reader.bytes()?.to_vec()).map_err(|_| DecodeError)?;
        let wish = match reader.byte()? {
            1 => RegionAction::Vote(VoteRequest::decode(reader.bytes()?)?),
            2 => RegionAction::Copy(CopyRequest::decode(reader.bytes()?)?),
            3 => RegionAction::Take(reader.varint()?),
            4 => RegionAction::HandOver,
            5 => RegionAction::Status,
            6 => RegionAction::Proxy(reader.bytes()?),
            _ => return Err(DecodeError),
        };
        Ok(Self {
            space,
            action: wish,
        })
    }
}

/// Encodes an outcome: done, or the reason why not.
pub(super) fn encode_outcome(done: Result<(), String>) -> Bytes {
    match done {
        Ok(()) => Bytes::from_static(&[1]),
        Err(why) => [&[0], why.as_bytes()].concat().into(),
    }
}

/// Reads what [`encode_outcome`] wrote.
pub(super) fn decode_outcome(bytes: &[u8]) -> Result<(), String> {
    match bytes.split_first() {
        Some((1, _)) => Ok(()),
        Some((0, why)) => Err(String::from_utf8_lossy(why).into_owned()),
        _ => Err("the answer of the other region is malformed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use steadfast_storage_replicated::mirror::CopyStep;

    use super::*;

    #[test]
    fn words_come_back_as_written() {
        let copy = CopyRequest {
            epoch: 1,
            session: 2,
            number: 3,
            step: CopyStep::Begin,
        };
        let ask = VoteRequest::Release {
            epoch: 3,
            owner: "West US".to_owned(),
        };
        for wish in [
            RegionAction::Vote(ask),
            RegionAction::Copy(copy),
            RegionAction::Take(7),
            RegionAction::HandOver,
            RegionAction::Status,
            RegionAction::Proxy("GET".into()),
        ] {
            let space = "jobs@West US".to_owned();
            let word = RegionRequest {
                space,
                action: wish,
            };
            let bytes = word.encode();
            assert_eq!(RegionRequest::decode(bytes.clone()), Ok(word));
            for end in 0..bytes.len() {
                assert!(RegionRequest::decode(bytes.slice(..end)).is_err());
            }
        }
        assert_eq!(decode_outcome(&encode_outcome(Ok(()))), Ok(()));
        let no = encode_outcome(Err("no".to_owned()));
        assert_eq!(decode_outcome(&no), Err("no".to_owned()));
    }
}
