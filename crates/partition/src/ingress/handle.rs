//! Calls instances of one service on any node.

use std::marker::PhantomData;
use std::sync::Arc;

use steadfast_core::id::Partition;

use crate::error::{Error, ErrorKind, Result};
use crate::execution::service::Service;
use crate::ingress::address::{Address, Envelope};
use crate::ingress::mailbox::Mailbox;
use crate::ingress::message::Message;
use crate::ingress::router::Router;
use crate::ingress::space::Space;
use crate::ingress::transport::NodeTransport;

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
