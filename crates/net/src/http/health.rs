//! Liveness, readiness and health checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use axum::Json;
use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;

/// The life-cycle state of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    Starting,
    Ready,
    Draining,
}

/// The result of one health check.
#[derive(Clone, Debug)]
pub struct HealthCheck {
    pub name: &'static str,
    /// Why the check fails; `None` if it passes.
    pub ailment: Option<String>,
}

type Checks = Box<dyn Fn() -> Vec<HealthCheck> + Send + Sync>;

/// The health of the node, served by HTTP.
pub struct NodeHealth {
    state: AtomicU8,
    checks: Checks,
}

impl NodeHealth {
    /// A node that is starting.
    pub fn new(checks: impl Fn() -> Vec<HealthCheck> + Send + Sync + 'static) -> Self {
        Self {
            state: AtomicU8::new(State::Starting as u8),
            checks: Box::new(checks),
        }
    }

    /// Sets the life-cycle state.
    pub fn set(&self, state: State) {
        self.state.store(state as u8, Ordering::SeqCst);
    }

    /// The life-cycle state.
    pub fn state(&self) -> State {
        match self.state.load(Ordering::SeqCst) {
            0 => State::Starting,
            1 => State::Ready,
            _ => State::Draining,
        }
    }

    /// `/livez`, `/readyz` and `/healthz`. They need no key.
    pub fn routes(self: Arc<Self>) -> Router {
        let ready = Arc::clone(&self);
        Router::new()
            .route("/livez", get(async || "ok\n"))
            .route("/readyz", get(async move || ready.readiness()))
            .route("/healthz", get(async move || self.health()))
    }

    fn readiness(&self) -> Response {
        match self.state() {
            State::Ready => "ok\n".into_response(),
            State::Starting => (StatusCode::SERVICE_UNAVAILABLE, "starting\n").into_response(),
            State::Draining => (StatusCode::SERVICE_UNAVAILABLE, "draining\n").into_response(),
        }
    }

    fn health(&self) -> Response {
        let checks = (self.checks)();
        let state = match self.state() {
            State::Starting => "starting",
            State::Ready => "ready",
            State::Draining => "draining",
        };
        let is_well = checks.iter().all(|check| check.ailment.is_none());
        let rows: Vec<_> = checks
            .iter()
            .map(|check| json!({"name": check.name, "ok": check.ailment.is_none(), "ailment": check.ailment}))
            .collect();
        let status = if is_well {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        (
            status,
            Json(json!({"state": state, "ok": is_well, "checks": rows})),
        )
            .into_response()
    }
}
