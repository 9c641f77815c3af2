//! Errors of the native REST interface.
//!
//! One form: `{"error": {"code": "STF-6003", "message": ".."}}`. This file holds the one
//! table from codes to HTTP statuses.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use steadfast_core::error::Code;
use steadfast_core::limits;
use steadfast_events::Error as EventError;
use steadfast_partition::Error as PartitionError;

use super::body::{BodyError, RETRY_SECONDS};
use crate::access::{AccessControl, AccessError};

/// Why a request failed.
#[derive(Clone, Debug)]
pub struct Problem {
    code: Code,
    message: String,
    /// The denial that it reports.
    denied: Option<AccessError>,
}

/// The request itself is wrong: it cannot be parsed, or its resource does not exist.
const BAD_REQUEST: Code = Code("STF-6020");
const NOT_FOUND: Code = Code("STF-6021");
const NO_METHOD: Code = Code("STF-6023");
const TOO_LARGE: Code = Code("STF-6024");
const TOO_SLOW: Code = Code("STF-6025");
const NO_ROOM: Code = Code("STF-6026");
const FOREIGN: Code = Code("STF-6027");
const INTERNAL: Code = Code("STF-6070");

impl Problem {
    /// A problem with a code of its own, with which the message may begin.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            code,
            message: code.strip(&message).to_owned(),
            denied: None,
        }
    }

    /// A request that fails for a reason that may begin with a code.
    pub fn because(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        match Code::leading(&reason) {
            Some((code, message)) => Self::new(code, message),
            None => Self::bad_request(reason),
        }
    }

    /// The request cannot be parsed.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(BAD_REQUEST, message)
    }

    /// The resource does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(NOT_FOUND, message)
    }

    /// The resource does not support the method.
    pub fn no_method(message: impl Into<String>) -> Self {
        Self::new(NO_METHOD, message)
    }

    /// The body is longer than allowed.
    pub fn too_large(bytes: usize) -> Self {
        let message = format!("the body may have {bytes} bytes at most");
        Self::new(TOO_LARGE, message)
    }

    /// The body did not arrive in time.
    pub fn too_slow(limit: Duration) -> Self {
        let message = format!("the body did not come within {} s", limit.as_secs());
        Self::new(TOO_SLOW, message)
    }

    /// The bodies of other requests leave no room for this one.
    pub fn no_room() -> Self {
        let message = "the server is reading as many bodies as it has room for; try again later";
        Self::new(NO_ROOM, message)
    }

    /// The request is for another host, or was sent by a page of another origin.
    pub fn foreign(message: impl Into<String>) -> Self {
        Self::new(FOREIGN, message)
    }

    /// A body with this maximum length was not read.
    pub fn unread(why: BodyError, most: usize) -> Self {
        match why {
            BodyError::TooLarge => Self::too_large(most),
            BodyError::TooSlow => Self::too_slow(limits::BODY_TIME),
            BodyError::Busy => Self::no_room(),
            BodyError::Broken => Self::bad_request("the body has broken off"),
        }
    }

    /// A failure of the machine.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(INTERNAL, message)
    }

    /// The stable code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The message without the code.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The denial that it reports, if it is one.
    pub fn denied(&self) -> Option<&AccessError> {
        self.denied.as_ref()
    }

    fn status(&self) -> StatusCode {
        match self.code.0 {
            "STF-6001" | "STF-6002" | "STF-6003" | "STF-6004" => StatusCode::UNAUTHORIZED,
            "STF-6005" | "STF-7006" => StatusCode::FORBIDDEN,
            "STF-6020" | "STF-2009" | "STF-4006" => StatusCode::BAD_REQUEST,
            "STF-7070" | "STF-7073" => StatusCode::CONFLICT,
            "STF-7071" => StatusCode::BAD_REQUEST,
            "STF-7072" => StatusCode::GATEWAY_TIMEOUT,
            "STF-7001" | "STF-7002" | "STF-7003" | "STF-7007" | "STF-7030" | "STF-7031" => {
                StatusCode::BAD_REQUEST
            }
            "STF-6021" | "STF-4004" | "STF-5301" | "STF-5302" | "STF-5308" | "STF-5310" => {
                StatusCode::NOT_FOUND
            }
            "STF-2051" | "STF-2062" | "STF-2063" => StatusCode::CONFLICT,
            "STF-7034" | "STF-6031" | "STF-2058" | "STF-6022" | "STF-3001" | "STF-3004"
            | "STF-3008" | "STF-3014" | "STF-3023" => StatusCode::CONFLICT,
            "STF-3015" | "STF-5101" | "STF-5106" | "STF-5208" | "STF-5209" => {
                StatusCode::BAD_REQUEST
            }
            "STF-5108" | "STF-5201" => StatusCode::NOT_FOUND,
            "STF-5203" | "STF-5205" | "STF-5206" | "STF-6032" => StatusCode::CONFLICT,
            "STF-6033" => StatusCode::TOO_MANY_REQUESTS,
            "STF-6030" => StatusCode::PRECONDITION_FAILED,
            "STF-3007" => StatusCode::NOT_FOUND,
            "STF-3011" | "STF-3019" | "STF-3020" | "STF-3021" | "STF-3022" => {
                StatusCode::BAD_REQUEST
            }
            "STF-5001" | "STF-5002" | "STF-5003" | "STF-5017" | "STF-5019" | "STF-5035" => {
                StatusCode::NOT_FOUND
            }
            "STF-5004" | "STF-5009" | "STF-5010" | "STF-5011" | "STF-5016" | "STF-5030"
            | "STF-5033" => StatusCode::CONFLICT,
            "STF-5005" | "STF-5007" | "STF-5008" | "STF-5022" => StatusCode::BAD_REQUEST,
            "STF-5006" => StatusCode::PAYLOAD_TOO_LARGE,
            "STF-5012" => StatusCode::TOO_MANY_REQUESTS,
            "STF-5024" => StatusCode::SERVICE_UNAVAILABLE,
            "STF-3012" => StatusCode::TOO_MANY_REQUESTS,
            "STF-3002" | "STF-3010" => StatusCode::SERVICE_UNAVAILABLE,
            "STF-6023" => StatusCode::METHOD_NOT_ALLOWED,
            "STF-6024" => StatusCode::PAYLOAD_TOO_LARGE,
            "STF-6025" => StatusCode::REQUEST_TIMEOUT,
            "STF-6026" => StatusCode::SERVICE_UNAVAILABLE,
            "STF-6027" => StatusCode::FORBIDDEN,
            "STF-2008" | "STF-4003" => StatusCode::TOO_MANY_REQUESTS,
            "STF-4001" | "STF-4002" | "STF-4008" | "STF-4010" | "STF-2012" | "STF-2019"
            | "STF-2021" => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl From<AccessError> for Problem {
    fn from(denied: AccessError) -> Self {
        Self {
            denied: Some(denied.clone()),
            ..Self::new(denied.code(), denied.message())
        }
    }
}

impl From<PartitionError> for Problem {
    fn from(error: PartitionError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<EventError> for Problem {
    fn from(error: EventError) -> Self {
        Self::new(error.code(), error.message())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status();
        let body = json!({"error": {"code": self.code.0, "message": self.message}});
        let mut response = (status, Json(body)).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        if let Some(denied) = self.denied {
            response.extensions_mut().insert(denied);
        }
        if self.code == NO_ROOM {
            let later = HeaderValue::from_static(RETRY_SECONDS);
            response.headers_mut().insert(RETRY_AFTER, later);
        }
        response
    }
}

/// Records denials among the responses of some routes.
pub async fn audited(
    State(access): State<Arc<AccessControl>>,
    request: Request,
    next: Next,
) -> Response {
    let response = next.run(request).await;
    if let Some(denied) = response.extensions().get::<AccessError>() {
        access.audit().refused(denied);
    }
    response
}
