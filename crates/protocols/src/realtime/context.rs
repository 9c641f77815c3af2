//! What all requests of clients share.

use std::sync::Arc;

use steadfast_core::clock::Clock;
use steadfast_realtime::Realtime;

use crate::access::Access;

/// The hubs that are served, and to whom.
#[derive(Clone)]
pub struct Context {
    pub realtime: Realtime,
    pub access: Arc<Access>,
    pub clock: Arc<dyn Clock>,
}
