//! Replication peers: nodes with copies.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::{Owner, Partition};
use steadfast_storage::NodeLease;
use steadfast_storage_replicated::replicated_memory::{ClusterPeers, ReplicatedMemory};

use super::batching::{self, CallBatcher};
use crate::cluster::{Cluster, NodeMessageHandler};
use crate::error::{Error, ErrorKind, Result};
use crate::ingress::address::ServiceKind;
use crate::ingress::router::Router;

/// The kind of replication messages; no service has this kind.
const WORDS: ServiceKind = ServiceKind(97);

/// This node as a replication peer.
pub struct ReplicaPeers {
    router: Arc<Router>,
    /// The number of the main space.
    main: u16,
    lease: NodeLease,
    cluster: OnceLock<(Owner, Weak<Cluster>)>,
    bundles: Arc<CallBatcher>,
}

impl ReplicaPeers {
    /// Has no peers before the cluster has started.
    pub fn new(router: Arc<Router>, main: u16, lease: NodeLease) -> Self {
        Self {
            router,
            main,
            lease,
            cluster: OnceLock::new(),
            bundles: Arc::default(),
        }
    }

    /// Starts to hold copies for the others, and to replicate to them.
    pub fn join(&self, cluster: &Arc<Cluster>, copies: &Arc<ReplicatedMemory>) {
        cluster.register_handler(WORDS, Arc::new(ReplicaMessageHandler(Arc::clone(copies))));
        let _ = self.cluster.set((cluster.owner(), Arc::downgrade(cluster)));
    }

    fn cluster(&self) -> Option<(Owner, Arc<Cluster>)> {
        let (me, cluster) = self.cluster.get()?;
        Some((*me, cluster.upgrade()?))
    }
}

#[async_trait]
impl ClusterPeers for ReplicaPeers {
    fn may_own(&self, partition: Partition) -> bool {
        let main = Partition::new(self.main, partition.index());
        // A ledger that has failed may belong to another node by now.
        let door = self.router.mailbox(main);
        let is_ours = door.is_some_and(|door| door.ledger().failure().is_none());
        is_ours && self.lease.holds() && self.cluster.get().is_some()
    }

    fn staying(&self) -> Vec<Owner> {
        let cluster = self.cluster();
        cluster.map_or_else(Vec::new, |(me, cluster)| cluster.members().staying(me))
    }

    fn is_living(&self, node: Owner) -> bool {
        let cluster = self.cluster();
        cluster.is_some_and(|(_, cluster)| cluster.members().peer(node).is_some())
    }

    async fn send(
        &self,
        to: Owner,
        letter: Bytes,
        limit: Duration,
        is_bulk: bool,
    ) -> Option<Bytes> {
        let (_, cluster) = self.cluster()?;
        let peer = cluster.members().peer(to)?;
        let cluster = Arc::downgrade(&cluster);
        let carry = move |letters, limit| {
            let (cluster, peer) = (cluster.upgrade(), peer.clone());
            async move {
                let told = cluster?.request_within(&peer, WORDS, letters, limit).await;
                told.ok()
            }
        };
        let bundles = &self.bundles;
        bundles.send(to, letter, limit, is_bulk, carry).await
    }
}

/// Holds copies for other nodes.
struct ReplicaMessageHandler(Arc<ReplicatedMemory>);

#[async_trait]
impl NodeMessageHandler for ReplicaMessageHandler {
    async fn handle(&self, message: Bytes) -> Result<Bytes> {
        let what = "a replication message";
        let malformed = || Error::new(ErrorKind::Malformed { what });
        let answers = batching::each(message, |letter| self.0.handle_message(letter));
        answers.map_err(|_| malformed())
    }
}
