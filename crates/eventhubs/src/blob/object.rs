//! Blobs: put, set metadata, read, delete.

use std::ops::Range;

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::response::Builder;
use axum::response::Response;
use steadfast_events::{Blob, PutBlobRequest, VersionMatch};

use super::body::{BodyContent, discard, overwritten, part_digest, receive_body, stream_blob};
use super::condition::{check_read, conditions};
use super::context::Context;
use super::error::BlobError;
use super::property::{self, DIGEST};
use super::request::BlobRequest;

/// The longest range whose digest a reader may request.
const DIGESTED_BYTES: u64 = 4 * 1024 * 1024;

pub(super) async fn put(
    context: &Context,
    ask: &BlobRequest,
    body: Body,
    is_for_new_only: bool,
) -> Result<Response, BlobError> {
    match ask.header("x-ms-blob-type") {
        Some(kind) if kind.eq_ignore_ascii_case("BlockBlob") => {}
        Some(other) => return Err(BlobError::not_offered(&format!("a blob of type {other}"))),
        None => {
            let words = "a blob is written with the header 'x-ms-blob-type'";
            return Err(BlobError::bad("MissingRequiredHeader", words));
        }
    }
    let mut conditions = conditions(ask)?;
    if is_for_new_only {
        conditions.not = Some(VersionMatch::Any);
    }
    let metadata = property::metadata(ask)?;
    let (content_type, mut properties) = property::properties(ask);
    let demanded = property::digests(ask, &[DIGEST, "x-ms-blob-content-md5"])?;
    let taken = receive_body(context, ask, body, None, &demanded).await?;
    properties.push((DIGEST.to_owned(), taken.digest.clone()));
    let mut put = PutBlobRequest {
        name: ask.blob().to_owned(),
        content_type,
        metadata,
        properties,
        ..PutBlobRequest::default()
    };
    let (blobs, container) = (&context.blobs, ask.container());
    let written = match taken.content {
        BodyContent::Whole(bytes) => {
            put.body = bytes;
            blobs.put(&container, put, conditions).await?
        }
        BodyContent::Uploaded(staged) => {
            let written = blobs.put_staged(&container, put, staged, conditions).await;
            if written.is_err() {
                discard(context, ask, staged).await;
            }
            written?
        }
    };
    let answer = property::written(StatusCode::CREATED, &written).header(DIGEST, taken.digest);
    Ok(answer.body(Body::empty()).expect("our own headers"))
}

pub(super) async fn describe(context: &Context, ask: &BlobRequest) -> Result<Response, BlobError> {
    let (metadata, conditions) = (property::metadata(ask)?, conditions(ask)?);
    let container = ask.container();
    let written = context
        .blobs
        .describe(&container, ask.blob(), metadata, conditions);
    let answer = property::written(StatusCode::OK, &written.await?);
    Ok(answer.body(Body::empty()).expect("our own headers"))
}

pub(super) async fn remove(context: &Context, ask: &BlobRequest) -> Result<Response, BlobError> {
    let (container, conditions) = (ask.container(), conditions(ask)?);
    context
        .blobs
        .delete(&container, ask.blob(), conditions)
        .await?;
    let answer = Response::builder()
        .status(StatusCode::ACCEPTED)
        .header("x-ms-delete-type-permanent", "true");
    Ok(answer.body(Body::empty()).expect("our own headers"))
}

pub(super) async fn head(context: &Context, ask: &BlobRequest) -> Result<Response, BlobError> {
    let blob = context.blobs.get(&ask.container(), ask.blob()).await?;
    let now = context.clock.now();
    check_read(&conditions(ask)?, &blob, now)?;
    let answer = property::describe(Response::builder(), ask, &blob, now)
        .header("content-length", blob.length);
    let answer = property::digest(answer, DIGEST, &blob);
    Ok(answer.body(Body::empty()).expect("they came as headers"))
}

