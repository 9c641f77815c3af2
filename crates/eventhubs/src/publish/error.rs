//! Maps publish errors to HTTP statuses, in one table.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use steadfast_events::{Error, ErrorKind};
use steadfast_net::access::AccessError;
use steadfast_net::http::{BodyError, RETRY_SECONDS};

/// A status, a stable code and a message.
#[derive(Debug)]
pub(super) struct PublishError {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl PublishError {
    /// The request is malformed.
    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            code: "STF-6040",
            message: message.into(),
        }
    }
}

impl From<BodyError> for PublishError {
    fn from(why: BodyError) -> Self {
        let refused = |status, code, message: &str| Self {
            status,
            code,
            message: message.to_owned(),
        };
        match why {
            BodyError::TooLarge => Error::new(
                ErrorKind::TooLarge,
                "the body of a request is too large; send less at once",
            )
            .into(),
            BodyError::TooSlow => refused(
                StatusCode::REQUEST_TIMEOUT,
                "STF-6025",
                "the body did not come in time",
            ),
            BodyError::Busy => refused(
                StatusCode::SERVICE_UNAVAILABLE,
                "STF-6026",
                "the server is reading as many bodies as it has room for; try again later",
            ),
            BodyError::Broken => Self::malformed("the body has broken off"),
        }
    }
}

impl From<AccessError> for PublishError {
    fn from(denied: AccessError) -> Self {
        Self {
            status: StatusCode::UNAUTHORIZED,
            code: denied.code().0,
            message: denied.message().to_owned(),
        }
    }
}

impl From<Error> for PublishError {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::HubNotFound | ErrorKind::PartitionNotFound => StatusCode::NOT_FOUND,
            ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ErrorKind::BadPublication => StatusCode::BAD_REQUEST,
            ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self {
            status,
            code: error.code().0,
            message: error.message().to_owned(),
        }
    }
}

impl IntoResponse for PublishError {
    fn into_response(self) -> Response {
        let body = json!({ "error": { "code": self.code, "message": self.message } });
        let mut response = (self.status, Json(body)).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            let later = HeaderValue::from_static(RETRY_SECONDS);
            response.headers_mut().insert(RETRY_AFTER, later);
        }
        response
    }
}
