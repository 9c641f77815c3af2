//! State shared by all requests.

use std::sync::Arc;

use steadfast_core::clock::Clock;
use steadfast_core::limits::{BLOB_BODIES_BYTES, BLOB_PIECE_BYTES};
use steadfast_events::Blobs;
use steadfast_net::access::AccessControl;
use tokio::sync::{Mutex, Semaphore};

/// State shared by all handlers.
pub struct Context {
    pub(super) blobs: Blobs,
    pub(super) access: Arc<AccessControl>,
    pub(super) clock: Arc<dyn Clock>,
    /// Whether the port encrypts.
    pub(super) is_encrypted: bool,
    /// Limits the memory of bodies that are being read, in pieces.
    pub(super) room: Arc<Semaphore>,
    /// Locked while a part of an upload is written, to enforce the upload rate.
    pub(super) pace: Mutex<()>,
}

impl Context {
    /// Serves these blobs to clients with a valid key.
    pub fn new(
        blobs: Blobs,
        access: Arc<AccessControl>,
        clock: Arc<dyn Clock>,
        is_encrypted: bool,
    ) -> Self {
        let pieces = BLOB_BODIES_BYTES / BLOB_PIECE_BYTES;
        Self {
            blobs,
            access,
            clock,
            is_encrypted,
            room: Arc::new(Semaphore::new(pieces)),
            pace: Mutex::new(()),
        }
    }
}
