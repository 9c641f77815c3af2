//! Converts headers to metadata and properties.

use axum::http::response::Builder;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use steadfast_core::clock::Timestamp;
use steadfast_events::{Blob, BlobPairs, LeaseState};

use super::error::BlobError;
use super::header_values;
use super::request::BlobRequest;

const METADATA: &str = "x-ms-meta-";

/// The digest of a body, among the properties.
pub(super) const DIGEST: &str = "content-md5";

/// Stored properties: the names of their header, of their element in lists, and of the
/// signature parameter that overrides them.
pub(super) const PROPERTIES: [(&str, &str, &str); 4] = [
    ("content-encoding", "Content-Encoding", "rsce"),
    ("content-language", "Content-Language", "rscl"),
    ("content-disposition", "Content-Disposition", "rscd"),
    ("cache-control", "Cache-Control", "rscc"),
];

const BINARY: &str = "application/octet-stream";

/// The metadata of a request. Names become XML elements.
pub(super) fn metadata(ask: &BlobRequest) -> Result<BlobPairs, BlobError> {
    let mut metadata = BlobPairs::new();
    for (name, value) in &ask.headers {
        let Some(name) = name.strip_prefix(METADATA) else {
            continue;
        };
        let is_word = |one: char| one.is_ascii_alphanumeric() || one == '_';
        let starts_well = name.starts_with(|one: char| one.is_ascii_alphabetic() || one == '_');
        if name.is_empty() {
            let words = "a name of metadata is empty";
            return Err(BlobError::bad("EmptyMetadataKey", words));
        }
        if !starts_well || !name.chars().all(is_word) {
            let words = format!("'{name}' is no name for metadata: letters, digits and _");
            return Err(BlobError::bad("InvalidMetadata", &words));
        }
        metadata.push((name.to_owned(), value.clone()));
    }
    metadata.sort();
    Ok(metadata)
}

/// The content type and the properties to store.
pub(super) fn properties(ask: &BlobRequest) -> (String, BlobPairs) {
    let find = |name: &str, plain: &str| {
        let own = ask.header(name).or_else(|| ask.header(plain));
        own.filter(|value| !value.is_empty()).map(str::to_owned)
    };
    let content_type = find("x-ms-blob-content-type", "content-type");
    let mut properties = BlobPairs::new();
    for (name, _, _) in PROPERTIES {
        let header = format!("x-ms-blob-{name}");
        if let Some(value) = find(&header, name) {
            properties.push((name.to_owned(), value));
        }
    }
    (
        content_type.unwrap_or_else(|| BINARY.to_owned()),
        properties,
    )
}

/// The digests in these headers.
pub(super) fn digests(ask: &BlobRequest, names: &[&str]) -> Result<Vec<Vec<u8>>, BlobError> {
    let mut digests = Vec::new();
    for name in names {
        if let Some(text) = ask.header(name) {
            let digest = STANDARD.decode(text);
            digests.push(digest.map_err(|_| BlobError::bad("InvalidMd5", "it is not base64"))?);
        }
    }
    Ok(digests)
}

/// A property of a blob; empty if it has none of that name.
pub(super) fn property<'a>(blob: &'a Blob, name: &str) -> &'a str {
    let found = blob.properties.iter().find(|(own, _)| own == name);
    found.map_or("", |(_, value)| value.as_str())
}

/// Adds the properties of a blob to a response.
pub(super) fn describe(
    mut answer: Builder,
    ask: &BlobRequest,
    blob: &Blob,
    now: Timestamp,
) -> Builder {
    let (status, state, duration) = lease(blob, now);
    answer = version(answer, blob.version, blob.modified)
        .header("x-ms-creation-time", header_values::date(blob.created))
        .header("x-ms-blob-type", "BlockBlob")
        .header("x-ms-lease-status", status)
        .header("x-ms-lease-state", state)
        .header("x-ms-server-encrypted", "false")
        .header("accept-ranges", "bytes");
    if let Some(duration) = duration {
        answer = answer.header("x-ms-lease-duration", duration);
    }
    for (name, value) in &blob.metadata {
        answer = text(answer, &format!("{METADATA}{name}"), value);
    }
    let kind = ask.parameter("rsct").unwrap_or(&blob.content_type);
    answer = text(answer, "content-type", kind);
    for (name, _, changed) in PROPERTIES {
        let value = ask.parameter(changed).unwrap_or(property(blob, name));
        if !value.is_empty() {
            answer = text(answer, name, value);
        }
    }
    answer
}

/// Status, state and duration type of a blob's lease, as the Blob service names them.
pub(super) fn lease(
    blob: &Blob,
    now: Timestamp,
) -> (&'static str, &'static str, Option<&'static str>) {
    let duration = match blob.lease.and_then(|lease| lease.duration) {
        Some(_) => "fixed",
        None => "infinite",
    };
    match blob.lease_state(now) {
        LeaseState::Available => ("unlocked", "available", None),
        LeaseState::Leased => ("locked", "leased", Some(duration)),
        LeaseState::Breaking => ("locked", "breaking", None),
        LeaseState::Broken => ("unlocked", "broken", None),
        LeaseState::Expired => ("unlocked", "expired", None),
    }
}

/// Adds the digest of the whole body, if it is known.
pub(super) fn digest(answer: Builder, header: &str, blob: &Blob) -> Builder {
    match property(blob, DIGEST) {
        "" => answer,
        digest => text(answer, header, digest),
    }
}

/// The response to a write of a blob.
pub(super) fn written(status: StatusCode, blob: &Blob) -> Builder {
    let answer = Response::builder().status(status);
    version(answer, blob.version, blob.modified).header("x-ms-request-server-encrypted", "false")
}

/// Adds the ETag and the last-modified time.
pub(super) fn version(answer: Builder, version: u64, modified: Timestamp) -> Builder {
    let tag = header_values::tag(version);
    answer
        .header("etag", format!("\"{tag}\""))
        .header("last-modified", header_values::date(modified))
}

/// Adds a client's text as a header, unless a header cannot carry it.
fn text(answer: Builder, name: &str, value: &str) -> Builder {
    match HeaderValue::from_bytes(value.as_bytes()) {
        Ok(value) => answer.header(name, value),
        Err(_) => answer,
    }
}
