//! Commands that share the commit of a transaction.
//!
//! A transaction may carry commands to instances of its own partition, such as a
//! checkpoint, which run with the commit and can refuse it, and messages to instances
//! anywhere, which leave after it. The runtime of the partition interprets both.

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

/// What a transaction commits beside its rows, encoded for the runtime.
#[derive(Clone, Debug, Default)]
pub struct StagedCommands {
    /// Commands to instances of the same partition.
    pub commands: Vec<Bytes>,
    /// Messages to instances of any partition.
    pub messages: Vec<Bytes>,
}

/// The outcome of a commit.
pub type Outcome = Pin<Box<dyn Future<Output = Result<Lsn, CommitRejected>> + Send>>;

/// Commits rows, commands and messages of one partition: all or nothing.
pub trait CommitPath: Send + Sync + 'static {
    /// Submits rows, commands and messages; resolves when they are durable.
    fn commit(&self, writes: Writes, staged: StagedCommands) -> Outcome;
}

impl StagedCommands {
    /// Whether there is none of either.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.messages.is_empty()
    }

    /// The bytes of all of them.
    pub(crate) fn bytes(&self) -> usize {
        let all = self.commands.iter().chain(&self.messages);
        all.map(Bytes::len).sum()
    }
}
