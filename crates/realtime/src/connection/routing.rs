//! The routing state of one client.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use crate::backend::HubBackend;

/// The backend of a client, and messages held for another one.
#[derive(Default)]
pub(crate) struct Routing {
    pub(crate) backend: Option<Arc<dyn HubBackend>>,
    pub(crate) handshake: Bytes,
    /// Messages held for another backend, while there are any.
    pub(crate) held: Option<VecDeque<Bytes>>,
    pub(crate) held_bytes: usize,
    /// A received message that is not delivered yet.
    pub(crate) waiting: Option<Bytes>,
    /// The old backend gets no more messages, not even of open calls.
    pub(crate) is_frozen: bool,
    /// It has disconnected for good.
    pub(crate) has_ended: bool,
}
