//! Why a request was not done; the one table to statuses.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use steadfast_durable::{Error, ErrorKind, Failure};

use crate::access::{Denied, Reason};

/// A status, a stable code and words.
#[derive(Debug)]
pub(super) struct Fault {
    status: StatusCode,
    code: &'static str,
    message: String,
    kind: Option<String>,
}

impl Fault {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            kind: None,
        }
    }

    /// The request cannot be understood.
    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "STF-6050", message)
    }

    /// The body is too long.
    pub(super) fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "STF-6050", message)
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
    pub(super) fn failed(failure: Failure) -> Self {
        Self {
            kind: Some(failure.kind),
            ..Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "STF-6056",
                failure.message,
            )
        }
    }

    /// The entity has not answered in time.
    pub(super) fn late() -> Self {
        let message = "the entity has not answered in time; it may still do what was asked";
        Self::new(StatusCode::GATEWAY_TIMEOUT, "STF-6052", message)
    }
}

impl From<Denied> for Fault {
    fn from(denied: Denied) -> Self {
        let status = match denied.reason {
            Reason::Forbidden => StatusCode::FORBIDDEN,
            _ => StatusCode::UNAUTHORIZED,
        };
        Self::new(status, denied.code().0, denied.message())
    }
}

impl From<Error> for Fault {
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

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(kind) = self.kind {
            error["type"] = kind.into();
        }
        (self.status, Json(json!({"error": error}))).into_response()
    }
}
