//! The conditions of a request.

use steadfast_core::clock::Timestamp;
use steadfast_events::{Blob, Conditions};
use uuid::Uuid;

use super::ask::Ask;
use super::fault::Fault;
use super::stamp;

/// The conditions in the headers.
pub(super) fn conditions(ask: &Ask) -> Result<Conditions, Fault> {
    let version = |name: &str| match ask.header(name) {
        Some(several) if several.contains(',') => Err(Fault::header(name)),
        found => Ok(found.map(stamp::version)),
    };
    let time = |name: &str| -> Result<Option<Timestamp>, Fault> {
        let found = ask.header(name);
        let time = found.map(|text| stamp::parse(text).ok_or_else(|| Fault::header(name)));
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
pub(super) fn lease_id(ask: &Ask, name: &str) -> Result<Option<Uuid>, Fault> {
    let id = ask.header(name);
    let id = id.map(|id| Uuid::try_parse(id.trim()).map_err(|_| Fault::header(name)));
    id.transpose()
}

/// Checks the conditions of a read. Those that ask for a change (`If-None-Match`,
/// `If-Modified-Since`) fail with "not modified".
pub(super) fn check_read(
    conditions: &Conditions,
    blob: &Blob,
    now: Timestamp,
) -> Result<(), Fault> {
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
    news.check(Some(blob)).map_err(|_| Fault::unchanged())
}
