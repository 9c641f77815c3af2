//! Routes requests to partition owners.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::RwLock;
use steadfast_core::id::Partition;
use steadfast_storage::{Ledger, Writes};
use tokio::sync::mpsc;

use crate::error::{Error, ErrorKind, Result};
use crate::ingress::address::{Envelope, ServiceKind};
use crate::ingress::mailbox::Mailbox;
use crate::ingress::owner_handler::{OwnerHandler, OwnerRequest};
use crate::ingress::transport::{MessageBatch, NodeTransport, SingleNode};
use crate::reads::read_request::{ReadRequest, ReadResponse};

/// The partitions of all spaces that this node serves, and the transport to the others.
pub struct Router {
    mailboxes: RwLock<BTreeMap<Partition, Mailbox>>,
    handlers: RwLock<BTreeMap<ServiceKind, Arc<dyn OwnerHandler>>>,
    remote: Arc<dyn NodeTransport>,
}

impl Router {
    /// Creates a router that serves nothing yet.
    pub fn new(remote: Arc<dyn NodeTransport>) -> Self {
        Self {
            mailboxes: RwLock::new(BTreeMap::new()),
            handlers: RwLock::new(BTreeMap::new()),
            remote,
        }
    }

    /// Routes to read-only copies, and to nothing else.
    pub fn of_copies(copies: impl IntoIterator<Item = Ledger>) -> Self {
        let router = Self::new(Arc::new(SingleNode));
        for ledger in copies {
            // Without a receiver, commands are refused.
            let (calls, _) = mpsc::channel(1);
            let (posts, _) = mpsc::unbounded_channel();
            router.open(Mailbox::new(ledger, calls, posts, Arc::default()));
        }
        router
    }

    /// The partition, if this node serves it.
    pub fn mailbox(&self, partition: Partition) -> Option<Mailbox> {
        self.mailboxes.read().get(&partition).cloned()
    }

    /// Whether there are other nodes.
    pub fn is_single_node(&self) -> bool {
        self.remote.is_single_node()
    }

    /// All partitions that this node serves.
    pub fn mailboxes(&self) -> Vec<Mailbox> {
        self.mailboxes.read().values().cloned().collect()
    }

    /// Handles a call of another node. It is never forwarded: nodes that disagree about
    /// an owner would forward it without end.
    pub async fn serve(&self, to: Partition, envelope: Envelope) -> Result<Bytes> {
        match self.mailbox(to) {
            Some(door) => door.serve(envelope).await,
            None => Err(Error::new(ErrorKind::NotOwner { partition: to })),
        }
    }

    /// Receives a batch of another node.
    pub async fn receive(&self, to: Partition, parcel: MessageBatch) -> Result<u64> {
        match self.mailbox(to) {
            Some(door) => door.receive(parcel).await,
            None => Err(Error::new(ErrorKind::NotOwner { partition: to })),
        }
    }

    /// Commits commands for another node.
    pub async fn commit_here(&self, to: Partition, commands: Vec<Envelope>) -> Result<()> {
        match self.mailbox(to) {
            Some(door) => door.commit(Writes::default(), commands).await.map(drop),
            None => Err(Error::new(ErrorKind::NotOwner { partition: to })),
        }
    }

    /// Reads for another node.
    pub async fn serve_read(&self, to: Partition, question: ReadRequest) -> Result<ReadResponse> {
        match self.mailbox(to) {
            Some(door) => question.execute(&door).await,
            None => Err(Error::new(ErrorKind::NotOwner { partition: to })),
        }
    }

    /// Registers the owner handler of a kind.
    pub fn register(&self, kind: ServiceKind, clerk: Arc<dyn OwnerHandler>) {
        self.handlers.write().insert(kind, clerk);
    }

    /// Dispatches a request to an owner handler of this node, if it serves the
    /// partition.
    pub async fn dispatch(&self, to: Partition, inquiry: OwnerRequest) -> Result<Bytes> {
        if self.mailbox(to).is_none() {
            return Err(Error::new(ErrorKind::NotOwner { partition: to }));
        }
        let kind = inquiry.kind;
        let clerk = self.handlers.read().get(&kind).cloned();
        let clerk = clerk.ok_or_else(|| Error::new(ErrorKind::NoService { kind }))?;
        clerk.handle(to, inquiry.body).await
    }

    pub(crate) fn open(&self, door: Mailbox) {
        self.mailboxes.write().insert(door.partition(), door);
    }

    pub(crate) fn close(&self, partition: Partition) {
        self.mailboxes.write().remove(&partition);
    }
}

#[async_trait]
impl NodeTransport for Router {
    async fn call(&self, to: Partition, envelope: Envelope) -> Result<Bytes> {
        match self.mailbox(to) {
            Some(door) => door.serve(envelope).await,
            None => self.remote.call(to, envelope).await,
        }
    }

    async fn deliver(&self, to: Partition, parcel: MessageBatch) -> Result<u64> {
        match self.mailbox(to) {
            Some(door) => door.receive(parcel).await,
            None => self.remote.deliver(to, parcel).await,
        }
    }

    async fn commit(&self, to: Partition, commands: Vec<Envelope>) -> Result<()> {
        match self.mailbox(to) {
            Some(door) => door.commit(Writes::default(), commands).await.map(drop),
            None => self.remote.commit(to, commands).await,
        }
    }

    async fn read(&self, to: Partition, question: ReadRequest) -> Result<ReadResponse> {
        match self.mailbox(to) {
            Some(door) => question.execute(&door).await,
            None => self.remote.read(to, question).await,
        }
    }

    async fn request(&self, to: Partition, inquiry: OwnerRequest) -> Result<Bytes> {
        match self.mailbox(to) {
            Some(_) if self.is_single_node() => self.dispatch(to, inquiry).await,
            // It may be handed over just now: the request then goes to its next owner.
            _ => self.remote.request(to, inquiry).await,
        }
    }

    fn is_single_node(&self) -> bool {
        self.remote.is_single_node()
    }
}
