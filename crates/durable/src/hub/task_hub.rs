//! Task hubs and the ways to their instances.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use steadfast_core::id::{Epoch, Partition};
use steadfast_core::limits;
use steadfast_partition::{
    Address, Door, Error as PartitionError, ErrorKind as PartitionKind, Glance, Handle, Router,
    Runtime, Space,
};
use tokio::sync::watch;

use super::others::{Guests, Others};
use crate::aide::Operator;
use crate::command::{Ask, Say};
use crate::dispatch::{Desk, Dispatcher, Worker};
use crate::error::{Error, ErrorKind, Result};
use crate::id;
use crate::service::Instances;
use crate::work::Terms;

/// All task hubs of a node. Clones lead to the same ones.
#[derive(Clone)]
pub struct TaskHubs {
    pub(super) inner: Arc<Inner>,
    /// The only ones there are; `None`: they come to be when they are used.
    known: Option<Arc<BTreeSet<String>>>,
}

pub(super) struct Inner {
    handle: Handle<Instances>,
    pub(super) space: Space,
    pub(super) router: Arc<Router>,
    /// Rings when a partition comes or goes.
    moves: watch::Receiver<u64>,
    pub(super) dispatcher: Dispatcher,
    pub(super) kept: BTreeMap<String, Duration>,
    /// Workers of other nodes.
    pub(super) guests: Guests,
    /// The other nodes, if there may be any.
    pub(super) others: OnceLock<Arc<dyn Others>>,
}

/// One task hub. It exists as soon as it is used. Clones lead to the same one.
#[derive(Clone)]
pub struct TaskHub {
    pub(super) inner: Arc<Inner>,
    pub(super) name: Arc<str>,
    pub(super) desk: Arc<Desk>,
}

impl TaskHubs {
    /// The task hubs of a runtime, whose performer for instances is `dispatcher`.
    /// Finished instances of a task hub are forgotten after its time in `kept`; those
    /// of others never.
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
            guests: Guests::default(),
            others: OnceLock::new(),
        };
        Self {
            inner: Arc::new(inner),
            known: None,
        }
    }

    /// The same, but no others than these.
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
            desk: self.inner.dispatcher.desk(name),
        })
    }

    /// The task hubs that this node has heard of since it started, except idle ones of
    /// very many.
    pub fn names(&self) -> Vec<String> {
        self.inner.dispatcher.hubs()
    }

    /// Gives out no more work, waits for what is out, and ends all streams of work.
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

    /// A stream of work.
    pub fn worker(&self, terms: Terms) -> Worker {
        match self.inner.others.get() {
            Some(others) => self.shared_worker(terms, others),
            None => Worker::new(Arc::clone(&self.desk), terms),
        }
    }

    /// Turns, and operations on idle entities, are run by this one at once, in this
    /// process.
    pub(crate) fn set_operator(&self, operator: Option<Arc<dyn Operator>>) {
        let aides = self.inner.dispatcher.aides();
        aides.set(&self.name, operator.clone());
        self.desk.locals.set_operator(operator);
    }

    /// How many rows of histories were read and decoded for workers since the node
    /// has started. Turns of instances that a worker in this process remembers need
    /// none.
    pub fn history_rows_read(&self) -> u64 {
        self.desk.history_rows_read()
    }

    pub(super) fn address(&self, instance: &str) -> Address {
        id::address(&self.name, instance)
    }

    pub(super) async fn ask(&self, instance: &str, ask: Ask) -> Result<Say> {
        let to = self.address(instance);
        Ok(self.inner.handle.call(to, ask).await?)
    }

    /// Asks a partition for something that concerns the whole task hub.
    pub(super) async fn ask_in(&self, partition: Partition, ask: Ask) -> Result<Say> {
        let to = self.address("@");
        Ok(self.inner.handle.call_in(partition, to, ask).await?)
    }

    /// The way to the partition of an instance, if it is served here.
    pub(super) fn door(&self, instance: &str) -> Option<Door> {
        self.inner.router.door(self.partition(instance))
    }

    /// The partition of an instance.
    pub(super) fn partition(&self, instance: &str) -> Partition {
        self.inner.space.partition(&self.address(instance))
    }

    /// Whether the partition of an instance is served here.
    pub(super) fn is_here(&self, instance: &str) -> bool {
        let router = &self.inner.router;
        router.is_alone() || router.door(self.partition(instance)).is_some()
    }

    /// The epoch in which the partition of an instance is served here.
    pub(super) fn tenure(&self, instance: &str) -> Option<Epoch> {
        self.door(instance).map(|door| door.ledger().tenure())
    }

    /// Waits until the partition of an instance is served at another node, or here anew:
    /// what was told in between was told to nobody.
    pub(super) async fn moved(&self, instance: &str, since: Option<Epoch>) {
        let mut moves = self.inner.moves.clone();
        // A node alone is about to take it again, if it has lost it.
        let is_same = |now| Some(now) == since;
        while self.is_here(instance) && self.tenure(instance).is_none_or(is_same) {
            if moves.changed().await.is_err() {
                // The node ends.
                std::future::pending::<()>().await;
            }
        }
    }

    /// What is durable of the partition of an instance, wherever it is served.
    pub(super) fn glance(&self, instance: &str) -> Result<Glance> {
        let window = self.inner.router.window(self.partition(instance));
        Ok(window.glance()?)
    }
}

pub(super) fn unreadable() -> Error {
    let what = "a row of an instance";
    Error::from(PartitionError::new(PartitionKind::Malformed { what }))
}

/// Checks the size of a payload.
pub(super) fn check_payload(payload: Option<&String>) -> Result<()> {
    match payload.is_some_and(|text| text.len() > limits::PAYLOAD_BYTES) {
        false => Ok(()),
        true => Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "a payload has at most {} MiB; keep larger ones elsewhere and send their address",
                limits::PAYLOAD_BYTES >> 20
            ),
        )),
    }
}
