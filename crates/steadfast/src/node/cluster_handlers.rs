//! Cluster messages between the services of all nodes.

use std::pin::Pin;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_durable::{KIND as TASK_HUBS, TaskHubs, WorkerPeers as WorkerNodes};
use steadfast_partition::cluster::{Cluster, ClusterPeer, NodeMessageHandler as Hears};
use steadfast_partition::{Error, ErrorKind, Result, ServiceKind};
use steadfast_realtime::{PeerNode, PeerTransport as HubNodes, Realtime, WORDS};
use tokio::sync::watch;

/// Connects the task hubs of all nodes.
pub(super) fn connect_task_hubs(cluster: &Arc<Cluster>, hubs: &TaskHubs) {
    hubs.connect_peers(Arc::new(ClusterTransport(Arc::downgrade(cluster))));
    cluster.register_handler(TASK_HUBS, Arc::new(WorkerMessageHandler(hubs.clone())));
}

/// Connects the SignalR hubs of all nodes.
pub(super) fn connect_realtime_hubs(cluster: &Arc<Cluster>, realtime: &Realtime) {
    cluster.register_handler(WORDS, Arc::new(HubMessageHandler(realtime.clone())));
    realtime.join_cluster(Arc::new(ClusterTransport(Arc::downgrade(cluster))));
}

/// The pending response of another node.
type PeerReplyFuture<'a> = Pin<Box<dyn Future<Output = Result<Bytes>> + Send + 'a>>;

/// Sends messages to other nodes.
struct ClusterTransport(Weak<Cluster>);

impl ClusterTransport {
    fn others(&self) -> Vec<ClusterPeer> {
        let cluster = self.0.upgrade();
        cluster.map_or_else(Vec::new, |own| own.members().others(own.owner()))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        match self.0.upgrade() {
            Some(cluster) => cluster.members().changes(),
            None => watch::channel(0).1,
        }
    }

    /// Sends a message to the node that matches.
    async fn tell(
        &self,
        fits: impl Fn(&ClusterPeer) -> bool + Send,
        kind: ServiceKind,
        word: Bytes,
    ) -> Result<Bytes> {
        let nowhere = || Error::new(ErrorKind::NoService { kind });
        let cluster = self.0.upgrade().ok_or_else(nowhere)?;
        let peer = self.others().into_iter().find(fits);
        let peer = peer.ok_or_else(nowhere)?;
        cluster.request(&peer, kind, word).await
    }
}

#[async_trait]
impl WorkerNodes for ClusterTransport {
    fn names(&self) -> Vec<String> {
        self.others().into_iter().map(|peer| peer.name).collect()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes()
    }

    async fn request(&self, name: &str, word: Bytes) -> Result<Bytes> {
        self.tell(|peer| peer.name == name, TASK_HUBS, word).await
    }
}

impl HubNodes for ClusterTransport {
    fn me(&self) -> PeerNode {
        let cluster = self.0.upgrade();
        cluster.map_or_else(
            || PeerNode {
                name: String::new(),
                life: 0,
            },
            |own| PeerNode {
                name: own.name().to_owned(),
                life: own.owner().incarnation,
            },
        )
    }

    fn all(&self) -> Vec<PeerNode> {
        let others = self.others().into_iter();
        let other = |peer: ClusterPeer| PeerNode {
            name: peer.name,
            life: peer.owner.incarnation,
        };
        others.map(other).collect()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes()
    }

    fn tell(&self, to: &PeerNode, kind: ServiceKind, word: Bytes) -> PeerReplyFuture<'_> {
        let to = to.clone();
        let fits =
            move |peer: &ClusterPeer| peer.name == to.name && peer.owner.incarnation == to.life;
        Box::pin(self.tell(fits, kind, word))
    }
}

/// Handles messages of other nodes about workers.
struct WorkerMessageHandler(TaskHubs);

#[async_trait]
impl Hears for WorkerMessageHandler {
    async fn handle(&self, message: Bytes) -> Result<Bytes> {
        self.0.handle_peer_message(&message).await
    }
}

/// Handles messages of other nodes about hubs.
struct HubMessageHandler(Realtime);

#[async_trait]
impl Hears for HubMessageHandler {
    async fn handle(&self, message: Bytes) -> Result<Bytes> {
        let what = "a message between SignalR hubs";
        let malformed = |_| Error::new(ErrorKind::Malformed { what });
        self.0.receive(message).map_err(malformed)
    }
}
