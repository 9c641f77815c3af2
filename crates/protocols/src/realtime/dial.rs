//! An app server: links that this process opens to a service.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use rustls::ClientConfig;
use steadfast_core::clock::Clock;
use steadfast_core::limits;
use steadfast_realtime::{Clients, Hub, HubOptions, Office, OfficeLink, ShutdownMode};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{WebSocketStream, client_async};
use tokio_util::sync::CancellationToken;

use super::server::AGENT;
use super::token::server_token;
use super::trust::{Carrier, connect, trust};

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
    /// The name of this server, which no other one has.
    pub server: String,
    pub hub: String,
    /// How it leaves.
    pub mode: ShutdownMode,
    /// How many links it keeps up.
    pub links: usize,
}

/// A hub of this process, linked to a service. It dials again when a link breaks.
pub struct Dialed<H: Hub> {
    office: Arc<Office<H>>,
    mode: ShutdownMode,
    links: usize,
    up: watch::Receiver<usize>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

/// What all links of a hub share.
struct Dialer<H: Hub> {
    office: Arc<Office<H>>,
    options: DialOptions,
    trusted: Option<Arc<ClientConfig>>,
    clock: Arc<dyn Clock>,
    /// How many of the links that are kept up are up.
    up: watch::Sender<usize>,
    stop: CancellationToken,
}

/// How long the pauses between attempts are: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl<H: Hub> Dialed<H> {
    /// Begins to dial. It fails if the authorities cannot be used.
    pub fn start(
        hub: H,
        options: DialOptions,
        hosting: HubOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, String> {
        let trusted = match options.is_encrypted {
            true => Some(trust(options.authorities.as_deref())?),
            false => None,
        };
        let office = Office::new(&options.server, hub, hosting);
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

    /// The hub's clients, wherever they are connected.
    pub fn clients(&self) -> Clients {
        self.office.clients()
    }

    /// How many clients this server has.
    pub fn count(&self) -> usize {
        self.office.count()
    }

    /// How many links are up, with those that the service has asked for.
    pub fn links(&self) -> usize {
        self.office.links()
    }

    /// Waits until the service has welcomed all links.
    pub async fn ready(&self) {
        let mut up = self.up.clone();
        // The sender lives as long as the task that dials.
        let _ = up.wait_for(|up| *up >= self.links).await;
    }

    /// Ends without a word, as a crash would.
    pub fn kill(self) {
        self.stop.cancel();
        self.task.abort();
    }

    /// Leaves in four phases: offline, hooks, waiting or moving, close. How many
    /// clients were left when the time was over.
    pub async fn shutdown<F>(self, limit: Duration, hooks: F) -> usize
    where
        F: Future<Output = ()>,
    {
        // No link is made anew, but those that are there work on.
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

/// Keeps all links of a hub, and opens further ones that the service asks for. With
/// it all of them end.
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
    /// Dials until it is told to stop.
    async fn keep(self: Arc<Self>) {
        let mut pause = FIRST_PAUSE;
        while !self.stop.is_cancelled() {
            let mut is_up = false;
            let why = self.link(None, &mut is_up).await;
            if is_up {
                self.up.send_modify(|up| *up -= 1);
            }
            if self.stop.is_cancelled() {
                return;
            }
            pause = match is_up {
                true => FIRST_PAUSE,
                false => (pause * 2).min(LONGEST_PAUSE),
            };
            let server = &self.options.server;
            let why = why.unwrap_or_default();
            tracing::warn!(event = "realtime.link_lost", server, why);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.stop.cancelled() => return,
            }
        }
    }

    /// A link that the service has asked for; it is not made anew.
    async fn once(self: Arc<Self>, node: String) {
        self.link(Some(&node), &mut false).await;
    }

    /// One link, until its end. Why it has ended, if somebody knows.
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

    /// Introduces the server; returns only if that fails.
    async fn greet(
        &self,
        link: &OfficeLink<H>,
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
    ) -> Result<WebSocketStream<Box<dyn Carrier>>, String> {
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
            () = self.stop.cancelled() => Err("it was told to stop".to_owned()),
        }
    }
}
