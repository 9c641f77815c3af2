//! Bodies, on their way in and out.

use std::ops::Range;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::stream;
use http_body_util::LengthLimitError;
use md5::{Digest, Md5};
use steadfast_core::limits::{BLOB_BYTES, BLOB_PIECE_BYTES, BODY_TIME};
use steadfast_events::{Blob, Blobs, Error, Kind};

use super::ask::Ask;
use super::context::Context;
use super::fault::Fault;
use super::property;

/// A body and its digest.
pub(super) struct Taken {
    pub(super) body: Bytes,
    /// In base64.
    pub(super) digest: String,
}

/// Reads a body. Whoever sends much waits until there is room.
pub(super) async fn take(context: &Context, ask: &Ask, body: Body) -> Result<Taken, Fault> {
    let demanded = property::digests(ask)?;
    let length = match ask.header("content-length") {
        Some(text) => text.parse().map_err(|_| Fault::header("content-length"))?,
        None => BLOB_BYTES,
    };
    if length > BLOB_BYTES {
        return Err(Fault::too_large(BLOB_BYTES));
    }
    let reading = async {
        let pieces = length.div_ceil(BLOB_PIECE_BYTES) as u32;
        let room = Arc::clone(&context.room).acquire_many_owned(pieces).await;
        let room = room.expect("it is never closed");
        let body = to_bytes(body, BLOB_BYTES).await;
        body.map(|body| (body, room))
    };
    let Ok(read) = tokio::time::timeout(BODY_TIME, reading).await else {
        return Err(Fault::too_slow());
    };
    let (body, _room) =
        read.map_err(|error| match error.into_inner().is::<LengthLimitError>() {
            true => Fault::too_large(BLOB_BYTES),
            false => Fault::bad("InvalidInput", "the body has broken off"),
        })?;
    let digest = digest(body.clone()).await;
    if demanded.iter().any(|demanded| demanded[..] != digest) {
        let words = "the body is not the one whose MD5 was given";
        return Err(Fault::bad("Md5Mismatch", words));
    }
    let digest = STANDARD.encode(digest);
    Ok(Taken { body, digest })
}

/// The MD5 of a body; a large one is digested where it keeps nobody waiting.
async fn digest(body: Bytes) -> [u8; 16] {
    if body.len() <= BLOB_PIECE_BYTES {
        return Md5::digest(&body).into();
    }
    let digested = tokio::task::spawn_blocking(move || Md5::digest(&body).into());
    digested.await.expect("digesting does not panic")
}

/// The MD5 of a part of a blob, in base64.
pub(super) async fn part_digest(part: Bytes) -> String {
    STANDARD.encode(digest(part).await)
}

/// A part of a blob, piece by piece as the client takes it. If somebody writes the
/// blob meanwhile, the answer breaks off, and the client asks again.
pub(super) fn give(blobs: Blobs, container: String, blob: Blob, range: Range<u64>) -> Body {
    let pieces = stream::try_unfold(range, move |left| {
        let (blobs, container, blob) = (blobs.clone(), container.clone(), blob.clone());
        async move {
            if left.is_empty() {
                return Ok(None);
            }
            let end = left.end.min(left.start + BLOB_PIECE_BYTES as u64);
            match blobs.part(&container, &blob, left.start..end).await? {
                Some(piece) => Ok(Some((piece, end..left.end))),
                None => {
                    let words = "the blob was written while it was read; read it again";
                    Err(Error::new(Kind::Unavailable, words))
                }
            }
        }
    });
    Body::from_stream(pieces)
}
