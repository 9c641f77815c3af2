//! Lists over all partitions, and what is done to all.
//!
//! Every partition has its part of an index; a list merges them. A cursor is the last key
//! that was read, so concurrent changes do not invalidate it. A purge, a repair and a wipe
//! go through such lists.

use std::collections::VecDeque;
use std::ops::Bound;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::hex;
use steadfast_core::id::TableId;
use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_partition::{Error as PartitionError, ReadView, Scan, TableRow};
use tokio::time::Instant;

use super::instances::{overview, read};
use super::task_hub::{TaskHub, unreadable};
use crate::command::{Command, Reply};
use crate::entity::EntityRecord;
use crate::error::{Error, ErrorKind, Result};
use crate::instance::InstanceRecord;
use crate::moment::Moment;
use crate::rows::{self, BY_CREATED, BY_ENDED, ENTITIES, behind};
use crate::status::InstanceStatus;
use crate::view::{
    EntityListQuery, EntityView, FinishedListQuery, InstanceListQuery, InstanceView, PurgeOutcome,
    PurgeQuery, ResultPage,
};

/// Rows to read ahead per partition.
const AHEAD: usize = 64;

/// Finished states.
const FINAL: [InstanceStatus; 4] = [
    InstanceStatus::Completed,
    InstanceStatus::Failed,
    InstanceStatus::Terminated,
    InstanceStatus::Canceled,
];

/// The rows of one table in all partitions, in the order of their keys.
pub(super) struct PartitionMerge {
    table: TableId,
    to: Bytes,
    parts: Vec<PartitionCursor>,
}

struct PartitionCursor {
    glance: ReadView,
    from: Bound<Bytes>,
    rows: VecDeque<TableRow>,
    is_done: bool,
}

impl PartitionMerge {
    /// The next row, and the read view of its partition.
    pub(super) async fn next(&mut self) -> Result<Option<(TableRow, &ReadView)>> {
        for part in &mut self.parts {
            if part.rows.is_empty() && !part.is_done {
                part.read(self.table, &self.to).await?;
            }
        }
        let full = self.parts.iter_mut().filter(|part| !part.rows.is_empty());
        let first = full.min_by(|one, other| one.rows[0].key.cmp(&other.rows[0].key));
        Ok(first.and_then(|part| {
            let row = part.rows.pop_front()?;
            Some((row, &part.glance))
        }))
    }
}

impl PartitionCursor {
    async fn read(&mut self, table: TableId, to: &Bytes) -> Result<()> {
        let scan = Scan {
            from: self.from.clone(),
            to: Bound::Excluded(to.clone()),
            limit: AHEAD,
        };
        let rows = self.glance.scan(table, scan).await?;
        self.is_done = rows.len() < AHEAD;
        if let Some(last) = rows.last() {
            self.from = Bound::Excluded(last.key.clone());
        }
        self.rows = rows.into();
        Ok(())
    }
}

impl TaskHub {
    /// All rows of a table between two keys, or after a cursor.
    pub(super) fn merge(
        &self,
        table: TableId,
        from: Vec<u8>,
        to: Vec<u8>,
        cursor: Option<&str>,
    ) -> Result<PartitionMerge> {
        let from = match cursor.filter(|cursor| !cursor.is_empty()) {
            Some(cursor) => {
                let key = Bytes::from(decode_key(cursor)?);
                if key[..] < from[..] || key[..] >= to[..] {
                    return Err(bad_cursor());
                }
                Bound::Excluded(key)
            }
            None => Bound::Included(Bytes::from(from)),
        };
        let mut parts = Vec::new();
        for partition in self.inner.space.all() {
            parts.push(PartitionCursor {
                glance: self.inner.router.reader(partition).view()?,
                from: from.clone(),
                rows: VecDeque::new(),
                is_done: false,
            });
        }
        let to = Bytes::from(to);
        Ok(PartitionMerge { table, to, parts })
    }

    /// Lists instances by time of creation and id.
    pub async fn query(&self, query: &InstanceListQuery) -> Result<ResultPage<InstanceView>> {
        let (from, to) = self.range(query.from, query.to);
        let mut rows = self.merge(BY_CREATED, from, to, query.cursor.as_deref())?;
        let limit = or_usual(query.limit);
        let (mut items, mut last) = (Vec::new(), None);
        while let Some((index, glance)) = rows.next().await? {
            let Some((id, key)) = self.indexed(&index.key) else {
                continue;
            };
            if items.len() == limit {
                return Ok(ResultPage { items, next: last });
            }
            if !id.starts_with(&query.prefix) {
                continue;
            }
            let Some(row) = read(glance, &key).await? else {
                continue;
            };
            if is_wanted(&query.statuses, &row) {
                items.push(overview(glance, &key, &id, row, query.has_payloads).await?);
                last = Some(hex::encode(&index.key));
            }
        }
        Ok(ResultPage { items, next: None })
    }

