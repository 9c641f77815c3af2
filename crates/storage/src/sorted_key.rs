//! Row keys that compare without being looked up.
//!
//! A key's bytes are on the heap, and a search compares many keys. So the first bytes
//! are stored beside the pointer, as a number: most comparisons end there.

use std::borrow::Borrow;
use std::cmp::Ordering;

use crate::body::RowKey;

/// The first 32 bytes of a key. Keys of one sort begin alike: with their table, the
/// name of what they belong to, and the name of its kind.
type KeyPrefix = (u128, u128);

/// A row key with its first bytes beside it.
#[derive(Clone, Debug)]
pub(crate) struct SortedKey {
    head: KeyPrefix,
    row: RowKey,
}

/// A borrowed key, to search with.
pub(crate) struct Probe<'a> {
    head: KeyPrefix,
    row: &'a [u8],
}

/// What [`SortedKey`] and [`Probe`] have in common, so that a map of the one can be
/// searched with the other.
pub(crate) trait PrefixOrdered {
    fn head(&self) -> KeyPrefix;
    fn row(&self) -> &[u8];
}

impl SortedKey {
    pub(crate) fn new(row: RowKey) -> Self {
        Self {
            head: head(&row),
            row,
        }
    }

    pub(crate) fn row(&self) -> &RowKey {
        &self.row
    }
}

impl<'a> Probe<'a> {
    pub(crate) fn new(row: &'a [u8]) -> Self {
        Self {
            head: head(row),
            row,
        }
    }
}

/// The first bytes as numbers, filled up with zeros. Where two heads differ, they
/// differ as the keys do; where they are equal, the whole keys decide.
fn head(row: &[u8]) -> KeyPrefix {
    let mut bytes = [0; 32];
    let length = row.len().min(32);
    bytes[..length].copy_from_slice(&row[..length]);
    let number = |half: &[u8]| half.first_chunk().copied().map_or(0, u128::from_be_bytes);
    (number(&bytes[..16]), number(&bytes[16..]))
}

impl PrefixOrdered for SortedKey {
    fn head(&self) -> KeyPrefix {
        self.head
    }

    fn row(&self) -> &[u8] {
        &self.row
    }
}

impl PrefixOrdered for Probe<'_> {
    fn head(&self) -> KeyPrefix {
        self.head
    }

    fn row(&self) -> &[u8] {
        self.row
    }
}

impl<'a> Borrow<dyn PrefixOrdered + 'a> for SortedKey {
    fn borrow(&self) -> &(dyn PrefixOrdered + 'a) {
        self
    }
}

fn compare(a: (KeyPrefix, &[u8]), b: (KeyPrefix, &[u8])) -> Ordering {
    a.0.cmp(&b.0).then_with(|| a.1.cmp(b.1))
}

impl Ord for SortedKey {
    fn cmp(&self, other: &Self) -> Ordering {
        compare((self.head, &self.row), (other.head, &other.row))
    }
}

impl PartialOrd for SortedKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SortedKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SortedKey {}

impl Ord for dyn PrefixOrdered + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        compare((self.head(), self.row()), (other.head(), other.row()))
    }
}

impl PartialOrd for dyn PrefixOrdered + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn PrefixOrdered + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for dyn PrefixOrdered + '_ {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_as_their_bytes_do(
            a in proptest::collection::vec(0u8..2, 0..40),
            b in proptest::collection::vec(0u8..2, 0..40),
        ) {
            let (left, right) = (SortedKey::new(a.clone().into()), SortedKey::new(b.clone().into()));
            prop_assert_eq!(left.cmp(&right), a.cmp(&b));
            let probe: &dyn PrefixOrdered = &Probe::new(&b);
            let left: &dyn PrefixOrdered = left.borrow();
            prop_assert_eq!(left.cmp(probe), a.cmp(&b));
            // Equal up to a position in or behind the prefixes.
            let longer: Vec<u8> = a.iter().chain(&b).copied().collect();
            let probe: &dyn PrefixOrdered = &Probe::new(&longer);
            prop_assert_eq!(left.cmp(probe), a.cmp(&longer));
        }
    }
}
