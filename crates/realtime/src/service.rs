//! The service: hubs by name, and the entry for clients.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::RwLock;
use steadfast_core::clock::{Clock, SystemClock};
use steadfast_core::limits;
use tokio_util::sync::CancellationToken;

use crate::app_server::link::{AppServerLink, LinkReader};
use crate::app_server::links::{AppServerLinks, AppServerStatus, LinkClosedError};
use crate::app_server::ticks::Ticks;
use crate::cluster::borrowed::LinkRelays;
use crate::cluster::broadcast::LocalGateway;
use crate::cluster::peers::PeerNodes;
use crate::connection::client::{ClientConnection, ClientOptions};
use crate::connection::id;
use crate::connection::identity::ClientIdentity;
use crate::connection::ticket::{ConnectionTicket, TicketRegistry};
use crate::dispatch::clients::Clients;
use crate::dispatch::dispatcher::{HubDispatcher, HubOptions};
use crate::dispatch::hub::Hub;
use crate::error::{Error, ErrorKind, Result};
use crate::hub_connections::HubConnections;
use crate::metrics::HubCounts;
use crate::mode::{ServiceMode, Upstream};
use crate::serverless::ServerlessBackend;

/// Real-time connections of one node. Clones share one state.
#[derive(Clone)]
pub struct Realtime {
    pub(crate) shared: Arc<ServiceInner>,
}

pub(crate) struct ServiceInner {
    /// The name of this server, as hubs and clients see it.
    server: String,
    hubs: RwLock<HashMap<String, LocalHub>>,
    /// Hubs of app servers.
    remote: RwLock<HashMap<String, Arc<AppServerLinks>>>,
    /// The service mode, and the upstream for clients without an app server.
    mode: OnceLock<(ServiceMode, Arc<dyn Upstream>)>,
    pub(crate) tickets: Arc<TicketRegistry>,
    ticks: Arc<Ticks>,
    /// The peer nodes, and the links relayed between them and this node.
    pub(crate) nodes: Arc<PeerNodes>,
    pub(crate) pipes: Arc<LinkRelays>,
    leaving: CancellationToken,
}

#[derive(Clone)]
struct LocalHub {
    connections: Arc<HubConnections>,
    options: HubOptions,
    clients: Clients,
}

/// One link of an app server, for the owner of its socket.
pub struct AppServerSession {
    link: Arc<AppServerLink>,
    links: Arc<AppServerLinks>,
    inlet: LinkReader,
}

impl AppServerSession {
    /// The link, to send from.
    pub fn link(&self) -> &Arc<AppServerLink> {
        &self.link
    }

    /// Handles received bytes.
    pub fn take(&mut self, bytes: Bytes) -> std::result::Result<(), LinkClosedError> {
        self.links.take(&self.link, &mut self.inlet, bytes)
    }
}

impl Drop for AppServerSession {
    fn drop(&mut self) {
        self.links.remove(&self.link);
    }
}

/// Result of a drain, in numbers of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientDrainSummary {
    /// Clients that disconnected by themselves or reconnect elsewhere.
    pub closed: usize,
    /// Clients that did not disconnect in time.
    pub cut_off: usize,
    /// Their calls that had no completion when the drain began.
    pub unanswered: usize,
}

impl Realtime {
    /// A service without hubs.
    pub fn new(server: &str) -> Self {
        Self::with_clock(server, Arc::new(SystemClock::new()))
    }

    /// A service without hubs, and with its own clock.
    pub fn with_clock(server: &str, clock: Arc<dyn Clock>) -> Self {
        Self {
            shared: Arc::new(ServiceInner {
                server: server.to_owned(),
                hubs: RwLock::default(),
                remote: RwLock::default(),
                mode: OnceLock::new(),
                tickets: Arc::default(),
                ticks: Arc::new(Ticks::new(clock)),
                nodes: Arc::default(),
                pipes: Arc::default(),
                leaving: CancellationToken::new(),
            }),
        }
    }

    /// Sets the service mode, and the upstream for clients without an app server.
    /// Only the first call counts, and it must precede all clients.
    pub fn set_mode(&self, mode: ServiceMode, upstream: Arc<dyn Upstream>) {
        let _ = self.shared.mode.set((mode, upstream));
    }

    /// The service mode.
    pub fn mode(&self) -> ServiceMode {
        self.shared
            .mode
            .get()
            .map_or(ServiceMode::Default, |own| own.0)
    }

    /// Hosts a hub in this process. Names are compared without case.
    pub fn host<H: Hub>(&self, name: &str, hub: H, options: HubOptions) -> Result<Clients> {
        let name = name.to_ascii_lowercase();
        if name.is_empty() || name.len() > limits::HUB_NAME {
            return Err(Error::new(ErrorKind::Name("hub")));
        }
        let ServiceInner { server, nodes, .. } = &*self.shared;
        let lobby = HubConnections::new(&name, server, true, nodes);
        let host = HubDispatcher::new(hub, LocalGateway::of(&lobby), server, options.clone());
        let clients = host.clients();
        lobby.add_backend(host);
        let hosted = LocalHub {
            connections: lobby,
            options,
            clients: clients.clone(),
        };
        self.shared.hubs.write().insert(name, hosted);
        Ok(clients)
    }

