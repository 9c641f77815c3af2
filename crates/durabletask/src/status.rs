//! Maps errors to gRPC statuses, in one table.
//!
//! SDKs turn these statuses into exceptions, and some retry: a worker retries a result
//! after `UNAVAILABLE`, never after any other status.

use steadfast_durable::{Error, ErrorKind};
use steadfast_net::access::{AccessError, AccessErrorKind};
use tonic::{Code, Status};

/// The request is malformed.
pub(super) fn malformed(why: impl std::fmt::Display) -> Status {
    Status::invalid_argument(format!("STF-6050: {why}"))
}

/// The node is draining.
pub(super) fn leaving() -> Status {
    Status::unavailable("STF-6051: the node is draining; retry on another node")
}

/// The client's deadline is over.
pub(super) fn late() -> Status {
    Status::deadline_exceeded("STF-6052: the instance did not reach the state in time")
}

/// There is no such method.
pub(super) fn unknown(path: &str) -> Status {
    let path = path.escape_debug();
    Status::unimplemented(format!("STF-6053: there is no method {path}"))
}

/// The status of an engine error.
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

/// The status of an access denial.
pub(super) fn denied(denied: &AccessError) -> Status {
    match denied.reason {
        AccessErrorKind::Forbidden => Status::permission_denied(denied.to_string()),
        _ => Status::unauthenticated(denied.to_string()),
    }
}
