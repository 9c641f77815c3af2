//! Inspection of the contents of collections, for tools.
//!
//! The result is the same for a data folder and for a running node.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use steadfast_collections::{CollectionSummary, Entry, Error as CollectionError, Inspector};

/// What to inspect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InspectRequest {
    /// `collections` lists them all, a name shows what one holds; without it the
    /// partitions are listed.
    pub what: Option<String>,
    /// Only the entry with this key.
    pub key: Option<Value>,
    /// How many entries at most.
    pub limit: usize,
}

/// The name of the table of entries, the only one with a limit.
pub(crate) const ENTRIES: &str = "entries";

/// Rows of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InspectTable {
    /// What the rows are.
    pub name: String,
    /// In display order.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Map<String, Value>>,
    /// Whether the limit has cut off rows.
    pub has_more: bool,
}

/// Why an inspection failed.
#[derive(Debug)]
pub enum Error {
    /// The partition, collection or key does not exist.
    NotFound(String),
    /// A collection cannot be read.
    Collection(CollectionError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(what) => f.write_str(what),
            Self::Collection(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<CollectionError> for Error {
    fn from(error: CollectionError) -> Self {
        Self::Collection(error)
    }
}

type Result<T> = std::result::Result<T, Error>;

/// Inspects these partitions.
pub async fn look(inspectors: &[Inspector], question: &InspectRequest) -> Result<InspectTable> {
    whole(look_at_part(inspectors, question).await?, question)
}

/// Completes the result of all partitions: a key that none of them has is an error.
pub(crate) fn whole(sheet: InspectTable, question: &InspectRequest) -> Result<InspectTable> {
    match (&question.what, &question.key) {
        (Some(name), Some(key)) if sheet.rows.is_empty() => {
            not_found(format!("collection {name} has no key {key}"))
        }
        _ => Ok(sheet),
    }
}

/// Inspects some of the partitions; other partitions may have the key.
pub(crate) async fn look_at_part(
    inspectors: &[Inspector],
    question: &InspectRequest,
) -> Result<InspectTable> {
    match (question.what.as_deref(), &question.key) {
        (None, _) => list_partitions(inspectors).await,
        (Some("collections"), None) => list_collections(inspectors).await,
        (Some(name), Some(key)) => find_entry(inspectors, name, key).await,
        (Some(name), None) => list_entries(inspectors, name, question.limit).await,
    }
}

fn names(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|name| (*name).to_owned()).collect()
}

async fn list_partitions(inspectors: &[Inspector]) -> Result<InspectTable> {
    let mut rows = Vec::new();
    for inspector in inspectors.iter().filter(|found| found.lsn().0 > 0) {
        let collections = inspector.collections().await?;
        let count = |of: fn(&CollectionSummary) -> u64| collections.iter().map(of).sum::<u64>();
        rows.push(object([
            ("partition", json!(inspector.partition().to_string())),
            ("lsn", json!(inspector.lsn().0)),
            ("collections", json!(collections.len())),
            ("entries", json!(count(|found| found.count))),
            ("bytes", json!(count(|found| found.bytes))),
        ]));
    }
    Ok(InspectTable {
        name: "partitions".to_owned(),
        columns: names(&["partition", "lsn", "collections", "entries", "bytes"]),
        rows,
        has_more: false,
    })
}

async fn list_collections(inspectors: &[Inspector]) -> Result<InspectTable> {
    let mut rows = Vec::new();
    for inspector in inspectors {
        for found in inspector.collections().await? {
            rows.push(object([
                ("partition", json!(inspector.partition().to_string())),
                ("scope", json!(found.scope)),
                ("name", json!(found.name)),
                ("shape", json!(found.what.shape.label())),
                ("key type", json!(found.what.key_type)),
                ("value type", json!(found.what.value_type)),
                ("count", json!(found.count)),
                ("bytes", json!(found.bytes)),
            ]));
        }
    }
    Ok(InspectTable {
        name: "collections".to_owned(),
        columns: names(&[
            "partition",
            "scope",
            "name",
            "shape",
            "key type",
            "value type",
            "count",
            "bytes",
        ]),
        rows,
        has_more: false,
    })
}

async fn list_entries(inspectors: &[Inspector], name: &str, limit: usize) -> Result<InspectTable> {
    let mut is_known = false;
    let mut rows = Vec::new();
    for inspector in inspectors {
        // One row more than the limit shows whether there are more.
        let wanted = limit.saturating_add(1) - rows.len();
        if let Some(found) = inspector.entries(name, wanted).await? {
            is_known = true;
            rows.extend(found.into_iter().map(|entry| row(inspector, entry)));
        }
    }
    if !is_known {
        return unknown(name);
    }
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    Ok(entries(rows, has_more))
}

async fn find_entry(inspectors: &[Inspector], name: &str, key: &Value) -> Result<InspectTable> {
    let mut is_known = false;
    let mut rows = Vec::new();
    for inspector in inspectors {
        if let Some(found) = inspector.entry(name, key).await? {
            is_known = true;
            rows.extend(found.into_iter().map(|entry| row(inspector, entry)));
        }
    }
    if is_known {
        Ok(entries(rows, false))
    } else {
        unknown(name)
    }
}

fn unknown(name: &str) -> Result<InspectTable> {
    not_found(format!(
        "there is no collection {name}; ask for `collections` to see what there is"
    ))
}

fn not_found(what: String) -> Result<InspectTable> {
    Err(Error::NotFound(what))
}

fn row(inspector: &Inspector, entry: Entry) -> Map<String, Value> {
    let mut row = object([
        ("partition", json!(inspector.partition().to_string())),
        ("scope", json!(entry.scope)),
        ("key", entry.key),
        ("value", entry.value),
    ]);
    if let Some(time) = entry.time {
        row.insert("time_ms".to_owned(), json!(time.0));
    }
    row
}

fn entries(rows: Vec<Map<String, Value>>, has_more: bool) -> InspectTable {
    InspectTable {
        name: ENTRIES.to_owned(),
        columns: names(&["partition", "scope", "time_ms", "key", "value"]),
        rows,
        has_more,
    }
}

fn object<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    let fields = fields.into_iter();
    fields
        .map(|(name, value)| (name.replace(' ', "_"), value))
        .collect()
}
