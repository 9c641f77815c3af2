//! Blocks: uploaded, committed, listed.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use steadfast_core::limits::{BLOB_BLOCK_ID_BYTES, BLOB_STAGE_BYTES};
use steadfast_events::{Block, BlockChoice, PutBlobRequest, VersionMatch};
use steadfast_wire::blob::block_list::{self, BlockSource};

use super::body::{BodyContent, discard, part_digest, receive_body, receive_short_body, write};
use super::condition::{check_read, conditions};
use super::context::Context;
use super::error::BlobError;
use super::property::{self, DIGEST};
use super::request::BlobRequest;

pub(super) async fn put(
    context: &Context,
    ask: &BlobRequest,
    body: Body,
) -> Result<Response, BlobError> {
    let id = block_id(ask)?;
    let conditions = conditions(ask)?;
    let demanded = property::digests(ask, &[DIGEST])?;
    let taken = receive_body(context, ask, body, Some(id), &demanded).await?;
    let (container, name) = (ask.container(), ask.blob());
    let staged = match taken.content {
        BodyContent::Uploaded(staged) => staged,
        BodyContent::Whole(bytes) => write(context, &container, None, bytes).await?,
    };
    let put = context
        .blobs
        .put_block(&container, name, id, staged, conditions);
    if let Err(error) = put.await {
        discard(context, ask, staged).await;
        return Err(error.into());
    }
    let answer = Response::builder()
        .status(StatusCode::CREATED)
        .header(DIGEST, taken.digest)
        .header("x-ms-request-server-encrypted", "false");
    Ok(answer.body(Body::empty()).expect("our own headers"))
}

pub(super) async fn commit(
    context: &Context,
    ask: &BlobRequest,
    body: Body,
    is_for_new_only: bool,
) -> Result<Response, BlobError> {
    let mut conditions = conditions(ask)?;
    if is_for_new_only {
        conditions.not = Some(VersionMatch::Any);
    }
    let metadata = property::metadata(ask)?;
    let (content_type, mut properties) = property::properties(ask);
    // The digest of the whole blob: the server stores the client's value unchecked.
    if let Some(digest) = ask.header("x-ms-blob-content-md5") {
        property::digests(ask, &["x-ms-blob-content-md5"])?;
        properties.push((DIGEST.to_owned(), digest.to_owned()));
    }
    let demanded = property::digests(ask, &[DIGEST])?;
    let body = receive_short_body(context, body, BLOB_STAGE_BYTES).await?;
    let digest = part_digest(body.clone()).await;
    if demanded
        .iter()
        .any(|demanded| STANDARD.encode(demanded) != digest)
    {
        let words = "the list is not the one whose MD5 was given";
        return Err(BlobError::bad("Md5Mismatch", words));
    }
    let put = PutBlobRequest {
        name: ask.blob().to_owned(),
        content_type,
        metadata,
        properties,
        ..PutBlobRequest::default()
    };
    let choices = choices(&body)?;
    let container = ask.container();
    let written = context
        .blobs
        .put_blocks(&container, put, choices, conditions);
    let answer = property::written(StatusCode::CREATED, &written.await?).header(DIGEST, digest);
    Ok(answer.body(Body::empty()).expect("our own headers"))
}

pub(super) async fn show(context: &Context, ask: &BlobRequest) -> Result<Response, BlobError> {
    let wanted = ask.parameter("blocklisttype").unwrap_or("committed");
    let (has_committed, has_others) = match wanted.to_ascii_lowercase().as_str() {
        "committed" => (true, false),
        "uncommitted" => (false, true),
        "all" => (true, true),
        _ => {
            let words = "blocklisttype is committed, uncommitted or all";
            return Err(BlobError::bad("InvalidQueryParameterValue", words));
        }
    };
    let found = context.blobs.blocks(&ask.container(), ask.blob()).await?;
    let mut answer = Response::builder().header("content-type", "application/xml");
    if let Some(blob) = &found.blob {
        check_read(&conditions(ask)?, blob, context.clock.now())?;
        answer = property::version(answer, blob.version, blob.modified)
            .header("x-ms-blob-content-length", blob.length);
    }
    let (committed, others) = (pairs(&found.committed), pairs(&found.uncommitted));
    let text = block_list::show(
        has_committed.then_some(&committed[..]),
        has_others.then_some(&others[..]),
    );
    Ok(answer.body(Body::from(text)).expect("our own headers"))
}

fn block_id(ask: &BlobRequest) -> Result<&str, BlobError> {
    let id = ask.parameter("blockid").unwrap_or("");
    let bytes = STANDARD.decode(id);
    if bytes.is_ok_and(|bytes| (1..=BLOB_BLOCK_ID_BYTES).contains(&bytes.len())) {
        Ok(id)
    } else {
        let words = "blockid is base64 of 1 to 64 bytes";
        Err(BlobError::bad("InvalidQueryParameterValue", words))
    }
}

fn choices(body: &[u8]) -> Result<Vec<BlockChoice>, BlobError> {
    let text = std::str::from_utf8(body).ok();
    let listed = text.and_then(|text| block_list::parse(text).ok());
    let Some(listed) = listed else {
        let words = "the body is no list of blocks";
        return Err(BlobError::bad("InvalidXmlDocument", words));
    };
    let choice = |(source, id)| match source {
        BlockSource::Latest => BlockChoice::Latest(id),
        BlockSource::Committed => BlockChoice::Committed(id),
        BlockSource::Uncommitted => BlockChoice::Uncommitted(id),
    };
    Ok(listed.into_iter().map(choice).collect())
}

fn pairs(blocks: &[Block]) -> Vec<(&str, u64)> {
    blocks
        .iter()
        .map(|block| (block.id.as_str(), block.length))
        .collect()
}
