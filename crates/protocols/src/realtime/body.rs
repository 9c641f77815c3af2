//! Bodies of requests, within bounds.
//!
//! A body that is too large is read on for a while and dropped: clients that write all
//! of it before they read an answer would see a broken connection instead of one.

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use steadfast_core::limits;

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    TooLarge,
    TooSlow,
    Broken,
}

/// Reads a body of at most so many bytes.
pub(super) async fn read(body: Body, most: usize) -> Result<Bytes, Unread> {
    let reading = tokio::time::timeout(limits::BODY_TIME, whole(body, most));
    reading.await.unwrap_or(Err(Unread::TooSlow))
}

async fn whole(body: Body, most: usize) -> Result<Bytes, Unread> {
    let mut chunks = body.into_data_stream();
    let (mut read, mut length) = (BytesMut::new(), 0);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Unread::Broken)?;
        length += chunk.len();
        match length <= most {
            true => read.extend_from_slice(&chunk),
            false => read = BytesMut::new(),
        }
        if length > most + limits::BODY_REST_BYTES {
            break;
        }
    }
    match length <= most {
        true => Ok(read.freeze()),
        false => Err(Unread::TooLarge),
    }
}
