//! Borrowed links: app server links relayed between nodes.
//!
//! A node whose clients wait for an app server sends a request to its peers. They ask
//! their app servers for one more link, for that node. The node that accepts the
//! socket relays its bytes to the requesting node, where the link works like a local
//! one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::limits;
use tokio::sync::mpsc;

use crate::app_server::links::LinkClosedError;
use crate::cluster::messages::PeerRequest;
use crate::cluster::peers::PeerNodes;
use crate::connection::id;

/// All links that are relayed between nodes.
#[derive(Default)]
pub(crate) struct LinkRelays {
    /// Sockets at this node, of links at other nodes.
    lent: Mutex<HashMap<String, LinkRelay>>,
    /// Links at this node, of sockets at other nodes.
    borrowed: Mutex<HashMap<String, LinkRelay>>,
}

struct LinkRelay {
    /// The node at the other end.
    node: String,
    bytes: mpsc::UnboundedSender<Bytes>,
    waiting: Arc<AtomicUsize>,
}

impl LinkRelay {
    fn new(node: &str) -> (Self, RelayReceiver) {
        let (bytes, taken) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let pipe = Self {
            node: node.to_owned(),
            bytes,
            waiting: Arc::clone(&waiting),
        };
        let intake = RelayReceiver {
            bytes: taken,
            waiting,
        };
        (pipe, intake)
    }

    /// Adds bytes. False if the receiver is too slow.
    fn put(&self, bytes: Bytes) -> bool {
        let waiting = self.waiting.fetch_add(bytes.len(), Ordering::Relaxed);
        waiting <= limits::SERVER_OUT_BYTES && self.bytes.send(bytes).is_ok()
    }
}

/// The receiving end of a relay.
pub(crate) struct RelayReceiver {
    bytes: mpsc::UnboundedReceiver<Bytes>,
    waiting: Arc<AtomicUsize>,
}

impl RelayReceiver {
    /// The next bytes; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        let bytes = self.bytes.recv().await?;
        self.waiting.fetch_sub(bytes.len(), Ordering::Relaxed);
        Some(bytes)
    }
}

/// The socket of an app server whose link is at another node.
pub struct LentLink {
    id: String,
    node: String,
    nodes: Arc<PeerNodes>,
    pipes: Arc<LinkRelays>,
}

/// Bytes to send to the server of a lent link.
pub struct LentLinkOutput(RelayReceiver);

impl LentLinkOutput {
    /// The next bytes to send; `None` at the end.
    pub async fn outgoing(&mut self) -> Option<Bytes> {
        self.0.next().await
    }
}

impl LentLink {
    /// Relays received bytes once the lane has room for them.
    pub async fn take(&self, bytes: Bytes) -> Result<(), LinkClosedError> {
        self.nodes.room().await;
        let id = self.id.clone();
        let word = PeerRequest::FromServer { id, bytes }.encode();
        if self.nodes.send(&self.node, word) {
            Ok(())
        } else {
            Err(LinkClosedError)
        }
    }
}

impl Drop for LentLink {
    fn drop(&mut self) {
        self.pipes.lent.lock().remove(&self.id);
        let id = self.id.clone();
        // A node that has ended the link itself ignores the message.
        self.nodes
            .send(&self.node, PeerRequest::End { id }.encode());
    }
}

impl LinkRelays {
    /// Lends a link to a node. `None` if that node is not a peer.
    pub(crate) fn lend(
        self: &Arc<Self>,
        nodes: &Arc<PeerNodes>,
        node: &str,
        (hub, server, is_ours): (&str, &str, bool),
    ) -> Option<(LentLink, LentLinkOutput)> {
        let id = id::random();
        let (pipe, intake) = LinkRelay::new(node);
        self.lent.lock().insert(id.clone(), pipe);
        let lent = LentLink {
            id: id.clone(),
            node: node.to_owned(),
            nodes: Arc::clone(nodes),
            pipes: Arc::clone(self),
        };
        let word = PeerRequest::Link {
            id,
            hub: hub.to_owned(),
            server: server.to_owned(),
            is_ours,
        };
        let is_told = nodes.send(node, word.encode());
        is_told.then_some((lent, LentLinkOutput(intake)))
    }

    /// Borrows a link whose socket is at another node.
    pub(crate) fn borrow(&self, node: &str, id: &str) -> RelayReceiver {
        let (pipe, intake) = LinkRelay::new(node);
        self.borrowed.lock().insert(id.to_owned(), pipe);
        intake
    }

    /// A borrowed link has ended here.
    pub(crate) fn give_back(&self, id: &str) {
        self.borrowed.lock().remove(id);
    }

    /// Takes bytes for a link at this node.
    pub(crate) fn up(&self, id: &str, bytes: Bytes) {
        carry(&self.borrowed, id, bytes);
    }

    /// Takes bytes for a socket at this node.
    pub(crate) fn down(&self, id: &str, bytes: Bytes) {
        carry(&self.lent, id, bytes);
    }

    /// The other end has closed.
    pub(crate) fn end(&self, id: &str) {
        self.lent.lock().remove(id);
        self.borrowed.lock().remove(id);
    }

    /// A node has left: all its relays end.
    pub(crate) fn node_gone(&self, node: &str) {
        self.lent.lock().retain(|_, pipe| pipe.node != node);
        self.borrowed.lock().retain(|_, pipe| pipe.node != node);
    }

    /// Ends all lent links because this node drains; the servers connect to other
    /// nodes.
    pub(crate) fn end_lent(&self, nodes: &PeerNodes) {
        let lent: Vec<_> = self.lent.lock().drain().collect();
        for (id, pipe) in lent {
            nodes.send(&pipe.node, PeerRequest::End { id }.encode());
        }
    }
}

/// Drops a relay whose receiver is too slow; the other end is notified by the drop.
fn carry(pipes: &Mutex<HashMap<String, LinkRelay>>, id: &str, bytes: Bytes) {
    let mut pipes = pipes.lock();
    if pipes.get(id).is_some_and(|pipe| !pipe.put(bytes)) {
        pipes.remove(id);
    }
}
