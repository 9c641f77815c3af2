//! Fields and variants that only newer code knows.
//!
//! A record has a field of type [`Unknown`], an enum a variant with an
//! [`UnknownVariant`]. Both hold raw bytes and give them back unchanged. Two values that
//! differ only in unknown parts are not equal, because their stored bytes are not.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The fields of a record, or of a key, that this code does not know.
///
/// It is kept when a value is cloned or moved. Build new values with [`Unknown::NONE`],
/// and changed ones from the old value.
#[derive(Clone, Default)]
pub struct Unknown {
    fields: Option<Arc<UnknownFields>>,
    /// The newest `since` among the known fields that were in the bytes: a field
    /// that was once written stays written when the write version goes back.
    floor: u32,
}

#[derive(Default)]
struct UnknownFields {
    /// Number and value of each field, one after the other, as they were read.
    raw: Vec<u8>,
    /// Number of each field, and where it ends in `raw`; empty for keys.
    ends: Vec<(u64, usize)>,
}

impl Unknown {
    /// Nothing unknown: for values that are built and not read.
    pub const NONE: Self = Self {
        fields: None,
        floor: 0,
    };

    /// Whether nothing unknown is held.
    pub fn is_none(&self) -> bool {
        self.fields.is_none()
    }

    /// How many bytes are held.
    pub fn bytes(&self) -> usize {
        self.raw().len()
    }

    /// The bytes as they were read.
    pub(crate) fn raw(&self) -> &[u8] {
        self.fields.as_ref().map_or(&[], |fields| &fields.raw)
    }

    /// The fields in ascending order: number, and the bytes of number and value.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let fields = self.fields.as_deref();
        let mut start = 0;
        fields.into_iter().flat_map(move |fields| {
            fields.ends.iter().map(move |&(number, end)| {
                let field = &fields.raw[start..end];
                start = end;
                (number, field)
            })
        })
    }

    /// How many fields are held.
    pub(crate) fn count(&self) -> usize {
        self.fields.as_ref().map_or(0, |fields| fields.ends.len())
    }

    /// The rest of a key.
    pub(crate) fn of_key(raw: &[u8]) -> Self {
        if raw.is_empty() {
            return Self::NONE;
        }
        let fields = UnknownFields {
            raw: raw.to_vec(),
            ends: Vec::new(),
        };
        Self {
            fields: Some(Arc::new(fields)),
            floor: 0,
        }
    }

    /// For the derive: takes over what `old` holds if nothing is held here.
    #[doc(hidden)]
    pub fn inherit(&mut self, old: &Self) {
        if self.fields.is_none() {
            self.fields.clone_from(&old.fields);
        }
        self.floor = self.floor.max(old.floor);
    }

    /// For the derive: whether a field of version `since` was in the bytes.
    #[doc(hidden)]
    pub fn had(&self, since: u32) -> bool {
        self.floor >= since
    }
}

impl fmt::Debug for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unknown({} bytes)", self.bytes())
    }
}

impl PartialEq for Unknown {
    fn eq(&self, other: &Self) -> bool {
        self.raw() == other.raw()
    }
}

impl Eq for Unknown {}

impl PartialOrd for Unknown {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Unknown {
    fn cmp(&self, other: &Self) -> Ordering {
        self.raw().cmp(other.raw())
    }
}

impl Hash for Unknown {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.raw().hash(state);
    }
}

/// For the derive: collects unknown fields while a record is read.
#[doc(hidden)]
#[derive(Default)]
pub struct UnknownCollector {
    fields: Option<UnknownFields>,
    floor: u32,
}

impl UnknownCollector {
    /// Keeps one field; they come in ascending order.
    pub(crate) fn push(&mut self, number: u64, field: &[u8]) {
        let fields = self.fields.get_or_insert_default();
        fields.raw.extend_from_slice(field);
        fields.ends.push((number, fields.raw.len()));
    }

    /// Notes that a field of version `since` was in the bytes.
    #[doc(hidden)]
    pub fn saw(&mut self, since: u32) {
        self.floor = self.floor.max(since);
    }

    /// What was collected.
    #[doc(hidden)]
    pub fn finish(self) -> Unknown {
        Unknown {
            fields: self.fields.map(Arc::new),
            floor: self.floor,
        }
    }
}

impl fmt::Debug for UnknownCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gather")
    }
}

/// A variant of an enum that this code does not know: its number and its bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnknownVariant {
    number: u64,
    raw: Arc<[u8]>,
}

impl UnknownVariant {
    pub(crate) fn new(number: u64, raw: &[u8]) -> Self {
        Self {
            number,
            raw: raw.into(),
        }
    }

    /// The number of the variant.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The whole variant as it was read.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }
}

impl fmt::Debug for UnknownVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "UnknownVariant({}, {} bytes)",
            self.number,
            self.raw.len()
        )
    }
}
