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
    /// The executable that runs `bench storage-child`: this one.
    pub executable: PathBuf,
    /// How long each measurement takes.
    pub duration: Duration,
    /// How often each measurement is repeated, in turn with the others.
    pub rounds: u32,
    /// Keys that a loaded store holds.
    pub keys: u64,
    /// Event bytes of one measurement.
    pub event_bytes: u64,
    /// Keys whose log is recovered.
    pub log_keys: u64,
}

impl Settings {
    /// A run whose numbers can be trusted; takes minutes.
    pub fn full(folder: &Path, executable: &Path) -> Self {
        Self {
            folder: folder.to_path_buf(),
            executable: executable.to_path_buf(),
            duration: Duration::from_secs(3),
            rounds: 3,
            keys: 1_000_000,
            event_bytes: 512 << 20,
            log_keys: 900_000,
        }
    }

    /// A run that only shows that everything works; takes seconds.
    pub fn quick(folder: &Path, executable: &Path) -> Self {
        Self {
            duration: Duration::from_millis(100),
            keys: 10_000,
            event_bytes: 8 << 20,
            log_keys: 10_000,
            ..Self::full(folder, executable)
        }
    }

    /// A new folder on the measured disk, deleted on drop.
    pub(super) fn temporary(&self) -> Result<TempDir> {
        temporary(&self.folder)
    }
}
