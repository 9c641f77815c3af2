//! Task hubs and workers of all nodes, for operators.
//!
//! Every node lists the workers that are connected to it and the work items of its own
//! partitions. The answers are merged; nodes that do not answer are named. Nothing here
//! creates a task hub.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use steadfast_collections::schema::Record;
use steadfast_core::clock::Timestamp;
use steadfast_core::id::TableId;
use steadfast_core::limits;
use steadfast_partition::{ReadView, Scan};

use super::task_hub::TaskHubs;
use crate::dispatch::{
    HubList, HubRecord, TaskHubCounts, WorkCounts, WorkerList, WorkerMessage, WorkerRecord,
};
use crate::error::{Error, ErrorKind, Result};
use crate::rows::{self, ENTITIES, INSTANCES, behind};
use crate::work::WorkerOptions;

/// A page of task hubs, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskHubPage {
    /// Names, and what all nodes have of them.
    pub hubs: Vec<(String, TaskHubCounts)>,
    /// The last name, if there are more.
    pub next: Option<String>,
    /// Nodes that did not answer.
    pub missing: Vec<String>,
}

/// One task hub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskHubDetails {
    /// What each node has of it.
    pub nodes: Vec<(String, TaskHubCounts)>,
    /// When finished instances are deleted, if they are.
    pub retention: Option<Duration>,
    /// Nodes that did not answer.
    pub missing: Vec<String>,
}

/// A connected worker.
#[derive(Clone, Debug)]
pub struct ConnectedWorker {
    /// The node that it is connected to.
    pub node: String,
    /// Its number there.
    pub number: u64,
    /// With the limits in effect.
    pub options: WorkerOptions,
    /// When it connected.
    pub since: Timestamp,
    /// The work items that it has, of all nodes.
    pub in_progress: WorkCounts,
}

/// A page of workers, by node and number.
#[derive(Clone, Debug, Default)]
pub struct WorkerPage {
    pub workers: Vec<ConnectedWorker>,
    /// The last worker, if there are more.
    pub next: Option<String>,
    /// Nodes that did not answer.
    pub missing: Vec<String>,
}

/// Between node and number in a cursor.
const SEPARATOR: char = ':';

