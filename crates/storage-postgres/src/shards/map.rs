//! Which shard holds which partition.
//!
//! A partition is in shard `number mod spread`, where the spread is how many shards
//! there were when the cluster was made, unless it was moved. Shards are known by the
//! identities of their databases, so that an address that names them in another order
//! is noticed.

use std::collections::BTreeMap;

use bytes::Bytes;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::id::Partition;
use steadfast_core::limits;
use steadfast_storage::{Error, Result};

use crate::error::ErrorKind;

/// In shard 0: the map.
pub(super) const MAP: &str = "shard/map";
/// In every other shard: the cluster that it belongs to, and its index.
pub(super) const CLAIM: &str = "shard/claim";

const FORMAT: u8 = 1;

/// The assignment of partitions to shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShardMap {
    /// How many shards the partitions were spread over in the beginning.
    pub(super) spread: u16,
    /// The identities of the databases.
    pub(super) shards: Vec<String>,
    /// Partitions that were moved, with their shards.
    pub(super) moved: BTreeMap<Partition, u16>,
}

impl ShardMap {
    /// A new cluster's map.
    pub(super) fn new(spread: usize, shards: Vec<String>) -> Self {
        Self {
            spread: spread.clamp(1, limits::SHARDS) as u16,
            shards,
            moved: BTreeMap::new(),
        }
    }

    /// The shard of a partition.
    pub(super) fn shard(&self, partition: Partition) -> u16 {
        match self.moved.get(&partition) {
            Some(shard) => *shard,
            None => (partition.0 % u32::from(self.spread)) as u16,
        }
    }

    /// Moves a partition to another shard.
    pub(super) fn relocate(&mut self, partition: Partition, to: u16) {
        self.moved.remove(&partition);
        if self.shard(partition) != to {
            self.moved.insert(partition, to);
        }
    }

    /// Refuses databases that are not those of the map, in its order.
    pub(super) fn check(&self, found: &[String]) -> Result<()> {
        let known = |identity: &String| self.shards.iter().position(|own| own == identity);
        for (place, identity) in found.iter().enumerate().take(self.shards.len()) {
            match known(identity) {
                Some(belongs) if belongs == place => {}
                Some(belongs) => return Err(Error::new(ErrorKind::ShardOrder { place, belongs })),
                None => {
                    let what = "it is no part of this cluster".to_string();
                    return Err(Error::new(ErrorKind::ForeignShard { place, what }));
                }
            }
        }
        let (shards, given) = (self.shards.len(), found.len());
        if given < shards {
            Err(Error::new(ErrorKind::ShardMissing { shards, given }))
        } else {
            Ok(())
        }
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        put_varint(&mut out, u64::from(self.spread));
        put_varint(&mut out, self.shards.len() as u64);
        for identity in &self.shards {
            put_bytes(&mut out, identity.as_bytes());
        }
        for (partition, shard) in &self.moved {
            put_varint(&mut out, u64::from(partition.0));
            put_varint(&mut out, u64::from(*shard));
        }
        out.into()
    }

    pub(super) fn decode(bytes: Bytes) -> std::result::Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        if reader.byte()? != FORMAT {
            return Err(DecodeError);
        }
        let spread = number(&mut reader)?;
        let count = number(&mut reader)?;
        if spread == 0 || spread > count || usize::from(count) > limits::SHARDS {
            return Err(DecodeError);
        }
        let shards: std::result::Result<Vec<_>, DecodeError> =
            (0..count).map(|_| text(&mut reader)).collect();
        let mut map = Self {
            spread,
            shards: shards?,
            moved: BTreeMap::new(),
        };
        while !reader.is_empty() {
            let partition = Partition(reader.varint_u32()?);
            let shard = number(&mut reader)?;
            if shard >= count {
                return Err(DecodeError);
            }
            map.moved.insert(partition, shard);
        }
        Ok(map)
    }
}

/// The cluster and index of a shard's database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShardMapClaim {
    /// The identity of shard 0.
    pub(super) cluster: String,
    pub(super) place: u16,
}

impl ShardMapClaim {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        put_bytes(&mut out, self.cluster.as_bytes());
        put_varint(&mut out, u64::from(self.place));
        out.into()
    }

    pub(super) fn decode(bytes: Bytes) -> std::result::Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        if reader.byte()? != FORMAT {
            return Err(DecodeError);
        }
        let (cluster, place) = (text(&mut reader)?, number(&mut reader)?);
        if reader.is_empty() {
            Ok(Self { cluster, place })
        } else {
            Err(DecodeError)
        }
    }
}

fn number(reader: &mut ByteReader) -> std::result::Result<u16, DecodeError> {
    u16::try_from(reader.varint()?).map_err(|_| DecodeError)
}

fn text(reader: &mut ByteReader) -> std::result::Result<String, DecodeError> {
    String::from_utf8(reader.bytes()?.to_vec()).map_err(|_| DecodeError)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn partitions_stay_where_they_were_spread_unless_they_move() {
        let mut map = ShardMap::new(3, names(&["a", "b", "c"]));
        let shards: Vec<_> = (0..7).map(|n| map.shard(Partition(n))).collect();
        assert_eq!(shards, [0, 1, 2, 0, 1, 2, 0]);
        map.shards.push("d".to_string());
        assert_eq!(map.shard(Partition(3)), 0, "a new shard moves nothing");
        map.relocate(Partition(3), 3);
        assert_eq!((map.shard(Partition(3)), map.moved.len()), (3, 1));
        map.relocate(Partition(3), 0);
        assert_eq!((map.shard(Partition(3)), map.moved.len()), (0, 0));
    }

    #[test]
    fn what_is_written_is_read() {
        let mut map = ShardMap::new(2, names(&["a", "b", "c"]));
        map.relocate(Partition(5), 2);
        assert_eq!(ShardMap::decode(map.encode()), Ok(map.clone()));
        let bytes = map.encode();
        for cut in 0..bytes.len() - 2 {
            assert!(ShardMap::decode(bytes.slice(..cut)).is_err(), "{cut}");
        }
        map.moved.insert(Partition(6), 3);
        assert_eq!(ShardMap::decode(map.encode()), Err(DecodeError));
        let claim = ShardMapClaim {
            cluster: "a".to_string(),
            place: 1,
        };
        assert_eq!(ShardMapClaim::decode(claim.encode()), Ok(claim));
    }

    #[test]
    fn missing_foreign_and_exchanged_databases_are_refused() {
        let map = ShardMap::new(2, names(&["a", "b"]));
        let code = |found: &[&str]| map.check(&names(found)).map_err(|error| error.code().0);
        assert_eq!(code(&["a", "b"]), Ok(()));
        assert_eq!(code(&["a"]), Err("STF-7050"));
        assert_eq!(code(&["b", "a"]), Err("STF-7051"));
        assert_eq!(code(&["a", "x"]), Err("STF-7052"));
    }
}
