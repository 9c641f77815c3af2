//! What a run measures, where and for how long.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use tempfile::TempDir;

use crate::disk::temporary;

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The parent of temporary folders; its disk is what is measured.
    pub folder: PathBuf,
    /// The executable that runs `bench durable-child`: this one.
    pub executable: PathBuf,
    /// How long each measurement takes.
    pub duration: Duration,
    /// How often each is repeated; the median counts.
    pub rounds: u32,
    /// Concurrent clients.
    pub clients: usize,
    /// Accounts of the transfers.
    pub accounts: u64,
    /// Entities that are kept idle.
    pub idle: u64,
}

impl Settings {
    /// A run whose numbers can be trusted; takes minutes.
    pub fn full(folder: &Path, executable: &Path) -> Self {
        Self {
            folder: folder.to_path_buf(),
            executable: executable.to_path_buf(),
            duration: Duration::from_secs(5),
            rounds: 3,
            clients: 2048,
            accounts: 10_000,
            idle: 1_000_000,
        }
    }

    /// A run that only shows that everything works; takes seconds.
    pub fn quick(folder: &Path, executable: &Path) -> Self {
        Self {
            duration: Duration::from_millis(300),
            rounds: 1,
            clients: 64,
            accounts: 50,
            idle: 1000,
            ..Self::full(folder, executable)
        }
    }

    /// A new folder on the measured disk, deleted on drop.
    pub(super) fn temporary(&self) -> Result<TempDir> {
        temporary(&self.folder)
    }
}
