//! Addresses of instances, and messages to them.
//!
//! Everything that a service keeps apart (an entity, an instance, a job, a partition of
//! an event hub) is an *instance* with an address. Its hash decides the partition. The
//! encoding of an envelope is stored in outbox and timer rows, so it has a format byte
//! and never changes its meaning.

use std::fmt;

use bytes::Bytes;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use xxhash_rust::xxh3::Xxh3;

/// Which service an address belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServiceKind(pub u16);

/// One instance of one service.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address {
    pub kind: ServiceKind,
    /// The group of instances, such as an entity's name or an event hub's.
    pub name: Bytes,
    /// The instance in that group.
    pub key: Bytes,
}

impl Address {
    /// Names an instance.
    pub fn new(kind: ServiceKind, name: impl Into<Bytes>, key: impl Into<Bytes>) -> Self {
        Self {
            kind,
            name: name.into(),
            key: key.into(),
        }
    }

    /// An address that no service has.
    pub(crate) fn unassigned() -> Self {
        Self {
            kind: ServiceKind(u16::MAX),
            name: Bytes::new(),
            key: Bytes::new(),
        }
    }

    /// The hash that assigns an address to a partition. Stored state depends on it, so
    /// it never changes.
    pub fn spread(&self) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(&self.kind.0.to_le_bytes());
        hash.update(&(self.name.len() as u32).to_le_bytes());
        hash.update(&self.name);
        hash.update(&self.key);
        hash.digest()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.kind.0));
        put_bytes(out, &self.name);
        put_bytes(out, &self.key);
    }

    pub(crate) fn decode(reader: &mut ByteReader) -> Result<Self, DecodeError> {
        let kind = u16::try_from(reader.varint()?).map_err(|_| DecodeError)?;
        Ok(Self {
            kind: ServiceKind(kind),
            name: reader.bytes()?,
            key: reader.bytes()?,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, key) = (self.name.escape_ascii(), self.key.escape_ascii());
        write!(f, "{}/{name}/{key}", self.kind.0)
    }
}

/// A message to an instance, from any service: services know each other's addresses,
/// never each other's types.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope {
    pub to: Address,
    pub body: Bytes,
    /// The trace that caused this message; 0 if unknown.
    pub cause: u128,
}

/// The version of the encoding below.
const FORMAT: u8 = 1;

impl Envelope {
    /// A message without a known cause.
    pub fn new(to: Address, body: impl Into<Bytes>) -> Self {
        Self {
            to,
            body: body.into(),
            cause: 0,
        }
    }

    /// Bytes for a row or for the network.
    pub fn encode(&self) -> Bytes {
        let size = self.to.name.len() + self.to.key.len() + self.body.len() + 40;
        let mut out = Vec::with_capacity(size);
        out.push(FORMAT);
        self.to.encode(&mut out);
        out.extend_from_slice(&self.cause.to_le_bytes());
        put_bytes(&mut out, &self.body);
        out.into()
    }

    /// The envelope in `bytes`, without copying them.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        if reader.byte()? != FORMAT {
            return Err(DecodeError);
        }
        let to = Address::decode(&mut reader)?;
        let cause = reader.u128_le()?;
        let body = reader.bytes()?;
        if reader.is_empty() {
            Ok(Self { to, body, cause })
        } else {
            Err(DecodeError)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_keep_their_place_for_ever() {
        // Stored partitions depend on these numbers.
        let address = Address::new(ServiceKind(3), "counter", "a");
        assert_eq!(address.spread() % 64, 62);
        let other = Address::new(ServiceKind(3), "counte", "ra");
        assert_ne!(address.spread(), other.spread());
    }

    proptest! {
        #[test]
        fn an_envelope_comes_back_as_written(
            kind in any::<u16>(), name in ".{0,20}", key in ".{0,20}",
            body in proptest::collection::vec(any::<u8>(), 0..100), cause in any::<u128>(),
        ) {
            let to = Address::new(ServiceKind(kind), name, key);
            let envelope = Envelope { to, body: body.into(), cause };
            let bytes = envelope.encode();
            prop_assert_eq!(Envelope::decode(bytes.clone()), Ok(envelope));
            for end in 0..bytes.len() {
                prop_assert_eq!(Envelope::decode(bytes.slice(..end)), Err(DecodeError));
            }
        }
    }
}
