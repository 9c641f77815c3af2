//! The membership record of a node.
//!
//! It holds the node's identity in this life, its address, the versions it supports,
//! and the partitions it serves. Its writer increments its version with every beat; a
//! node that sees no new version for the time of a lease considers the writer dead. The
//! partitions of a dead node are free, if the engine agrees.

use std::fmt;

use bytes::Bytes;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::error::Code;
use steadfast_core::id::{Epoch, Owner};
use steadfast_core::limits;

/// The protocol version between nodes. A node works with the version before its own and
/// with the one after it, so that nodes can be replaced one by one.
pub const PROTOCOL: u32 = 2;

/// The version of rows and records that nodes share; the same rule holds for it.
pub const SCHEMA: u32 = 2;

/// Whether nodes of these versions can work together.
pub fn fits(one: u32, other: u32) -> bool {
    one.abs_diff(other) <= 1
}

/// The identity of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    /// Its name, which no other node has.
    pub name: String,
    /// Its address for other nodes: host and port. Empty if it is alone.
    pub address: String,
    /// The identity of the cluster: of the database.
    pub cluster: String,
    /// Shows whether two nodes have the same key, and nothing else of it.
    pub fingerprint: [u8; 16],
    pub protocol: u32,
    pub schema: u32,
}

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It serves its share of partitions.
    Up,
    /// It hands over its partitions.
    Leaving,
    /// It has left.
    Gone,
}

/// A node's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MemberRecord {
    pub(super) identity: NodeIdentity,
    pub(super) owner: Owner,
    pub(super) state: State,
    /// Partitions that it serves, by index, each with its epoch; ascending.
    pub(super) serves: Vec<(u16, Epoch)>,
    /// Other nodes that it does not reach.
    pub(super) missed: Vec<Owner>,
    /// Most others do not reach it: it hands over its partitions.
    pub(super) is_isolated: bool,
}

/// The version of the encoding.
const FORMAT: u8 = 1;

/// Key prefix of all records.
pub(super) const PREFIX: &str = "member/";

/// The counter of node numbers.
pub(super) const NUMBERS: &str = "cluster/numbers";

impl MemberRecord {
    pub(super) fn key(name: &str) -> String {
        format!("{PREFIX}{name}")
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        let NodeIdentity {
            name,
            address,
            cluster,
            fingerprint,
            protocol,
            schema,
        } = &self.identity;
        for text in [name, address, cluster] {
            put_bytes(&mut out, text.as_bytes());
        }
        out.extend_from_slice(fingerprint);
        put_varint(&mut out, u64::from(*protocol));
        put_varint(&mut out, u64::from(*schema));
        put_varint(&mut out, u64::from(self.owner.node));
        out.extend_from_slice(&self.owner.incarnation.to_le_bytes());
        out.push(match self.state {
            State::Up => 1,
            State::Leaving => 2,
            State::Gone => 3,
        });
        put_varint(&mut out, self.serves.len() as u64);
        for (index, epoch) in &self.serves {
            put_varint(&mut out, u64::from(*index));
            put_varint(&mut out, epoch.0);
        }
        put_varint(&mut out, self.missed.len() as u64);
        for owner in &self.missed {
            put_varint(&mut out, u64::from(owner.node));
            out.extend_from_slice(&owner.incarnation.to_le_bytes());
        }
        out.push(u8::from(self.is_isolated));
        out.into()
    }

    /// Ignores fields that newer versions add at the end.
    pub(super) fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        if reader.byte()? != FORMAT {
            return Err(DecodeError);
        }
        let text = |reader: &mut ByteReader| {
            let bytes = reader.bytes()?;
            String::from_utf8(bytes.to_vec()).map_err(|_| DecodeError)
        };
        let identity = NodeIdentity {
            name: text(&mut reader)?,
            address: text(&mut reader)?,
            cluster: text(&mut reader)?,
            fingerprint: reader.take(16)?[..].try_into().map_err(|_| DecodeError)?,
            protocol: reader.varint_u32()?,
            schema: reader.varint_u32()?,
        };
        let owner = owner(&mut reader)?;
        let state = match reader.byte()? {
            1 => State::Up,
            2 => State::Leaving,
            3 => State::Gone,
            _ => return Err(DecodeError),
        };
        let count = reader.varint()?;
        if count > u64::from(limits::PARTITIONS) {
            return Err(DecodeError);
        }
        let mut serves = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let index = u16::try_from(reader.varint()?).map_err(|_| DecodeError)?;
            serves.push((index, Epoch(reader.varint()?)));
        }
        let mut member = Self {
            identity,
            owner,
            state,
            serves,
            missed: Vec::new(),
            is_isolated: false,
        };
        // Older versions did not probe other nodes.
        if !reader.is_empty() {
            let count = reader.varint()?;
            if count > limits::NODES as u64 {
                return Err(DecodeError);
            }
            let missed = (0..count).map(|_| self::owner(&mut reader));
            member.missed = missed.collect::<Result<_, _>>()?;
            member.is_isolated = reader.byte()? != 0;
        }
        Ok(member)
    }
}

fn owner(reader: &mut ByteReader) -> Result<Owner, DecodeError> {
    Ok(Owner {
        node: reader.varint_u32()?,
        incarnation: reader.u128_le()?,
    })
}

