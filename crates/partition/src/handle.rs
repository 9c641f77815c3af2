//! Calls instances of one service on any node.

use std::marker::PhantomData;
use std::sync::Arc;

use steadfast_core::id::Partition;

use crate::address::{Address, Envelope};
use crate::error::{Error, Kind, Result};
use crate::message::Message;
use crate::router::Router;
use crate::service::Service;
use crate::space::Space;
use crate::transport::Transport;

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
    pub async fn call(&self, to: Address, command: S::Command) -> Result<S::Reply> {
        let partition = self.space.partition(&to);
        self.call_in(partition, to, command).await
    }

    /// Calls an instance in a given partition, not in that of its hash.
    pub async fn call_in(
        &self,
        partition: Partition,
        to: Address,
        command: S::Command,
    ) -> Result<S::Reply> {
        let envelope = match self.router.door(partition) {
            Some(door) if self.router.is_alone() => return door.call(to, command).await,
            Some(door) => {
                // The partition may be handed over just now: the router then sends the
                // call to its next owner.
                let again = Envelope::new(to.clone(), command.encode());
                match door.call(to, command).await {
                    Err(error) if matches!(error.kind(), Kind::Draining { .. }) => again,
                    done => return done,
                }
            }
            None => Envelope::new(to, command.encode()),
        };
        let reply = self.router.call(partition, envelope).await?;
        S::Reply::decode(&reply).map_err(|_| Error::new(Kind::Malformed { what: "the reply" }))
    }
}
