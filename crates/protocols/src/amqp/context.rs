//! What every connection shares.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::Clock;
use steadfast_events::EventHubs;
use tokio_util::task::TaskTracker;

use crate::access::{Access, Denied};

/// The event hubs that are served, and to whom.
#[derive(Clone)]
pub struct Context {
    pub hubs: EventHubs,
    /// `None`: everybody may do everything; only for tests on this machine.
    pub access: Option<Arc<Access>>,
    pub clock: Arc<dyn Clock>,
    /// How we introduce ourselves.
    pub container: String,
    /// How long a client may be silent; `limits::AMQP_IDLE` unless told otherwise.
    pub idle: Duration,
    /// Connections that are served.
    pub served: TaskTracker,
}

impl Context {
    /// Records that a client was refused.
    pub(crate) fn refused(&self, denied: &Denied) {
        if let Some(access) = &self.access {
            access.audit().refused(denied);
        }
    }
}
