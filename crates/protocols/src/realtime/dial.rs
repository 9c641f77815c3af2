//! An app server: links that this process opens to a service.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use steadfast_core::clock::Clock;
use steadfast_core::limits;
use steadfast_realtime::{Clients, Hub, HubOptions, Office, ShutdownMode};
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_util::sync::CancellationToken;

use super::server::AGENT;
use super::token::server_token;

/// How an app server reaches its service.
#[derive(Clone)]
pub struct DialOptions {
    /// `host:port` of the service.
    pub address: String,
    /// The secret of a key that may send to the hub.
    pub secret: String,
    /// The name of this server, which no other one has.
    pub server: String,
    pub hub: String,
    /// How it leaves.
    pub mode: ShutdownMode,
}

/// A hub of this process, linked to a service. It dials again when the link breaks.
pub struct Dialed<H: Hub> {
    office: Arc<Office<H>>,
    options: DialOptions,
    state: watch::Receiver<bool>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

/// How long the pauses between attempts are: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl<H: Hub> Dialed<H> {
    /// Begins to dial.
    pub fn start(hub: H, options: DialOptions, hosting: HubOptions, clock: Arc<dyn Clock>) -> Self {
        let office = Arc::new(Office::new(&options.server, hub, hosting));
        let (told, state) = watch::channel(false);
        let stop = CancellationToken::new();
        let work = keep(
            Arc::clone(&office),
            options.clone(),
            clock,
            told,
            stop.clone(),
        );
        Self {
            office,
            options,
            state,
            stop,
            task: tokio::spawn(work),
        }
    }

    /// The hub's clients, wherever they are connected.
    pub fn clients(&self) -> Clients {
        self.office.clients()
    }

    /// How many clients this server has.
    pub fn count(&self) -> usize {
        self.office.count()
    }

    /// Waits until the service has welcomed it.
    pub async fn ready(&self) {
        let mut state = self.state.clone();
        // The sender lives as long as the task that dials.
        let _ = state.wait_for(|is_up| *is_up).await;
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
        let leaving = async {
            self.office.go_offline(self.options.mode).await;
            hooks.await;
            self.office.emptied().await;
        };
        let _ = tokio::time::timeout(limit, leaving).await;
        let left = self.office.count();
        self.stop.cancel();
        self.office.end();
        let _ = tokio::time::timeout(limits::CLIENT_STALL, self.task).await;
        left
    }
}

/// Dials until it is told to stop.
async fn keep<H: Hub>(
    office: Arc<Office<H>>,
    options: DialOptions,
    clock: Arc<dyn Clock>,
    told: watch::Sender<bool>,
    stop: CancellationToken,
) {
    let mut pause = FIRST_PAUSE;
    while !stop.is_cancelled() {
        office.begin();
        let linked = link(&office, &options, &*clock, &told).await;
        let was_up = told.send_replace(false);
        office.lost();
        if stop.is_cancelled() {
            return;
        }
        pause = match was_up {
            true => FIRST_PAUSE,
            false => (pause * 2).min(LONGEST_PAUSE),
        };
        let server = &options.server;
        tracing::warn!(
            event = "realtime.link_lost",
            server,
            why = linked.unwrap_or_default()
        );
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// One link, until its end. Why it has ended, if somebody knows.
async fn link<H: Hub>(
    office: &Office<H>,
    options: &DialOptions,
    clock: &dyn Clock,
    told: &watch::Sender<bool>,
) -> Option<String> {
    let DialOptions {
        address,
        secret,
        server,
        hub,
        mode,
    } = options;
    let host = address
        .rsplit_once(':')
        .map_or(address.as_str(), |(host, _)| host);
    let token = server_token(hub, server, host, secret, clock.now());
    let url = format!("ws://{address}/server/?hub={}", hub.to_ascii_lowercase());
    let mut request = match url.into_client_request() {
        Ok(request) => request,
        Err(error) => return Some(error.to_string()),
    };
    let headers = request.headers_mut();
    headers.insert("authorization", format!("Bearer {token}").parse().ok()?);
    headers.insert("x-asrs-server-id", server.parse().ok()?);
    headers.insert("asrs-user-agent", AGENT.parse().ok()?);
    let socket = match tokio_tungstenite::connect_async(request).await {
        Ok((socket, _)) => socket,
        Err(error) => return Some(error.to_string()),
    };
    let (mut sink, mut stream) = socket.split();
    let reading = async {
        while let Some(message) = stream.next().await {
            let bytes: Bytes = match message {
                Ok(Message::Binary(bytes)) => bytes,
                Ok(Message::Close(_)) => return Some("the service has closed it".to_owned()),
                Ok(_) => continue,
                Err(error) => return Some(error.to_string()),
            };
            if let Err(error) = office.take(bytes) {
                return Some(error.to_string());
            }
        }
        Some("the socket was lost".to_owned())
    };
    let writing = async {
        while let Some(bytes) = office.outgoing().await {
            if let Err(error) = sink.send(Message::Binary(bytes)).await {
                return Some(error.to_string());
            }
        }
        let _ = sink.close().await;
        None
    };
    let greeting = async {
        match office.greet(*mode).await {
            Ok(()) => {
                told.send_replace(true);
                std::future::pending().await
            }
            Err(error) => Some(error.to_string()),
        }
    };
    tokio::select! {
        ended = reading => ended,
        ended = writing => ended,
        ended = greeting => ended,
    }
}
