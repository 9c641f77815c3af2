//! How the keys of a service are split into partitions.
//!
//! Chosen when the service is created and never changed. Partition i of service x lives
//! in store partition (hash(x) + i) mod P, so that the partitions of one service are
//! spread and those of many services do not pile up.

use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::limits;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, ErrorKind, Result};

/// How keys are split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Whole numbers from `low` to `high`, both included, in `count` ranges of about
    /// the same size.
    Int64Range { low: i64, high: i64, count: u32 },
    /// One partition per name.
    Named(Vec<String>),
    /// One partition for everything.
    Singleton,
}

/// What names a partition of a service: `7`, `"north"`, or `Only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionKey<'a> {
    /// The one that holds this number.
    Number(i64),
    /// The one with this name.
    Name(&'a str),
    /// The only one.
    Only,
}

impl From<i64> for PartitionKey<'_> {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl<'a> From<&'a str> for PartitionKey<'a> {
    fn from(name: &'a str) -> Self {
        Self::Name(name)
    }
}

impl Scheme {
    /// Rejects an invalid scheme.
    pub(crate) fn check(&self, service: &str) -> Result<()> {
        let refuse = |why: &str| {
            Err(Error::new(ErrorKind::InvalidService {
                service: service.to_owned(),
                why: why.to_owned(),
            }))
        };
        match self {
            Self::Int64Range { low, high, .. } if low > high => {
                refuse("the low key is above the high one; swap them")
            }
            Self::Int64Range { low, high, count } => {
                let keys = (i128::from(*high) - i128::from(*low) + 1).unsigned_abs();
                match *count {
                    0 => refuse("it has no partition; ask for one at least"),
                    n if u128::from(n) > keys => refuse("it has more partitions than keys"),
                    n if n > limits::SERVICE_PARTITIONS => {
                        refuse("it has more than 65536 partitions")
                    }
                    _ => Ok(()),
                }
            }
            Self::Named(names) => {
                let mut sorted: Vec<_> = names.iter().collect();
                sorted.sort_unstable();
                sorted.dedup();
                match names.len() {
                    0 => refuse("it has no partition; name one at least"),
                    n if n > limits::SERVICE_PARTITIONS as usize => {
                        refuse("it has more than 65536 partitions")
                    }
                    n if n > sorted.len() => refuse("a partition is named twice"),
                    _ => Ok(()),
                }
            }
            Self::Singleton => Ok(()),
        }
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> u32 {
        match self {
            Self::Int64Range { count, .. } => *count,
            Self::Named(names) => names.len() as u32,
            Self::Singleton => 1,
        }
    }

    /// The partition of a key; `None` if the scheme has no such key.
    pub fn partition(&self, key: PartitionKey<'_>) -> Option<u32> {
        match (self, key) {
            (Self::Int64Range { low, high, count }, PartitionKey::Number(number)) => {
                let is_inside = (*low..=*high).contains(&number);
                is_inside.then(|| {
                    let (size, larger) = split(*low, *high, *count);
                    let place = (i128::from(number) - i128::from(*low)).unsigned_abs();
                    let in_larger = larger * (size + 1);
                    let partition = if place < in_larger {
                        place / (size + 1)
                    } else {
                        larger + (place - in_larger) / size
                    };
                    partition as u32
                })
            }
            (Self::Named(names), PartitionKey::Name(name)) => {
                let place = names.iter().position(|known| known == name)?;
                u32::try_from(place).ok()
            }
            (Self::Singleton, PartitionKey::Only) => Some(0),
            _ => None,
        }
    }

    /// First and last key of a partition of a range.
    pub fn range(&self, partition: u32) -> Option<(i64, i64)> {
        let Self::Int64Range { low, high, count } = self else {
            return None;
        };
        if partition >= *count {
            return None;
        }
        let (size, larger) = split(*low, *high, *count);
        let start =
            |partition: u128| i128::from(*low) + (partition * size + partition.min(larger)) as i128;
        let partition = u128::from(partition);
        let first = i64::try_from(start(partition)).ok()?;
        let last = i64::try_from(start(partition + 1) - 1).ok()?;
        Some((first, last))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Singleton => out.push(0),
            Self::Int64Range { low, high, count } => {
                out.push(1);
                put_bytes(out, &low.to_le_bytes());
                put_bytes(out, &high.to_le_bytes());
                put_varint(out, u64::from(*count));
            }
            Self::Named(names) => {
                out.push(2);
                put_varint(out, names.len() as u64);
                for name in names {
                    put_bytes(out, name.as_bytes());
                }
            }
        }
    }

