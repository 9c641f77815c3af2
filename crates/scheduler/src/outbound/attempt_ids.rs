//! The identifiers of an attempt, sent as headers.

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use ring::digest::{SHA256, digest};
use steadfast_core::clock::Timestamp;
use steadfast_core::iso;
use steadfast_jobs::{DeliveryRequest, RunPhase};
use uuid::Uuid;

use crate::encode;

/// The headers that carry the identifiers.
const HEADERS: [&str; 10] = [
    "x-ms-scheduler-jobid",
    "x-ms-scheduler-jobcollectionid",
    "x-ms-execution-tag",
    "x-ms-client-request-id",
    "x-ms-scheduler-expected-execution-time",
    "x-ms-scheduler-execution-region",
    "idempotency-key",
    "x-steadfast-attempt",
    "x-steadfast-action",
    "x-steadfast-epoch",
];

/// Whether a header is reserved for the attempt: no job can set it.
pub(crate) fn is_attempt_header(name: &HeaderName) -> bool {
    HEADERS.contains(&name.as_str())
}

/// The identifiers of an attempt.
pub(crate) struct AttemptIds {
    /// Idempotency key: equal for all attempts at an occurrence, on every node.
    pub(crate) key: String,
    /// The same as 32 hexadecimal digits.
    pub(crate) tag: String,
    /// New for every attempt.
    pub(crate) request: String,
    /// When the occurrence was due.
    pub(crate) expected: String,
    pub(crate) job: String,
    pub(crate) collection: String,
    /// The epoch of the node or region that executes it.
    pub(crate) epoch: u64,
    /// The tenure in which it is executed.
    pub(crate) tenure: u64,
}

impl AttemptIds {
    /// The identifiers of an attempt in an epoch and a tenure.
    pub(crate) fn of(order: &DeliveryRequest, epoch: u64, tenure: u64) -> Self {
        let due = Timestamp(order.occurrence);
        let home = &order.job.collection;
        let names = [&home.subscription, &home.group, &home.name, &order.job.name];
        let names = names.map(|name| encode(name)).join("/");
        let key = format!("{names}/{}", iso::format_time(due));
        let hash = digest(&SHA256, key.as_bytes());
        let tag = hash.as_ref().first_chunk().copied();
        let tag = u128::from_be_bytes(tag.unwrap_or_default());
        Self {
            tag: format!("{tag:032x}"),
            key,
            request: Uuid::new_v4().to_string(),
            expected: iso::format_seconds(due),
            job: encode(&order.job.name),
            collection: encode(&home.name),
            epoch,
            tenure,
        }
    }

    /// Sets the headers of an attempt. The headers of a job cannot override them.
    pub(crate) fn put(&self, order: &DeliveryRequest, region: &str, headers: &mut HeaderMap) {
        let action = match order.phase {
            RunPhase::Main => "main",
            RunPhase::Error => "error",
            RunPhase::DeadLetter => "dead-letter",
        };
        let attempt = order.attempt.to_string();
        let epoch = self.epoch.to_string();
        let values = [
            self.job.as_str(),
            &self.collection,
            &self.tag,
            &self.request,
            &self.expected,
            region,
            &self.key,
            &attempt,
            action,
            &epoch,
        ];
        headers.reserve(values.len());
        // All values share one buffer, which makes copies of the headers cheap.
        let all = Bytes::from(values.concat());
        let mut start = 0;
        for (name, value) in HEADERS.into_iter().zip(values) {
            let end = start + value.len();
            // Names are encoded, so only a region could be an invalid header value.
            let text = Some(all.slice(start..end)).filter(|_| value.is_ascii());
            start = end;
            let value = text.and_then(|text| HeaderValue::from_maybe_shared(text).ok());
            let value = value.unwrap_or(HeaderValue::from_static("unknown"));
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}
