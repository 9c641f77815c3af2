//! Why a publication was not taken; the one table to statuses.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use steadfast_events::{Error, Kind};

use crate::access::Denied;

/// A status, a stable code and words.
#[derive(Debug)]
pub(super) struct Refused {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Refused {
    /// The request cannot be understood.
    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            code: "STF-6040",
            message: message.into(),
        }
    }

    pub(super) fn too_large() -> Self {
        Error::new(
            Kind::TooLarge,
            "the body of a request is too large; send less at once",
        )
        .into()
    }
}

impl From<Denied> for Refused {
    fn from(denied: Denied) -> Self {
        Self {
            status: StatusCode::UNAUTHORIZED,
            code: denied.code().0,
            message: denied.message().to_owned(),
        }
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            Kind::HubNotFound | Kind::PartitionNotFound => StatusCode::NOT_FOUND,
            Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::BadPublication => StatusCode::BAD_REQUEST,
            Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self {
            status,
            code: error.code().0,
            message: error.message().to_owned(),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let body = json!({ "error": { "code": self.code, "message": self.message } });
        (self.status, Json(body)).into_response()
    }
}
