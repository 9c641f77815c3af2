//! What blobs count for their account.

use steadfast_core::limits::BLOB_ENTRY_BYTES;
use steadfast_partition::{Turn, TurnError};

use crate::blob::block;
use crate::blob::record::Blob;
use crate::blob::usage_record::blocks_bytes;

/// What a blob counts.
pub(super) fn blob_bytes(
    turn: &mut Turn<'_>,
    container: u64,
    blob: &Blob,
) -> Result<u64, TurnError> {
    let body = match blob.blocks {
        Some(_) => blocks_bytes(&block::committed(turn, container, blob)?),
        None => blob.length,
    };
    Ok(BLOB_ENTRY_BYTES + body)
}

/// What a blob of this name and its uncommitted blocks count.
pub(super) fn name_bytes(
    turn: &mut Turn<'_>,
    container: u64,
    name: &str,
    blob: Option<&Blob>,
) -> Result<u64, TurnError> {
    let waiting = blocks_bytes(&block::uncommitted(turn, container, name)?.blocks);
    match blob {
        Some(blob) => Ok(waiting + blob_bytes(turn, container, blob)?),
        None => Ok(waiting),
    }
}
