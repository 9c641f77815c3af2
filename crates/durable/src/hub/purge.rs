//! Purges instances, repairs entities, wipes task hubs.

use std::time::Duration;

use steadfast_core::task::name_task;
use steadfast_partition::Error as PartitionError;
use tokio::time::Instant;

use super::task_hub::TaskHub;
use crate::command::{Command, Reply};
use crate::entity::EntityRecord;
use crate::error::Result;
use crate::rows::{self, BY_CREATED, ENTITIES, behind};
use crate::status::InstanceStatus;
use crate::view::{InstanceListQuery, PurgeOutcome, PurgeQuery};

/// Finished states.
const FINAL: [InstanceStatus; 4] = [
    InstanceStatus::Completed,
    InstanceStatus::Failed,
    InstanceStatus::Terminated,
    InstanceStatus::Canceled,
];

impl TaskHub {
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
