//! Sending to clients, as hub methods do.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cluster::pending_results::PendingResults;
use crate::dispatch::gateway::{Audience, ClientGateway, HubPayload, ProtocolSet, Recipients};
use crate::error::Result;

/// The clients of one hub. Clones are cheap.
#[derive(Clone)]
pub struct Clients {
    reach: Arc<dyn ClientGateway>,
    pending: Arc<PendingResults>,
    server: Arc<str>,
}

/// One client, which can also return results.
pub struct SingleClient {
    clients: Clients,
    connection: String,
}

impl Clients {
    pub(crate) fn new(
        reach: Arc<dyn ClientGateway>,
        pending: Arc<PendingResults>,
        server: Arc<str>,
    ) -> Self {
        Self {
            reach,
            pending,
            server,
        }
    }

    /// The same clients, for messages sent within a call of this connection.
    pub(crate) fn within(mut self, connection: &Arc<str>) -> Self {
        if let Some(reach) = self.reach.within(connection) {
            self.reach = reach;
        }
        self
    }

    /// All clients.
    pub fn all(&self) -> Audience {
        self.all_except(Vec::<String>::new())
    }

    /// All clients but these connections.
    pub fn all_except(&self, except: impl IntoIterator<Item = impl Into<String>>) -> Audience {
        self.audience(Recipients::All {
            except: texts(except),
        })
    }

    /// The connections of a group.
    pub fn group(&self, name: impl Into<String>) -> Audience {
        self.group_except(name, Vec::<String>::new())
    }

    /// The connections of a group but these.
    pub fn group_except(
        &self,
        name: impl Into<String>,
        except: impl IntoIterator<Item = impl Into<String>>,
    ) -> Audience {
        self.audience(Recipients::Group {
            name: name.into(),
            except: texts(except),
        })
    }

    /// The connections of several groups; each gets one copy.
    pub fn groups(&self, names: impl IntoIterator<Item = impl Into<String>>) -> Audience {
        self.audience(Recipients::Groups(texts(names)))
    }

    /// All connections of a user.
    pub fn user(&self, user: impl Into<String>) -> Audience {
        self.users([user])
    }

    /// All connections of some users.
    pub fn users(&self, users: impl IntoIterator<Item = impl Into<String>>) -> Audience {
        self.audience(Recipients::Users(texts(users)))
    }

    /// Some connections.
    pub fn connections(&self, ids: impl IntoIterator<Item = impl Into<String>>) -> Audience {
        self.audience(Recipients::Connections(texts(ids)))
    }

    /// One connection.
    pub fn connection(&self, id: impl Into<String>) -> SingleClient {
        SingleClient {
            clients: self.clone(),
            connection: id.into(),
        }
    }

    /// Adds a connection to a group; every send after it returns reaches the
    /// connection.
    pub async fn join(&self, connection: &str, group: &str) -> Result<()> {
        self.reach.join(connection, group).await
    }

    /// Removes a connection from a group.
    pub async fn leave(&self, connection: &str, group: &str) -> Result<()> {
        self.reach.leave(connection, group).await
    }

    pub(crate) fn reach(&self) -> &Arc<dyn ClientGateway> {
        &self.reach
    }

    fn audience(&self, to: Recipients) -> Audience {
        Audience {
            reach: Arc::clone(&self.reach),
            to,
        }
    }
}

impl SingleClient {
    /// Calls a method of the client, without a result.
    pub async fn send<T: Serialize + ?Sized>(&self, target: &str, arguments: &T) -> Result<()> {
        let connections = self.clients.connections([self.connection.as_str()]);
        connections.send(target, arguments).await
    }

    /// Calls a method of the client and waits for its result.
    pub async fn ask<R, T>(&self, target: &str, arguments: &T) -> Result<R>
    where
        R: DeserializeOwned,
        T: Serialize + ?Sized,
    {
        let Clients {
            reach,
            pending: asked,
            server,
        } = &self.clients;
        let waiting = asked.ask(server, &self.connection);
        let id = Some(waiting.id());
        let payload = HubPayload::call(ProtocolSet::BOTH, id, target, arguments)?;
        reach.ask(waiting.id(), &self.connection, payload).await?;
        waiting.answer().await
    }
}

fn texts(texts: impl IntoIterator<Item = impl Into<String>>) -> Vec<String> {
    texts.into_iter().map(Into::into).collect()
}
