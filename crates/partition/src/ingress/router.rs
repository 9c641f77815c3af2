//! Routes requests to partition owners.
//!
//! A [`Handle`] calls the instances of one service, wherever they are.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::RwLock;
use steadfast_core::id::Partition;
use steadfast_storage::{Ledger, Writes};
use tokio::sync::mpsc;

use crate::error::{Error, ErrorKind, Result};
use crate::execution::turn::Service;
use crate::ingress::address::{Address, Envelope, ServiceKind};
use crate::ingress::mailbox::Mailbox;
use crate::ingress::message::Message;
use crate::ingress::owner_handler::{OwnerHandler, OwnerRequest};
use crate::ingress::space::Space;
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
            Some(door) => {
                let done = door.commit(Writes::default(), commands, Vec::new());
                done.await.map(drop)
            }
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
            Some(_) => self.commit_here(to, commands).await,
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

/// A typed client of a service. Clones are cheap.
pub struct Handle<S> {
    space: Arc<Space>,
    router: Arc<Router>,
    service: PhantomData<fn() -> S>,
}

impl<S> Clone for Handle<S> {
    fn clone(&self) -> Self {
        Self {
            space: Arc::clone(&self.space),
            router: Arc::clone(&self.router),
            service: PhantomData,
        }
    }
}

impl<S: Service> Handle<S> {
    pub(crate) fn new(space: Arc<Space>, router: Arc<Router>) -> Self {
        Self {
            space,
            router,
            service: PhantomData,
        }
    }

    /// Calls an instance and waits for its answer, which is durable. If too many
    /// calls are under way, it waits for room first.
    pub async fn call(&self, to: Address, command: S::Command) -> Result<S::Response> {
        let partition = self.space.partition(&to);
        self.call_in(partition, to, command).await
    }

    /// Calls an instance with the result of work that would have to be done again if the
    /// call were refused: while the log is full it waits, for a limited time. A call that
    /// leaves this node does not wait.
    pub async fn call_when_room(&self, to: Address, command: S::Command) -> Result<S::Response> {
        let partition = self.space.partition(&to);
        self.send(partition, to, command, true).await
    }

    /// Calls an instance in a given partition, not in that of its hash.
    pub async fn call_in(
        &self,
        partition: Partition,
        to: Address,
        command: S::Command,
    ) -> Result<S::Response> {
        self.send(partition, to, command, false).await
    }

    async fn send(
        &self,
        partition: Partition,
        to: Address,
        command: S::Command,
        waits_for_room: bool,
    ) -> Result<S::Response> {
        let call = async |door: Mailbox, to, command| {
            if waits_for_room {
                door.call_when_room(to, command).await
            } else {
                door.call(to, command).await
            }
        };
        let envelope = match self.router.mailbox(partition) {
            Some(door) if self.router.is_single_node() => return call(door, to, command).await,
            Some(door) => {
                // The partition may be handed over just now: the router then sends the
                // call to its next owner.
                let again = Envelope::new(to.clone(), command.encode());
                match call(door, to, command).await {
                    Err(error) if matches!(error.kind(), ErrorKind::Draining { .. }) => again,
                    done => return done,
                }
            }
            None => Envelope::new(to, command.encode()),
        };
        let reply = self.router.call(partition, envelope).await?;
        S::Response::decode(&reply)
            .map_err(|_| Error::new(ErrorKind::Malformed { what: "the reply" }))
    }
}
