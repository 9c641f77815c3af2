//! What a hub's method knows of its caller.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::caller::Caller;
use crate::clients::{Clients, One};
use crate::error::Result;

/// A client that moves between servers sees nothing of it; hubs do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The server that it comes from.
    pub from: String,
    /// The server that it goes to.
    pub to: String,
}

/// The connection that calls, and the way to all others. Clones are the same.
#[derive(Clone)]
pub struct Context {
    shared: Arc<Shared>,
    /// Set while a client comes from, or goes to, another server.
    migration: Option<Migration>,
}

struct Shared {
    connection: Arc<str>,
    caller: Arc<Caller>,
    clients: Clients,
    items: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    aborted: CancellationToken,
}

impl Context {
    pub(crate) fn new(
        connection: Arc<str>,
        caller: Arc<Caller>,
        clients: Clients,
        migration: Option<Migration>,
    ) -> Self {
        let shared = Shared {
            connection,
            caller,
            clients,
            items: Mutex::default(),
            aborted: CancellationToken::new(),
        };
        Self {
            shared: Arc::new(shared),
            migration,
        }
    }

    /// The same, without or with another migration.
    pub(crate) fn moving(&self, migration: Option<Migration>) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            migration,
        }
    }

    /// The id of the connection.
    pub fn connection_id(&self) -> &str {
        &self.shared.connection
    }

    /// The user, if the connection has one.
    pub fn user(&self) -> Option<&str> {
        self.shared.caller.user.as_deref()
    }

    /// Claims, headers and query of the connection.
    pub fn caller(&self) -> &Caller {
        &self.shared.caller
    }

    /// The clients of this hub.
    pub fn clients(&self) -> &Clients {
        &self.shared.clients
    }

    /// The client that calls.
    pub fn client(&self) -> One {
        self.shared.clients.connection(&*self.shared.connection)
    }

    /// Takes this connection into a group.
    pub async fn join(&self, group: &str) -> Result<()> {
        self.shared
            .clients
            .join(&self.shared.connection, group)
            .await
    }

    /// Takes this connection out of a group.
    pub async fn leave(&self, group: &str) -> Result<()> {
        self.shared
            .clients
            .leave(&self.shared.connection, group)
            .await
    }

    /// Ends this connection; the client may not come back by itself.
    pub fn abort(&self) {
        let Shared {
            connection,
            clients,
            ..
        } = &*self.shared;
        clients.reach().close(connection, None);
    }

    /// From which server to which the client moves, in `on_connected` and
    /// `on_disconnected`; `None` where it does not move.
    pub fn migration(&self) -> Option<&Migration> {
        self.migration.as_ref()
    }

    /// Ends when the connection does.
    pub fn aborted(&self) -> &CancellationToken {
        &self.shared.aborted
    }

    /// Keeps something with the connection, one of each type.
    pub fn set<T: Send + Sync + 'static>(&self, item: T) {
        let mut items = self.shared.items.lock();
        items.insert(TypeId::of::<T>(), Arc::new(item));
    }

    /// What was kept with the connection.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let items = self.shared.items.lock();
        let item = items.get(&TypeId::of::<T>()).cloned()?;
        item.downcast().ok()
    }
}