    fn hosted(&self, hub: &str) -> Result<LocalHub> {
        let hubs = self.shared.hubs.read();
        let found = hubs.get(&hub.to_ascii_lowercase()).cloned();
        found.ok_or_else(|| Error::new(ErrorKind::NoHub(hub.to_owned())))
    }

    /// The clients of a hub, to send to.
    pub fn clients(&self, hub: &str) -> Result<Clients> {
        Ok(self.hosted(hub)?.clients)
    }

    /// The connections of a hub.
    pub fn connections(&self, hub: &str) -> Result<Arc<HubConnections>> {
        if let Ok(hosted) = self.hosted(hub) {
            return Ok(hosted.connections);
        }
        let remote = self.shared.remote.read();
        let links = remote.get(&hub.to_ascii_lowercase());
        let links = links.ok_or_else(|| Error::new(ErrorKind::NoHub(hub.to_owned())))?;
        Ok(Arc::clone(links.lobby()))
    }

    /// The options of a hub. One that is not hosted here may have app servers.
    pub fn options(&self, hub: &str) -> HubOptions {
        let hosted = self.hosted(hub).map(|hosted| hosted.options);
        hosted.unwrap_or_else(|_| {
            let remote = self.shared.remote.read();
            let links = remote.get(&hub.to_ascii_lowercase());
            HubOptions {
                message_bytes: limits::CLIENT_MESSAGE_BYTES,
                is_stateful: links.is_some_and(|links| links.allow_state()),
                ..HubOptions::default()
            }
        })
    }

    /// The links of a hub's app servers.
    pub(crate) fn links(&self, hub: &str) -> Result<Arc<AppServerLinks>> {
        let name = hub.to_ascii_lowercase();
        if name.is_empty() || name.len() > limits::HUB_NAME {
            return Err(Error::new(ErrorKind::Name("hub")));
        }
        let mut remote = self.shared.remote.write();
        if let Some(links) = remote.get(&name) {
            return Ok(Arc::clone(links));
        }
        if remote.len() >= limits::SERVER_HUBS {
            return Err(Error::new(ErrorKind::Full("hubs of app servers")));
        }
        let hosted = self.hosted(&name).map(|hosted| hosted.connections);
        let lobby = hosted.unwrap_or_else(|_| self.lobby_without_host(&name));
        let takes_servers = self.mode() != ServiceMode::Serverless;
        let links = AppServerLinks::new(lobby, takes_servers, &self.shared.ticks);
        remote.insert(name, Arc::clone(&links));
        Ok(links)
    }

    fn lobby_without_host(&self, name: &str) -> Arc<HubConnections> {
        let ServiceInner { server, nodes, .. } = &*self.shared;
        let lobby = HubConnections::new(name, server, false, nodes);
        if let Some((ServiceMode::Serverless | ServiceMode::Classic, upstream)) =
            self.shared.mode.get()
        {
            let (reach, upstream) = (LocalGateway::of(&lobby), Arc::clone(upstream));
            lobby.set_fallback(ServerlessBackend::new(name, server, reach, upstream));
        }
        lobby
    }

    /// The servers of a hub, including offline ones.
    pub fn servers(&self, hub: &str) -> Result<Vec<AppServerStatus>> {
        if let Ok(hosted) = self.hosted(hub) {
            return Ok(vec![AppServerStatus {
                name: self.shared.server.clone(),
                clients: hosted.connections.count(),
                ..AppServerStatus::default()
            }]);
        }
        Ok(self.known_links(hub)?.servers())
    }

    /// Drains an app server: it gets no new clients, and its clients are migrated to
    /// others, if it allows that. Returns the number of its clients.
    pub fn drain_server(&self, hub: &str, server: &str) -> Result<usize> {
        if self.hosted(hub).is_ok() {
            return Err(Error::new(ErrorKind::Hosted(hub.to_owned())));
        }
        let links = self.known_links(hub)?;
        let begun = links.drain(server);
        begun.ok_or_else(|| Error::new(ErrorKind::NoServer(server.to_owned())))
    }

    /// The connections of a hub for sends. A hub unknown to this node may have
    /// clients on peer nodes.
    pub fn reachable(&self, hub: &str) -> Result<Arc<HubConnections>> {
        if self.shared.nodes.is_alone() {
            self.connections(hub)
        } else {
            self.any_lobby(hub)
        }
    }

    /// Whether this node has connections or links of a hub.
    pub(crate) fn knows(&self, hub: &str) -> bool {
        self.hosted(hub).is_ok() || self.known_links(hub).is_ok()
    }

    /// The links of all hubs.
    pub(crate) fn all_links(&self) -> Vec<Arc<AppServerLinks>> {
        self.shared.remote.read().values().cloned().collect()
    }

