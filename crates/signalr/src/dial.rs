//! An app server: opens links to a service.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use rustls::ClientConfig;
use steadfast_core::backoff::Backoff;
use steadfast_core::clock::Clock;
use steadfast_core::limits;
use steadfast_realtime::{AppServerHub, AppServerHubLink, Clients, Hub, HubOptions, ShutdownMode};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{WebSocketStream, client_async};
use tokio_util::sync::CancellationToken;

use super::server::AGENT;
use super::token::server_token;
use super::trust::{ByteStream, connect, trust};

/// How an app server reaches its service.
#[derive(Clone)]
pub struct DialOptions {
    /// `host:port` of the service.
    pub address: String,
    /// Whether links are encrypted.
    pub is_encrypted: bool,
    /// Authorities in PEM that are trusted beside those of the system.
    pub authorities: Option<Vec<u8>>,
    /// The secret of a key that may send to the hub.
    pub secret: String,
    /// The unique name of this server.
    pub server: String,
    pub hub: String,
    /// How it shuts down.
    pub mode: ShutdownMode,
    /// How many links it maintains.
    pub links: usize,
}

/// A hub of this process, linked to a service. It reconnects lost links.
pub struct AppServerRuntime<H: Hub> {
    office: Arc<AppServerHub<H>>,
    mode: ShutdownMode,
    links: usize,
    up: watch::Receiver<usize>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

/// State shared by all links of a hub.
struct Dialer<H: Hub> {
    office: Arc<AppServerHub<H>>,
    options: DialOptions,
    trusted: Option<Arc<ClientConfig>>,
    clock: Arc<dyn Clock>,
    /// How many of the maintained links are connected.
    up: watch::Sender<usize>,
    stop: CancellationToken,
}

/// The first and the longest delay between attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl<H: Hub> AppServerRuntime<H> {
    /// Starts to connect. Fails if the authorities are invalid.
    pub fn start(
        hub: H,
        options: DialOptions,
        hosting: HubOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, String> {
        let trusted = if options.is_encrypted {
            Some(trust(options.authorities.as_deref())?)
        } else {
            None
        };
        let office = AppServerHub::new(&options.server, hub, hosting);
        let (told, up) = watch::channel(0);
        let stop = CancellationToken::new();
        let links = options.links.clamp(1, limits::SERVER_LINKS);
        let mode = options.mode;
        let dialer = Arc::new(Dialer {
            office: Arc::clone(&office),
            options,
            trusted,
            clock,
            up: told,
            stop: stop.clone(),
        });
        Ok(Self {
            office,
            mode,
            links,
            up,
            stop,
            task: tokio::spawn(keep_all(dialer, links)),
        })
    }

    /// The hub's clients on all nodes.
    pub fn clients(&self) -> Clients {
        self.office.clients()
    }

    /// The number of clients of this server.
    pub fn count(&self) -> usize {
        self.office.count()
    }

    /// The number of connected links, with those that the service has requested.
    pub fn links(&self) -> usize {
        self.office.links()
    }

    /// Waits until the service has accepted all links.
    pub async fn ready(&self) {
        let mut up = self.up.clone();
        // The sender lives as long as the task that dials.
        let _ = up.wait_for(|up| *up >= self.links).await;
    }

    /// Stops without a goodbye, like a crash.
    pub fn kill(self) {
        self.stop.cancel();
        self.task.abort();
    }

    /// Shuts down in four phases: offline, hooks, waiting or migration, close. Returns the
    /// number of clients that were left at the time-out.
    pub async fn shutdown<F>(self, limit: Duration, hooks: F) -> usize
    where
        F: Future<Output = ()>,
    {
        // No link is reopened; connected ones keep working.
        self.stop.cancel();
        let leaving = async {
            self.office.go_offline(self.mode).await;
            hooks.await;
            self.office.emptied().await;
        };
        let _ = tokio::time::timeout(limit, leaving).await;
        let left = self.office.count();
        self.office.end();
        let _ = tokio::time::timeout(limits::CLIENT_STALL, self.task).await;
        left
    }
}

/// Maintains all links of a hub and opens further ones at the service's request. All end
/// with this future.
async fn keep_all<H: Hub>(dialer: Arc<Dialer<H>>, count: usize) {
    let mut links = JoinSet::new();
    for _ in 0..count {
        links.spawn(Arc::clone(&dialer).keep());
    }
    loop {
        let has_room = links.len() < limits::SERVER_LINKS && !dialer.stop.is_cancelled();
        tokio::select! {
            node = dialer.office.wanted(), if has_room => {
                links.spawn(Arc::clone(&dialer).once(node));
            }
            ended = links.join_next() => if ended.is_none() {
                return;
            },
        }
    }
}

impl<H: Hub> Dialer<H> {
    /// Maintains one link until stopped.
    async fn keep(self: Arc<Self>) {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        while !self.stop.is_cancelled() {
            let mut is_up = false;
            let why = self.link(None, &mut is_up).await;
            if is_up {
                self.up.send_modify(|up| *up -= 1);
            }
            if self.stop.is_cancelled() {
                return;
            }
            if is_up {
                backoff.reset();
            }
            let server = &self.options.server;
            let why = why.unwrap_or_default();
            tracing::warn!(event = "realtime.link_lost", server, why);
            tokio::select! {
                () = tokio::time::sleep(backoff.pause()) => {}
                () = self.stop.cancelled() => return,
            }
        }
    }