impl TaskHubs {
    /// Lists task hubs that have workers, work items, instances or entities on any node, and
    /// the declared ones: `limit` at most of those that are visible, after a name.
    pub async fn page(
        &self,
        after: &str,
        limit: usize,
        is_visible: impl Fn(&str) -> bool,
    ) -> Result<TaskHubPage> {
        let mut page = TaskHubPage::default();
        let mut missing = BTreeSet::new();
        let mut after = after.to_owned();
        'all: loop {
            let found = self.names_after(&after, limit + 1, &mut missing).await?;
            let is_end = found.len() <= limit;
            for (name, counts) in found {
                after.clone_from(&name);
                if !is_visible(&name) {
                    continue;
                }
                if page.hubs.len() == limit {
                    page.next = page.hubs.last().map(|(last, _)| last.clone());
                    break 'all;
                }
                page.hubs.push((name, counts));
            }
            if is_end {
                break;
            }
        }
        page.missing = missing.into_iter().collect();
        Ok(page)
    }

    /// What each node has of a task hub; `me` is the name of this node. `None` if there is no
    /// such task hub.
    pub async fn details(&self, name: &str, me: &str) -> Result<Option<TaskHubDetails>> {
        let ask = |_: &str| WorkerMessage::ListWorkers {
            hub: name.to_owned(),
            after: u64::MAX,
            limit: 0,
        };
        let (there, missing) = self.ask_peers::<WorkerList>(ask).await;
        let here = self.workers_here(name, u64::MAX, 0);
        let mut nodes: Vec<_> = there
            .into_iter()
            .chain([(me.to_owned(), here)])
            .map(|(node, list)| (node, list.counts))
            .collect();
        nodes.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        if !self
            .exists(name, nodes.iter().map(|(_, counts)| counts))
            .await?
        {
            return Ok(None);
        }
        Ok(Some(TaskHubDetails {
            nodes,
            retention: self.inner.kept.get(name).copied(),
            missing,
        }))
    }

    /// Lists the workers of a task hub, `limit` at most after a cursor; `me` is the name of
    /// this node. `None` if there is no such task hub.
    pub async fn workers(
        &self,
        name: &str,
        me: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Option<WorkerPage>> {
        let last = cursor.map(position).transpose()?;
        let range = |node: &str| match &last {
            Some((last, _)) if node < last.as_str() => (u64::MAX, 0),
            Some((last, number)) if node == last => (*number, limit),
            _ => (0, limit),
        };
        let ask = |node: &str| {
            let (after, limit) = range(node);
            WorkerMessage::ListWorkers {
                hub: name.to_owned(),
                after,
                limit: limit as u32,
            }
        };
        let (there, missing) = self.ask_peers::<WorkerList>(ask).await;
        let (after, most) = range(me);
        let here = self.workers_here(name, after, most);
        let all: BTreeMap<_, _> = there.into_iter().chain([(me.to_owned(), here)]).collect();
        let counts = all.values().map(|list| &list.counts);
        if !self.exists(name, counts).await? {
            return Ok(None);
        }
        let (workers, next) = merged(all, limit);
        Ok(Some(WorkerPage {
            workers,
            next,
            missing,
        }))
    }

    /// The task hubs with workers or work items here.
    pub(super) fn hubs_here(&self, after: &str, limit: usize) -> HubList {
        let dispatcher = &self.inner.dispatcher;
        let names = dispatcher.hubs().into_iter();
        let used = names
            .filter(|name| name.as_str() > after)
            .filter_map(|name| {
                let counts = dispatcher.find_queue(&name)?.counts();
                (counts != TaskHubCounts::default()).then_some(HubRecord { name, counts })
            });
        HubList {
            hubs: used.take(limit).collect(),
        }
    }

    /// The workers of a task hub that are connected here.
    pub(super) fn workers_here(&self, hub: &str, after: u64, limit: usize) -> WorkerList {
        let queue = self.inner.dispatcher.find_queue(hub);
        queue.map_or_else(WorkerList::default, |queue| queue.list(after, limit))
    }

    /// The first task hubs after a name, `count` at most.
    async fn names_after(
        &self,
        after: &str,
        count: usize,
        missing: &mut BTreeSet<String>,
    ) -> Result<BTreeMap<String, TaskHubCounts>> {
        let ask = |_: &str| WorkerMessage::ListHubs {
            after: after.to_owned(),
            limit: count as u32,
        };
        let stored = self.stored(after, count);
        let (stored, (there, silent)) = tokio::join!(stored, self.ask_peers::<HubList>(ask));
        missing.extend(silent);
        let mut names = stored?;
        if let Some(known) = &self.known {
            let later = (Bound::Excluded(after), Bound::Unbounded);
            names.extend(known.range::<str, _>(later).take(count).cloned());
        }
        let mut all: BTreeMap<_, _> = names
            .into_iter()
            .map(|name| (name, TaskHubCounts::default()))
            .collect();
        let lists = there.into_iter().map(|(_, list)| list);
        for list in lists.chain([self.hubs_here(after, count)]) {
            for HubRecord { name, counts } in list.hubs {
                *all.entry(name).or_default() += counts;
            }
        }
        // Every source has its first ones only, so those after them are not complete.
        while all.len() > count {
            all.pop_last();
        }
        Ok(all)
    }

    /// Whether a task hub is in use, declared or stored.
    async fn exists(
        &self,
        name: &str,
        mut counts: impl Iterator<Item = &TaskHubCounts>,
    ) -> Result<bool> {
        let is_used = counts.any(|counts| *counts != TaskHubCounts::default());
        let known = self.known.as_ref();
        if is_used || known.is_some_and(|known| known.contains(name)) {
            return Ok(true);
        }
        let from = rows::key(name.as_bytes(), b"");
        // `key` adds a separator after the empty instance.
        let prefix = Bytes::copy_from_slice(&from[..from.len() - 1]);
        let to = Bytes::from(behind(&prefix));
        let range = || Scan {
            from: Bound::Included(prefix.clone()),
            to: Bound::Excluded(to.clone()),
            limit: 1,
        };
        let found = self.views()?.into_iter().map(|(view, table)| {
            let range = range();
            async move { view.scan(table, range).await }
        });
        let found = try_join_all(found).await?;
        Ok(found.iter().any(|rows| !rows.is_empty()))
    }

    /// The names of task hubs with instances or entities after a name; the first `count` of
    /// every partition.
    async fn stored(&self, after: &str, count: usize) -> Result<BTreeSet<String>> {
        let found = self
            .views()?
            .into_iter()
            .map(|(view, table)| async move { stored_names(&view, table, after, count).await });
        let found = try_join_all(found).await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// The tables of instances and entities in all partitions.
    fn views(&self) -> Result<Vec<(ReadView, TableId)>> {
        let mut views = Vec::new();
        for partition in self.inner.space.all() {
            for table in [INSTANCES, ENTITIES] {
                let view = self.inner.router.reader(partition).view()?;
                views.push((view, table));
            }
        }
        Ok(views)
    }

    /// Asks every other node; returns the answers, and the nodes that gave none.
    async fn ask_peers<R: Record>(
        &self,
        ask: impl Fn(&str) -> WorkerMessage,
    ) -> (Vec<(String, R)>, Vec<String>) {
        let Some(peers) = self.inner.peers.get() else {
            return (Vec::new(), Vec::new());
        };
        let asked = peers.names().into_iter().map(|name| {
            let (peers, word) = (Arc::clone(peers), rows::encode(&ask(&name)));
            async move {
                let answer = peers.request(&name, word);
                let answer = tokio::time::timeout(limits::NODE_TELL, answer).await;
                let answer = answer.ok().and_then(std::result::Result::ok);
                let list = answer.and_then(|answer| rows::decode::<R>(&answer).ok());
                (name, list)
            }
        });
        let (mut answers, mut missing) = (Vec::new(), Vec::new());
        for (name, list) in join_all(asked).await {
            match list {
                Some(list) => answers.push((name, list)),
                None => missing.push(name),
            }
        }
        (answers, missing)
    }
}

/// The first task hubs after a name in one table: one read for each.
async fn stored_names(
    view: &ReadView,
    table: TableId,
    after: &str,
    count: usize,
) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut last = after.as_bytes().to_vec();
    while names.len() < count {
        let from = if last.is_empty() {
            Bound::Unbounded
        } else {
            last.push(0);
            Bound::Included(Bytes::from(behind(&last)))
        };
        let range = Scan {
            from,
            to: Bound::Unbounded,
            limit: 1,
        };
        let rows = view.scan(table, range).await?;
        let Some(row) = rows.first() else { break };
        let name = row.key.split(|byte| *byte == 0).next().unwrap_or_default();
        last = name.to_vec();
        names.push(String::from_utf8_lossy(name).into_owned());
    }
    Ok(names)
}

