//! A span around every request.
//!
//! `traceparent` of the client becomes its parent. The layer that exports spans
//! (`telemetry`) is not always there; then a span costs next to nothing.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use opentelemetry::global;
use opentelemetry::propagation::Extractor;
use tracing::Instrument;
use tracing_opentelemetry::OpenTelemetrySpanExt;

struct Headers<'a>(&'a axum::http::HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(axum::http::HeaderName::as_str).collect()
    }
}

pub(super) async fn enter(request: Request, next: Next) -> Response {
    let span = tracing::info_span!(
        "request",
        otel.name = %request.method(),
        otel.kind = "server",
        http.request.method = %request.method(),
        url.path = request.uri().path(),
        http.response.status_code = tracing::field::Empty,
    );
    if !span.is_disabled() {
        let headers = Headers(request.headers());
        let parent = global::get_text_map_propagator(|propagator| propagator.extract(&headers));
        // It fails only where no layer exports, and then there is no parent to have.
        let _ = span.set_parent(parent);
    }
    let response = next.run(request).instrument(span.clone()).await;
    span.record("http.response.status_code", response.status().as_u16());
    response
}
