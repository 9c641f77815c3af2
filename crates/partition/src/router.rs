//! Routes requests to partition owners.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::RwLock;
use steadfast_core::id::Partition;
use steadfast_storage::{Ledger, Writes};
use tokio::sync::mpsc;

use crate::address::{Envelope, Kind as ServiceKind};
use crate::clerk::{Clerk, Inquiry};
use crate::door::Door;
use crate::error::{Error, Kind, Result};
use crate::question::{Finding, Question};
use crate::transport::{Alone, Parcel, Transport};

/// The partitions of all spaces that this node serves, and the transport to the others.
pub struct Router {
    doors: RwLock<BTreeMap<Partition, Door>>,
    clerks: RwLock<BTreeMap<ServiceKind, Arc<dyn Clerk>>>,
    beyond: Arc<dyn Transport>,
}

impl Router {
    /// Serves nothing yet.
    pub fn new(beyond: Arc<dyn Transport>) -> Self {
        Self {
            doors: RwLock::new(BTreeMap::new()),
            clerks: RwLock::new(BTreeMap::new()),
            beyond,
        }
    }

    /// Routes to read-only copies, and to nothing else.
    pub fn of_copies(copies: impl IntoIterator<Item = Ledger>) -> Self {
        let router = Self::new(Arc::new(Alone));
        for ledger in copies {
            // Without a receiver, commands are refused.
            let (calls, _) = mpsc::channel(1);
            let (posts, _) = mpsc::unbounded_channel();
            router.open(Door::new(ledger, calls, posts, Arc::default()));
        }
        router
    }

    /// The partition, if this node serves it.
    pub fn door(&self, partition: Partition) -> Option<Door> {
        self.doors.read().get(&partition).cloned()
    }

    /// Whether there are other nodes.
    pub fn is_alone(&self) -> bool {
        self.beyond.is_alone()
    }

    /// All partitions that this node serves.
    pub fn doors(&self) -> Vec<Door> {
        self.doors.read().values().cloned().collect()
    }

    /// Handles a call of another node. It is never forwarded: nodes that disagree about
    /// an owner would forward it without end.
    pub async fn serve(&self, to: Partition, envelope: Envelope) -> Result<Bytes> {
        match self.door(to) {
            Some(door) => door.serve(envelope).await,
            None => Err(Error::new(Kind::NotOwner { partition: to })),
        }
    }

    /// Receives a batch of another node.
    pub async fn receive(&self, to: Partition, parcel: Parcel) -> Result<u64> {
        match self.door(to) {
            Some(door) => door.receive(parcel).await,
            None => Err(Error::new(Kind::NotOwner { partition: to })),
        }
    }

    /// Commits commands for another node.
    pub async fn commit_here(&self, to: Partition, commands: Vec<Envelope>) -> Result<()> {
        match self.door(to) {
            Some(door) => door.commit(Writes::default(), commands).await.map(drop),
            None => Err(Error::new(Kind::NotOwner { partition: to })),
        }
    }

    /// Reads for another node.
    pub async fn answer(&self, to: Partition, question: Question) -> Result<Finding> {
        match self.door(to) {
            Some(door) => question.ask(&door).await,
            None => Err(Error::new(Kind::NotOwner { partition: to })),
        }
    }

    /// Registers the owner handler of a kind.
    pub fn employ(&self, kind: ServiceKind, clerk: Arc<dyn Clerk>) {
        self.clerks.write().insert(kind, clerk);
    }

    /// Dispatches a request to an owner handler of this node, if it serves the
    /// partition.
    pub async fn consult(&self, to: Partition, inquiry: Inquiry) -> Result<Bytes> {
        if self.door(to).is_none() {
            return Err(Error::new(Kind::NotOwner { partition: to }));
        }
        let kind = inquiry.kind;
        let clerk = self.clerks.read().get(&kind).cloned();
        let clerk = clerk.ok_or_else(|| Error::new(Kind::NoService { kind }))?;
        clerk.answer(to, inquiry.body).await
    }

    pub(crate) fn open(&self, door: Door) {
        self.doors.write().insert(door.partition(), door);
    }

    pub(crate) fn close(&self, partition: Partition) {
        self.doors.write().remove(&partition);
    }
}

#[async_trait]
impl Transport for Router {
    async fn call(&self, to: Partition, envelope: Envelope) -> Result<Bytes> {
        match self.door(to) {
            Some(door) => door.serve(envelope).await,
            None => self.beyond.call(to, envelope).await,
        }
    }

    async fn deliver(&self, to: Partition, parcel: Parcel) -> Result<u64> {
        match self.door(to) {
            Some(door) => door.receive(parcel).await,
            None => self.beyond.deliver(to, parcel).await,
        }
    }

    async fn commit(&self, to: Partition, commands: Vec<Envelope>) -> Result<()> {
        match self.door(to) {
            Some(door) => door.commit(Writes::default(), commands).await.map(drop),
            None => self.beyond.commit(to, commands).await,
        }
    }

    async fn read(&self, to: Partition, question: Question) -> Result<Finding> {
        match self.door(to) {
            Some(door) => question.ask(&door).await,
            None => self.beyond.read(to, question).await,
        }
    }

    async fn ask(&self, to: Partition, inquiry: Inquiry) -> Result<Bytes> {
        match self.door(to) {
            Some(_) if self.is_alone() => self.consult(to, inquiry).await,
            // It may be handed over just now: the request then goes to its next owner.
            _ => self.beyond.ask(to, inquiry).await,
        }
    }

    fn is_alone(&self) -> bool {
        self.beyond.is_alone()
    }
}
