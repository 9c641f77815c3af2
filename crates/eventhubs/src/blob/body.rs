//! Streams bodies in and out.
//!
//! A body of any length passes through one buffer: a body that does not fit into one
//! command is uploaded in parts, which the blob references at the end.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::Extensions;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use md5::{Digest, Md5};
use steadfast_core::limits::{
    BLOB_BYTES, BLOB_PIECE_BYTES, BLOB_STAGE_BYTES, BLOB_UPLOAD_RATE_BYTES, BODY_TIME,
};
use steadfast_core::task::name_task;
use steadfast_events::{Blob, Blobs, Error, ErrorKind, UploadHandle};
use steadfast_net::http::{BodyError, read};
use tokio::sync::OwnedSemaphorePermit;

use super::context::Context;
use super::error::BlobError;
use super::request::BlobRequest;

/// How long an upload waits before it retries a throttled store.
const PAUSE: Duration = Duration::from_millis(50);

/// A body and its digest.
pub(super) struct ReceivedBody {
    pub(super) content: BodyContent,
    /// In base64.
    pub(super) digest: String,
    /// Reserves the memory of the body until it is written.
    _room: OwnedSemaphorePermit,
}

/// The bytes of a body, in memory or uploaded.
pub(super) enum BodyContent {
    Whole(Bytes),
    Uploaded(UploadHandle),
}

/// Reads the body of a blob, or of a block of it, and checks it against the given
/// digests. A body for which the account has no room is refused before it is read; one
/// without a length, before the part that is too much is stored. A large body waits for
/// buffer space.
pub(super) async fn receive_body(
    context: &Context,
    ask: &BlobRequest,
    body: Body,
    block: Option<&str>,
    demanded: &[Vec<u8>],
) -> Result<ReceivedBody, BlobError> {
    let length = length(ask)?;
    if length.is_some_and(|length| length > BLOB_BYTES) {
        return Err(BlobError::too_large(BLOB_BYTES));
    }
    // A smaller body is checked when it is written, which saves a round trip.
    if let Some(length) = length.filter(|length| *length >= BLOB_STAGE_BYTES) {
        check_room(context, ask, block, (length, 0)).await?;
    }
    let room = room(context, length.unwrap_or(BLOB_BYTES)).await?;
    let mut upload = BodyUpload {
        context,
        ask,
        block,
        is_measured: length.is_some(),
        container: ask.container(),
        source: body.into_data_stream(),
        rest: BytesMut::new(),
        digest: Md5::new(),
        bytes: 0,
        staged: StagedUpload::new(context, ask),
    };
    let received = match upload.receive().await {
        Ok(content) => upload.verified(demanded).map(|digest| ReceivedBody {
            content,
            digest,
            _room: room,
        }),
        Err(fault) => Err(fault),
    };
    if let (Some(staged), Err(_)) = (upload.staged.take(), &received) {
        discard(context, ask, staged).await;
    }
    received
}

/// Rejects a body for which the account has no room: its length, and how much of it is
/// uploaded already.
async fn check_room(
    context: &Context,
    ask: &BlobRequest,
    block: Option<&str>,
    (length, uploaded): (usize, u64),
) -> Result<(), BlobError> {
    let (container, lengths) = (ask.container(), (length as u64, uploaded));
    let checking = context
        .blobs
        .check_room(&container, ask.blob(), block, lengths);
    Ok(checking.await?)
}

/// An upload in progress. If its client goes away, it is discarded.
struct StagedUpload {
    blobs: Blobs,
    container: String,
    handle: Option<UploadHandle>,
}

impl StagedUpload {
    fn new(context: &Context, ask: &BlobRequest) -> Self {
        Self {
            blobs: context.blobs.clone(),
            container: ask.container(),
            handle: None,
        }
    }

    /// Ends it without discarding it.
    fn take(&mut self) -> Option<UploadHandle> {
        self.handle.take()
    }
}

impl Drop for StagedUpload {
    fn drop(&mut self) {
        let runtime = tokio::runtime::Handle::try_current();
        let (Some(handle), Ok(runtime)) = (self.take(), runtime) else {
            return;
        };
        let (blobs, container) = (self.blobs.clone(), std::mem::take(&mut self.container));
        runtime.spawn(name_task(async move {
            // If that fails, the upload expires.
            let _ = blobs.discard(&container, handle).await;
        }));
    }
}

/// Removes an unused upload. If that fails, the upload expires.
pub(super) async fn discard(context: &Context, ask: &BlobRequest, staged: UploadHandle) {
    let _ = context.blobs.discard(&ask.container(), staged).await;
}

/// Reads a short body at once: a description, not the bytes of a blob.
pub(super) async fn receive_short_body(
    context: &Context,
    body: Body,
    limit: usize,
) -> Result<Bytes, BlobError> {
    let _room = room(context, limit).await?;
    // It has its own reservation.
    let read = read(&Extensions::new(), body, limit).await;
    read.map_err(|why| match why {
        BodyError::TooLarge => BlobError::too_large(limit),
        BodyError::TooSlow | BodyError::Busy => BlobError::too_slow(),
        BodyError::Broken => BlobError::bad("InvalidInput", "the body has ended early"),
    })
}

fn length(ask: &BlobRequest) -> Result<Option<usize>, BlobError> {
    let text = ask.header("content-length");
    let length = text.map(|text| {
        text.parse()
            .map_err(|_| BlobError::header("content-length"))
    });
    length.transpose()
}

/// Reserves memory for a body: one part being read and one being written.
async fn room(context: &Context, length: usize) -> Result<OwnedSemaphorePermit, BlobError> {
    let held = length.min(2 * BLOB_STAGE_BYTES);
    let pieces = held.div_ceil(BLOB_PIECE_BYTES) as u32;
    let waiting = Arc::clone(&context.room).acquire_many_owned(pieces);
    match tokio::time::timeout(BODY_TIME, waiting).await {
        Ok(room) => Ok(room.expect("it is never closed")),
        Err(_) => Err(BlobError::too_slow()),
    }
}