    /// Lists finished instances by time of their end and id.
    pub async fn finished(&self, query: &FinishedListQuery) -> Result<ResultPage<String>> {
        let (from, to) = self.range(query.from, query.to);
        let cursor = query.cursor.as_deref().map(|cursor| self.ended_key(cursor));
        let mut rows = self.merge(BY_ENDED, from, to, cursor.transpose()?.as_deref())?;
        let limit = or_usual(query.limit);
        let (mut items, mut last) = (Vec::new(), None);
        while let Some((index, glance)) = rows.next().await? {
            let Some((id, key)) = self.indexed(&index.key) else {
                continue;
            };
            if items.len() == limit {
                return Ok(ResultPage { items, next: last });
            }
            let row = read(glance, &key).await?;
            if row.is_some_and(|row| is_wanted(&query.statuses, &row)) {
                last = Some(ended_cursor(&index.key, &id));
                items.push(id);
            }
        }
        Ok(ResultPage { items, next: None })
    }

    /// The key in hexadecimal, from a cursor that shows the id.
    fn ended_key(&self, cursor: &str) -> Result<String> {
        let Some((time, id)) = cursor.split_once(SEPARATOR) else {
            return Ok(cursor.to_owned());
        };
        if time.len() != TIME_DIGITS {
            return Err(bad_cursor());
        }
        let mut key = self.name.as_bytes().to_vec();
        key.push(0);
        key.extend(decode_key(time)?);
        key.extend_from_slice(id.as_bytes());
        Ok(hex::encode(&key))
    }

    /// Lists entities by id.
    pub async fn entities(&self, query: &EntityListQuery) -> Result<ResultPage<EntityView>> {
        let mut prefix = self.name.as_bytes().to_vec();
        prefix.push(0);
        prefix.extend_from_slice(normal(&query.prefix).as_bytes());
        let to = behind(&prefix);
        let mut rows = self.merge(ENTITIES, prefix, to, query.cursor.as_deref())?;
        let limit = or_usual(query.limit);
        let (mut items, mut last) = (Vec::new(), None);
        while let Some((found, glance)) = rows.next().await? {
            if items.len() == limit {
                return Ok(ResultPage { items, next: last });
            }
            let entity: EntityRecord = rows::decode(&found.value).map_err(|_| unreadable())?;
            let modified = Moment::from(entity.modified);
            let is_early = query.from.is_some_and(|from| modified < from);
            let is_late = query.to.is_some_and(|to| modified >= to);
            if is_early || is_late || !(entity.exists || query.is_transient_wanted) {
                continue;
            }
            let id = &found.key[self.name.len() + 1..found.key.len() - 1];
            let id = String::from_utf8_lossy(id).into_owned();
            let view = self.view(glance, &found.key, id, entity, query.has_state);
            items.push(view.await?);
            last = Some(hex::encode(&found.key));
        }
        Ok(ResultPage { items, next: None })
    }

    /// The part of an index between two times.
    fn range(&self, from: Option<Moment>, to: Option<Moment>) -> (Vec<u8>, Vec<u8>) {
        let hub = self.name.as_bytes();
        let mut whole = hub.to_vec();
        whole.push(0);
        let first = from.map_or(whole.clone(), |from| rows::timed(hub, from.due().0, b""));
        let last = to.map_or(behind(&whole), |to| rows::timed(hub, to.due().0, b""));
        (first.min(last.clone()), last)
    }

    /// The instance in the key of an index: its id, and the key of its row.
    fn indexed(&self, key: &[u8]) -> Option<(String, Vec<u8>)> {
        let id = key.get(self.name.len() + 1 + 8..)?;
        let key = rows::key(self.name.as_bytes(), id);
        Some((String::from_utf8_lossy(id).into_owned(), key))
    }

    /// Purges a finished instance, and its children if `is_recursive`; returns how many
    /// instances were purged. Once the instance is gone its children are purged, too, even
    /// if the caller has stopped waiting.
    pub async fn purge(&self, instance: &str, is_recursive: bool) -> Result<u64> {
        let (own, instance) = (self.clone(), instance.to_owned());
        let partition = self.partition(&instance);
        let purging = tokio::spawn(name_task(async move {
            own.purge_whole(instance, is_recursive).await
        }));
        let broken_off = |_| Err(PartitionError::unknown(partition, None).into());
        purging.await.unwrap_or_else(broken_off)
    }

    async fn purge_whole(&self, instance: String, is_recursive: bool) -> Result<u64> {
        let mut count = 0;
        let mut left = vec![instance];
        while let Some(instance) = left.pop() {
            let ask = Command::Purge { is_recursive };
            if let Reply::Purged(children) = self.ask(&instance, ask).await? {
                count += 1;
                left.extend(children);
            }
        }
        Ok(count)
    }

    /// Purges all finished instances that match, until the time limit.
    pub async fn purge_all(
        &self,
        query: &PurgeQuery,
        limit: Option<Duration>,
        is_recursive: bool,
    ) -> Result<PurgeOutcome> {
        // A limit that overflows the clock is none.
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let wanted =
            |status: &InstanceStatus| query.statuses.is_empty() || query.statuses.contains(status);
        let mut list = InstanceListQuery {
            statuses: FINAL.into_iter().filter(wanted).collect(),
            from: query.from,
            to: query.to,
            ..InstanceListQuery::default()
        };
        let mut purged = PurgeOutcome {
            count: 0,
            is_complete: true,
        };
        while !list.statuses.is_empty() {
            let page = self.query(&list).await?;
            for found in page.items {
                if until.is_some_and(|until| Instant::now() >= until) {
                    purged.is_complete = false;
                    return Ok(purged);
                }
                purged.count += self.purge(&found.instance, is_recursive).await?;
            }
            match page.next {
                Some(next) => list.cursor = Some(next),
                None => break,
            }
        }
        Ok(purged)
    }

