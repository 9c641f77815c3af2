//! Two copies of a space in one engine.
//!
//! While one is being made, the one before stays as it was: whoever accepts the loss of
//! what came later still has it.

use bytes::Bytes;
use steadfast_core::id::Partition;

/// One of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Generation {
    #[default]
    First,
    Second,
}

/// Stands in the numbers of the second one's partitions.
const SECOND: u32 = 1 << 31;

impl Generation {
    pub(super) fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }

    /// Where a partition of the space lies in the engine.
    pub(super) fn place(self, partition: Partition) -> Partition {
        match self {
            Self::First => partition,
            Self::Second => Partition(partition.0 | SECOND),
        }
    }

    /// Which partition of the space lies there.
    pub(super) fn partition(place: Partition) -> Partition {
        Partition(place.0 & !SECOND)
    }
}

/// What a region has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stock {
    /// Where everything is that was acknowledged while the pair was in sync.
    pub(super) whole: Option<Generation>,
    /// A newer copy is being made in the other one.
    pub(super) is_copying: bool,
}

/// For the record: each word, and what it means.
const WORDS: [(&str, Stock); 6] = [
    ("nothing", stock(None, false)),
    ("copying", stock(None, true)),
    ("first", stock(Some(Generation::First), false)),
    ("first, copying", stock(Some(Generation::First), true)),
    ("second", stock(Some(Generation::Second), false)),
    ("second, copying", stock(Some(Generation::Second), true)),
];

const fn stock(whole: Option<Generation>, is_copying: bool) -> Stock {
    Stock { whole, is_copying }
}

impl Stock {
    /// Where a new copy is made.
    pub(super) fn target(self) -> Generation {
        self.whole.map_or(Generation::First, Generation::other)
    }

    /// For the record.
    pub(super) fn encode(self) -> Bytes {
        let word = WORDS.iter().find(|(_, stock)| *stock == self);
        let (word, _) = word.expect("there is a word for each");
        Bytes::from_static(word.as_bytes())
    }

    /// Reads the record; `None` if it says what this version does not know.
    pub(super) fn decode(record: &[u8]) -> Option<Self> {
        let known = WORDS.iter().find(|(word, _)| word.as_bytes() == record);
        known.map(|(_, stock)| *stock)
    }
}
