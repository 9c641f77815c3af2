//! The durable record of the nodes that hold a partition.

use bytes::Bytes;
use steadfast_core::codec::{ByteReader, DecodeError, put_varint};
use steadfast_core::id::{Epoch, Owner, Partition};
use steadfast_storage::engine::Engine;
use steadfast_storage::{Error, ErrorKind, Result};

/// Key prefix of the replica-set records of volatile partitions.
const PREFIX: &str = "volatile/";

/// The version of the record.
const FORMAT: u8 = 1;

/// The replica set of a partition. Only the owner of its epoch changes it; raising the
/// epoch fences that owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaSet {
    pub epoch: Epoch,
    /// Counts losses of the whole content.
    pub life: u64,
    /// The node that last raised the epoch.
    pub owner: Option<Owner>,
    /// The nodes with a replica; an acknowledged entry is on a majority of them.
    pub holders: Vec<Owner>,
}

impl ReplicaSet {
    /// The key of a partition's record.
    pub(crate) fn key(partition: Partition) -> String {
        format!("{PREFIX}{:05}/{:05}", partition.space(), partition.index())
    }

    /// The record of a partition and its version; a missing record has version 0.
    pub(crate) async fn find(engine: &dyn Engine, partition: Partition) -> Result<(u64, Self)> {
        let key = Self::key(partition);
        let records = engine.list(&key).await?;
        let found = records.into_iter().find(|record| record.key == key);
        let Some(record) = found else {
            return Ok((0, Self::default()));
        };
        let what = format!("the record {key} cannot be read");
        let damaged = |_| Error::new(ErrorKind::Damaged { partition, what });
        let charter = Self::decode(record.value).map_err(damaged)?;
        Ok((record.version, charter))
    }

    /// The partitions of a space that have a record.
    pub(crate) async fn all(engine: &dyn Engine, space: u16) -> Result<Vec<u16>> {
        let prefix = format!("{PREFIX}{space:05}/");
        let records = engine.list(&prefix).await?;
        let index = |key: &str| key.strip_prefix(&prefix)?.parse().ok();
        Ok(records.iter().filter_map(|one| index(&one.key)).collect())
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        put_varint(&mut out, self.epoch.0);
        put_varint(&mut out, self.life);
        for owners in [self.owner.as_slice(), &self.holders] {
            put_varint(&mut out, owners.len() as u64);
            for owner in owners {
                put_varint(&mut out, u64::from(owner.node));
                out.extend_from_slice(&owner.incarnation.to_le_bytes());
            }
        }
        out.into()
    }

    pub(crate) fn decode(bytes: Bytes) -> std::result::Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        if reader.byte()? != FORMAT {
            return Err(DecodeError);
        }
        let epoch = Epoch(reader.varint()?);
        let life = reader.varint()?;
        let owner = owners(&mut reader)?.first().copied();
        Ok(Self {
            epoch,
            life,
            owner,
            holders: owners(&mut reader)?,
        })
    }
}

fn owners(reader: &mut ByteReader) -> std::result::Result<Vec<Owner>, DecodeError> {
    let count = reader.varint()?;
    let owner = |_| {
        Ok(Owner {
            node: reader.varint_u32()?,
            incarnation: reader.u128_le()?,
        })
    };
    (0..count).map(owner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charter_comes_back_as_written() {
        let owner = |node| Owner {
            node,
            incarnation: u128::from(node) << 90,
        };
        let charter = ReplicaSet {
            epoch: Epoch(300),
            life: 2,
            owner: Some(owner(1)),
            holders: vec![owner(1), owner(2)],
        };
        let bytes = charter.encode();
        assert_eq!(ReplicaSet::decode(bytes.clone()), Ok(charter));
        for end in 0..bytes.len() {
            assert!(ReplicaSet::decode(bytes.slice(..end)).is_err());
        }
        let key = ReplicaSet::key(Partition::new(2, 17));
        assert_eq!(key, "volatile/00002/00017");
    }
}