pub(super) async fn read(context: &Context, ask: &BlobRequest) -> Result<Response, BlobError> {
    let container = ask.container();
    let blob = context.blobs.get(&container, ask.blob()).await?;
    let now = context.clock.now();
    check_read(&conditions(ask)?, &blob, now)?;
    let asked = ask.header("x-ms-range").or_else(|| ask.header("range"));
    let range = match asked {
        Some(text) => wanted(text, blob.length)?,
        None => None,
    };
    let mut answer = property::describe(Response::builder(), ask, &blob, now);
    let blobs = context.blobs.clone();
    let Some(range) = range else {
        answer = answer.header("content-length", blob.length);
        answer = property::digest(answer, DIGEST, &blob);
        let body = stream_blob(blobs, &container, &blob, 0..blob.length).await?;
        return Ok(answer.body(body).expect("they came as headers"));
    };
    let (start, last, length) = (range.start, range.end - 1, blob.length);
    answer = answer
        .status(StatusCode::PARTIAL_CONTENT)
        .header("content-range", format!("bytes {start}-{last}/{length}"))
        .header("content-length", range.end - range.start);
    answer = property::digest(answer, "x-ms-blob-content-md5", &blob);
    let is_digest_wanted = ask.header("x-ms-range-get-content-md5");
    if is_digest_wanted.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return digested(context, &container, &blob, range, answer).await;
    }
    let body = stream_blob(blobs, &container, &blob, range).await?;
    Ok(answer.body(body).expect("they came as headers"))
}

/// A short range with its digest.
async fn digested(
    context: &Context,
    container: &str,
    blob: &Blob,
    range: Range<u64>,
    answer: Builder,
) -> Result<Response, BlobError> {
    if range.end - range.start > DIGESTED_BYTES {
        let words = "the digest of a part is given for 4 MiB at most";
        return Err(BlobError::bad("OutOfRangeInput", words));
    }
    let part = context.blobs.part(container, blob, range).await?;
    let part = part.ok_or_else(overwritten)?;
    let answer = answer.header(DIGEST, part_digest(part.clone()).await);
    Ok(answer.body(Body::from(part)).expect("they came as headers"))
}

/// The range in a header; `None` if the header is to be ignored.
fn wanted(text: &str, length: u64) -> Result<Option<Range<u64>>, BlobError> {
    let (unit, bounds) = text.trim().split_once('=').unwrap_or(("", ""));
    let Some((first, last)) = bounds
        .split_once('-')
        .filter(|_| unit.eq_ignore_ascii_case("bytes"))
    else {
        return Ok(None);
    };
    let (Ok(first), Ok(last)) = (first.parse::<u64>(), end(last)) else {
        return Err(BlobError::header("range"));
    };
    if first > last {
        return Err(BlobError::header("range"));
    }
    if first >= length {
        return Err(BlobError::range());
    }
    Ok(Some(first..last.saturating_add(1).min(length)))
}

/// The last byte of a range; without a number, the highest possible.
fn end(text: &str) -> Result<u64, std::num::ParseIntError> {
    match text {
        "" => Ok(u64::MAX),
        number => number.parse(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_to_the_blob() {
        assert_eq!(wanted("bytes=0-4", 3).unwrap(), Some(0..3));
        assert_eq!(wanted("bytes=1-1", 3).unwrap(), Some(1..2));
        assert_eq!(wanted("Bytes=2-", 3).unwrap(), Some(2..3));
        assert_eq!(wanted("lines=0-4", 3).unwrap(), None);
        assert_eq!(wanted("bytes=0-0", 0).unwrap_err().code, "InvalidRange");
        assert_eq!(wanted("bytes=3-", 3).unwrap_err().code, "InvalidRange");
        for bad in ["bytes=a-4", "bytes=4-2", "bytes=-5"] {
            assert_eq!(
                wanted(bad, 9).unwrap_err().code,
                "InvalidHeaderValue",
                "{bad}"
            );
        }
    }
}
