//! What a run measures, and for how long.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder whose machine and file system the report names.
    pub folder: PathBuf,
    /// The executable that runs `bench realtime-child`: this one.
    pub executable: PathBuf,
    /// How long each measurement takes.
    pub duration: Duration,
    /// How often each short measurement is repeated.
    pub rounds: u32,
    /// Clients that are idle, get broadcasts, and are moved.
    pub many: usize,
    /// Clients of the smaller broadcast.
    pub some: usize,
    /// Clients that call in turn.
    pub callers: usize,
}

impl Settings {
    /// A run whose numbers can be trusted; takes minutes.
    pub fn full(folder: &Path, executable: &Path) -> Self {
        Self {
            folder: folder.to_path_buf(),
            executable: executable.to_path_buf(),
            duration: Duration::from_secs(5),
            rounds: 3,
            many: 10_000,
            some: 1000,
            callers: 64,
        }
    }

    /// A run that only shows that everything works; takes seconds.
    pub fn quick(folder: &Path, executable: &Path) -> Self {
        Self {
            duration: Duration::from_millis(300),
            rounds: 1,
            many: 200,
            some: 50,
            callers: 8,
            ..Self::full(folder, executable)
        }
    }
}
