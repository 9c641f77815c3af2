//! Task hubs and the routing to their instances.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use steadfast_core::id::{Epoch, Partition};
use steadfast_core::limits;
use steadfast_partition::{
    Address, Error as PartitionError, ErrorKind as PartitionKind, Handle, Mailbox, ReadView,
    Router, Runtime, Space,
};
use tokio::sync::{Semaphore, watch};

use super::peers::{RemoteWorkers, WorkerPeers};
use crate::command::{Command, Reply};
use crate::dispatch::{Dispatcher, TaskHubCounts, WorkQueue, WorkerStream};
use crate::error::{Error, ErrorKind, Result};
use crate::id;
use crate::inline::InlineExecutor;
use crate::service::Instances;
use crate::work::WorkerOptions;

/// All task hubs of a node. Clones share one state.
#[derive(Clone)]
pub struct TaskHubs {
    pub(super) inner: Arc<Inner>,
    /// The existing task hubs; `None`: task hubs are created on demand.
    pub(super) known: Option<Arc<BTreeSet<String>>>,
}

pub(super) struct Inner {
    handle: Handle<Instances>,
    pub(super) space: Space,
    pub(super) router: Arc<Router>,
    /// Notifies when a partition is opened or closed here.
    moves: watch::Receiver<u64>,
    pub(super) dispatcher: Dispatcher,
    pub(super) kept: BTreeMap<String, Duration>,
    /// Bytes of results that may wait for room in the log.
    result_room: Semaphore,
    /// Workers of other nodes.
    pub(super) remote_workers: RemoteWorkers,
    /// The other nodes, if there may be any.
    pub(super) peers: OnceLock<Arc<dyn WorkerPeers>>,
}

/// One task hub. It exists as soon as it is used. Clones share one state.
#[derive(Clone)]
pub struct TaskHub {
    pub(super) inner: Arc<Inner>,
    pub(super) name: Arc<str>,
    pub(super) queue: Arc<WorkQueue>,
}

impl TaskHubs {
    /// The task hubs of a runtime, whose performer for instances is `dispatcher`. Finished
    /// instances of a task hub are deleted after its retention in `kept`; those of other
    /// task hubs are kept.
    pub fn new(
        runtime: &Runtime,
        dispatcher: Dispatcher,
        kept: BTreeMap<String, Duration>,
    ) -> Self {
        let inner = Inner {
            handle: runtime.handle(),
            space: runtime.space().clone(),
            router: Arc::clone(runtime.router()),
            moves: runtime.changes(),
            dispatcher,
            kept,
            result_room: Semaphore::new(limits::RESULT_WAIT_BYTES),
            remote_workers: RemoteWorkers::default(),
            peers: OnceLock::new(),
        };
        Self {
            inner: Arc::new(inner),
            known: None,
        }
    }

    /// Restricts the task hubs to `known`.
    #[must_use]
    pub fn only(self, known: BTreeSet<String>) -> Self {
        let known = Some(Arc::new(known));
        Self { known, ..self }
    }

    /// A task hub by name.
    pub fn hub(&self, name: &str) -> Result<TaskHub> {
        id::check_hub(name)?;
        let known = self.known.as_ref();
        if known.is_some_and(|known| !known.contains(name)) {
            return Err(Error::new(
                ErrorKind::NoHub,
                format!("there is no task hub {name:?}; declare it, or allow durable.unknown_hubs"),
            ));
        }
        Ok(TaskHub {
            inner: Arc::clone(&self.inner),
            name: name.into(),
            queue: self.inner.dispatcher.work_queue(name),
        })
    }

    /// The task hubs known to this node since it started; idle ones are dropped when there
    /// are very many.
    pub fn names(&self) -> Vec<String> {
        self.inner.dispatcher.hubs()
    }

    /// The workers and work items of all task hubs at this node.
    pub fn counts(&self) -> TaskHubCounts {
        self.inner.dispatcher.counts()
    }

    /// Stops assigning work, waits for assigned items, and ends the streams of all workers.
    pub async fn leave(&self, limit: Duration) {
        self.inner.dispatcher.leave(limit).await;
    }
}

impl From<Arc<Inner>> for TaskHubs {
    fn from(inner: Arc<Inner>) -> Self {
        Self { inner, known: None }
    }
}

