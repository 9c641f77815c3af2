//! Errors in the form of Azure Scheduler.
//!
//! `{"error": {"code", "message", "target"}}`. This file holds the one table from error
//! kinds to HTTP statuses. Only 429 and 503 make a client retry, and no accepted run is
//! answered with either.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use steadfast_jobs::recurrence::TimingError;
use steadfast_jobs::{Error, ErrorKind};
use steadfast_net::http::BodyError;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SchedulerError {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) target: Option<String>,
    /// The kind of the underlying error of the jobs.
    pub(crate) reason: Option<ErrorKind>,
}

impl SchedulerError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            target: None,
            reason: None,
        }
    }

    /// The request is wrong.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// A member of the body is wrong.
    pub(crate) fn member(target: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            target: Some(target.into()),
            ..Self::bad(message)
        }
    }

    /// A parameter of the query is missing or wrong.
    pub(crate) fn query(name: &str, message: impl Into<String>) -> Self {
        let code = "MissingOrInvalidRequiredQueryParameter";
        Self {
            target: Some(name.into()),
            ..Self::new(StatusCode::BAD_REQUEST, code, message)
        }
    }

    /// The method of a job's request is invalid.
    pub(crate) fn verb(target: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            target: Some(target.into()),
            ..Self::new(StatusCode::BAD_REQUEST, "InvalidHttpVerb", message)
        }
    }

    pub(crate) fn unauthenticated(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "AuthenticationFailed", message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "AuthorizationFailed", message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "ResourceNotFound", message)
    }

    pub(crate) fn method(message: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "InvalidHttpVerb", message)
    }

    /// Temporarily unavailable; the client may retry.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServerBusy", message)
    }

    /// A body with this maximum length was not read.
    pub(crate) fn unread(why: BodyError, most: usize) -> Self {
        let (status, code, message) = match why {
            BodyError::TooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "RequestEntityTooLarge",
                format!("the body may have {most} bytes at most"),
            ),
            BodyError::TooSlow => (
                StatusCode::REQUEST_TIMEOUT,
                "RequestTimeout",
                "the body did not come in time".to_owned(),
            ),
            BodyError::Busy => {
                return Self::unavailable("too many bodies are being read; try again");
            }
            BodyError::Broken => return Self::bad("the body was cut off"),
        };
        Self::new(status, code, message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "ConflictError", message)
    }

    /// A resource cannot move from one region to another.
    pub(crate) fn moved(message: impl Into<String>) -> Self {
        let fault = Self::new(StatusCode::CONFLICT, "InvalidResourceLocation", message);
        fault.with_target("location")
    }

    pub(crate) fn with_target(mut self, target: impl Into<String>) -> Self {
        self.target = Some(target.into());
        self
    }
}

impl From<TimingError> for SchedulerError {
    fn from(invalid: TimingError) -> Self {
        Self::member(format!("properties.{}", invalid.target), invalid.message)
    }
}

impl From<Error> for SchedulerError {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        let fault = match error.kind() {
            ErrorKind::NoCollection | ErrorKind::NoJob => Self::not_found(message),
            ErrorKind::Full
            | ErrorKind::Final
            | ErrorKind::Changed
            | ErrorKind::Leaving
            | ErrorKind::Taken => Self::conflict(message),
            ErrorKind::NeverRuns => Self::member("properties.recurrence", message),
            ErrorKind::NoOccurrence => Self::member("from", message),
            ErrorKind::TooLarge => Self::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "RequestEntityTooLarge",
                message,
            ),
            ErrorKind::Crowded => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
            }
            _ => Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServerBusy", message),
        };
        Self {
            reason: Some(error.kind()),
            ..fault
        }
    }
}

impl IntoResponse for SchedulerError {
    fn into_response(self) -> Response {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(target) = self.target {
            error["target"] = target.into();
        }
        let mut response = (self.status, Json(json!({"error": error}))).into_response();
        let is_later = [
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::SERVICE_UNAVAILABLE,
        ];
        if is_later.contains(&self.status) {
            let headers = response.headers_mut();
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
