//! State shared by all requests of clients.

use std::sync::Arc;

use steadfast_core::clock::Clock;
use steadfast_net::access::AccessControl;
use steadfast_realtime::Realtime;

/// The hubs and who may access them.
#[derive(Clone)]
pub struct Context {
    pub realtime: Realtime,
    pub access: Arc<AccessControl>,
    pub clock: Arc<dyn Clock>,
}
