//! Where the messages of one client go.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use crate::home::Home;

/// The home of a client, and what waits for another one.
#[derive(Default)]
pub(crate) struct Routing {
    pub(crate) home: Option<Arc<dyn Home>>,
    pub(crate) handshake: Bytes,
    /// Messages that wait for another home, if they do.
    pub(crate) held: Option<VecDeque<Bytes>>,
    pub(crate) held_bytes: usize,
    /// A message that was received and has no place yet.
    pub(crate) waiting: Option<Bytes>,
    /// Not even what belongs to an open call goes to the old home any more.
    pub(crate) is_frozen: bool,
    /// It has gone for good.
    pub(crate) has_ended: bool,
}