impl TaskHub {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Connects a worker.
    pub fn worker(&self, terms: WorkerOptions) -> WorkerStream {
        match self.inner.peers.get() {
            Some(others) => self.shared_worker(terms, others),
            None => WorkerStream::new(Arc::clone(&self.queue), terms),
        }
    }

    /// Sets or removes the executor that runs turns, and operations on idle entities, inline
    /// in this process.
    pub(crate) fn set_executor(&self, operator: Option<Arc<dyn InlineExecutor>>) {
        let aides = self.inner.dispatcher.inline_executors();
        aides.set(&self.name, operator.clone());
        self.queue.local_entities.set_executor(operator);
    }

    /// How many history rows were read and decoded for workers since the node started. Turns
    /// of instances that a worker in this process has in memory need none.
    pub fn history_rows_read(&self) -> u64 {
        self.queue.history_rows_read()
    }

    pub(super) fn address(&self, instance: &str) -> Address {
        id::address(&self.name, instance)
    }

    pub(super) async fn ask(&self, instance: &str, ask: Command) -> Result<Reply> {
        let to = self.address(instance);
        Ok(self.inner.handle.call(to, ask).await?)
    }

    /// Commits the result of work. It waits while the log is full: a refusal would have the
    /// work done again, by a machine that is short of room already. Beyond a number of bytes
    /// of all results on their way, it is refused like any other command.
    pub(super) async fn keep(&self, instance: &str, result: Command) -> Result<Reply> {
        let bytes = u32::try_from(result.result_bytes()).unwrap_or(u32::MAX);
        let Ok(_room) = self.inner.result_room.try_acquire_many(bytes) else {
            return self.ask(instance, result).await;
        };
        let to = self.address(instance);
        Ok(self.inner.handle.call_when_room(to, result).await?)
    }

    /// Sends a partition a command for the whole task hub.
    pub(super) async fn ask_in(&self, partition: Partition, ask: Command) -> Result<Reply> {
        let to = self.address("@");
        Ok(self.inner.handle.call_in(partition, to, ask).await?)
    }

    /// The mailbox of an instance's partition, if it is served here.
    pub(super) fn mailbox(&self, instance: &str) -> Option<Mailbox> {
        self.inner.router.mailbox(self.partition(instance))
    }

    /// The partition of an instance.
    pub(super) fn partition(&self, instance: &str) -> Partition {
        self.inner.space.partition(&self.address(instance))
    }

    /// Whether the partition of an instance is served here.
    pub(super) fn is_here(&self, instance: &str) -> bool {
        let router = &self.inner.router;
        router.is_single_node() || router.mailbox(self.partition(instance)).is_some()
    }

    /// The epoch in which the partition of an instance is served here.
    pub(super) fn tenure(&self, instance: &str) -> Option<Epoch> {
        self.mailbox(instance).map(|door| door.ledger().tenure())
    }

    /// Waits until the partition of an instance is served by another node, or by this one
    /// in a new tenure: notifications in between are lost.
    pub(super) async fn moved(&self, instance: &str, since: Option<Epoch>) {
        let mut moves = self.inner.moves.clone();
        // A single node that has lost the partition takes it again.
        let is_same = |now| Some(now) == since;
        while self.is_here(instance) && self.tenure(instance).is_none_or(is_same) {
            if moves.changed().await.is_err() {
                // The node shuts down.
                std::future::pending::<()>().await;
            }
        }
    }

    /// A read view of an instance's partition, wherever it is served.
    pub(super) fn read_view(&self, instance: &str) -> Result<ReadView> {
        let window = self.inner.router.reader(self.partition(instance));
        Ok(window.view()?)
    }
}

pub(super) fn unreadable() -> Error {
    let what = "a row of an instance";
    Error::from(PartitionError::new(PartitionKind::Malformed { what }))
}

/// Checks the size of a payload.
pub(crate) fn check_payload(payload: Option<&String>) -> Result<()> {
    if payload.is_some_and(|text| text.len() > limits::PAYLOAD_BYTES) {
        Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "a payload has at most {} MiB; keep larger ones elsewhere and send their address",
                limits::PAYLOAD_BYTES >> 20
            ),
        ))
    } else {
        Ok(())
    }
}
