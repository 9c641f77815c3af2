//! When something of a client was heard, and was said.

use std::time::Duration;

use tokio::time::Instant;

/// Moments of one client.
pub(crate) struct Times {
    pub(crate) opened: Instant,
    pub(crate) heard: Instant,
    pub(crate) spoke: Instant,
    /// When the token ends, if the connection ends with it.
    pub(crate) expires: Option<Instant>,
    pub(crate) handshake: Duration,
}
