//! Cluster records: few, small, changed by compare-and-swap.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::engine::{CasOutcome, Record};

/// All cluster records of an engine, in memory.
#[derive(Default)]
pub struct ClusterRecords(BTreeMap<String, (u64, Bytes)>);

impl ClusterRecords {
    /// A record's version and value.
    pub fn get(&self, key: &str) -> Option<&(u64, Bytes)> {
        self.0.get(key)
    }

    /// The version that a record gets next, if its version is `expect`.
    pub fn next_version(&self, key: &str, expect: u64) -> Result<u64, CasOutcome> {
        let found = self.0.get(key);
        let version = found.map_or(0, |(version, _)| *version);
        if version == expect {
            return Ok(version + 1);
        }
        let value = found.map(|(_, value)| value.clone());
        Err(CasOutcome::Conflict { version, value })
    }

    /// Sets a record.
    pub fn insert(&mut self, key: String, version: u64, value: Bytes) {
        self.0.insert(key, (version, value));
    }

    /// Records whose key starts with `prefix`, in key order.
    pub fn list(&self, prefix: &str) -> Vec<Record> {
        let found = self.0.range(prefix.to_string()..);
        let found = found.take_while(|(key, _)| key.starts_with(prefix));
        let record = |(key, (version, value)): (&String, &(u64, Bytes))| Record {
            key: key.clone(),
            version: *version,
            value: value.clone(),
        };
        found.map(record).collect()
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }
}