/// Why a node may not join, or not communicate with another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinRejection {
    /// The keys differ.
    Key { other: String },
    /// It is of another cluster.
    Cluster { other: String, found: String },
    /// The versions are more than one apart.
    Version { other: String, found: u32, own: u32 },
    /// A node of the same name is alive.
    Name { name: String },
    /// There is another node, and no key to authenticate it.
    Alone { other: String },
    /// There are too many nodes.
    Crowded,
}

impl JoinRejection {
    /// Why these two cannot work together, seen by `own`.
    pub fn between(own: &NodeIdentity, other: &NodeIdentity) -> Option<Self> {
        let name = || other.name.clone();
        if own.cluster != other.cluster {
            let found = other.cluster.clone();
            return Some(Self::Cluster {
                other: name(),
                found,
            });
        }
        let versions = [(own.protocol, other.protocol), (own.schema, other.schema)];
        if let Some((own, found)) = versions.into_iter().find(|(one, two)| !fits(*one, *two)) {
            let other = name();
            return Some(Self::Version { other, found, own });
        }
        if own.address.is_empty() || other.address.is_empty() {
            return Some(Self::Alone { other: name() });
        }
        (own.fingerprint != other.fingerprint).then(|| Self::Key { other: name() })
    }

    /// The stable code, the name of its page in `docs/errors/`.
    pub fn code(&self) -> Code {
        Code(match self {
            Self::Key { .. } => "STF-7010",
            Self::Cluster { .. } => "STF-7011",
            Self::Version { .. } => "STF-7012",
            Self::Name { .. } => "STF-7013",
            Self::Alone { .. } => "STF-7014",
            Self::Crowded => "STF-7015",
        })
    }
}

impl fmt::Display for JoinRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.code())?;
        match self {
            Self::Key { other } => write!(
                f,
                "the cluster key is not the one of node {other}; set the same cluster.key on all nodes"
            ),
            Self::Cluster { other, found } => write!(
                f,
                "node {other} is of cluster {found}; give all nodes the same database"
            ),
            Self::Version { other, found, own } => write!(
                f,
                "node {other} speaks version {found} and this one {own}; only neighbours work together, so upgrade in steps"
            ),
            Self::Name { name } => write!(
                f,
                "a node with the name {name} is alive; give every node a name of its own"
            ),
            Self::Alone { other } => write!(
                f,
                "node {other} uses this database; set cluster.key on both to let them work together, or stop it"
            ),
            Self::Crowded => write!(f, "a cluster has {} nodes at most", limits::NODES),
        }
    }
}

impl std::error::Error for JoinRejection {}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: &str) -> NodeIdentity {
        NodeIdentity {
            name: name.to_owned(),
            address: "here:1".to_owned(),
            cluster: "c".to_owned(),
            fingerprint: [7; 16],
            protocol: PROTOCOL,
            schema: SCHEMA,
        }
    }

    #[test]
    fn a_record_comes_back_as_written_and_may_grow() {
        let member = MemberRecord {
            identity: identity("a"),
            owner: Owner {
                node: 3,
                incarnation: u128::MAX,
            },
            state: State::Leaving,
            serves: vec![(0, Epoch(1)), (63, Epoch(1 << 40))],
            missed: vec![Owner {
                node: 4,
                incarnation: 5,
            }],
            is_isolated: true,
        };
        let bytes = member.encode();
        assert_eq!(MemberRecord::decode(bytes.clone()), Ok(member.clone()));
        // A record of the previous version ends before the missed nodes.
        let before = bytes.len() - 19;
        for end in (0..bytes.len()).filter(|end| *end != before) {
            assert!(MemberRecord::decode(bytes.slice(..end)).is_err());
        }
        let older = MemberRecord::decode(bytes.slice(..before)).unwrap();
        assert_eq!(
            (older.missed.len(), older.serves),
            (0, member.serves.clone())
        );
        let newer = [&bytes[..], b"more"].concat();
        assert_eq!(MemberRecord::decode(newer.into()), Ok(member));
    }

    #[test]
    fn the_version_before_is_accepted_and_no_other() {
        let own = identity("a");
        let with = |protocol, schema| {
            let other = NodeIdentity {
                protocol,
                schema,
                ..identity("b")
            };
            // Both sides decide the same.
            let decided = JoinRejection::between(&own, &other);
            let is_mutual = JoinRejection::between(&other, &own).is_some() == decided.is_some();
            assert!(is_mutual);
            decided.map(|refused| refused.code().0)
        };
        assert_eq!(with(PROTOCOL, SCHEMA), None);
        assert_eq!(with(PROTOCOL - 1, SCHEMA), None);
        assert_eq!(with(PROTOCOL, SCHEMA - 1), None);
        assert_eq!(with(PROTOCOL + 1, SCHEMA), None);
        assert_eq!(with(PROTOCOL - 2, SCHEMA), Some("STF-7012"));
        assert_eq!(with(PROTOCOL, SCHEMA + 2), Some("STF-7012"));
    }

    #[test]
    fn strangers_are_told_why() {
        let own = identity("a");
        let refused =
            |other: &NodeIdentity| JoinRejection::between(&own, other).map(|why| why.code().0);
        let mut other = identity("b");
        other.fingerprint = [8; 16];
        assert_eq!(refused(&other), Some("STF-7010"));
        other = identity("b");
        other.cluster = "d".to_owned();
        assert_eq!(refused(&other), Some("STF-7011"));
        other = identity("b");
        other.address.clear();
        assert_eq!(refused(&other), Some("STF-7014"));
    }
}
