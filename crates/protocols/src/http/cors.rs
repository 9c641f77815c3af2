//! Which pages of other origins may call us.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Origins that may call us. `*` is any of them.
#[derive(Clone, Debug, Default)]
pub struct Cors {
    origins: Vec<String>,
}

/// How long a browser may remember what it was told.
const REMEMBERED: HeaderValue = HeaderValue::from_static("600");

impl Cors {
    /// Lets pages of these origins call us.
    pub fn new(origins: impl IntoIterator<Item = String>) -> Self {
        let origins = origins.into_iter();
        Self {
            origins: origins
                .map(|origin| origin.trim_end_matches('/').to_owned())
                .collect(),
        }
    }

    fn allows(&self, origin: &str) -> bool {
        let mut origins = self.origins.iter();
        origins.any(|own| own == "*" || own.eq_ignore_ascii_case(origin))
    }
}

/// Answers what a browser asks before a request, and marks answers as readable.
pub(super) async fn apply(State(cors): State<Arc<Cors>>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(ORIGIN).cloned();
    let is_allowed = |origin: &HeaderValue| origin.to_str().is_ok_and(|origin| cors.allows(origin));
    let Some(origin) = origin.filter(is_allowed) else {
        return next.run(request).await;
    };
    let asked = request.headers();
    let is_question =
        request.method() == Method::OPTIONS && asked.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = match is_question {
        true => preflight(asked),
        false => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(
        ACCESS_CONTROL_ALLOW_CREDENTIALS,
        HeaderValue::from_static("true"),
    );
    headers.append(VARY, HeaderValue::from_static("Origin"));
    response
}

fn preflight(asked: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    if let Some(method) = asked.get(ACCESS_CONTROL_REQUEST_METHOD) {
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, method.clone());
    }
    if let Some(names) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    headers.insert(ACCESS_CONTROL_MAX_AGE, REMEMBERED);
    response
}