struct BodyUpload<'a> {
    context: &'a Context,
    ask: &'a BlobRequest,
    block: Option<&'a str>,
    /// Whether its length was known before.
    is_measured: bool,
    container: String,
    source: BodyDataStream,
    /// Bytes read but not yet written.
    rest: BytesMut,
    digest: Md5,
    bytes: usize,
    staged: StagedUpload,
}

impl BodyUpload<'_> {
    async fn receive(&mut self) -> Result<BodyContent, BlobError> {
        let mut part = self.part().await?;
        if part.len() < BLOB_STAGE_BYTES {
            return Ok(BodyContent::Whole(part));
        }
        loop {
            let is_last = part.len() < BLOB_STAGE_BYTES;
            if !self.is_measured {
                let uploaded = (self.bytes - part.len()) as u64;
                let lengths = (self.bytes, uploaded);
                check_room(self.context, self.ask, self.block, lengths).await?;
            }
            let former = self.staged.handle;
            let staged = write(self.context, &self.container, former, part).await?;
            self.staged.handle = Some(staged);
            if is_last {
                return Ok(BodyContent::Uploaded(staged));
            }
            part = self.part().await?;
        }
    }

    /// The next part; only the last one is shorter.
    async fn part(&mut self) -> Result<Bytes, BlobError> {
        let reading = async {
            while self.rest.len() < BLOB_STAGE_BYTES {
                let Some(read) = self.source.next().await else {
                    break;
                };
                let read =
                    read.map_err(|_| BlobError::bad("InvalidInput", "the body has ended early"))?;
                self.rest.extend_from_slice(&read);
            }
            Ok::<(), BlobError>(())
        };
        match tokio::time::timeout(BODY_TIME, reading).await {
            Ok(read) => read?,
            Err(_) => return Err(BlobError::too_slow()),
        }
        let part = self.rest.split_to(self.rest.len().min(BLOB_STAGE_BYTES));
        let part = part.freeze();
        self.bytes += part.len();
        if self.bytes > BLOB_BYTES {
            return Err(BlobError::too_large(BLOB_BYTES));
        }
        let digest = std::mem::take(&mut self.digest);
        self.digest = digested(digest, part.clone()).await;
        Ok(part)
    }

    /// The digest in base64, if it matches the given ones.
    fn verified(&mut self, demanded: &[Vec<u8>]) -> Result<String, BlobError> {
        let digest = std::mem::take(&mut self.digest).finalize();
        if demanded.iter().any(|demanded| demanded[..] != digest[..]) {
            let words = "the body is not the one whose MD5 was given";
            return Err(BlobError::bad("Md5Mismatch", words));
        }
        Ok(STANDARD.encode(digest))
    }
}

/// Adds a part to an upload or starts one, at the rate limit of all uploads together.
/// While the store is throttled, the client gets backpressure.
pub(super) async fn write(
    context: &Context,
    container: &str,
    staged: Option<UploadHandle>,
    part: Bytes,
) -> Result<UploadHandle, BlobError> {
    let time = Duration::from_secs(1) * part.len() as u32 / BLOB_UPLOAD_RATE_BYTES as u32;
    let writing = async {
        let _turn = context.pace.lock().await;
        loop {
            let written = match staged {
                Some(staged) if part.is_empty() => Ok(staged),
                Some(staged) => context.blobs.append(container, staged, part.clone()).await,
                None => context.blobs.stage(container, part.clone()).await,
            };
            match written {
                Err(error) if error.is_passing() => tokio::time::sleep(PAUSE).await,
                written => {
                    tokio::time::sleep(time).await;
                    return written;
                }
            }
        }
    };
    match tokio::time::timeout(BODY_TIME, writing).await {
        Ok(written) => Ok(written?),
        Err(_) => Err(BlobError::busy()),
    }
}

/// Adds a part to a digest; a large one on a blocking thread.
async fn digested(mut digest: Md5, part: Bytes) -> Md5 {
    if part.len() <= BLOB_PIECE_BYTES {
        digest.update(&part);
        return digest;
    }
    let digesting = tokio::task::spawn_blocking(move || {
        digest.update(&part);
        digest
    });
    digesting.await.expect("digesting does not panic")
}

/// The MD5 of a part of a blob, in base64.
pub(super) async fn part_digest(part: Bytes) -> String {
    STANDARD.encode(digested(Md5::new(), part).await.finalize())
}

/// Streams a range of a blob at the client's pace. If the blob is overwritten,
/// the response is aborted and the client retries.
pub(super) async fn stream_blob(
    blobs: Blobs,
    container: &str,
    blob: &Blob,
    range: Range<u64>,
) -> Result<Body, BlobError> {
    let layout = blobs
        .layout(container, blob)
        .await?
        .ok_or_else(overwritten)?;
    let pieces = stream::try_unfold(range, move |left| {
        let (blobs, layout) = (blobs.clone(), layout.clone());
        async move {
            if left.is_empty() {
                return Ok(None);
            }
            let end = left.end.min(left.start + BLOB_PIECE_BYTES as u64);
            match blobs.bytes(&layout, left.start..end).await? {
                Some(piece) => Ok(Some((piece, end..left.end))),
                None => Err(overwritten()),
            }
        }
    });
    Ok(Body::from_stream(pieces))
}

/// The blob was written between two reads.
pub(super) fn overwritten() -> Error {
    let words = "the blob was written while it was read; read it again";
    Error::new(ErrorKind::Unavailable, words)
}
