//! Idempotency keys of transactions over REST.
//!
//! A request with a key leaves a row in its own commit: the key, a digest of the request and
//! the response. A repetition finds the row and gets the response; it waits while the first
//! request holds the lock of the row. Rows lie in one dictionary per day, in a scope that no
//! service can name. The first request with a key removes dictionaries that are two days old
//! or older, each as a whole, so a key counts for a day at least; a full one refuses more
//! keys.

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use steadfast_admin::IdempotencyKey;
use steadfast_collections::schema::Json;
use steadfast_collections::{Dictionary, ErrorKind, Result, State, Tx};
use steadfast_core::clock::Timestamp;
use steadfast_core::error::Code;
use steadfast_core::hex;
use steadfast_core::limits;
use steadfast_net::http::Problem;

use super::service_partition::ServicePartition;

/// The key was used for another request.
const REUSED: Code = Code("STF-6032");
/// There are too many keys.
const FULL: Code = Code("STF-6033");

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// The keys of one partition of a service.
pub(super) struct IdempotencyWindow {
    state: State,
    day: i64,
}

/// What is known of a key.
pub(super) enum KeyLookup {
    /// Nothing: the row to write is in this dictionary.
    New(Dictionary<String, Json>),
    /// The request has been committed, with this response.
    Known(Value),
    Refused(Problem),
}

/// The digest of a request.
pub(super) fn fingerprint(key: &IdempotencyKey) -> String {
    hex::encode(digest(&SHA256, key.request.as_bytes()).as_ref())
}

/// The row of a key.
pub(super) fn record(fingerprint: &str, response: &Value) -> Json {
    Json(json!({"request": fingerprint, "response": response}))
}

impl IdempotencyWindow {
    pub(super) fn new(partition: &ServicePartition, scope: &str, now: Timestamp) -> Self {
        Self {
            state: partition.replica().scope(scope),
            day: now.0.div_euclid(DAY_MS),
        }
    }

    /// Looks a key up and locks it: a repetition waits until this transaction has ended.
    pub(super) async fn look_up(
        &self,
        tx: &mut Tx,
        key: &str,
        fingerprint: &str,
    ) -> Result<KeyLookup> {
        let own: Dictionary<String, Json> = self.state.get_or_add_in(tx, &name(self.day)).await?;
        own.lock(tx, key).await?;
        let mut found = own.get(tx, key).await?;
        if found.is_none() {
            // The first request of yesterday may be under way: its dictionary is locked.
            let name = name(self.day - 1);
            let former: Dictionary<String, Json> = self.state.get_or_add_in(tx, &name).await?;
            found = former.get(tx, key).await?;
        }
        if found.is_none() {
            // Another owner's clock may be ahead.
            let later = self.state.try_get(&name(self.day + 1)).await?;
            if let Some::<Dictionary<String, Json>>(later) = later {
                found = later.get(tx, key).await?;
            }
        }
        let Some(found) = found else {
            if own.approx_count() < limits::IDEMPOTENCY_KEYS {
                return Ok(KeyLookup::New(own));
            }
            let most = limits::IDEMPOTENCY_KEYS;
            let words = format!(
                "the partition has {most} idempotency keys of today, which is the limit; use \
                 more partitions, or send the request without a key"
            );
            return Ok(KeyLookup::Refused(Problem::new(FULL, words)));
        };
        if found.0["request"] == fingerprint {
            return Ok(KeyLookup::Known(found.0["response"].clone()));
        }
        let words = "the idempotency key was used for another request; use a new one";
        Ok(KeyLookup::Refused(Problem::new(REUSED, words)))
    }

    /// Removes the keys of earlier days.
    pub(super) async fn expire(&self, partition: &ServicePartition) -> Result<()> {
        let is_old = |name: &String| day(name).is_some_and(|day| day < self.day - 1);
        let old: Vec<_> = self.state.list().into_iter().filter(is_old).collect();
        for name in old {
            let removed = partition.transact(async |mut tx| {
                self.state.remove(&mut tx, &name).await?;
                tx.commit(()).await
            });
            match removed.await {
                // A concurrent request has removed it.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound { .. }) => {}
                done => done?,
            }
        }
        Ok(())
    }
}

fn name(day: i64) -> String {
    format!("requests-{day}")
}

/// The day of a dictionary.
fn day(name: &str) -> Option<i64> {
    name.rsplit_once("requests-")?.1.parse().ok()
}
