//! A span around every request, and its propagation.
//!
//! The client's `traceparent` becomes its parent. Without the layer that exports spans
//! (`telemetry`) a span costs next to nothing.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use opentelemetry::global;
use opentelemetry::propagation::{Extractor, Injector};
use tracing::{Instrument, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::forwarded::ForwardedClient;

struct IncomingHeaders<'a>(&'a axum::http::HeaderMap);

impl Extractor for IncomingHeaders<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(axum::http::HeaderName::as_str).collect()
    }
}

/// The headers of an outgoing request.
struct OutgoingHeaders<'a>(&'a mut axum::http::HeaderMap);

impl Injector for OutgoingHeaders<'_> {
    fn set(&mut self, key: &str, value: String) {
        let name = axum::http::HeaderName::try_from(key);
        if let (Ok(name), Ok(value)) = (name, axum::http::HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}

/// Adds the current span to the headers of an outgoing request as `traceparent`. Without
/// a collector the headers stay unchanged.
pub fn propagate(headers: &mut axum::http::HeaderMap) {
    let context = Span::current().context();
    let mut outgoing = OutgoingHeaders(headers);
    global::get_text_map_propagator(|propagator| {
        propagator.inject_context(&context, &mut outgoing);
    });
}

pub(super) async fn enter(request: Request, next: Next) -> Response {
    let span = tracing::info_span!(
        "request",
        otel.name = %request.method(),
        otel.kind = "server",
        http.request.method = %request.method(),
        url.path = request.uri().path(),
        client.address = tracing::field::Empty,
        http.response.status_code = tracing::field::Empty,
    );
    if !span.is_disabled() {
        let headers = IncomingHeaders(request.headers());
        let parent = global::get_text_map_propagator(|propagator| propagator.extract(&headers));
        // It fails only without an exporting layer, which needs no parent.
        let _ = span.set_parent(parent);
    }
    if let Some(client) = request.extensions().get::<ForwardedClient>() {
        span.record("client.address", client.address.to_string());
    }
    let response = next.run(request).instrument(span.clone()).await;
    span.record("http.response.status_code", response.status().as_u16());
    response
}
