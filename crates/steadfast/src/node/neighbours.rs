//! Cluster messages between the services of all nodes.

use std::pin::Pin;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_durable::{KIND as TASK_HUBS, Others as WorkerNodes, TaskHubs};
use steadfast_partition::cluster::{Cluster, Listener as Hears, Peer};
use steadfast_partition::{Error, ErrorKind, Kind, Result};
use steadfast_protocols::realtime::{Context, REQUESTS, answer};
use steadfast_realtime::{Other, Others as HubNodes, Realtime, WORDS};
use tokio::sync::watch;

/// Connects the task hubs of all nodes.
pub(super) fn introduce(cluster: &Arc<Cluster>, hubs: &TaskHubs) {
    hubs.open_to_others(Arc::new(Neighbours(Arc::downgrade(cluster))));
    cluster.listen(TASK_HUBS, Arc::new(Foreman(hubs.clone())));
}

/// Connects the SignalR hubs of all nodes and their clients.
pub(super) fn introduce_hubs(cluster: &Arc<Cluster>, context: Context) {
    let realtime = context.realtime.clone();
    cluster.listen(WORDS, Arc::new(Porter(realtime.clone())));
    cluster.listen(REQUESTS, Arc::new(Usher(context)));
    realtime.open_to_others(Arc::new(Neighbours(Arc::downgrade(cluster))));
}

/// The pending response of another node.
type Told<'a> = Pin<Box<dyn Future<Output = Result<Bytes>> + Send + 'a>>;

/// Sends messages to other nodes.
struct Neighbours(Weak<Cluster>);

impl Neighbours {
    fn others(&self) -> Vec<Peer> {
        let cluster = self.0.upgrade();
        cluster.map_or_else(Vec::new, |own| own.roster().others(own.owner()))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        match self.0.upgrade() {
            Some(cluster) => cluster.roster().changes(),
            None => watch::channel(0).1,
        }
    }

    /// Sends a message to the node that matches.
    async fn tell(
        &self,
        fits: impl Fn(&Peer) -> bool + Send,
        kind: Kind,
        word: Bytes,
    ) -> Result<Bytes> {
        let nowhere = || Error::new(ErrorKind::NoService { kind });
        let cluster = self.0.upgrade().ok_or_else(nowhere)?;
        let peer = self.others().into_iter().find(fits);
        let peer = peer.ok_or_else(nowhere)?;
        cluster.tell(&peer, kind, word).await
    }
}

#[async_trait]
impl WorkerNodes for Neighbours {
    fn names(&self) -> Vec<String> {
        self.others().into_iter().map(|peer| peer.name).collect()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes()
    }

    async fn tell(&self, name: &str, word: Bytes) -> Result<Bytes> {
        self.tell(|peer| peer.name == name, TASK_HUBS, word).await
    }
}

impl HubNodes for Neighbours {
    fn me(&self) -> Other {
        let cluster = self.0.upgrade();
        cluster.map_or_else(
            || Other {
                name: String::new(),
                life: 0,
            },
            |own| Other {
                name: own.name().to_owned(),
                life: own.owner().incarnation,
            },
        )
    }

    fn all(&self) -> Vec<Other> {
        let others = self.others().into_iter();
        let other = |peer: Peer| Other {
            name: peer.name,
            life: peer.owner.incarnation,
        };
        others.map(other).collect()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes()
    }

    fn tell(&self, to: &Other, kind: Kind, word: Bytes) -> Told<'_> {
        let to = to.clone();
        let fits = move |peer: &Peer| peer.name == to.name && peer.owner.incarnation == to.life;
        Box::pin(self.tell(fits, kind, word))
    }
}

/// Handles messages of other nodes about workers.
struct Foreman(TaskHubs);

#[async_trait]
impl Hears for Foreman {
    async fn hear(&self, message: Bytes) -> Result<Bytes> {
        self.0.hear(&message).await
    }
}

/// Handles messages of other nodes about hubs.
struct Porter(Realtime);

#[async_trait]
impl Hears for Porter {
    async fn hear(&self, message: Bytes) -> Result<Bytes> {
        let what = "a message between SignalR hubs";
        let malformed = |_| Error::new(ErrorKind::Malformed { what });
        self.0.hear(message).map_err(malformed)
    }
}

/// Handles requests of this node's clients that arrived at another node.
struct Usher(Context);

#[async_trait]
impl Hears for Usher {
    async fn hear(&self, message: Bytes) -> Result<Bytes> {
        Ok(answer(&self.0, message).await)
    }
}