    /// Removes empty entities, and locks whose holder has ended; returns how many of each
    /// were found. Normally there are none.
    pub async fn clean(&self) -> Result<(u64, u64)> {
        let (mut empty, mut orphans) = (0, 0);
        for (entity, row) in self.all_entities().await? {
            if let Some(held) = &row.lock_holder {
                let holder = self.get(&held.instance, false).await?;
                let is_alive =
                    holder.is_some_and(|h| h.execution == held.execution && !h.status.is_final());
                if !is_alive && self.break_lock(&entity, &held.section).await? {
                    orphans += 1;
                }
            } else if !row.exists && row.backlog() == 0 {
                self.ask(&entity, Command::Erase).await?;
                empty += 1;
            }
        }
        Ok((empty, orphans))
    }

    /// Deletes everything in the task hub, running or not.
    pub async fn wipe(&self) -> Result<()> {
        let mut whole = self.name.as_bytes().to_vec();
        whole.push(0);
        let mut found = Vec::new();
        let mut rows = self.merge(BY_CREATED, whole.clone(), behind(&whole), None)?;
        while let Some((row, _)) = rows.next().await? {
            let id = row.key.get(whole.len() + 8..).unwrap_or_default();
            found.push(String::from_utf8_lossy(id).into_owned());
        }
        let entities = self.all_entities().await?;
        found.extend(entities.into_iter().map(|(entity, _)| entity));
        for instance in found {
            self.ask(&instance, Command::Erase).await?;
        }
        for partition in self.inner.space.all() {
            self.ask_in(partition, Command::Empty).await?;
        }
        Ok(())
    }

    /// All entities that have a row.
    pub(super) async fn all_entities(&self) -> Result<Vec<(String, EntityRecord)>> {
        let mut whole = self.name.as_bytes().to_vec();
        whole.push(0);
        let to = behind(&whole);
        let from = whole.len();
        let mut rows = self.merge(ENTITIES, whole, to, None)?;
        let mut found = Vec::new();
        while let Some((row, _)) = rows.next().await? {
            let id = String::from_utf8_lossy(&row.key[from..row.key.len() - 1]).into_owned();
            if let Ok(entity) = rows::decode(&row.value) {
                found.push((id, entity));
            }
        }
        Ok(found)
    }
}

fn is_wanted(statuses: &[InstanceStatus], row: &InstanceRecord) -> bool {
    statuses.is_empty() || statuses.contains(&row.status)
}

fn or_usual(limit: usize) -> usize {
    match limit {
        0 => limits::INSTANCE_PAGE,
        limit => limit.min(limits::SCAN_ROWS),
    }
}

/// A prefix of stored ids: `@name@key`, the name in lower case.
fn normal(prefix: &str) -> String {
    let bare = prefix.strip_prefix('@').unwrap_or(prefix);
    match (bare.split_once('@'), prefix.is_empty()) {
        (_, true) => "@".to_owned(),
        (Some((name, key)), _) => format!("@{}@{key}", name.to_lowercase()),
        (None, _) => format!("@{}", bare.to_lowercase()),
    }
}

/// The bytes of a key in a cursor.
fn decode_key(text: &str) -> Result<Vec<u8>> {
    if text.len() > 2 * limits::KEY_BYTES {
        return Err(bad_cursor());
    }
    hex::decode(text).ok_or_else(bad_cursor)
}

/// Between time and id in the cursor of a list by the time of an end.
const SEPARATOR: char = '|';
/// A time has eight bytes.
const TIME_DIGITS: usize = 16;

/// A cursor that shows the last id, because the tests of an SDK check it.
fn ended_cursor(key: &[u8], id: &str) -> String {
    let end = key.len().saturating_sub(id.len());
    let time = end.saturating_sub(TIME_DIGITS / 2);
    format!("{}{SEPARATOR}{id}", hex::encode(&key[time..end]))
}

fn bad_cursor() -> Error {
    let message = "the continuation token is not from this list; start again without one";
    Error::new(ErrorKind::Invalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_entities_may_be_bare() {
        assert_eq!(normal(""), "@");
        assert_eq!(normal("Count"), "@count");
        assert_eq!(normal("@Counter@Al"), "@counter@Al");
        assert_eq!(normal("Counter@Al"), "@counter@Al");
    }

    #[test]
    fn a_cursor_comes_back_as_written() {
        let bytes = [0, 255, 17];
        assert_eq!(decode_key(&hex::encode(&bytes)).unwrap(), bytes);
        assert!(decode_key("0").is_err());
        assert!(decode_key("zz").is_err());
        assert!(decode_key("é0").is_err());
    }
}
