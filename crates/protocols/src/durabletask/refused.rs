//! Why something was not done; the one table to statuses.
//!
//! SDKs turn these statuses into their exceptions, and some try again: a worker
//! that reports a result does so after `UNAVAILABLE`, never after a refusal.

use steadfast_durable::{Error, ErrorKind};
use tonic::{Code, Status};

use super::convert::Malformed;
use crate::access::{Denied, Reason};

/// The request cannot be understood.
pub(super) fn malformed(why: impl std::fmt::Display) -> Status {
    Status::invalid_argument(format!("STF-6050: {why}"))
}

/// The node leaves.
pub(super) fn leaving() -> Status {
    Status::unavailable("STF-6051: the node leaves; another one takes the request")
}

/// The client did not want to wait any longer.
pub(super) fn late() -> Status {
    Status::deadline_exceeded("STF-6052: the instance has not come so far in time")
}

/// There is no such method.
pub(super) fn unknown(path: &str) -> Status {
    let path = path.escape_debug();
    Status::unimplemented(format!("STF-6053: there is no method {path}"))
}

/// The engine has said no.
pub(super) fn refused(error: &Error) -> Status {
    let code = match error.kind() {
        ErrorKind::Invalid | ErrorKind::TooLarge => Code::InvalidArgument,
        ErrorKind::Exists => Code::AlreadyExists,
        ErrorKind::NoInstance | ErrorKind::NoHub => Code::NotFound,
        ErrorKind::State => Code::FailedPrecondition,
        ErrorKind::Crowded => Code::ResourceExhausted,
        _ => Code::Unavailable,
    };
    Status::new(code, format!("{}: {}", error.code(), error.message()))
}

/// Somebody is not let in.
pub(super) fn denied(denied: &Denied) -> Status {
    match denied.reason {
        Reason::Forbidden => Status::permission_denied(denied.to_string()),
        _ => Status::unauthenticated(denied.to_string()),
    }
}

impl From<Malformed> for Status {
    fn from(why: Malformed) -> Self {
        malformed(why)
    }
}
