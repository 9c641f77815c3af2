//! REST operations on collections of this node.
//!
//! Keys are strings, values are JSON.

use std::collections::BTreeMap;

use bytes::Bytes;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steadfast_admin::{
    CommitResponse, EntryPage, EntryRange, PageEntry, QueueEntry, QueuePage, StepResult,
    TransactionStep, WritePrecondition,
};
use steadfast_collections::schema::Json;
use steadfast_collections::{
    Dictionary, DictionaryQuery, OutgoingMessage, Queue, Result as Done, ServiceDefinition, State,
    Tx,
};
use steadfast_core::error::Code;
use steadfast_core::hex;
use steadfast_core::limits;
use steadfast_net::http::Problem;

use super::error::Error;
use super::idempotency::{self, IdempotencyWindow, KeyLookup};
use super::inner::Inner;
use super::service_partition::ServicePartition;

/// A precondition of a transaction does not hold.
const CONDITION: Code = Code("STF-6030");

/// Default and maximum number of entries on a page.
const PAGE: usize = 100;
const LARGEST_PAGE: usize = 1000;

type JsonDictionary = Dictionary<String, Json>;

/// A transaction with messages.
#[derive(Serialize, Deserialize)]
pub(super) struct CommitOrder {
    pub(super) steps: Vec<TransactionStep>,
    /// Envelopes, in hexadecimal digits.
    pub(super) messages: Vec<String>,
    /// What the response says of each message.
    pub(super) effects: Vec<Value>,
    /// An idempotency key, and the digest of its request.
    pub(super) idempotency: Option<(String, String)>,
    /// Whether only the response of an earlier request is wanted.
    pub(super) recalls_only: bool,
}

/// Creates a service whose first partition is local, or returns the existing one.
pub(super) async fn create(
    inner: &Inner,
    service: ServiceDefinition,
) -> Result<ServiceDefinition, Problem> {
    let home = inner
        .replica(inner.definition_partition(&service.name))
        .await;
    let home = home.map_err(problem)?;
    let home = home.ledger().map_err(|error| problem(error.into()))?;
    let made = ServiceDefinition::create(home, service).await;
    made.map_err(|error| problem(error.into()))
}

/// The service of this name, whose first partition is local.
pub(super) async fn find(inner: &Inner, name: &str) -> Result<Option<ServiceDefinition>, Problem> {
    let home = inner
        .replica(inner.definition_partition(name))
        .await
        .map_err(problem)?;
    let home = home.ledger().map_err(|error| problem(error.into()))?;
    let found = ServiceDefinition::find(home, name).await;
    found.map_err(|error| problem(error.into()))
}

/// A local partition of a service.
pub(super) async fn partition(
    inner: &Inner,
    service: &ServiceDefinition,
    number: u32,
) -> Result<ServicePartition, Problem> {
    let found = inner.service_partition(service, number).await;
    found.map_err(problem)
}

/// Runs all steps in one transaction.
pub(super) async fn transact(
    partition: &ServicePartition,
    steps: Vec<TransactionStep>,
) -> Result<Vec<StepResult>, Problem> {
    let state = partition.state();
    let done = partition.transact(async |mut tx| {
        match run(state, &mut tx, &steps).await? {
            Ok(found) => tx.commit(Ok(found)).await,
            // This also undoes the steps before it.
            Err(index) => Ok(tx.roll_back(Err(index))),
        }
    });
    let done = done.await.map_err(|error| problem(error.into()))?;
    done.map_err(unmet)
}

/// Runs all steps and sends messages in one transaction, once per idempotency key.
pub(super) async fn commit(
    inner: &Inner,
    service: &ServiceDefinition,
    number: u32,
    order: &CommitOrder,
) -> Result<CommitResponse, Problem> {
    let partition = partition(inner, service, number).await?;
    // No service has such a name.
    let scope = format!("{}#{number}\u{1}idempotency", service.name);
    let window = IdempotencyWindow::new(&partition, &scope, inner.clock.now());
    let messages = order.messages.iter().map(|text| {
        let decoded = hex::decode(text).map(Bytes::from);
        decoded.ok_or_else(|| Problem::bad_request("a message is not hexadecimal"))
    });
    let messages = messages.collect::<Result<Vec<_>, _>>()?;
    let state = partition.state();
    let done = partition.transact(async |mut tx| {
        let row = match &order.idempotency {
            None => None,
            Some((key, digest)) => match window.look_up(&mut tx, key, digest).await? {
                KeyLookup::New(_) if order.recalls_only => {
                    return Ok(tx.roll_back(Ok((Value::Null, false))));
                }
                KeyLookup::New(rows) => Some((rows, key, digest)),
                KeyLookup::Known(response) => return Ok(tx.roll_back(Ok((response, true)))),
                KeyLookup::Refused(problem) => return Ok(tx.roll_back(Err(problem))),
            },
        };
        let found = match run(state, &mut tx, &order.steps).await? {
            Ok(found) => found,
            Err(index) => return Ok(tx.roll_back(Err(unmet(index)))),
        };
        for message in &messages {
            tx.send(EncodedMessage(message.clone()))?;
        }
        let response = json!({"results": found, "effects": order.effects});
        if let Some((rows, key, digest)) = row {
            let record = idempotency::record(digest, &response);
            rows.set(&mut tx, key, record).await?;
        }
        tx.commit(Ok((response, false))).await
    });
    let (response, is_replayed) = done.await.map_err(|error| problem(error.into()))??;
    if order.idempotency.is_some()
        && let Err(error) = window.expire(&partition).await
    {
        // A later request removes them.
        tracing::debug!(event = "state.keys_kept", %error, "old idempotency keys are still there");
    }
    Ok(CommitResponse {
        response,
        is_replayed,
    })
}

