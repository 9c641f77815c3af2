//! How far a backup or restore has come.

/// What is being done, and how much of it is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupProgress {
    /// What is being done.
    pub phase: BackupPhase,
    /// Number of partitions.
    pub partitions: usize,
    /// Partitions that are finished.
    pub done: usize,
    /// Rows so far.
    pub rows: u64,
    /// Events so far.
    pub events: u64,
    /// Bytes of rows and events, or of files, so far.
    pub bytes: u64,
}

/// The parts of a backup and of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackupPhase {
    /// Not begun yet.
    #[default]
    Starting,
    /// Files of a chain are read and compared with their digests.
    Checking,
    /// Partitions are read and written to the backup.
    Reading,
    /// What was written is read again and its digests are made.
    Digesting,
    /// Partitions are written from the backup.
    Writing,
    /// What was written is read back and compared.
    Comparing,
}
