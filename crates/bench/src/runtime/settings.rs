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
    /// The executable that runs `bench runtime-child`: this one.
    pub executable: PathBuf,
    /// How long each measurement takes.
    pub duration: Duration,
    /// How often each measurement is repeated.
    pub rounds: u32,
    /// Instances that commands go to, each with one row.
    pub instances: u64,
    /// Commands in flight.
    pub open_calls: usize,
    /// Timers that are pending.
    pub timers: u64,
    /// Timers that are due in each second.
    pub due_per_s: u64,
    /// Time to schedule all timers before the first one is due.
    pub lead: Duration,
}

impl Settings {
    /// A run whose numbers can be trusted; takes minutes.
    pub fn full(folder: &Path, executable: &Path) -> Self {
        Self {
            folder: folder.to_path_buf(),
            executable: executable.to_path_buf(),
            duration: Duration::from_secs(5),
            rounds: 3,
            instances: 1_000_000,
            open_calls: 8192,
            timers: 1_000_000,
            due_per_s: 10_000,
            lead: Duration::from_secs(20),
        }
    }

    /// A run that only shows that everything works; takes seconds.
    pub fn quick(folder: &Path, executable: &Path) -> Self {
        Self {
            duration: Duration::from_millis(100),
            instances: 10_000,
            open_calls: 1024,
            timers: 20_000,
            lead: Duration::from_millis(200),
            ..Self::full(folder, executable)
        }
    }

    /// A new folder on the measured disk, deleted on drop.
    pub(super) fn temporary(&self) -> Result<TempDir> {
        temporary(&self.folder)
    }
}