/// A message that the node of the request has encoded.
struct EncodedMessage(Bytes);

impl OutgoingMessage for EncodedMessage {
    fn into_bytes(self) -> Done<Bytes> {
        Ok(self.0)
    }
}

/// Runs all steps; or the number of the first one whose condition does not hold.
async fn run(
    state: &State,
    tx: &mut Tx,
    steps: &[TransactionStep],
) -> Done<Result<Vec<StepResult>, usize>> {
    lock_in_order(state, tx, steps).await?;
    let mut found = Vec::with_capacity(steps.len());
    for (index, step) in steps.iter().enumerate() {
        match one(state, tx, step).await? {
            Some(result) => found.push(result),
            None => return Ok(Err(index)),
        }
    }
    Ok(Ok(found))
}

fn unmet(index: usize) -> Problem {
    let message = format!("the condition of step {index} does not hold");
    Problem::new(CONDITION, message)
}

/// Reads entries of one durable state.
pub(super) async fn scan(
    partition: &ServicePartition,
    collection: &str,
    range: EntryRange,
) -> Result<EntryPage, Problem> {
    let found = partition
        .state()
        .try_get::<JsonDictionary>(collection)
        .await;
    let found = found.map_err(|error| problem(error.into()))?;
    let Some(texts) = found else {
        return Err(Problem::not_found(format!(
            "there is no collection '{collection}'"
        )));
    };
    let page = partition.transact(async |mut tx| {
        let page = page(&texts, &mut tx, &range).await?;
        tx.commit(page).await
    });
    page.await.map_err(|error| problem(error.into()))
}

/// Reads the first entries of a queue, as the durable state has them.
pub(super) async fn peek(
    partition: &ServicePartition,
    collection: &str,
    after: Option<u64>,
    limit: usize,
) -> Result<QueuePage, Problem> {
    let found = partition.state().try_get::<Queue<Json>>(collection).await;
    let found = found.map_err(|error| problem(error.into()))?;
    let Some(queue) = found else {
        return Err(Problem::not_found(format!(
            "there is no collection '{collection}'"
        )));
    };
    let items = partition.transact(async |mut tx| {
        let first = queue.first(&mut tx, after, limit, limits::TAIL_BYTES);
        let first = first.await?;
        tx.commit(first).await
    });
    let (items, has_more) = items.await.map_err(|error| problem(error.into()))?;
    let entries = items.into_iter().map(|(number, value)| QueueEntry {
        number,
        value: value.0.clone(),
    });
    let entries: Vec<_> = entries.collect();
    let last = entries.last().filter(|_| has_more);
    Ok(QueuePage {
        next: last.map(|entry| entry.number),
        entries,
    })
}

/// Locks all keys of a request in one order, each in the strongest mode that a step needs,
/// so that requests cannot deadlock, whatever the order of their steps.
async fn lock_in_order(state: &State, tx: &mut Tx, steps: &[TransactionStep]) -> Done<()> {
    let mut wanted: BTreeMap<(&str, &String), StepAccess> = BTreeMap::new();
    for step in steps {
        let (collection, key, access) = match step {
            TransactionStep::Get { collection, key } => (collection, key, StepAccess::Read),
            TransactionStep::Delete {
                collection, key, ..
            } => (collection, key, StepAccess::Remove),
            TransactionStep::Put {
                collection, key, ..
            } => (collection, key, StepAccess::Write),
            TransactionStep::Enqueue { .. } | TransactionStep::Dequeue { .. } => continue,
        };
        let strongest = wanted.entry((collection, key)).or_insert(access);
        *strongest = access.max(*strongest);
    }
    for ((collection, key), access) in wanted {
        // Only a put creates a collection.
        let found: Option<JsonDictionary> = match access {
            StepAccess::Write => Some(state.get_or_add_in(tx, collection).await?),
            StepAccess::Read | StepAccess::Remove => state.try_get(collection).await?,
        };
        match (found, access) {
            (None, _) => {}
            (Some(texts), StepAccess::Read) => drop(texts.get(tx, key).await?),
            (Some(texts), StepAccess::Remove | StepAccess::Write) => texts.lock(tx, key).await?,
        }
    }
    Ok(())
}

