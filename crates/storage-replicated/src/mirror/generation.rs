//! Two copies of a space in one engine.
//!
//! While one is being made, the previous one stays unchanged: an operator who accepts
//! the loss of later writes can still use it.

use bytes::Bytes;
use steadfast_core::id::Partition;

/// One of the two copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyGeneration {
    #[default]
    First,
    Second,
}

/// Bit in the partition numbers of the second generation.
const SECOND: u32 = 1 << 31;

impl CopyGeneration {
    pub(super) fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }

    /// The engine's partition that stores a partition of the space.
    pub(super) fn place(self, partition: Partition) -> Partition {
        match self {
            Self::First => partition,
            Self::Second => Partition(partition.0 | SECOND),
        }
    }

    /// The partition of the space that the engine's partition stores.
    pub(super) fn partition(place: Partition) -> Partition {
        Partition(place.0 & !SECOND)
    }
}

/// Which copies a region has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CopyInventory {
    /// The generation with everything that was acknowledged while the pair was in sync.
    pub(super) whole: Option<CopyGeneration>,
    /// A newer copy is being made in the other generation.
    pub(super) is_copying: bool,
}

/// The values of the record and what they mean.
const WORDS: [(&str, CopyInventory); 6] = [
    ("nothing", stock(None, false)),
    ("copying", stock(None, true)),
    ("first", stock(Some(CopyGeneration::First), false)),
    ("first, copying", stock(Some(CopyGeneration::First), true)),
    ("second", stock(Some(CopyGeneration::Second), false)),
    ("second, copying", stock(Some(CopyGeneration::Second), true)),
];

const fn stock(whole: Option<CopyGeneration>, is_copying: bool) -> CopyInventory {
    CopyInventory { whole, is_copying }
}

impl CopyInventory {
    /// The generation for a new copy.
    pub(super) fn target(self) -> CopyGeneration {
        self.whole
            .map_or(CopyGeneration::First, CopyGeneration::other)
    }

    /// Encodes the record.
    pub(super) fn encode(self) -> Bytes {
        let word = WORDS.iter().find(|(_, stock)| *stock == self);
        let (word, _) = word.expect("there is a word for each");
        Bytes::from_static(word.as_bytes())
    }

    /// Decodes the record; `None` if this version does not know its value.
    pub(super) fn decode(record: &[u8]) -> Option<Self> {
        let known = WORDS.iter().find(|(word, _)| word.as_bytes() == record);
        known.map(|(_, stock)| *stock)
    }
}
