//! Responses and their common headers.

use axum::Json;
use axum::http::header::{CACHE_CONTROL, ETAG, HeaderValue, LOCATION, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use uuid::Uuid;

use super::error::SchedulerError;

/// The outcome of an operation.
pub(crate) enum SchedulerResponse {
    /// 200 with a body.
    Shown(Value),
    /// 200 or 201 with a body and its version.
    Kept {
        is_new: bool,
        version: u64,
        body: Value,
    },
    /// 200 without a body.
    Done,
    /// 202: still running; clients poll this address.
    Running(String),
}

impl IntoResponse for SchedulerResponse {
    fn into_response(self) -> Response {
        match self {
            Self::Shown(body) => Json(body).into_response(),
            Self::Kept {
                is_new,
                version,
                body,
            } => {
                let status = if is_new {
                    StatusCode::CREATED
                } else {
                    StatusCode::OK
                };
                let mut response = (status, Json(body)).into_response();
                let tag = HeaderValue::from_str(&format!("\"{version}\""));
                response
                    .headers_mut()
                    .extend(tag.ok().map(|tag| (ETAG, tag)));
                response
            }
            Self::Done => StatusCode::OK.into_response(),
            Self::Running(place) => {
                let mut response = StatusCode::ACCEPTED.into_response();
                let headers = response.headers_mut();
                // Without it clients consider the operation finished.
                headers.extend(HeaderValue::from_str(&place).ok().map(|at| (LOCATION, at)));
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
                response
            }
        }
    }
}

/// Converts a result to a response with the common headers.
pub(crate) fn finish(
    asked: &HeaderMap,
    result: Result<SchedulerResponse, SchedulerError>,
) -> Response {
    let mut response = match result {
        Ok(answer) => answer.into_response(),
        Err(fault) => fault.into_response(),
    };
    let own = Uuid::new_v4().to_string();
    let correlation = asked.get("x-ms-correlation-request-id").cloned();
    let own = HeaderValue::from_str(&own).unwrap_or(HeaderValue::from_static("0"));
    let headers = response.headers_mut();
    headers.insert(
        "x-ms-correlation-request-id",
        correlation.unwrap_or_else(|| own.clone()),
    );
    headers.insert("x-ms-request-id", own);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
