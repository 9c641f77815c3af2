//! Errors of virtual time and of faults.

use std::fmt;
use std::time::Duration;

use steadfast_core::clock::Timestamp;
use steadfast_core::error::Code;
use steadfast_core::iso::format_time;
use steadfast_core::limits;
use steadfast_macros::ErrorKind;

use super::report::OpenWork;

/// The result of moving the time.
pub(super) type Result<T> = std::result::Result<T, Error>;

/// Why time was not moved as far as requested, or a fault was not injected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
}

/// The kinds of errors; each has its own code.
#[derive(Clone, Debug, PartialEq, Eq, ErrorKind)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The node follows the clock of the system.
    #[error(
        "STF-7070",
        "the time of this server cannot be moved: it follows the system's clock; start it by \
         `steadfast dev --virtual-time`, or use `steadfast::testing`"
    )]
    SystemTime,
    /// The time lies in the past, or too far in the future.
    #[error(
        "STF-7071",
        "the time cannot be moved to {}: it is {}; choose a time from then on, {} days ahead \
         at most",
        format_time(*to),
        format_time(*now),
        limits::TIME_MOVE.as_secs() / 86_400
    )]
    OutOfReach {
        /// The current time.
        now: Timestamp,
        /// The requested time.
        to: Timestamp,
    },
    /// What was due has not ended.
    #[error(
        "STF-7072",
        "the time is {} and was not moved on: {open} after {} s; let it end, then advance again",
        format_time(*now),
        limit.as_secs_f64()
    )]
    Unsettled {
        /// The time that was reached.
        now: Timestamp,
        /// What has not ended.
        open: OpenWork,
        /// The real time for which the call has waited.
        limit: Duration,
    },
    /// Timers were due at too many moments.
    #[error(
        "STF-7073",
        "the time is {} and was not moved on: timers were due at {moments} moments; advance \
         again to continue",
        format_time(*now)
    )]
    TooManyMoments {
        /// The time that was reached.
        now: Timestamp,
        /// The moments at which timers fired.
        moments: u64,
    },
    /// No fault has this name.
    #[error("STF-7074", "there is no fault '{name}'; there are {known}")]
    UnknownFault {
        /// The name.
        name: String,
        /// The names of all faults.
        known: String,
    },
}

impl Error {
    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self { kind }
    }

    /// What kind of error this is.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// The stable code, the name of its page in `docs/errors/`.
    pub fn code(&self) -> Code {
        self.kind.code()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.kind)
    }
}

impl std::error::Error for Error {}