/// How a request uses a key; later variants include earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StepAccess {
    Read,
    Remove,
    Write,
}

/// Runs one step; `None` if its precondition does not hold.
async fn one(state: &State, tx: &mut Tx, step: &TransactionStep) -> Done<Option<StepResult>> {
    Ok(Some(match step {
        TransactionStep::Get { collection, key } => {
            let Some(texts) = state.try_get::<JsonDictionary>(collection).await? else {
                return Ok(Some(StepResult::default()));
            };
            let value = texts.get(tx, key).await?;
            value.map_or_else(StepResult::default, |value| there(value.0.clone()))
        }
        TransactionStep::Put {
            collection,
            key,
            value,
            condition,
        } => {
            let texts: JsonDictionary = state.get_or_add_in(tx, collection).await?;
            let current = texts.get(tx, key).await?;
            let current = current.as_ref().map(|json| &json.0);
            if !holds(condition.as_ref(), current) {
                return Ok(None);
            }
            let found = current.is_some();
            texts.set(tx, key, Json(value.clone())).await?;
            StepResult {
                found,
                value: None,
                etag: Some(etag(value)),
            }
        }
        TransactionStep::Delete {
            collection,
            key,
            condition,
        } => {
            let Some(texts) = state.try_get::<JsonDictionary>(collection).await? else {
                let is_held = holds(condition.as_ref(), None);
                return Ok(is_held.then(StepResult::default));
            };
            let current = texts.get(tx, key).await?;
            if !holds(condition.as_ref(), current.as_ref().map(|json| &json.0)) {
                return Ok(None);
            }
            let removed = texts.try_remove(tx, key).await?;
            StepResult {
                found: removed.is_some(),
                ..StepResult::default()
            }
        }
        TransactionStep::Enqueue { collection, value } => {
            let queue: Queue<Json> = state.get_or_add_in(tx, collection).await?;
            queue.enqueue(tx, Json(value.clone())).await?;
            StepResult::default()
        }
        TransactionStep::Dequeue { collection } => {
            let Some(queue) = state.try_get::<Queue<Json>>(collection).await? else {
                return Ok(Some(StepResult::default()));
            };
            let value = queue.try_dequeue(tx).await?;
            let value = value.map(|json| json.0.clone());
            StepResult {
                found: value.is_some(),
                value,
                etag: None,
            }
        }
    }))
}

async fn page(texts: &JsonDictionary, tx: &mut Tx, range: &EntryRange) -> Done<EntryPage> {
    let limit = range.limit.unwrap_or(PAGE).clamp(1, LARGEST_PAGE);
    let prefix = range.prefix.as_deref().unwrap_or_default();
    let query = match &range.from {
        Some(from) => DictionaryQuery::range(from.clone()..),
        None => DictionaryQuery::starting_with(prefix),
    };
    let mut cursor = texts.enumerate(query.page(limit + 1))?;
    let rows = cursor.next(tx).await?.unwrap_or_default();
    let rows = rows
        .into_iter()
        .take_while(|(key, _)| key.starts_with(prefix));
    let mut entries: Vec<_> = rows
        .map(|(key, value)| PageEntry {
            key,
            etag: etag(&value.0),
            value: value.0.clone(),
        })
        .collect();
    let next = (entries.len() > limit).then(|| entries.pop()).flatten();
    Ok(EntryPage {
        entries,
        next: next.map(|entry| entry.key),
    })
}

fn holds(condition: Option<&WritePrecondition>, current: Option<&Value>) -> bool {
    match condition {
        None => true,
        Some(WritePrecondition::Absent) => current.is_none(),
        Some(WritePrecondition::Present) => current.is_some(),
        Some(WritePrecondition::Etag(tag)) => current.is_some_and(|value| etag(value) == *tag),
    }
}

fn there(value: Value) -> StepResult {
    StepResult {
        found: true,
        etag: Some(etag(&value)),
        value: Some(value),
    }
}

/// The ETag of a value: equal values have equal tags.
fn etag(value: &Value) -> String {
    let hash = digest(&SHA256, value.to_string().as_bytes());
    hex::encode(&hash.as_ref()[..16])
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn problem(error: Error) -> Problem {
    Problem::new(error.code(), error.to_string())
}
