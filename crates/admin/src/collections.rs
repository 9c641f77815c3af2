//! The interface of REST to collections.
//!
//! A dictionary that REST creates has text keys and JSON values. All steps of a request
//! run in one transaction.

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_net::access::Principal;
use steadfast_net::http::Problem;

/// A partition of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionAddress {
    pub service: String,
    /// A name or a number, by the service's scheme; `None` for the only one.
    pub partition: Option<String>,
}

/// The precondition of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WritePrecondition {
    /// The key does not exist.
    Absent,
    /// The key exists, with any value.
    Present,
    /// The value has this ETag.
    Etag(String),
}

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum TransactionStep {
    Get {
        collection: String,
        key: String,
    },
    Put {
        collection: String,
        key: String,
        value: Value,
        #[serde(rename = "if")]
        condition: Option<WritePrecondition>,
    },
    Delete {
        collection: String,
        key: String,
        #[serde(rename = "if")]
        condition: Option<WritePrecondition>,
    },
    /// Puts a value at the end of a queue.
    Enqueue {
        collection: String,
        value: Value,
    },
    /// Removes the value at the front of a queue.
    Dequeue {
        collection: String,
    },
}

/// The result of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// Whether the key existed, or the queue had a value.
    pub found: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The ETag of the current value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
}

/// A transaction with messages to other services.
#[derive(Clone, Debug, PartialEq)]
pub struct TransactionCommit {
    pub steps: Vec<TransactionStep>,
    /// Messages, encoded for the runtime.
    pub messages: Vec<Bytes>,
    /// What the response says of each message.
    pub effects: Vec<Value>,
    /// `None`: a repetition is another transaction.
    pub idempotency: Option<IdempotencyKey>,
}

/// What makes repetitions of a request harmless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    pub key: String,
    /// The request: another one with the same key is refused.
    pub request: String,
}

/// The response to a transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct CommitResponse {
    pub response: Value,
    /// An earlier request with the same key has committed, and this is its response.
    pub is_replayed: bool,
}

/// The name of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPath {
    pub subscription: String,
    pub resource_group: String,
    pub collection: String,
    pub job: String,
}

impl JobPath {
    /// A job of the subscription `main` and the resource group `default`, unless others are
    /// named.
    pub fn new(
        subscription: Option<String>,
        resource_group: Option<String>,
        collection: String,
        job: String,
    ) -> Self {
        Self {
            subscription: subscription.unwrap_or_else(|| "main".to_owned()),
            resource_group: resource_group.unwrap_or_else(|| "default".to_owned()),
            collection,
            job,
        }
    }
}

/// A page of entries of a dictionary, in key order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EntryPage {
    pub entries: Vec<PageEntry>,
    /// Where the next page begins, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// An entry of a dictionary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageEntry {
    pub key: String,
    pub value: Value,
    pub etag: String,
}

/// The range of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EntryRange {
    /// The first key.
    pub from: Option<String>,
    /// Only keys with this prefix.
    pub prefix: Option<String>,
    /// Maximum number of entries.
    pub limit: Option<usize>,
    /// The partition; `slot` is its former name, which nodes use among each other.
    #[serde(rename = "slot", alias = "partition")]
    pub partition: Option<String>,
}

/// How the keys of a service are divided into partitions; fixed at creation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PartitionScheme {
    /// One partition for everything.
    Singleton,
    /// One partition per name.
    Named(Vec<String>),
    /// Whole numbers from `low` to `high` in `count` ranges.
    Range { low: i64, high: i64, count: u32 },
}

/// The definition of a service, and the state of one of its partitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceDescription {
    pub scheme: PartitionScheme,
    /// In memory only.
    pub volatile: bool,
    /// Of a volatile service: incremented whenever the state of the partition was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<u64>,
    /// Of a volatile service: the number of nodes with a replica of the partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<usize>,
}

/// A service in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceListing {
    pub name: String,
    pub scheme: PartitionScheme,
    pub is_volatile: bool,
}

/// A page of services, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServicePage {
    pub services: Vec<ServiceListing>,
    /// The last name, if there are more.
    pub next: Option<String>,
}

/// The first entries of a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueuePage {
    pub entries: Vec<QueueEntry>,
    /// The number of the last entry, if there are more.
    pub next: Option<u64>,
}

/// An entry of a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueEntry {
    /// Increases along the queue.
    pub number: u64,
    pub value: Value,
}

/// Decides whether a caller may see an entity.
pub type VisibilityFilter<'a> = &'a (dyn Fn(&str) -> bool + Send + Sync);

impl PartitionScheme {
    /// The number of partitions.
    pub fn partitions(&self) -> usize {
        match self {
            Self::Singleton => 1,
            Self::Named(names) => names.len(),
            Self::Range { count, .. } => *count as usize,
        }
    }
}

/// Collections, as REST sees them.
#[async_trait]
pub trait CollectionsBackend: Send + Sync + 'static {
    /// Creates a service; succeeds if an equal one exists.
    async fn create_service(
        &self,
        name: &str,
        scheme: PartitionScheme,
        is_volatile: bool,
    ) -> Result<(), Problem>;

    /// Lists services: `limit` at most of those that are visible, after a name.
    async fn services(
        &self,
        after: &str,
        limit: usize,
        is_visible: VisibilityFilter<'_>,
    ) -> Result<ServicePage, Problem>;

    /// The definition of a service, and the incarnation of its partition, if one is named or there
    /// is only one.
    async fn describe(&self, place: PartitionAddress) -> Result<ServiceDescription, Problem>;

    /// Executes all steps in one transaction. A condition that does not hold rolls back.
    async fn transact(
        &self,
        place: PartitionAddress,
        steps: Vec<TransactionStep>,
    ) -> Result<Vec<StepResult>, Problem>;

    /// Commits steps and messages in one transaction, once per idempotency key.
    async fn commit(
        &self,
        place: PartitionAddress,
        commit: TransactionCommit,
    ) -> Result<CommitResponse, Problem>;

    /// The response to the committed request with an idempotency key, if there is one.
    async fn recall(
        &self,
        place: PartitionAddress,
        key: IdempotencyKey,
    ) -> Result<Option<CommitResponse>, Problem>;

    /// The message that creates a job from the properties of its document, encoded for the
    /// runtime. The job acts later with the rights that the caller has now.
    async fn create_job(
        &self,
        caller: &Principal,
        job: &JobPath,
        properties: Value,
    ) -> Result<Bytes, Problem>;

    /// The message that cancels a job, encoded for the runtime.
    fn cancel_job(&self, job: &JobPath) -> Result<Bytes, Problem>;

    /// Reads entries of one durable state, without locks.
    async fn scan(
        &self,
        place: PartitionAddress,
        collection: &str,
        range: EntryRange,
    ) -> Result<EntryPage, Problem>;

    /// Reads the first entries of a queue after a number, without locks; they stay in it.
    async fn peek(
        &self,
        place: PartitionAddress,
        collection: &str,
        after: Option<u64>,
        limit: usize,
    ) -> Result<QueuePage, Problem>;
}
