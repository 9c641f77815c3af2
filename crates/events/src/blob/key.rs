//! Keys of the rows of blobs.
//!
//! Stored state depends on them, so they never change.

use steadfast_core::limits::BLOB_PIECE_BYTES;

/// How many pieces a body has.
pub(super) fn pieces(length: u64) -> u32 {
    length.div_ceil(BLOB_PIECE_BYTES as u64) as u32
}

/// A blob of a container, and its uncommitted blocks.
pub(super) fn blob_key(container: u64, name: &str) -> Vec<u8> {
    [&container.to_be_bytes(), name.as_bytes()].concat()
}

/// A piece of a body.
pub(super) fn piece_key(container: u64, body: u64, piece: u32) -> Vec<u8> {
    let (container, body) = (container.to_be_bytes(), body.to_be_bytes());
    [&container[..], &body[..], &piece.to_be_bytes()[..]].concat()
}

/// The block list of a body.
pub(super) fn list_key(container: u64, body: u64) -> Vec<u8> {
    [container.to_be_bytes(), body.to_be_bytes()].concat()
}
