//! Which pages of other origins may call the server.
//!
//! An origin that is listed by name may send requests with credentials, as the SignalR
//! client for browsers always does. `*` is for pages without credentials: a response that
//! named every origin and allowed credentials would open what a listed one protects.

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

use super::origin::{authority_of, is_loopback};

/// The permitted origins. `*` is any.
#[derive(Clone, Debug, Default)]
pub struct Cors {
    origins: Vec<String>,
    /// Whether pages of this machine are permitted, on any port.
    has_loopback: bool,
}

/// How a page may call the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CorsMode {
    /// Without credentials.
    WithoutCredentials,
    ByName,
}

/// How long a browser may cache the answer to a preflight request, in seconds.
const REMEMBERED: HeaderValue = HeaderValue::from_static("600");

impl Cors {
    /// Permits pages of these origins.
    pub fn new(origins: impl IntoIterator<Item = String>) -> Self {
        let origins = origins.into_iter();
        Self {
            origins: origins
                .map(|origin| origin.trim_end_matches('/').to_owned())
                .collect(),
            has_loopback: false,
        }
    }

    /// Also permits pages of this machine, for development.
    #[must_use]
    pub fn with_loopback(self) -> Self {
        Self {
            has_loopback: true,
            ..self
        }
    }

    pub(super) fn allows(&self, origin: &str) -> bool {
        self.allowed(origin).is_some()
    }

    fn allowed(&self, origin: &str) -> Option<CorsMode> {
        let mut origins = self.origins.iter();
        let is_named = origins.any(|own| own.eq_ignore_ascii_case(origin));
        let is_near = || {
            let authority = authority_of(origin);
            authority.is_some_and(|(authority, _)| is_loopback(authority.host()))
        };
        if is_named && origin != "*" || self.has_loopback && is_near() {
            return Some(CorsMode::ByName);
        }
        let is_open = self.origins.iter().any(|own| own == "*");
        is_open.then_some(CorsMode::WithoutCredentials)
    }
}

/// Answers preflight requests, and adds the CORS headers to responses.
pub(super) async fn apply(State(cors): State<Arc<Cors>>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(ORIGIN).cloned();
    let allowed = |origin: &HeaderValue| cors.allowed(origin.to_str().ok()?);
    let found = origin.and_then(|origin| Some((allowed(&origin)?, origin)));
    let Some((allowed, origin)) = found else {
        return next.run(request).await;
    };
    let asked = request.headers();
    let is_question =
        request.method() == Method::OPTIONS && asked.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if is_question {
        preflight(asked)
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    if allowed == CorsMode::WithoutCredentials {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    } else {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        let yes = HeaderValue::from_static("true");
        headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, yes);
    }
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