    fn known_links(&self, hub: &str) -> Result<Arc<AppServerLinks>> {
        let remote = self.shared.remote.read();
        let links = remote.get(&hub.to_ascii_lowercase()).cloned();
        links.ok_or_else(|| Error::new(ErrorKind::NoHub(hub.to_owned())))
    }

    /// Gauges and counters of all hubs, in the order of their names.
    pub fn counts(&self) -> Vec<HubCounts> {
        let mut counts: Vec<_> = self.lobbies().iter().map(|own| own.counts()).collect();
        counts.sort_unstable_by(|one, other| one.hub.cmp(&other.hub));
        counts
    }

    pub(crate) fn lobbies(&self) -> Vec<Arc<HubConnections>> {
        let own = self.shared.hubs.read();
        let own: Vec<_> = own
            .values()
            .map(|own| Arc::clone(&own.connections))
            .collect();
        let remote = self.shared.remote.read();
        // A hub that is hosted here may have links too, which are rejected.
        let remote = remote.values().map(|links| Arc::clone(links.lobby()));
        let remote = remote.filter(|lobby| !lobby.is_own());
        own.into_iter().chain(remote).collect()
    }

    /// The connections of a hub, even if it is not hosted yet.
    pub fn hub(&self, hub: &str) -> Result<Arc<HubConnections>> {
        self.any_lobby(hub)
    }

    /// The connections of a hub that is hosted here, or may have app servers.
    fn any_lobby(&self, hub: &str) -> Result<Arc<HubConnections>> {
        match self.hosted(hub) {
            Ok(hosted) => Ok(hosted.connections),
            Err(_) => Ok(Arc::clone(self.links(hub)?.lobby())),
        }
    }

    /// Accepts a link of an app server. One of this library (`is_ours`) accepts
    /// clients of lost servers.
    pub fn server(&self, hub: &str, server: &str, is_ours: bool) -> Result<AppServerSession> {
        let links = self.links(hub)?;
        let link = links.add(server, is_ours);
        Ok(AppServerSession {
            link,
            links,
            inlet: LinkReader::default(),
        })
    }

    /// The names of all hubs, in order.
    pub fn hubs(&self) -> Vec<String> {
        let mut names: Vec<_> = self.shared.hubs.read().keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// Issues a ticket for a new client. Without `is_secret` its public id is the
    /// token.
    pub fn negotiate(
        &self,
        hub: &str,
        caller: ClientIdentity,
        wishes: ClientOptions,
        is_secret: bool,
    ) -> Result<Arc<ConnectionTicket>> {
        let wishes = ClientOptions {
            is_stateful: wishes.is_stateful && self.options(hub).is_stateful,
            ..wishes
        };
        let lobby = self.any_lobby(hub)?;
        let tickets = &self.shared.tickets;
        tickets.issue(lobby, caller, wishes, is_secret)
    }

    /// The ticket of a token.
    pub fn ticket(&self, token: &str) -> Option<Arc<ConnectionTicket>> {
        self.shared.tickets.find(token)
    }

    /// Opens a client that connects without negotiation.
    pub fn connect(
        &self,
        hub: &str,
        caller: ClientIdentity,
        wishes: &ClientOptions,
    ) -> Result<(Arc<ClientConnection>, Arc<HubConnections>)> {
        let lobby = self.any_lobby(hub)?;
        let place = Arc::clone(&lobby);
        let client = ClientConnection::new(id::random().into(), Arc::new(caller), place, wishes);
        Ok((client, lobby))
    }

    /// Whether the node drains.
    pub fn is_leaving(&self) -> bool {
        self.shared.leaving.is_cancelled()
    }

    /// Closes all clients, which reconnect elsewhere, and waits until they have left.
    pub async fn drain(&self, limit: Duration) -> ClientDrainSummary {
        self.shared.leaving.cancel();
        let lobbies = self.lobbies();
        let remote: Vec<_> = self.shared.remote.read().values().cloned().collect();
        for links in &remote {
            links.announce_drain();
        }
        self.shared.pipes.end_lent(&self.shared.nodes);
        let clients: Vec<_> = lobbies.iter().flat_map(|lobby| lobby.clients()).collect();
        let mut unanswered = 0;
        for client in &clients {
            unanswered += client.unanswered();
            client.close(Some("The server is going away."), true);
        }
        let all = async {
            for client in &clients {
                client.gone().await;
            }
        };
        // Clients that remain at the time-out are cut off.
        let _ = tokio::time::timeout(limit, all).await;
        let left: Vec<_> = clients.iter().filter(|client| !client.is_gone()).collect();
        for client in &left {
            client.leave(Some("The server has gone away."));
        }
        for lobby in &lobbies {
            lobby.remove_backends();
        }
        ClientDrainSummary {
            closed: clients.len() - left.len(),
            cut_off: left.len(),
            unanswered,
        }
    }
}
