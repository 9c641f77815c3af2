//! Maps errors to HTTP statuses, in one table.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use steadfast_core::limits;
use steadfast_durable::{Error, ErrorKind, FailureDetails};
use steadfast_net::access::{AccessError, AccessErrorKind};
use steadfast_net::http::{BodyError, RETRY_SECONDS};

/// A status, a stable code and a message.
#[derive(Debug)]
pub(super) struct DurableHttpError {
    status: StatusCode,
    code: &'static str,
    message: String,
    kind: Option<String>,
}

impl DurableHttpError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            kind: None,
        }
    }

    /// The request is malformed.
    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "STF-6050", message)
    }

    /// There is no such route, instance or entity.
    pub(super) fn missing(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "STF-6054", message)
    }

    /// The instance has ended.
    pub(super) fn gone(instance: &str) -> Self {
        let message = format!("the instance '{instance}' has ended");
        Self::new(StatusCode::GONE, "STF-6055", message)
    }

    /// The operation of an entity has failed.
    pub(super) fn failed(failure: FailureDetails) -> Self {
        Self {
            kind: Some(failure.kind),
            ..Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "STF-6056",
                failure.message,
            )
        }
    }

    /// The entity has not answered in time, for this reason if it is known.
    pub(super) fn late(why: Option<String>) -> Self {
        let late = "the entity has not answered in time; it may still do what was asked";
        let message = match why {
            Some(why) => format!("{why}; {late}"),
            None => late.to_owned(),
        };
        Self::new(StatusCode::GATEWAY_TIMEOUT, "STF-6052", message)
    }
}

impl From<BodyError> for DurableHttpError {
    fn from(why: BodyError) -> Self {
        match why {
            BodyError::TooLarge => {
                let message = format!("a body has {} bytes at most", limits::PAYLOAD_BYTES);
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "STF-6050", message)
            }
            BodyError::TooSlow => {
                let message = "the body did not come in time";
                Self::new(StatusCode::REQUEST_TIMEOUT, "STF-6025", message)
            }
            BodyError::Busy => {
                let message = "the server has no room for the body; try again later";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "STF-6026", message)
            }
            BodyError::Broken => Self::bad("the body has broken off"),
        }
    }
}

impl From<AccessError> for DurableHttpError {
    fn from(denied: AccessError) -> Self {
        let status = match denied.reason {
            AccessErrorKind::Forbidden => StatusCode::FORBIDDEN,
            _ => StatusCode::UNAUTHORIZED,
        };
        Self::new(status, denied.code().0, denied.message())
    }
}

impl From<Error> for DurableHttpError {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::Invalid => StatusCode::BAD_REQUEST,
            ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ErrorKind::NoInstance | ErrorKind::NoHub => StatusCode::NOT_FOUND,
            ErrorKind::Exists | ErrorKind::State => StatusCode::CONFLICT,
            ErrorKind::Crowded => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, error.code().0, error.message())
    }
}

impl IntoResponse for DurableHttpError {
    fn into_response(self) -> Response {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(kind) = self.kind {
            error["type"] = kind.into();
        }
        let mut response = (self.status, Json(json!({"error": error}))).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            let later = HeaderValue::from_static(RETRY_SECONDS);
            response.headers_mut().insert(RETRY_AFTER, later);
        }
        response
    }
}
