//! Options of operations: time-outs and lock modes.

use std::time::Duration;

use steadfast_core::limits;

use crate::error::{Error, ErrorKind, Result};
use crate::lock::mode::LockStrength;

/// How long an operation may wait for its locks, all of them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// At most this long; zero tries once.
    After(Duration),
    /// Without a limit. Deadlocks are detected at once, and a transaction that does not end
    /// is faulted when it expires.
    Never,
}

impl Timeout {
    /// From milliseconds as other SDKs pass them: -1 is no limit, other negative numbers
    /// are refused.
    pub fn from_millis(millis: i64) -> Result<Self> {
        match u64::try_from(millis) {
            Ok(millis) => Ok(Self::After(Duration::from_millis(millis))),
            Err(_) if millis == -1 => Ok(Self::Never),
            Err(_) => Err(Error::new(ErrorKind::InvalidTimeout { millis })),
        }
    }
}

impl Default for Timeout {
    fn default() -> Self {
        Self::After(limits::LOCK_TIMEOUT)
    }
}

impl From<Duration> for Timeout {
    fn from(duration: Duration) -> Self {
        Self::After(duration)
    }
}

/// How a read locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockMode {
    /// Shared: others may read.
    #[default]
    Default,
    /// Update: for a read that a write follows.
    Update,
}

impl LockMode {
    pub(crate) fn mode(self) -> LockStrength {
        match self {
            Self::Default => LockStrength::Shared,
            Self::Update => LockStrength::Update,
        }
    }
}

/// Options of an operation; every one has a default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationOptions {
    /// How long to wait for locks.
    pub timeout: Timeout,
    /// How a read locks.
    pub lock: LockMode,
}

impl OperationOptions {
    /// Waits at most this long.
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Timeout>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Reads with an update lock.
    #[must_use]
    pub fn update(mut self) -> Self {
        self.lock = LockMode::Update;
        self
    }
}

/// The deadline of one operation: it starts to run with the first wait.
#[derive(Debug)]
pub(crate) struct WaitDeadline {
    timeout: Timeout,
    deadline: Option<tokio::time::Instant>,
}

impl WaitDeadline {
    pub(crate) fn new(timeout: Timeout) -> Self {
        Self {
            timeout,
            deadline: None,
        }
    }

    /// Whether the operation waits at all.
    pub(crate) fn waits(&self) -> bool {
        self.timeout != Timeout::After(Duration::ZERO)
    }

    /// The moment at which the wait times out; `None`: never.
    pub(crate) fn deadline(&mut self) -> Option<tokio::time::Instant> {
        let Timeout::After(timeout) = self.timeout else {
            return None;
        };
        let from_now = || tokio::time::Instant::now() + timeout;
        Some(*self.deadline.get_or_insert_with(from_now))
    }
}
