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
    /// The executable that runs `bench jobs-child`: this one.
    pub executable: PathBuf,
    /// How long lateness is measured.
    pub duration: Duration,
    /// How often a burst is measured, each time beside the peer; the median counts.
    pub rounds: u32,
    /// Jobs that are due in one second.
    pub burst: u64,
    /// Jobs that are registered while lateness is measured.
    pub registered: u64,
    /// Registered jobs that are due in each second.
    pub due_per_s: u64,
    /// Time to register a burst before it is due.
    pub lead: Duration,
}

impl Settings {
    /// A run whose numbers can be trusted; takes minutes.
    pub fn full(folder: &Path, executable: &Path) -> Self {
        Self {
            folder: folder.to_path_buf(),
            executable: executable.to_path_buf(),
            duration: Duration::from_secs(20),
            rounds: 3,
            burst: 100_000,
            registered: 1_000_000,
            due_per_s: 1000,
            lead: Duration::from_secs(30),
        }
    }

    /// A run that only shows that everything works; takes seconds.
    pub fn quick(folder: &Path, executable: &Path) -> Self {
        Self {
            duration: Duration::from_millis(1500),
            rounds: 1,
            burst: 500,
            registered: 2000,
            due_per_s: 100,
            lead: Duration::from_secs(3),
            ..Self::full(folder, executable)
        }
    }

    /// A new folder on the measured disk, deleted on drop.
    pub(super) fn temporary(&self) -> Result<TempDir> {
        temporary(&self.folder)
    }
}
