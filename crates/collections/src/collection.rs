//! The state of one collection, shared by its handles.
//!
//! Its number, name, shape and types never change. Its stage does: it is being created,
//! live, or removed.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::id::{StreamId, TableId};

use crate::error::{Error, Result};
use crate::items::FreeItems;
use crate::notice::RowNoticeChannel;

/// The kind of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Shape {
    Dictionary = 1,
    Queue = 2,
    ConcurrentQueue = 3,
    Log = 4,
}

impl Shape {
    /// Its name for users.
    pub fn label(self) -> &'static str {
        match self {
            Self::Dictionary => "dictionary",
            Self::Queue => "queue",
            Self::ConcurrentQueue => "concurrent queue",
            Self::Log => "log",
        }
    }

    fn from_byte(byte: u8) -> std::result::Result<Self, DecodeError> {
        let all = [
            Self::Dictionary,
            Self::Queue,
            Self::ConcurrentQueue,
            Self::Log,
        ];
        all.into_iter()
            .find(|shape| *shape as u8 == byte)
            .ok_or(DecodeError)
    }
}

/// The kind and the types of a collection, as stored in its metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    pub shape: Shape,
    /// Empty where there is no key.
    pub key_type: String,
    pub value_type: String,
    /// How keys and values are encoded.
    pub codec: u32,
}

/// The encoding of keys and values that is written.
pub(crate) const CODEC: u32 = 1;

impl std::fmt::Display for Description {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of ", self.shape.label())?;
        if !self.key_type.is_empty() {
            write!(f, "{} to ", self.key_type)?;
        }
        f.write_str(&self.value_type)?;
        match self.codec {
            CODEC => Ok(()),
            other => write!(f, " in encoding {other}"),
        }
    }
}

pub(crate) struct Collection {
    pub(crate) table: TableId,
    pub(crate) scope: String,
    pub(crate) name: String,
    pub(crate) what: Description,
    /// Cached values of another version are invalid.
    version: AtomicU64,
    count: AtomicI64,
    life: Mutex<CollectionStage>,
    /// Whether stored keys were compared with the key type of this process.
    keys_checked: AtomicBool,
    /// The error of a collection whose stored keys do not match the key type.
    foreign_keys: OnceLock<Error>,
    /// The free items of a concurrent queue.
    pub(crate) items: FreeItems,
    /// Subscribers to changes.
    pub(crate) feed: RowNoticeChannel,
}

/// The stage of a collection, which decides which transactions may use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CollectionStage {
    /// Visible only to this transaction, which creates it.
    Creating(u64),
    Live,
    Removed,
}

/// The format of a registry row.
const FORMAT: u8 = 1;

impl Collection {
    pub(crate) fn new(
        table: TableId,
        scope: &str,
        name: &str,
        what: Description,
        life: CollectionStage,
        count: i64,
    ) -> Self {
        Self {
            table,
            scope: scope.to_owned(),
            name: name.to_owned(),
            what,
            version: AtomicU64::new(1),
            count: AtomicI64::new(count),
            life: Mutex::new(life),
            // This process encodes the keys of a collection that it creates.
            keys_checked: AtomicBool::new(life != CollectionStage::Live),
            foreign_keys: OnceLock::new(),
            items: FreeItems::default(),
            feed: RowNoticeChannel::default(),
        }
    }

    /// The stream of a log.
    pub(crate) fn stream(&self) -> StreamId {
        StreamId(self.table.0)
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Invalidates all cached values.
    pub(crate) fn invalidate_cache(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
        self.count.store(0, Ordering::Relaxed);
        self.items.clear();
    }

    pub(crate) fn count(&self) -> i64 {
        self.count.load(Ordering::Relaxed).max(0)
    }

    /// Counts added or removed rows; returns the new number of rows.
    pub(crate) fn add_count(&self, delta: i64) -> i64 {
        (self.count.fetch_add(delta, Ordering::Relaxed) + delta).max(0)
    }

    pub(crate) fn keys_checked(&self) -> &AtomicBool {
        &self.keys_checked
    }

    /// Rejects a collection whose stored keys do not match the key type.
    pub(crate) fn check_keys(&self) -> Result<()> {
        match self.foreign_keys.get() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Disables the collection: from now on every operation fails with this error.
    pub(crate) fn disable(&self, error: Error) {
        // The first error is kept.
        let _ = self.foreign_keys.set(error);
    }

    pub(crate) fn life(&self) -> CollectionStage {
        *self.life.lock()
    }

    pub(crate) fn set_life(&self, life: CollectionStage) {
        *self.life.lock() = life;
    }

    /// The registry's row of this collection.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        put_varint(&mut out, u64::from(self.table.0));
        out.push(self.what.shape as u8);
        put_bytes(&mut out, self.what.key_type.as_bytes());
        put_bytes(&mut out, self.what.value_type.as_bytes());
        put_varint(&mut out, u64::from(self.what.codec));
        out
    }
}

/// Reads a registry row.
pub(crate) fn decode(bytes: Bytes) -> std::result::Result<(TableId, Description), DecodeError> {
    let mut reader = ByteReader::new(bytes);
    if reader.byte()? != FORMAT {
        return Err(DecodeError);
    }
    let table = TableId(reader.varint_u32()?);
    let shape = Shape::from_byte(reader.byte()?)?;
    let what = Description {
        shape,
        key_type: text(&reader.bytes()?)?,
        value_type: text(&reader.bytes()?)?,
        codec: reader.varint_u32()?,
    };
    Ok((table, what))
}

fn text(bytes: &Bytes) -> std::result::Result<String, DecodeError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| DecodeError)
}