    /// Opens a link that the service has requested, without reconnects.
    async fn once(self: Arc<Self>, node: String) {
        self.link(Some(&node), &mut false).await;
    }

    /// Runs one link until its end; returns the reason if it is known.
    async fn link(&self, target: Option<&str>, is_up: &mut bool) -> Option<String> {
        let socket = match self.open(target).await {
            Ok(socket) => socket,
            Err(why) => return Some(why),
        };
        let link = self.office.link();
        let (mut sink, mut stream) = socket.split();
        let reading = async {
            while let Some(message) = stream.next().await {
                let bytes: Bytes = match message {
                    Ok(Message::Binary(bytes)) => bytes,
                    Ok(Message::Close(_)) => return Some("the service has closed it".to_owned()),
                    Ok(_) => continue,
                    Err(error) => return Some(error.to_string()),
                };
                if let Err(error) = link.take(bytes) {
                    return Some(error.to_string());
                }
            }
            Some("the socket was lost".to_owned())
        };
        let writing = async {
            while let Some(bytes) = link.outgoing().await {
                if let Err(error) = sink.send(Message::Binary(bytes)).await {
                    return Some(error.to_string());
                }
            }
            let _ = sink.close().await;
            None
        };
        let ended = tokio::select! {
            ended = reading => ended,
            ended = writing => ended,
            ended = self.greet(&link, target, is_up) => ended,
        };
        link.lost();
        ended
    }

    /// Sends the server's handshake; returns only on failure.
    async fn greet(
        &self,
        link: &AppServerHubLink<H>,
        target: Option<&str>,
        is_up: &mut bool,
    ) -> Option<String> {
        if let Err(error) = link.greet(self.options.mode, target).await {
            return Some(error.to_string());
        }
        *is_up = true;
        if target.is_none() {
            self.up.send_modify(|up| *up += 1);
        }
        std::future::pending().await
    }

    async fn open(
        &self,
        target: Option<&str>,
    ) -> Result<WebSocketStream<Box<dyn ByteStream>>, String> {
        let DialOptions {
            address,
            secret,
            server,
            hub,
            is_encrypted,
            ..
        } = &self.options;
        let host = address
            .rsplit_once(':')
            .map_or(&**address, |(host, _)| host);
        let token = server_token(hub, server, host, secret, self.clock.now());
        let scheme = if *is_encrypted { "wss" } else { "ws" };
        let hub = hub.to_ascii_lowercase();
        let target = target.map_or_else(String::new, |own| format!("&target={own}"));
        let url = format!("{scheme}://{address}/server/?hub={hub}{target}");
        let request = url.into_client_request();
        let mut request = request.map_err(|error| error.to_string())?;
        let unfit = |_| "the name of the server cannot stand in a header".to_owned();
        let headers = request.headers_mut();
        let bearer = format!("Bearer {token}").parse();
        headers.insert("authorization", bearer.map_err(unfit)?);
        headers.insert("x-asrs-server-id", server.parse().map_err(unfit)?);
        headers.insert("asrs-user-agent", AGENT.parse().map_err(unfit)?);
        let opening = async {
            let carrier = connect(address, self.trusted.as_ref()).await?;
            let opened = client_async(request, carrier).await;
            let (socket, _) = opened.map_err(|error| error.to_string())?;
            Ok(socket)
        };
        tokio::select! {
            opened = tokio::time::timeout(limits::SERVER_HANDSHAKE, opening) => {
                opened.unwrap_or_else(|_| Err("the service does not answer".to_owned()))
            }
            () = self.stop.cancelled() => Err("the app server is stopping".to_owned()),
        }
    }
}
