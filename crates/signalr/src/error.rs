//! Errors of client requests.
//!
//! The texts are those that clients expect.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use steadfast_net::access::AccessError;
use steadfast_net::http::Problem;
use steadfast_realtime::{Error, ErrorKind, TicketError};

/// The error response to a client's request.
pub(super) enum ClientRequestError {
    /// A status and a text.
    Plain(StatusCode, String),
    /// As problem details, like the management API.
    Problem(Problem),
}

impl ClientRequestError {
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

impl From<TicketError> for ClientRequestError {
    fn from(refused: TicketError) -> Self {
        match refused {
            TicketError::Busy => {
                Self::new(StatusCode::CONFLICT, "The connection has a socket already")
            }
            TicketError::Transport => Self::other_transport(),
            TicketError::Gone => Self::unknown(),
        }
    }
}

impl From<AccessError> for ClientRequestError {
    fn from(denied: AccessError) -> Self {
        Self::Problem(denied.into())
    }
}

impl From<Error> for ClientRequestError {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::NoHub(_) | ErrorKind::NoConnection(_) => StatusCode::NOT_FOUND,
            ErrorKind::Full(_) => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        };
        Self::new(status, error.to_string())
    }
}

impl IntoResponse for ClientRequestError {
    fn into_response(self) -> Response {
        match self {
            Self::Plain(status, text) => (status, text).into_response(),
            Self::Problem(problem) => problem.into_response(),
        }
    }
}
