//! Errors of client requests.
//!
//! The texts are those that clients expect.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use steadfast_realtime::{Error, ErrorKind, Refused};

use crate::access::Denied;
use crate::http::Problem;

/// The error response to a client's request.
pub(super) enum Refusal {
    /// A status and a text.
    Plain(StatusCode, String),
    /// As problem details, like the management API.
    Problem(Problem),
}

impl Refusal {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self::Plain(status, text.into())
    }

    /// The connection was not negotiated, or it has ended.
    pub(super) fn unknown() -> Self {
        Self::new(StatusCode::NOT_FOUND, "No Connection with that ID")
    }

    pub(super) fn no_id() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "Connection ID required")
    }

    pub(super) fn other_transport() -> Self {
        let text = "Cannot change transports mid-connection";
        Self::new(StatusCode::BAD_REQUEST, text)
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Busy => Self::new(StatusCode::CONFLICT, "The connection has a socket already"),
            Refused::Transport => Self::other_transport(),
            Refused::Gone => Self::unknown(),
        }
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        Self::Problem(denied.into())
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::NoHub(_) | ErrorKind::NoConnection(_) => StatusCode::NOT_FOUND,
            ErrorKind::Full(_) => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        };
        Self::new(status, error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Plain(status, text) => (status, text).into_response(),
            Self::Problem(problem) => problem.into_response(),
        }
    }
}
