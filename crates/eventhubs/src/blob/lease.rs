//! Leases: acquire, renew, change, release, break.

use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use steadfast_events::{Conditions, LeaseAction};
use uuid::Uuid;

use super::condition::{conditions, lease_id};
use super::context::Context;
use super::error::BlobError;
use super::property;
use super::request::BlobRequest;

/// How long a lease of fixed length may be, and the longest break period.
const FIXED: std::ops::RangeInclusive<u64> = 15..=60;
const BREAK: u64 = 60;

pub(super) async fn act(context: &Context, ask: &BlobRequest) -> Result<Response, BlobError> {
    let action = action(ask)?;
    let conditions = Conditions {
        lease: None,
        ..conditions(ask)?
    };
    let (container, name) = (ask.container(), ask.blob());
    let done = context.blobs.lease(&container, name, action, conditions);
    let blob = done
        .await
        .map_err(|error| BlobError::of_lease(error, action))?;
    let status = match action {
        LeaseAction::Acquire { .. } => StatusCode::CREATED,
        LeaseAction::Break(_) => StatusCode::ACCEPTED,
        _ => StatusCode::OK,
    };
    let answer = Response::builder().status(status);
    let mut answer = property::version(answer, blob.version, blob.modified);
    if let Some(lease) = &blob.lease {
        answer = match action {
            LeaseAction::Break(_) => {
                let left = lease.break_time(context.clock.now());
                // Whole seconds, rounded up.
                let seconds = left.as_millis().div_ceil(1000) as u64;
                answer.header("x-ms-lease-time", seconds)
            }
            _ => answer.header("x-ms-lease-id", lease.id.to_string()),
        };
    }
    Ok(answer.body(Body::empty()).expect("our own headers"))
}

fn action(ask: &BlobRequest) -> Result<LeaseAction, BlobError> {
    let own = || needed(ask, "x-ms-lease-id");
    let verb = ask.header("x-ms-lease-action").unwrap_or("");
    Ok(match verb.to_ascii_lowercase().as_str() {
        "acquire" => LeaseAction::Acquire {
            id: lease_id(ask, "x-ms-proposed-lease-id")?.unwrap_or_else(Uuid::new_v4),
            duration: duration(ask)?,
        },
        "renew" => LeaseAction::Renew(own()?),
        "change" => LeaseAction::Change {
            id: own()?,
            to: needed(ask, "x-ms-proposed-lease-id")?,
        },
        "release" => LeaseAction::Release(own()?),
        "break" => LeaseAction::Break(period(ask)?),
        "" => return Err(missing("x-ms-lease-action")),
        _ => return Err(BlobError::header("x-ms-lease-action")),
    })
}

fn duration(ask: &BlobRequest) -> Result<Option<Duration>, BlobError> {
    const NAME: &str = "x-ms-lease-duration";
    match ask.header(NAME).ok_or_else(|| missing(NAME))? {
        "-1" => Ok(None),
        text => {
            let seconds = text.parse().ok().filter(|seconds| FIXED.contains(seconds));
            let seconds = seconds.ok_or_else(|| BlobError::header(NAME))?;
            Ok(Some(Duration::from_secs(seconds)))
        }
    }
}

fn period(ask: &BlobRequest) -> Result<Option<Duration>, BlobError> {
    const NAME: &str = "x-ms-lease-break-period";
    let Some(text) = ask.header(NAME) else {
        return Ok(None);
    };
    let seconds = text.parse().ok().filter(|seconds| *seconds <= BREAK);
    let seconds = seconds.ok_or_else(|| BlobError::header(NAME))?;
    Ok(Some(Duration::from_secs(seconds)))
}

fn needed(ask: &BlobRequest, name: &'static str) -> Result<Uuid, BlobError> {
    lease_id(ask, name)?.ok_or_else(|| missing(name))
}

fn missing(name: &str) -> BlobError {
    let words = format!("a lease operation needs the header '{name}'");
    BlobError::bad("MissingRequiredHeader", &words)
}
