//! The context of a hub method call.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::connection::identity::ClientIdentity;
use crate::dispatch::clients::{Clients, SingleClient};
use crate::error::Result;

/// The migration of a client between servers: hubs see it, the client does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientMigration {
    /// The server it leaves.
    pub from: String,
    /// The server it moves to.
    pub to: String,
}

/// The calling connection, and access to all other clients. Clones share one state.
#[derive(Clone)]
pub struct Context {
    shared: Arc<Inner>,
    /// Set while a client migrates from or to another server.
    migration: Option<ClientMigration>,
}

struct Inner {
    connection: Arc<str>,
    caller: Arc<ClientIdentity>,
    clients: Clients,
    items: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    aborted: CancellationToken,
}

impl Context {
    pub(crate) fn new(
        connection: Arc<str>,
        caller: Arc<ClientIdentity>,
        clients: Clients,
        migration: Option<ClientMigration>,
    ) -> Self {
        let shared = Inner {
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

    /// The same context with another migration, or with none.
    pub(crate) fn moving(&self, migration: Option<ClientMigration>) -> Self {
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
    pub fn caller(&self) -> &ClientIdentity {
        &self.shared.caller
    }

    /// The clients of this hub.
    pub fn clients(&self) -> &Clients {
        &self.shared.clients
    }

    /// The calling client.
    pub fn client(&self) -> SingleClient {
        self.shared.clients.connection(&*self.shared.connection)
    }

    /// Adds this connection to a group.
    pub async fn join(&self, group: &str) -> Result<()> {
        self.shared
            .clients
            .join(&self.shared.connection, group)
            .await
    }

    /// Removes this connection from a group.
    pub async fn leave(&self, group: &str) -> Result<()> {
        self.shared
            .clients
            .leave(&self.shared.connection, group)
            .await
    }

    /// Closes this connection; the client may not reconnect automatically.
    pub fn abort(&self) {
        let Inner {
            connection,
            clients,
            ..
        } = &*self.shared;
        clients.reach().close(connection, None);
    }

    /// The servers between which the client migrates, in `on_connected` and
    /// `on_disconnected`; `None` without a migration.
    pub fn migration(&self) -> Option<&ClientMigration> {
        self.migration.as_ref()
    }

    /// Cancelled when the connection ends.
    pub fn aborted(&self) -> &CancellationToken {
        &self.shared.aborted
    }

    /// Stores a value with the connection, one per type.
    pub fn set<T: Send + Sync + 'static>(&self, item: T) {
        let mut items = self.shared.items.lock();
        items.insert(TypeId::of::<T>(), Arc::new(item));
    }

    /// A value stored with the connection.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let items = self.shared.items.lock();
        let item = items.get(&TypeId::of::<T>()).cloned()?;
        item.downcast().ok()
    }
}
