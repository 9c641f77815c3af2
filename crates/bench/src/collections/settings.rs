//! What a run measures, where and for how long.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The parent of temporary folders; its disk is what is measured.
    pub folder: PathBuf,
    /// The executable that runs `bench collections-child`: this one.
    pub executable: PathBuf,
    /// How long each measurement takes.
    pub duration: Duration,
    /// How often each measurement is repeated, in turn with the others.
    pub rounds: u32,
    /// Rows that transactions choose from.
    pub rows: u64,
    /// Rows that are read and scanned; all of them stay in memory.
    pub read_rows: u64,
    /// Rows whose memory is measured.
    pub held_rows: u64,
}

impl Settings {
    /// A run whose numbers can be trusted; takes minutes.
    pub fn full(folder: &Path, executable: &Path) -> Self {
        Self {
            folder: folder.to_path_buf(),
            executable: executable.to_path_buf(),
            duration: Duration::from_secs(3),
            rounds: 3,
            rows: 200_000,
            read_rows: 100_000,
            held_rows: 1_000_000,
        }
    }

    /// A run that only shows that everything works; takes seconds.
    pub fn quick(folder: &Path, executable: &Path) -> Self {
        Self {
            duration: Duration::from_millis(50),
            rounds: 1,
            rows: 5_000,
            read_rows: 5_000,
            held_rows: 20_000,
            ..Self::full(folder, executable)
        }
    }

    /// A new folder on the measured disk, deleted on drop.
    pub(super) fn temporary(&self) -> Result<TempDir> {
        let builder = tempfile::Builder::new()
            .prefix(".steadfast-bench-")
            .to_owned();
        let made = builder.tempdir_in(&self.folder);
        made.with_context(|| format!("create a folder in {}", self.folder.display()))
    }
}
