//! What REST can ask of collections.
//!
//! A dictionary that REST makes has texts for keys and JSON for values. Everything
//! that one request names happens in one transaction, or not at all.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::http::Problem;

/// A slot of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub service: String,
    /// A name or a number, as the service's scheme has it; `None` for the only one.
    pub slot: Option<String>,
}

/// When a change is to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Condition {
    /// The key is not there.
    Absent,
    /// The key is there, whatever its value.
    Present,
    /// The value is the one with this tag.
    Etag(String),
}

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    Get {
        collection: String,
        key: String,
    },
    Put {
        collection: String,
        key: String,
        value: Value,
        #[serde(rename = "if")]
        condition: Option<Condition>,
    },
    Delete {
        collection: String,
        key: String,
        #[serde(rename = "if")]
        condition: Option<Condition>,
    },
    /// Puts a value at the end of a queue.
    Enqueue {
        collection: String,
        value: Value,
    },
    /// Takes the value at the front of a queue.
    Dequeue {
        collection: String,
    },
}

/// What a step has found or made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Whether the key was there, or the queue had a value.
    pub found: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The tag of the value that is there now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
}

/// Some entries of a dictionary, in the order of their keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Page {
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

/// Which entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Range {
    /// The first key.
    pub from: Option<String>,
    /// Only keys that begin so.
    pub prefix: Option<String>,
    /// How many at most.
    pub limit: Option<usize>,
    /// Which slot.
    pub slot: Option<String>,
}

/// How the keys of a service are split into slots; fixed when it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SlotScheme {
    /// One slot for everything.
    Singleton,
    /// One slot per name.
    Named(Vec<String>),
    /// Whole numbers from `low` to `high` in `count` ranges.
    Range { low: i64, high: i64, count: u32 },
}

/// A service as it was made, and one of its slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    pub scheme: SlotScheme,
    /// In memory only.
    pub volatile: bool,
    /// Of a volatile service: grows whenever the state of the slot was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<u64>,
    /// Of a volatile service: how many nodes hold the slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<usize>,
}

/// Collections, as REST sees them.
#[async_trait]
pub trait Collections: Send + Sync + 'static {
    /// Makes a service, or finds it as it was made.
    async fn create_service(
        &self,
        name: &str,
        scheme: SlotScheme,
        is_volatile: bool,
    ) -> Result<(), Problem>;

    /// How a service was made, and which life its slot has, if one is named or there is
    /// only one.
    async fn describe(&self, place: Place) -> Result<Described, Problem>;

    /// Does all steps in one transaction. A condition that does not hold undoes all
    /// of them.
    async fn transact(&self, place: Place, steps: Vec<Step>) -> Result<Vec<Found>, Problem>;

    /// Reads entries of one durable state, without locks.
    async fn scan(&self, place: Place, collection: &str, range: Range) -> Result<Page, Problem>;
}
