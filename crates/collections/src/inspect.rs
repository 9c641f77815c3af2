//! Inspects collections without their Rust types.
//!
//! For tools: names, shapes, sizes and contents, as JSON. Nothing is locked and
//! nothing is written. Each page is one durable state; with concurrent writes two
//! pages may show two states. Bytes that do not decode are an error that names their
//! collection, never left out.

use std::ops::Bound;

use bytes::Bytes;
use serde_json::{Value, json};
use steadfast_core::clock::Timestamp;
use steadfast_core::codec::ByteReader;
use steadfast_core::id::{Lsn, Partition, Sequence};
use steadfast_core::limits;
use steadfast_storage::engine::{EventBatch, ReadPosition, Scan, TableRow};
use steadfast_storage::{Ledger, StreamHead};

use crate::collection::{CODEC, Collection, Description, Shape};
use crate::error::{Error, ErrorKind, Result};
use crate::items::ItemPosition;
use crate::queue::{ITEM, item};
use crate::registry::{CollectionRegistry, normal};
use crate::scan::beginning_with;
use crate::schema::render::{json_to_key, key_to_json, value_to_json};
use crate::source::RowSource;

/// Read access to one partition's collections without their types.
pub struct Inspector {
    ledger: Ledger,
    source: RowSource,
}

/// A collection and its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionSummary {
    /// The service's partition that it belongs to; empty if there is none.
    pub scope: String,
    pub name: String,
    pub what: Description,
    /// Keys, items or events.
    pub count: u64,
    /// Stored bytes of all keys and values, or of all events.
    pub bytes: u64,
}

/// One entry of a collection.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub scope: String,
    /// A dictionary's key; the number of an item or event; of a concurrent queue,
    /// epoch and number.
    pub key: Value,
    pub value: Value,
    /// When an event was appended.
    pub time: Option<Timestamp>,
}

impl Inspector {
    /// Inspects a partition that this node owns.
    pub fn new(ledger: Ledger) -> Self {
        let source = RowSource::Primary(ledger.clone());
        Self { ledger, source }
    }

    /// The partition.
    pub fn partition(&self) -> Partition {
        self.ledger.partition()
    }

    /// The last durable transaction; 0 if there was none.
    pub fn lsn(&self) -> Lsn {
        *self.ledger.durable().borrow()
    }

    /// All collections, by scope and name. Reads all of their rows to count them.
    pub async fn collections(&self) -> Result<Vec<CollectionSummary>> {
        let mut found = Vec::new();
        for collection in self.registry().await?.all() {
            let (count, bytes) = self.size(&collection).await?;
            found.push(CollectionSummary {
                scope: collection.scope.clone(),
                name: collection.name.clone(),
                what: collection.what.clone(),
                count,
                bytes,
            });
        }
        Ok(found)
    }

    /// The entries of the collections of this name, in all scopes, in order and `limit`
    /// at most; `None` if there is no such collection.
    pub async fn entries(&self, name: &str, limit: usize) -> Result<Option<Vec<Entry>>> {
        let mut found = None;
        for collection in self.named(name).await? {
            let entries = found.get_or_insert_with(Vec::new);
            match collection.what.shape {
                Shape::Log => self.events(&collection, 0, limit, entries).await?,
                _ => self.rows(&collection, limit, entries).await?,
            }
        }
        Ok(found)
    }

    /// The entries of the collections of this name under a key, written as [`Entry::key`]
    /// is; `None` if there is no such collection.
    pub async fn entry(&self, name: &str, key: &Value) -> Result<Option<Vec<Entry>>> {
        let mut found = None;
        for collection in self.named(name).await? {
            let entries = found.get_or_insert_with(Vec::new);
            if collection.what.shape == Shape::Log {
                let Some(number) = key.as_u64() else { continue };
                let mut from = Vec::new();
                self.events(&collection, number, 1, &mut from).await?;
                entries.extend(from.into_iter().filter(|entry| entry.key == *key));
                continue;
            }
            let Some(bytes) = stored_key(&collection, key)? else {
                continue;
            };
            let pinned = self.source.pin(0).await?;
            if let Some(value) = pinned.get(collection.table, &bytes, 0).await? {
                let key = bytes.into();
                entries.push(show(&collection, &TableRow { key, value })?);
            }
        }
        Ok(found)
    }

    async fn registry(&self) -> Result<CollectionRegistry> {
        CollectionRegistry::load(&self.source.pin(0).await?).await
    }

    /// The collections of a name that this version can show.
    async fn named(&self, name: &str) -> Result<Vec<std::sync::Arc<Collection>>> {
        let name = normal(name)?;
        let mut found = self.registry().await?.all();
        found.retain(|collection| collection.name == name);
        match found.iter().find(|found| found.what.codec != CODEC) {
            None => Ok(found),
            Some(newer) => Err(Error::new(ErrorKind::Unsupported {
                what: format!("{name}, a {},", newer.what),
            })),
        }
    }

