//! JSON as the bytes of rows and messages.

use bytes::Bytes;
use serde::Serialize;

/// Most are shorter, so that nothing is copied while they grow.
const USUAL_BYTES: usize = 512;

/// A value behind some first bytes, in no more memory than it needs: rows stay.
pub(crate) fn json<T: Serialize>(front: &[u8], value: &T) -> Bytes {
    let mut out = Vec::with_capacity(USUAL_BYTES);
    out.extend_from_slice(front);
    serde_json::to_writer(&mut out, value)
        .expect("our rows and messages have string keys and finite numbers");
    Bytes::copy_from_slice(&out)
}
