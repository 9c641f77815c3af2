//! The service as a member of a cluster.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use steadfast_core::codec::DecodeError;
use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_partition::ServiceKind as PartitionKind;

use crate::cluster::borrowed::{LentLink, LentLinkOutput, RelayReceiver};
use crate::cluster::messages::{PeerRequest, PeerResponse};
use crate::cluster::peers::{PeerObserver, PeerTransport};
use crate::cluster::tickets;
use crate::connection::ticket::ConnectionTicket;
use crate::error::{Error, ErrorKind, Result};
use crate::service::{AppServerSession, Realtime, ServiceInner};

impl Realtime {
    /// Joins a cluster: clients on all nodes become reachable from each. Only the
    /// first call counts.
    pub fn join_cluster(&self, others: Arc<dyn PeerTransport>) {
        let watcher = Arc::new(ClusterObserver(Arc::downgrade(&self.shared)));
        self.shared.nodes.open(others, watcher);
    }

    /// Handles a batch of messages of a peer node.
    pub fn receive(&self, batch: Bytes) -> std::result::Result<Bytes, DecodeError> {
        let handle = |node: &str, word: Bytes| match PeerRequest::decode(word) {
            Ok(word) => self.handle(node, word),
            Err(_) => Bytes::new(),
        };
        self.shared.nodes.receive(batch, handle)
    }

    fn handle(&self, node: &str, word: PeerRequest) -> Bytes {
        let pipes = &self.shared.pipes;
        match word {
            PeerRequest::Execute { hub, message } => {
                let is_kept = matches!(
                    message,
                    steadfast_wire::signalr::service::Message::UserJoin { .. }
                );
                let links = if self.knows(&hub) || is_kept {
                    self.links(&hub).ok()
                } else {
                    None
                };
                let reply = links.map(|links| links.execute(node, message));
                return reply.unwrap_or_default().encode();
            }
            PeerRequest::RequestServer { hub } => {
                if self.knows(&hub)
                    && !self.is_leaving()
                    && let Ok(links) = self.links(&hub)
                {
                    links.request_links_for(node);
                }
            }
            PeerRequest::Link {
                id,
                hub,
                server,
                is_ours,
            } => {
                if let Ok(link) = self.server(&hub, &server, is_ours) {
                    let intake = pipes.borrow(node, &id);
                    tokio::spawn(name_task(self.clone().serve(
                        link,
                        intake,
                        node.to_owned(),
                        id,
                    )));
                } else {
                    self.shared
                        .nodes
                        .send(node, PeerRequest::End { id }.encode());
                }
            }
            PeerRequest::FromServer { id, bytes } => pipes.up(&id, bytes),
            PeerRequest::ToServer { id, bytes } => pipes.down(&id, bytes),
            PeerRequest::End { id } => pipes.end(&id),
            PeerRequest::Census { hub } => {
                let lobby = self.connections(&hub);
                return lobby
                    .map_or_else(|_| PeerResponse::default(), |own| own.census())
                    .encode();
            }
            PeerRequest::Hubs { after, count } => {
                let count = count.min(limits::GROUP_PAGE as u64) as usize;
                return PeerResponse {
                    servers: self.hubs_here(&after, count),
                    ..PeerResponse::default()
                }
                .encode();
            }
        }
        PeerResponse::default().encode()
    }

    /// Serves a link whose socket is at another node.
    async fn serve(
        self,
        mut server: AppServerSession,
        mut intake: RelayReceiver,
        node: String,
        id: String,
    ) {
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
            if !nodes.send(&node, PeerRequest::ToServer { id, bytes }.encode()) {
                break;
            }
        }
        self.shared.pipes.give_back(&id);
        nodes.send(&node, PeerRequest::End { id }.encode());
    }

    /// Lends the link of an app server to the node that requested it. `None` if that node
    /// is not a peer.
    pub fn lend(
        &self,
        node: &str,
        hub: &str,
        server: &str,
        is_ours: bool,
    ) -> Option<(LentLink, LentLinkOutput)> {
        let ServiceInner { nodes, pipes, .. } = &*self.shared;
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
        if !found.hub.name().eq_ignore_ascii_case(hub) {
            return None;
        }
        tickets.take(token).map(|ticket| tickets::write(&ticket))
    }

    /// Takes a ticket from a peer node.
    pub fn take_ticket(
        &self,
        hub: &str,
        token: &str,
        given: Bytes,
    ) -> Result<Arc<ConnectionTicket>> {
        let unfit = |_| Error::new(ErrorKind::Lost("a ticket cannot be read".to_owned()));
        let known = tickets::read(given).map_err(unfit)?;
        let lobby = self.hub(hub)?;
        self.shared.tickets.keep(lobby, token.to_owned(), known)
    }
}

/// Observes peer nodes that join and leave.
struct ClusterObserver(Weak<ServiceInner>);

impl ClusterObserver {
    fn realtime(&self) -> Option<Realtime> {
        let shared = self.0.upgrade()?;
        Some(Realtime { shared })
    }
}

impl PeerObserver for ClusterObserver {
    fn came(&self, node: &str) {
        if let Some(realtime) = self.realtime() {
            for lobby in realtime.lobbies() {
                lobby.cluster().introduce(node);
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
