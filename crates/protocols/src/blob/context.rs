//! What every request needs.

use std::sync::Arc;

use steadfast_core::clock::Clock;
use steadfast_core::limits::{BLOB_BODIES_BYTES, BLOB_PIECE_BYTES};
use steadfast_events::Blobs;
use tokio::sync::{Mutex, Semaphore};

use crate::access::Access;

/// Everything that handlers share.
pub struct Context {
    pub(super) blobs: Blobs,
    pub(super) access: Arc<Access>,
    pub(super) clock: Arc<dyn Clock>,
    /// Whether the port encrypts.
    pub(super) is_encrypted: bool,
    /// Bodies that are being read, in pieces.
    pub(super) room: Arc<Semaphore>,
    /// Held while a part of an upload is written, and for the time that it may take.
    pub(super) pace: Mutex<()>,
}

impl Context {
    /// Serves these blobs to whoever has a key of theirs.
    pub fn new(
        blobs: Blobs,
        access: Arc<Access>,
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
