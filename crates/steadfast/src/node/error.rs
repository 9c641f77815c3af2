//! The errors of a node.

use std::error::Error as StdError;
use std::fmt;
use std::path::PathBuf;

use steadfast_collections::Error as CollectionError;
use steadfast_core::error::Code;
use steadfast_durable::Error as DurableError;
use steadfast_events::Error as EventsError;
use steadfast_net::http::Problem;
use steadfast_net::listen::Error as ListenError;
use steadfast_partition::Error as PartitionError;
use steadfast_partition::cluster::JoinRejection;
use steadfast_realtime::Error as RealtimeError;
use steadfast_storage::Error as StorageError;

use super::time::Error as TimeError;
use crate::config::Error as ConfigError;

/// The result of starting and using a node.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a node. Each layer keeps its own message and code.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The configuration is invalid.
    Config(ConfigError),
    /// A port or certificate cannot be used.
    Listen(ListenError),
    /// The state cannot be opened.
    Storage(StorageError),
    /// The node may not join its cluster.
    Cluster(JoinRejection),
    /// A partition cannot be served.
    Partition(PartitionError),
    /// A request for collections failed, on this node or at the owner.
    Answer(Problem),
    /// A collection failed.
    Collection(CollectionError),
    /// An event hub failed.
    Events(EventsError),
    /// A task hub failed.
    Durable(DurableError),
    /// A hub cannot be hosted.
    Realtime(RealtimeError),
    /// The time of a test was not moved, or a fault has no such name.
    Testing(TimeError),
    /// The key file cannot be used.
    Keys {
        /// Which file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl Error {
    /// The stable code, the name of its page in `docs/errors/`.
    pub fn code(&self) -> Code {
        match self {
            Self::Config(error) => error.code(),
            Self::Listen(error) => error.code(),
            Self::Storage(error) => error.code(),
            Self::Cluster(refused) => refused.code(),
            Self::Partition(error) => error.code(),
            Self::Answer(problem) => problem.code(),
            Self::Collection(error) => error.code(),
            Self::Events(error) => error.code(),
            Self::Durable(error) => error.code(),
            Self::Realtime(error) => error.code(),
            Self::Testing(error) => error.code(),
            Self::Keys { .. } => Code("STF-7005"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Listen(error) => error.fmt(f),
            Self::Storage(error) => error.fmt(f),
            Self::Cluster(refused) => refused.fmt(f),
            Self::Partition(error) => error.fmt(f),
            Self::Answer(problem) => problem.fmt(f),
            Self::Collection(error) => error.fmt(f),
            Self::Events(error) => error.fmt(f),
            Self::Durable(error) => error.fmt(f),
            Self::Realtime(error) => error.fmt(f),
            Self::Testing(error) => error.fmt(f),
            Self::Keys { file, why } => {
                let code = self.code();
                write!(f, "{code}: the file of keys {}: {why}", file.display())
            }
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Config(error) => error.source(),
            Self::Listen(error) => error.source(),
            Self::Storage(error) => error.source(),
            Self::Partition(error) => error.source(),
            Self::Collection(error) => error.source(),
            Self::Events(error) => error.source(),
            Self::Durable(error) => error.source(),
            Self::Realtime(error) => error.source(),
            Self::Cluster(_) | Self::Answer(_) | Self::Testing(_) | Self::Keys { .. } => None,
        }
    }
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<ListenError> for Error {
    fn from(error: ListenError) -> Self {
        Self::Listen(error)
    }
}

impl From<StorageError> for Error {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<PartitionError> for Error {
    fn from(error: PartitionError) -> Self {
        Self::Partition(error)
    }
}

impl From<CollectionError> for Error {
    fn from(error: CollectionError) -> Self {
        Self::Collection(error)
    }
}

impl From<EventsError> for Error {
    fn from(error: EventsError) -> Self {
        Self::Events(error)
    }
}

impl From<DurableError> for Error {
    fn from(error: DurableError) -> Self {
        Self::Durable(error)
    }
}

impl From<RealtimeError> for Error {
    fn from(error: RealtimeError) -> Self {
        Self::Realtime(error)
    }
}

impl From<TimeError> for Error {
    fn from(error: TimeError) -> Self {
        Self::Testing(error)
    }
}
