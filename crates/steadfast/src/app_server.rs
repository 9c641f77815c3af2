//! App servers: SignalR hubs in separate processes.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::{Clock, SystemClock};
use steadfast_core::task::name_task;
use steadfast_realtime::{Clients, Hub, HubOptions, ShutdownMode};
use steadfast_signalr::{AppServerRuntime, DialOptions};
use uuid::Uuid;

use crate::config::Error as ConfigError;
use crate::node::{Error, Result};

/// A hook that runs with the clients of a hub when the server shuts down.
type ShutdownHook = Box<dyn FnOnce(Clients) -> PendingShutdown<()> + Send>;
type PendingShutdown<T> = std::pin::Pin<Box<dyn Future<Output = T> + Send>>;

/// Hubs of this process, linked to a service that holds the client connections.
///
/// Several servers may host the same hubs. On shutdown a server goes offline, runs its
/// hooks, waits for its clients to close or move to another server, and closes.
///
/// ```no_run
/// use std::time::Duration;
/// use steadfast::realtime::{Context, HubResult, ShutdownMode};
/// use steadfast::{AppServer, hub};
///
/// #[derive(Default)]
/// struct Chat;
///
/// #[hub]
/// impl Chat {
///     async fn send(&self, context: &Context, text: String) -> HubResult<()> {
///         Ok(context.clients().all().send("said", &(text,)).await?)
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let service = "Endpoint=http://localhost;Port=8888;AccessKey=...;Version=1.0;";
/// let server = AppServer::builder(service)
///     .shutdown_mode(ShutdownMode::MigrateClients)
///     .shutdown_limit(Duration::from_secs(30))
///     .hub::<Chat>("chat")
///     .on_shutdown("chat", |clients| async move {
///         let _ = clients.all().send("exit", &()).await;
///     })
///     .start()?;
/// server.ready().await;
/// // ... and to shut down:
/// let left = server.shutdown().await;
/// assert_eq!(left, 0);
/// # Ok(())
/// # }
/// ```
pub struct AppServer {
    limit: Duration,
    hubs: Vec<HostedHub>,
}

struct HostedHub {
    name: String,
    dialed: Box<dyn LinkedHub>,
    hooks: Vec<ShutdownHook>,
}

/// A linked hub of any type.
trait LinkedHub: Send + Sync {
    fn clients(&self) -> Clients;
    fn count(&self) -> usize;
    fn ready(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>>;
    fn leave(
        self: Box<Self>,
        limit: Duration,
        hooks: PendingShutdown<()>,
    ) -> PendingShutdown<usize>;
}

impl<H: Hub> LinkedHub for AppServerRuntime<H> {
    fn clients(&self) -> Clients {
        AppServerRuntime::clients(self)
    }

    fn count(&self) -> usize {
        AppServerRuntime::count(self)
    }

    fn ready(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(AppServerRuntime::ready(self))
    }