    pub(crate) fn decode(reader: &mut ByteReader) -> std::result::Result<Self, DecodeError> {
        let number = |reader: &mut ByteReader| {
            let bytes = reader.bytes()?;
            let bytes = bytes[..].try_into().map_err(|_| DecodeError)?;
            Ok(i64::from_le_bytes(bytes))
        };
        match reader.byte()? {
            0 => Ok(Self::Singleton),
            1 => Ok(Self::Int64Range {
                low: number(reader)?,
                high: number(reader)?,
                count: reader.varint_u32()?,
            }),
            2 => {
                let count = reader.varint_u32()?;
                let name = |_| {
                    let bytes = reader.bytes()?;
                    String::from_utf8(bytes.to_vec()).map_err(|_| DecodeError)
                };
                (0..count)
                    .map(name)
                    .collect::<std::result::Result<_, _>>()
                    .map(Self::Named)
            }
            _ => Err(DecodeError),
        }
    }
}

/// The index of the store partition, of `stores`, in which a partition of a service lives.
pub fn partition_of(service: &str, partition: u32, stores: u16) -> u16 {
    let count = u64::from(stores.max(1));
    let first = xxh3_64(service.as_bytes()) % count;
    ((first + u64::from(partition)) % count) as u16
}

/// The size of the smaller partitions, and how many have one key more.
fn split(low: i64, high: i64, count: u32) -> (u128, u128) {
    let keys = (i128::from(high) - i128::from(low) + 1).unsigned_abs();
    let count = u128::from(count);
    (keys / count, keys % count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_hundred_keys_in_four_partitions() {
        let scheme = Scheme::Int64Range {
            low: 0,
            high: 99,
            count: 4,
        };
        let ranges: Vec<_> = (0..4)
            .map(|partition| scheme.range(partition).unwrap())
            .collect();
        assert_eq!(ranges, [(0, 24), (25, 49), (50, 74), (75, 99)]);
        assert_eq!(scheme.partition(PartitionKey::Number(24)), Some(0));
        assert_eq!(scheme.partition(PartitionKey::Number(25)), Some(1));
        assert_eq!(scheme.partition(PartitionKey::Number(100)), None);
        assert_eq!(scheme.partition(PartitionKey::Name("a")), None);
    }

    #[test]
    fn partitions_of_a_service_follow_one_another() {
        let first = partition_of("orders", 0, 64);
        assert_eq!(partition_of("orders", 1, 64), (first + 1) % 64);
        assert_eq!(partition_of("orders", 64, 64), first);
        // The hash must never change: data would not be found again.
        assert_eq!(u64::from(first), xxh3_64(b"orders") % 64);
    }

    proptest! {
        #[test]
        fn every_key_is_in_the_range_of_its_partition(
            low in any::<i64>(), span in 0u64..1 << 62, count in 1u32..500, at in any::<u64>(),
        ) {
            let high = low.saturating_add(span as i64);
            let scheme = Scheme::Int64Range { low, high, count };
            prop_assume!(scheme.check("s").is_ok());
            let keys = (i128::from(high) - i128::from(low) + 1) as u128;
            let key = (i128::from(low) + (u128::from(at) % keys) as i128) as i64;
            let partition = scheme.partition(PartitionKey::Number(key)).unwrap();
            let (first, last) = scheme.range(partition).unwrap();
            prop_assert!((first..=last).contains(&key));
            prop_assert_eq!(scheme.range(0).unwrap().0, low);
            prop_assert_eq!(scheme.range(count - 1).unwrap().1, high);
            let mut out = Vec::new();
            scheme.encode(&mut out);
            prop_assert_eq!(Scheme::decode(&mut ByteReader::new(out.into())).unwrap(), scheme);
        }
    }
}
