//! The conditions of a request.

use steadfast_core::clock::Timestamp;
use steadfast_events::{Blob, Conditions};
use uuid::Uuid;

use super::error::BlobError;
use super::header_values;
use super::request::BlobRequest;

/// The conditions in the headers.
pub(super) fn conditions(ask: &BlobRequest) -> Result<Conditions, BlobError> {
    let version = |name: &str| match ask.header(name) {
        Some(several) if several.contains(',') => Err(BlobError::header(name)),
        found => Ok(found.map(header_values::version)),
    };
    let time = |name: &str| -> Result<Option<Timestamp>, BlobError> {
        let found = ask.header(name);
        let time =
            found.map(|text| header_values::parse(text).ok_or_else(|| BlobError::header(name)));
        time.transpose()
    };
    Ok(Conditions {
        only: version("if-match")?,
        not: version("if-none-match")?,
        after: time("if-modified-since")?,
        until: time("if-unmodified-since")?,
        lease: lease_id(ask, "x-ms-lease-id")?,
    })
}

/// The lease that a header names.
pub(super) fn lease_id(ask: &BlobRequest, name: &str) -> Result<Option<Uuid>, BlobError> {
    let id = ask.header(name);
    let id = id.map(|id| Uuid::try_parse(id.trim()).map_err(|_| BlobError::header(name)));
    id.transpose()
}

/// Checks the conditions of a read. Those that ask for a change (`If-None-Match`,
/// `If-Modified-Since`) fail with "not modified".
pub(super) fn check_read(
    conditions: &Conditions,
    blob: &Blob,
    now: Timestamp,
) -> Result<(), BlobError> {
    conditions.check_lease(blob, now)?;
    let demands = Conditions {
        only: conditions.only,
        until: conditions.until,
        ..Conditions::default()
    };
    demands.check(Some(blob))?;
    let news = Conditions {
        not: conditions.not,
        after: conditions.after,
        ..Conditions::default()
    };
    news.check(Some(blob)).map_err(|_| BlobError::unchanged())
}
