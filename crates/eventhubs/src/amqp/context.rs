//! State shared by all AMQP connections.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::Clock;
use steadfast_events::EventHubs;
use steadfast_net::access::{AccessControl, AccessError};
use tokio_util::task::TaskTracker;

/// The event hubs and who may access them.
#[derive(Clone)]
pub struct Context {
    pub hubs: EventHubs,
    /// `None` disables access control; for tests on this machine only.
    pub access: Option<Arc<AccessControl>>,
    pub clock: Arc<dyn Clock>,
    /// The container id that the server sends in its open.
    pub container: String,
    /// The idle time-out; `limits::AMQP_IDLE` by default.
    pub idle: Duration,
    /// Connections that are served.
    pub served: TaskTracker,
}

impl Context {
    /// Records that a client was refused.
    pub(crate) fn refused(&self, denied: &AccessError) {
        if let Some(access) = &self.access {
            access.audit().refused(denied);
        }
    }
}