/// The first workers of all nodes, and the cursor if there are more.
fn merged(
    all: BTreeMap<String, WorkerList>,
    limit: usize,
) -> (Vec<ConnectedWorker>, Option<String>) {
    let mut relayed: BTreeMap<u64, WorkCounts> = BTreeMap::new();
    for guest in all.values().flat_map(|list| &list.guests) {
        *relayed.entry(guest.seat).or_default() += guest.in_progress;
    }
    let mut workers: Vec<ConnectedWorker> = Vec::new();
    let next = |workers: &[ConnectedWorker]| {
        let last = workers.last()?;
        Some(format!("{}{SEPARATOR}{}", last.node, last.number))
    };
    for (node, list) in all {
        for record in list.workers {
            if workers.len() == limit {
                let next = next(&workers);
                return (workers, next);
            }
            workers.push(connected(&node, record, &relayed));
        }
        if list.has_more {
            let next = next(&workers);
            return (workers, next);
        }
    }
    (workers, None)
}

fn connected(
    node: &str,
    record: WorkerRecord,
    relayed: &BTreeMap<u64, WorkCounts>,
) -> ConnectedWorker {
    let mut in_progress = record.in_progress;
    for seat in &record.seats {
        in_progress += relayed.get(seat).copied().unwrap_or_default();
    }
    ConnectedWorker {
        node: node.to_owned(),
        number: record.number,
        options: WorkerOptions {
            address: record.address,
            ..WorkerOptions::from(record.options)
        },
        since: Timestamp(record.since),
        in_progress,
    }
}

/// Node and number of a cursor.
fn position(cursor: &str) -> Result<(String, u64)> {
    let parts = cursor.rsplit_once(SEPARATOR);
    let parsed = parts.and_then(|(node, number)| Some((node.to_owned(), number.parse().ok()?)));
    parsed.ok_or_else(|| {
        let message = "the cursor is not from this list; start again without one";
        Error::new(ErrorKind::Invalid, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_names_a_node_and_a_number() {
        assert_eq!(position("a:b:7").unwrap(), ("a:b".to_owned(), 7));
        for bad in ["", "7", "a:", "a:x", "a:-1"] {
            assert!(position(bad).is_err(), "{bad}");
        }
    }
}
