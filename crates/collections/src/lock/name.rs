//! Names of locks on collections, rows and names.
//!
//! A lock's name is bytes: its subject, the table, the key. Different keys have different
//! names, so that they never wait for each other. Names are built in a buffer of the
//! transaction; only a row that becomes resident keeps a copy.

use std::sync::Arc;

use steadfast_core::hex;
use steadfast_core::id::TableId;
use xxhash_rust::xxh3::xxh3_64;

/// The subject of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Subject {
    /// A whole collection: shared by all transactions that use it.
    Collection = 1,
    /// One row.
    Row = 2,
    /// The name of a collection in the registry.
    Name = 3,
}

/// Bytes before the key.
const PREFIX: usize = 5;

/// A lock's name, borrowed, with its hash.
#[derive(Clone, Copy, Debug)]
pub struct LockName<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) hash: u64,
}

/// A lock's name, owned.
#[derive(Clone, Debug)]
pub struct OwnedLockName {
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) hash: u64,
}

impl<'a> LockName<'a> {
    /// The name in `bytes`, written by [`write()`].
    pub fn new(bytes: &'a [u8]) -> Self {
        let hash = xxh3_64(bytes);
        Self { bytes, hash }
    }

    pub(crate) fn keep(self) -> OwnedLockName {
        OwnedLockName {
            bytes: self.bytes.into(),
            hash: self.hash,
        }
    }
}

impl OwnedLockName {
    pub(crate) fn name(&self) -> LockName<'_> {
        LockName {
            bytes: &self.bytes,
            hash: self.hash,
        }
    }
}

/// Begins a name in an empty buffer; the key follows.
pub fn write(out: &mut Vec<u8>, subject: Subject, table: TableId) {
    out.clear();
    out.push(subject as u8);
    out.extend_from_slice(&table.0.to_be_bytes());
}

/// The key in a name.
pub fn key_of(name: &[u8]) -> &[u8] {
    name.get(PREFIX..).unwrap_or_default()
}

/// The table in a name.
pub fn table_of(name: &[u8]) -> TableId {
    let bytes = name.get(1..PREFIX).and_then(|b| b.try_into().ok());
    TableId(u32::from_be_bytes(bytes.unwrap_or_default()))
}

/// The subject in a name.
pub fn subject_of(name: &[u8]) -> Option<Subject> {
    let all = [Subject::Collection, Subject::Row, Subject::Name];
    let first = *name.first()?;
    all.into_iter().find(|subject| *subject as u8 == first)
}

/// A name as text, from its bytes and numbers alone.
pub fn describe(name: &[u8]) -> String {
    let table = table_of(name).0;
    let key = key_of(name);
    let text = match std::str::from_utf8(key) {
        Ok(text) if !text.chars().any(char::is_control) => format!("\"{text}\""),
        _ => hex::encode(key),
    };
    match name.first() {
        Some(1) => format!("collection {table}"),
        Some(3) => format!("the name {text}"),
        _ => format!("key {text} of collection {table}"),
    }
}
