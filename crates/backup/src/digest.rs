//! Digests of rows and events, to compare states by.
//!
//! Rows are hashed in their order, batches in the order of their stream. Equal
//! states have equal digests, however they came about.

use std::collections::BTreeMap;

use steadfast_core::id::StreamId;
use steadfast_storage::engine::EventBatch;
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

/// Count and digest of rows.
pub(crate) struct RowDigest {
    hash: Xxh3,
    pub(crate) rows: u64,
}

impl RowDigest {
    pub(crate) fn new() -> Self {
        Self {
            hash: Xxh3::new(),
            rows: 0,
        }
    }

    /// Adds the next row.
    pub(crate) fn add(&mut self, row: &[u8], value: &[u8]) {
        self.rows += 1;
        self.hash.update(&(row.len() as u64).to_le_bytes());
        self.hash.update(row);
        self.hash.update(&(value.len() as u64).to_le_bytes());
        self.hash.update(value);
    }

    pub(crate) fn text(&self) -> String {
        format!("{:032x}", self.hash.digest128())
    }
}

/// Digests of streams.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct EventDigest {
    streams: BTreeMap<StreamId, u64>,
    pub(crate) events: u64,
}

impl EventDigest {
    /// Adds the next batch of its stream.
    pub(crate) fn add(&mut self, batch: &EventBatch) {
        self.events += u64::from(batch.count);
        let digest = self.streams.entry(batch.stream).or_default();
        *digest = xxh3_64_with_seed(&batch.bytes, *digest);
        *digest = xxh3_64_with_seed(&batch.checksum().to_le_bytes(), *digest);
    }
}
