//! Commands that share the commit of a transaction.
//!
//! A transaction may carry commands to instances of its own partition: messages,
//! checkpoints, pushes to clients. The runtime of the
//! partition interprets and delivers them.

use std::pin::Pin;

use bytes::Bytes;
use steadfast_core::error::Code;
use steadfast_core::id::Lsn;
use steadfast_storage::Writes;

/// Why nothing was committed.
#[derive(Clone, Debug)]
pub enum CommitRejected {
    /// The append to the log failed.
    Storage(steadfast_storage::Error),
    /// The receiver of a command rejected it.
    Command { code: Code, message: String },
}

/// The outcome of a commit.
pub type Outcome = Pin<Box<dyn Future<Output = Result<Lsn, CommitRejected>> + Send>>;

/// Commits rows and commands of one partition: all or nothing.
pub trait CommitPath: Send + Sync + 'static {
    /// Submits rows and commands; resolves when they are durable.
    fn commit(&self, writes: Writes, commands: Vec<Bytes>) -> Outcome;
}