    async fn size(&self, collection: &Collection) -> Result<(u64, u64)> {
        if collection.what.shape == Shape::Log {
            let head = self.head(collection)?;
            let count = head.next.0 - head.first.0;
            return Ok((count, head.end.0 - head.first_offset.0));
        }
        let (mut count, mut bytes) = (0, 0);
        let mut range = all(collection, limits::INSPECT_ROWS);
        while let Some(page) = self.page(collection, &mut range).await? {
            let weight = |row: &TableRow| row.key.len() + row.value.len();
            count += page.len() as u64;
            bytes += page.iter().map(weight).sum::<usize>() as u64;
        }
        Ok((count, bytes))
    }

    async fn rows(&self, of: &Collection, limit: usize, to: &mut Vec<Entry>) -> Result<()> {
        let mut range = all(of, limits::INSPECT_ROWS);
        while to.len() < limit {
            range.limit = limits::INSPECT_ROWS.min(limit - to.len());
            let Some(page) = self.page(of, &mut range).await? else {
                break;
            };
            for row in &page {
                to.push(show(of, row)?);
            }
        }
        Ok(())
    }

    /// The next rows of a range, which then begins after them.
    async fn page(&self, of: &Collection, range: &mut Scan) -> Result<Option<Vec<TableRow>>> {
        let pinned = self.source.pin(0).await?;
        let page = pinned.scan(of.table, range.clone(), 0).await?;
        let Some(last) = page.last() else {
            return Ok(None);
        };
        range.from = Bound::Excluded(last.key.clone());
        Ok(Some(page))
    }

    fn head(&self, of: &Collection) -> Result<StreamHead> {
        let head = self.ledger.stream(of.stream());
        let head = head.map_err(|error| Error::storage(error, 0))?;
        Ok(head.unwrap_or_default())
    }

    /// Adds events from number `from` on, until there are `limit` entries.
    async fn events(
        &self,
        of: &Collection,
        from: u64,
        limit: usize,
        to: &mut Vec<Entry>,
    ) -> Result<()> {
        let mut next = from.max(self.head(of)?.first.0);
        while to.len() < limit {
            let start = ReadPosition::Sequence(Sequence(next));
            let read = self.ledger.read_events(of.stream(), start, PAGE_BYTES);
            let batches = read.await.map_err(|error| Error::storage(error, 0))?;
            if batches.is_empty() {
                break;
            }
            for batch in batches {
                show_batch(of, &batch, next, limit, to)?;
                next = batch.next().0;
            }
        }
        Ok(())
    }
}

/// Event bytes that are read at a time.
const PAGE_BYTES: usize = 256 * 1024;

/// The rows that are entries.
fn all(of: &Collection, limit: usize) -> Scan {
    match of.what.shape {
        // All but the head and tail rows.
        Shape::Queue => {
            let (from, to): (Bound<Bytes>, Bound<Bytes>) = beginning_with(&[ITEM]);
            Scan { from, to, limit }
        }
        _ => Scan::all(limit),
    }
}

fn show(of: &Collection, row: &TableRow) -> Result<Entry> {
    let schema = |error| Error::schema(error, &of.name);
    let key = match of.what.shape {
        Shape::Dictionary => key_to_json(&row.key).map_err(schema)?,
        Shape::Queue => number(&row.key[1..])
            .map(Value::from)
            .ok_or_else(|| malformed(of))?,
        _ => {
            let place = ItemPosition::from_key(&row.key).ok_or_else(|| malformed(of))?;
            json!([place.epoch, place.number])
        }
    };
    Ok(Entry {
        scope: of.scope.clone(),
        key,
        value: value_to_json(&row.value).map_err(schema)?,
        time: None,
    })
}

fn show_batch(
    of: &Collection,
    batch: &EventBatch,
    from: u64,
    limit: usize,
    to: &mut Vec<Entry>,
) -> Result<()> {
    let mut reader = ByteReader::new(batch.bytes.clone());
    for number in batch.first.0..batch.next().0 {
        let bytes = reader.bytes().map_err(|_| malformed(of))?;
        if number < from || to.len() >= limit {
            continue;
        }
        let value = value_to_json(&bytes);
        to.push(Entry {
            scope: of.scope.clone(),
            key: number.into(),
            value: value.map_err(|error| Error::schema(error, &of.name))?,
            time: Some(batch.time),
        });
    }
    Ok(())
}

/// The row's key; none if no entry of this shape has such a key.
fn stored_key(of: &Collection, key: &Value) -> Result<Option<Vec<u8>>> {
    Ok(match of.what.shape {
        Shape::Dictionary => {
            let bytes = json_to_key(key);
            Some(bytes.map_err(|error| Error::schema(error, &of.name))?)
        }
        Shape::Queue => key.as_u64().map(|number| item(number).to_vec()),
        _ => match key.as_array().map(Vec::as_slice) {
            Some([epoch, number]) => epoch.as_u64().zip(number.as_u64()),
            _ => None,
        }
        .map(|(epoch, number)| ItemPosition { epoch, number }.key().to_vec()),
    })
}

fn number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

#[cold]
fn malformed(of: &Collection) -> Error {
    let what = format!("an entry of {}", of.name);
    Error::new(ErrorKind::Malformed { what })
}
