//! Messages between regions and their witness.

use bytes::Bytes;
use steadfast_core::codec::{Malformed, Reader, put_bytes, put_varint};
use steadfast_storage::mirror::{Ask, Copy};

/// A request to another region, or to a witness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The space that it is about: `jobs@West US`.
    pub space: String,
    pub wish: Wish,
}

/// The requested action on a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Vote on it.
    Vote(Ask),
    /// Apply a step of copying.
    Copy(Copy),
    /// The owner of this epoch has handed the space over to the receiver, which
    /// acquires it.
    Take(u64),
    /// Hand the space over to the sender.
    Give,
    /// Report the current ballot.
    Look,
    /// A request to the interface of the service, for the owner.
    Proxy(Bytes),
}

/// The version of the encoding.
const FORMAT: u8 = 2;

impl Word {
    /// For the wire.
    pub fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        put_bytes(&mut out, self.space.as_bytes());
        match &self.wish {
            Wish::Vote(ask) => {
                out.push(1);
                put_bytes(&mut out, &ask.encode());
            }
            Wish::Copy(copy) => {
                out.push(2);
                put_bytes(&mut out, &copy.encode());
            }
            Wish::Take(epoch) => {
                out.push(3);
                put_varint(&mut out, *epoch);
            }
            Wish::Give => out.push(4),
            Wish::Look => out.push(5),
            Wish::Proxy(request) => {
                out.push(6);
                put_bytes(&mut out, request);
            }
        }
        out.into()
    }

    /// Reads what [`Word::encode`] wrote.
    pub fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.byte()? != FORMAT {
            return Err(Malformed);
        }
        let space = String::from_utf8(reader.bytes()?.to_vec()).map_err(|_| Malformed)?;
        let wish = match reader.byte()? {
            1 => Wish::Vote(Ask::decode(reader.bytes()?)?),
            2 => Wish::Copy(Copy::decode(reader.bytes()?)?),
            3 => Wish::Take(reader.varint()?),
            4 => Wish::Give,
            5 => Wish::Look,
            6 => Wish::Proxy(reader.bytes()?),
            _ => return Err(Malformed),
        };
        Ok(Self { space, wish })
    }
}

/// Encodes an outcome: done, or the reason why not.
pub(super) fn outcome(done: Result<(), String>) -> Bytes {
    match done {
        Ok(()) => Bytes::from_static(&[1]),
        Err(why) => [&[0], why.as_bytes()].concat().into(),
    }
}

/// Reads what [`outcome`] wrote.
pub(super) fn opened(bytes: &[u8]) -> Result<(), String> {
    match bytes.split_first() {
        Some((1, _)) => Ok(()),
        Some((0, why)) => Err(String::from_utf8_lossy(why).into_owned()),
        _ => Err("the answer of the other region is malformed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use steadfast_storage::mirror::Step;

    use super::*;

    #[test]
    fn words_come_back_as_written() {
        let copy = Copy {
            epoch: 1,
            session: 2,
            number: 3,
            step: Step::Begin,
        };
        let ask = Ask::Release {
            epoch: 3,
            owner: "West US".to_owned(),
        };
        for wish in [
            Wish::Vote(ask),
            Wish::Copy(copy),
            Wish::Take(7),
            Wish::Give,
            Wish::Look,
            Wish::Proxy("GET".into()),
        ] {
            let space = "jobs@West US".to_owned();
            let word = Word { space, wish };
            let bytes = word.encode();
            assert_eq!(Word::decode(bytes.clone()), Ok(word));
            for end in 0..bytes.len() {
                assert!(Word::decode(bytes.slice(..end)).is_err());
            }
        }
        assert_eq!(opened(&outcome(Ok(()))), Ok(()));
        let no = outcome(Err("no".to_owned()));
        assert_eq!(opened(&no), Err("no".to_owned()));
    }
}
