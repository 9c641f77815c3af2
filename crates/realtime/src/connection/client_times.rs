//! Timestamps of one client.

use std::time::Duration;

use tokio::time::Instant;

/// Timestamps and time limits of one client.
pub(crate) struct ClientTimes {
    pub(crate) opened: Instant,
    pub(crate) heard: Instant,
    pub(crate) spoke: Instant,
    /// When the token expires, if the connection ends with it.
    pub(crate) expires: Option<Instant>,
    pub(crate) handshake: Duration,
}
