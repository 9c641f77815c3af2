//! The service: hubs by name, and the way in for clients.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use steadfast_core::limits;
use tokio_util::sync::CancellationToken;

use crate::caller::Caller;
use crate::client::{Client, Wishes};
use crate::clients::Clients;
use crate::error::{Error, Kind, Result};
use crate::host::{Host, HubOptions};
use crate::hub::Hub;
use crate::id;
use crate::lobby::Lobby;
use crate::ticket::{Ticket, Tickets};

/// Real-time connections of one node. Clones are the same.
#[derive(Clone)]
pub struct Realtime {
    shared: Arc<Shared>,
}

struct Shared {
    /// The name of this server, as hubs and clients see it.
    server: String,
    hubs: RwLock<HashMap<String, Hosted>>,
    tickets: Arc<Tickets>,
    leaving: CancellationToken,
}

#[derive(Clone)]
struct Hosted {
    lobby: Arc<Lobby>,
    options: HubOptions,
    clients: Clients,
}

/// How many clients have gone in a drain, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Departed {
    /// Those that went by themselves, or were told to come back elsewhere.
    pub closed: usize,
    /// Those that did not go in time.
    pub cut_off: usize,
}

impl Realtime {
    /// A service without hubs.
    pub fn new(server: &str) -> Self {
        Self {
            shared: Arc::new(Shared {
                server: server.to_owned(),
                hubs: RwLock::default(),
                tickets: Arc::default(),
                leaving: CancellationToken::new(),
            }),
        }
    }

    /// Hosts a hub in this process. Names are compared without case.
    pub fn host<H: Hub>(&self, name: &str, hub: H, options: HubOptions) -> Result<Clients> {
        let name = name.to_ascii_lowercase();
        if name.is_empty() || name.len() > limits::HUB_NAME {
            return Err(Error::new(Kind::Name("hub")));
        }
        let lobby = Lobby::new(&name);
        let host = Host::new(hub, lobby.direct(), &self.shared.server, options.clone());
        let clients = host.clients();
        lobby.host(host);
        let hosted = Hosted {
            lobby,
            options,
            clients: clients.clone(),
        };
        self.shared.hubs.write().insert(name, hosted);
        Ok(clients)
    }

    fn hosted(&self, hub: &str) -> Result<Hosted> {
        let hubs = self.shared.hubs.read();
        let found = hubs.get(&hub.to_ascii_lowercase()).cloned();
        found.ok_or_else(|| Error::new(Kind::NoHub(hub.to_owned())))
    }

    /// The clients of a hub, to be sent to.
    pub fn clients(&self, hub: &str) -> Result<Clients> {
        Ok(self.hosted(hub)?.clients)
    }

    /// The connections of a hub.
    pub fn lobby(&self, hub: &str) -> Result<Arc<Lobby>> {
        Ok(self.hosted(hub)?.lobby)
    }

    /// How a hub is hosted.
    pub fn options(&self, hub: &str) -> Result<HubOptions> {
        Ok(self.hosted(hub)?.options)
    }

    /// The names of all hubs, in order.
    pub fn hubs(&self) -> Vec<String> {
        let mut names: Vec<_> = self.shared.hubs.read().keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// Notes that a client will come. Without `is_secret` its public id lets it in.
    pub fn negotiate(
        &self,
        hub: &str,
        caller: Caller,
        wishes: Wishes,
        is_secret: bool,
    ) -> Result<Arc<Ticket>> {
        let hosted = self.hosted(hub)?;
        let wishes = Wishes {
            is_stateful: wishes.is_stateful && hosted.options.is_stateful,
            ..wishes
        };
        self.shared
            .tickets
            .issue(hosted.lobby, caller, wishes, is_secret)
    }

    /// The ticket that a client shows.
    pub fn ticket(&self, token: &str) -> Option<Arc<Ticket>> {
        self.shared.tickets.find(token)
    }

    /// A client that comes without negotiating.
    pub fn connect(
        &self,
        hub: &str,
        caller: Caller,
        wishes: &Wishes,
    ) -> Result<(Arc<Client>, Arc<Lobby>)> {
        let lobby = self.hosted(hub)?.lobby;
        let place = Arc::clone(&lobby);
        let client = Client::new(id::random().into(), Arc::new(caller), place, wishes);
        Ok((client, lobby))
    }

    /// Whether clients are sent elsewhere.
    pub fn is_leaving(&self) -> bool {
        self.shared.leaving.is_cancelled()
    }

    /// Tells all clients to come back elsewhere, and waits until they have gone.
    pub async fn drain(&self, limit: Duration) -> Departed {
        self.shared.leaving.cancel();
        let hubs: Vec<Hosted> = self.shared.hubs.read().values().cloned().collect();
        let clients: Vec<_> = hubs
            .iter()
            .flat_map(|hosted| hosted.lobby.clients())
            .collect();
        for client in &clients {
            client.close(Some("The server is going away."), true);
        }
        let all = async {
            for client in &clients {
                client.gone().await;
            }
        };
        // Whoever has not gone by then is cut off.
        let _ = tokio::time::timeout(limit, all).await;
        let left: Vec<_> = clients.iter().filter(|client| !client.is_gone()).collect();
        for client in &left {
            client.leave(Some("The server has gone away."));
        }
        for hosted in &hubs {
            hosted.lobby.unhost();
        }
        Departed {
            closed: clients.len() - left.len(),
            cut_off: left.len(),
        }
    }
}