    fn leave(
        self: Box<Self>,
        limit: Duration,
        hooks: PendingShutdown<()>,
    ) -> PendingShutdown<usize> {
        Box::pin((*self).shutdown(limit, hooks))
    }
}

impl AppServer {
    /// Returns a builder for the service of a connection string.
    pub fn builder(connection_string: &str) -> AppServerBuilder {
        AppServerBuilder {
            service: connection_string.to_owned(),
            name: format!("rust_{}", Uuid::new_v4().simple()),
            mode: ShutdownMode::MigrateClients,
            limit: Duration::from_secs(30),
            links: 1,
            authorities: None,
            hubs: Vec::new(),
            hooks: Vec::new(),
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// Waits until all hubs are linked to the service.
    pub async fn ready(&self) {
        for hub in &self.hubs {
            hub.dialed.ready().await;
        }
    }

    /// The clients of a hub, on all nodes of the service.
    pub fn clients(&self, hub: &str) -> Option<Clients> {
        let mut hubs = self.hubs.iter();
        let found = hubs.find(|own| own.name.eq_ignore_ascii_case(hub))?;
        Some(found.dialed.clients())
    }

    /// The number of clients that this server handles.
    pub fn count(&self) -> usize {
        self.hubs.iter().map(|hub| hub.dialed.count()).sum()
    }

    /// Shuts down all hubs concurrently: goes offline, runs the hooks in the order in which
    /// they were added, waits for or moves the clients, closes. Returns how many clients
    /// were left at the limit.
    pub async fn shutdown(self) -> usize {
        let limit = self.limit;
        let leaving = self.hubs.into_iter().map(|hub| {
            let clients = hub.dialed.clients();
            let hooks: PendingShutdown<()> = Box::pin(async move {
                for hook in hub.hooks {
                    hook(clients.clone()).await;
                }
            });
            tokio::spawn(name_task(hub.dialed.leave(limit, hooks)))
        });
        let leaving: Vec<_> = leaving.collect();
        let mut left = 0;
        for hub in leaving {
            left += hub.await.unwrap_or(0);
        }
        left
    }
}

/// Configures an app server.
pub struct AppServerBuilder {
    service: String,
    name: String,
    mode: ShutdownMode,
    limit: Duration,
    links: usize,
    authorities: Option<Vec<u8>>,
    hubs: Vec<(String, HubDialer)>,
    hooks: Vec<(String, ShutdownHook)>,
    clock: Arc<dyn Clock>,
}

/// Starts the links of one hub.
type HubDialer =
    Box<dyn FnOnce(DialOptions, Arc<dyn Clock>) -> std::result::Result<Box<dyn LinkedHub>, String>>;

impl AppServerBuilder {
    /// Sets the name, which must be unique among the servers; random unless set.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Sets how clients are handled on shutdown.
    #[must_use]
    pub fn shutdown_mode(mut self, mode: ShutdownMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the time limit of the shutdown; 30 seconds unless set.
    #[must_use]
    pub fn shutdown_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the number of links of each hub; one unless set. With one, all messages of this
    /// server keep their order. With several, the messages to one client do, and a broken
    /// link disconnects fewer clients.
    #[must_use]
    pub fn links(mut self, links: usize) -> Self {
        self.links = links;
        self
    }

    /// Trusts these certificate authorities, in PEM, beside those of the system.
    #[must_use]
    pub fn authorities(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authorities = Some(pem.into());
        self
    }

    /// Hosts a hub.
    #[must_use]
    pub fn hub<H: Hub + Default>(self, name: &str) -> Self {
        self.hub_with(name, H::default(), HubOptions::default())
    }

    /// Like [`AppServerBuilder::hub`], with an existing hub value and explicit options.
    #[must_use]
    pub fn hub_with<H: Hub>(mut self, name: &str, hub: H, options: HubOptions) -> Self {
        let start: HubDialer = Box::new(move |dial, clock| {
            let dialed = AppServerRuntime::start(hub, dial, options, clock)?;
            Ok(Box::new(dialed) as Box<dyn LinkedHub>)
        });
        self.hubs.push((name.to_ascii_lowercase(), start));
        self
    }

    /// Adds a hook that runs on shutdown, after the server stops accepting clients and
    /// before the connected clients are closed or moved.
    #[must_use]
    pub fn on_shutdown<F, T>(mut self, hub: &str, hook: F) -> Self
    where
        F: FnOnce(Clients) -> T + Send + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        let hook: ShutdownHook = Box::new(move |clients| Box::pin(hook(clients)));
        self.hooks.push((hub.to_ascii_lowercase(), hook));
        self
    }

    /// Starts the links and retries while the service cannot be reached.
    pub fn start(self) -> Result<AppServer> {
        let service = service(&self.service)?;
        let mut hubs = Vec::new();
        for (name, start) in self.hubs {
            let options = DialOptions {
                address: service.address.clone(),
                is_encrypted: service.is_encrypted,
                authorities: self.authorities.clone(),
                secret: service.secret.clone(),
                server: self.name.clone(),
                hub: name.clone(),
                mode: self.mode,
                links: self.links,
            };
            let wrong =
                |why: String| Error::Config(ConfigError::value("authorities", "the program", why));
            let dialed = start(options, Arc::clone(&self.clock)).map_err(wrong)?;
            hubs.push(HostedHub {
                name,
                dialed,
                hooks: Vec::new(),
            });
        }
        for (hub, hook) in self.hooks {
            if let Some(own) = hubs.iter_mut().find(|own| own.name == hub) {
                own.hooks.push(hook);
            }
        }
        Ok(AppServer {
            limit: self.limit,
            hubs,
        })
    }
}

/// A parsed connection string.
#[derive(Debug, PartialEq, Eq)]
struct ServiceConnectionString {
    /// Host and port.
    address: String,
    is_encrypted: bool,
    secret: String,
}

fn service(text: &str) -> Result<ServiceConnectionString> {
    let parts = text.split(';').filter_map(|part| part.split_once('='));
    let parts: Vec<_> = parts
        .map(|(name, value)| (name.trim(), value.trim()))
        .collect();
    let part = |name: &str| {
        let mut own = parts
            .iter()
            .filter(|(own, _)| own.eq_ignore_ascii_case(name));
        own.next().map(|(_, value)| *value)
    };
    let wrong =
        |why: &str| Error::Config(ConfigError::value("connection string", "the program", why));
    let endpoint = part("ServerEndpoint").or_else(|| part("Endpoint"));
    let endpoint = endpoint.ok_or_else(|| wrong("it has no Endpoint"))?;
    let secret = part("AccessKey").ok_or_else(|| wrong("it has no AccessKey"))?;
    let (scheme, host) = endpoint.split_once("://").unwrap_or(("", endpoint));
    let is_encrypted = match scheme {
        "http" => false,
        "https" => true,
        _ => return Err(wrong("the Endpoint must begin with http:// or https://")),
    };
    let host = host.trim_end_matches('/');
    let usual = if is_encrypted { "443" } else { "80" };
    let port = part("Port").unwrap_or(usual);
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.contains(']'));
    let address = if has_port {
        host.to_owned()
    } else {
        format!("{host}:{port}")
    };
    Ok(ServiceConnectionString {
        address,
        is_encrypted,
        secret: secret.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_string_is_read_in_any_order() {
        let text = "AccessKey=ab==;Endpoint=http://localhost;Version=1.0;Port=8888;";
        let mut expected = ServiceConnectionString {
            address: "localhost:8888".to_owned(),
            is_encrypted: false,
            secret: "ab==".to_owned(),
        };
        assert_eq!(service(text).unwrap(), expected);
        let text = "Endpoint=https://hub.example/;AccessKey=ab==";
        expected.address = "hub.example:443".to_owned();
        expected.is_encrypted = true;
        assert_eq!(service(text).unwrap(), expected);
        for text in [
            "",
            "Endpoint=http://x",
            "AccessKey=a",
            "Endpoint=ftp://x;AccessKey=a",
            "Endpoint=x;AccessKey=a",
        ] {
            assert_eq!(service(text).unwrap_err().code().0, "STF-7002", "{text}");
        }
    }
}
