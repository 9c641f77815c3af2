//! Spaces and their partitions.
//!
//! A space is a fixed number of partitions on one engine. The partitions of an event hub or
//! a service are parts of them: those of one thing lie in neighbouring partitions of the
//! space, its *store partitions*. The number of partitions and the incarnation are written once, when the
//! space is created; a space that was restored or lost gets another incarnation, so
//! that receivers do not mistake its messages for the old ones.

use bytes::Bytes;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::id::Partition;
use steadfast_core::limits;
use steadfast_storage::Engine;
use steadfast_storage::engine::CasOutcome;

use crate::error::{Error, ErrorKind as Failure, Result};
use crate::ingress::address::{Address, ServiceKind};

/// A set of partitions on one engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// The first part of every partition's number.
    pub number: u16,
    pub name: String,
    /// The number of partitions; fixed when the space is created.
    pub partitions: u16,
    /// The incarnation of the space.
    pub incarnation: u128,
}

/// The version of the record of a space.
const FORMAT: u8 = 1;

impl Space {
    /// Opens the space in the engine, or creates it as `wanted`. The name and the
    /// number of partitions of a space never change.
    pub async fn open(engine: &dyn Engine, wanted: Self) -> Result<Self> {
        let key = format!("space/{:05}", wanted.number);
        if wanted.partitions == 0 || wanted.partitions > limits::PARTITIONS {
            return Err(wanted.differs("a space needs 1 to 4096 partitions".into()));
        }
        let found = match engine.cas(&key, 0, wanted.encode()).await? {
            CasOutcome::Done(_) => return Ok(wanted),
            CasOutcome::Conflict { value, .. } => value.unwrap_or_default(),
        };
        let unreadable = |_| wanted.differs(format!("its record {key} cannot be read"));
        let found = Self::decode(found, wanted.number).map_err(unreadable)?;
        if found.name != wanted.name {
            return Err(wanted.differs(format!("number {} is {}", found.number, found.name)));
        }
        if found.partitions != wanted.partitions {
            let count = found.partitions;
            return Err(wanted.differs(format!("it was made with {count} partitions")));
        }
        Ok(found)
    }

    /// All partitions.
    pub fn all(&self) -> impl Iterator<Item = Partition> + use<> {
        let number = self.number;
        (0..self.partitions).map(move |index| Partition::new(number, index))
    }

    /// The partition of an instance.
    pub fn partition(&self, address: &Address) -> Partition {
        let index = address.spread() % u64::from(self.partitions);
        Partition::new(self.number, index as u16)
    }

    /// The store partition of partition `number` of a named thing.
    pub fn partition_of(&self, kind: ServiceKind, name: &str, number: u32) -> Partition {
        let first = Address::new(kind, name.to_string(), "").spread();
        let index = first.wrapping_add(u64::from(number)) % u64::from(self.partitions);
        Partition::new(self.number, index as u16)
    }

    fn differs(&self, what: String) -> Error {
        let space = self.name.clone();
        Error::new(Failure::SpaceDiffers { space, what })
    }

    fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        put_bytes(&mut out, self.name.as_bytes());
        put_varint(&mut out, u64::from(self.partitions));
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        out.into()
    }

    fn decode(bytes: Bytes, number: u16) -> std::result::Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        if reader.byte()? != FORMAT {
            return Err(DecodeError);
        }
        let name = String::from_utf8(reader.bytes()?.to_vec()).map_err(|_| DecodeError)?;
        let partitions = u16::try_from(reader.varint()?).map_err(|_| DecodeError)?;
        Ok(Self {
            number,
            name,
            partitions,
            incarnation: reader.u128_le()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(partitions: u16) -> Space {
        Space {
            number: 3,
            name: "main".into(),
            partitions,
            incarnation: 7,
        }
    }

    #[test]
    fn partitions_of_one_thing_lie_side_by_side() {
        let space = space(64);
        let first = space.partition_of(ServiceKind(5), "telemetry", 0);
        for number in 0..200u32 {
            let expected = (u32::from(first.index()) + number) % 64;
            let found = space.partition_of(ServiceKind(5), "telemetry", number);
            assert_eq!(found, Partition::new(3, expected as u16));
        }
        // Stored state depends on these numbers.
        assert_eq!(first.index(), 13);
        assert_ne!(space.partition_of(ServiceKind(5), "other", 0), first);
    }

    #[test]
    fn a_record_of_a_space_comes_back_as_written() {
        let space = space(64);
        let bytes = space.encode();
        assert_eq!(Space::decode(bytes.clone(), 3), Ok(space));
        for end in 0..bytes.len() {
            assert!(Space::decode(bytes.slice(..end), 3).is_err());
        }
    }
}
