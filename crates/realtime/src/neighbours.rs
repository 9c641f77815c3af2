//! The service as a member of a cluster.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use steadfast_core::codec::Malformed;
use steadfast_core::task::named;
use steadfast_partition::Kind as PartitionKind;

use crate::error::{Error, Kind, Result};
use crate::lent::{Intake, Lent, LentWords};
use crate::nodes::{Others, Watcher};
use crate::passed;
use crate::service::{Realtime, ServerLink, Shared};
use crate::ticket::Ticket;
use crate::word::{Reply, Word};

impl Realtime {
    /// Joins a cluster: clients on all nodes become reachable from each. Only the
    /// first call counts.
    pub fn open_to_others(&self, others: Arc<dyn Others>) {
        let watcher = Arc::new(Neighbours(Arc::downgrade(&self.shared)));
        self.shared.nodes.open(others, watcher);
    }

    /// Handles a batch of messages of a peer node.
    pub fn hear(&self, batch: Bytes) -> std::result::Result<Bytes, Malformed> {
        let handle = |node: &str, word: Bytes| match Word::decode(word) {
            Ok(word) => self.handle(node, word),
            Err(_) => Bytes::new(),
        };
        self.shared.nodes.hear(batch, handle)
    }

    fn handle(&self, node: &str, word: Word) -> Bytes {
        let pipes = &self.shared.pipes;
        match word {
            Word::Say { hub, message } => {
                let is_kept = matches!(
                    message,
                    steadfast_wire::signalr::service::Message::UserJoin { .. }
                );
                let links = match self.knows(&hub) || is_kept {
                    true => self.links(&hub).ok(),
                    false => None,
                };
                let reply = links.map(|links| links.hear(node, message));
                return reply.unwrap_or_default().encode();
            }
            Word::Want { hub } => {
                if self.knows(&hub)
                    && !self.is_leaving()
                    && let Ok(links) = self.links(&hub)
                {
                    links.wanted_by(node);
                }
            }
            Word::Link {
                id,
                hub,
                server,
                is_ours,
            } => {
                if let Ok(link) = self.server(&hub, &server, is_ours) {
                    let intake = pipes.borrow(node, &id);
                    tokio::spawn(named(self.clone().serve(link, intake, node.to_owned(), id)));
                } else {
                    self.shared.nodes.tell(node, Word::End { id }.encode());
                }
            }
            Word::Up { id, bytes } => pipes.up(&id, bytes),
            Word::Down { id, bytes } => pipes.down(&id, bytes),
            Word::End { id } => pipes.end(&id),
            Word::Census { hub } => {
                let lobby = self.lobby(&hub);
                return lobby
                    .map_or_else(|_| Reply::default(), |own| own.census())
                    .encode();
            }
        }
        Reply::default().encode()
    }

    /// Serves a link whose socket is at another node.
    async fn serve(self, mut server: ServerLink, mut intake: Intake, node: String, id: String) {
        let link = Arc::clone(server.link());
        let nodes = &self.shared.nodes;
        let mut is_open = true;
        loop {
            let out = tokio::select! {
                came = intake.next(), if is_open => {
                    // Queued messages are still sent.
                    let has_ended = match came {
                        Some(bytes) => server.take(bytes).is_err(),
                        None => break,
                    };
                    if has_ended {
                        link.end();
                        is_open = false;
                    }
                    // Backpressure: a server is as fast as the slowest node.
                    nodes.room().await;
                    continue;
                }
                out = link.outgoing() => out,
            };
            let Some(bytes) = out else { break };
            nodes.room().await;
            let id = id.clone();
            if !nodes.tell(&node, Word::Down { id, bytes }.encode()) {
                break;
            }
        }
        self.shared.pipes.give_back(&id);
        nodes.tell(&node, Word::End { id }.encode());
    }

    /// Lends the link of an app server to the node that has asked for it. `None` if
    /// that node is not a peer.
    pub fn lend(
        &self,
        node: &str,
        hub: &str,
        server: &str,
        is_ours: bool,
    ) -> Option<(Lent, LentWords)> {
        let Shared { nodes, pipes, .. } = &*self.shared;
        pipes.lend(nodes, node, (hub, server, is_ours))
    }

    /// Waits until the lanes to the peer nodes have room.
    pub async fn room(&self) {
        self.shared.nodes.room().await;
    }

    /// The nodes that may hold a token, the likeliest first.
    pub fn likely(&self, token: &str) -> Vec<String> {
        self.shared.nodes.likely(token)
    }

    /// Sends a peer node a request about a client.
    pub async fn request(&self, node: &str, kind: PartitionKind, body: Bytes) -> Option<Bytes> {
        self.shared.nodes.request(node, kind, body).await
    }

    /// Gives an unused ticket to the peer node at which its client has connected.
    pub fn give_ticket(&self, hub: &str, token: &str) -> Option<Bytes> {
        let tickets = &self.shared.tickets;
        let found = tickets.find(token)?;
        if !found.lobby.name().eq_ignore_ascii_case(hub) {
            return None;
        }
        tickets.take(token).map(|ticket| passed::write(&ticket))
    }

    /// Takes a ticket from a peer node.
    pub fn take_ticket(&self, hub: &str, token: &str, given: Bytes) -> Result<Arc<Ticket>> {
        let unfit = |_| Error::new(Kind::Lost("a ticket cannot be read".to_owned()));
        let known = passed::read(given).map_err(unfit)?;
        let lobby = self.hub(hub)?;
        self.shared.tickets.keep(lobby, token.to_owned(), known)
    }
}

/// Observes peer nodes that join and leave.
struct Neighbours(Weak<Shared>);

impl Neighbours {
    fn realtime(&self) -> Option<Realtime> {
        let shared = self.0.upgrade()?;
        Some(Realtime { shared })
    }
}

impl Watcher for Neighbours {
    fn came(&self, node: &str) {
        if let Some(realtime) = self.realtime() {
            for lobby in realtime.lobbies() {
                lobby.everywhere().introduce(node);
            }
        }
    }

    fn gone(&self, node: &str) {
        if let Some(realtime) = self.realtime() {
            realtime.shared.pipes.node_gone(node);
            for links in realtime.all_links() {
                links.node_gone(node);
            }
        }
    }
}
