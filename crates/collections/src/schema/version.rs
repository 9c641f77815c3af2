//! The schema version that is written.
//!
//! A new version of a type is rolled out in two steps: first code that can read
//! it, still writing the old one; then, when every node runs that code, the write
//! version is raised. It can be changed at any time, without a restart, either way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The write version, shared by all its clones.
#[derive(Clone, Debug)]
pub struct WriteVersion(Arc<AtomicU32>);

impl WriteVersion {
    /// Writes whatever the code knows.
    pub const LATEST: u32 = u32::MAX;

    /// A write version that starts as `version`.
    pub fn new(version: u32) -> Self {
        Self(Arc::new(AtomicU32::new(version)))
    }

    /// The version to write now.
    pub fn get(&self) -> u32 {
        // Nothing else is published with it: a value is encoded with one version
        // or the other, and both can be read.
        self.0.load(Ordering::Relaxed)
    }

    /// Changes the version for every write from now on.
    pub fn set(&self, version: u32) {
        self.0.store(version, Ordering::Relaxed);
    }
}

impl Default for WriteVersion {
    fn default() -> Self {
        Self::new(Self::LATEST)
    }
}
