//! Service modes, and upstreams for clients without server.

use bytes::Bytes;
use futures_util::future::BoxFuture;

/// Whether clients need app servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceMode {
    /// Clients are assigned to app servers, and wait for one.
    #[default]
    Default,
    /// There are no app servers: the service answers clients, and calls upstreams.
    Serverless,
    /// App servers, if one is connected when a client connects; otherwise upstreams.
    Classic,
}

/// An event of a client without an app server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamEvent {
    pub hub: String,
    /// `connections` or `messages`.
    pub category: &'static str,
    /// `connected`, `disconnected`, or the name of the called method.
    pub name: String,
    pub connection: String,
    pub user: Option<String>,
    pub claims: Vec<(String, String)>,
    /// The query that the application added to the URL, with `?`.
    pub query: String,
    /// Whether the body is MessagePack rather than JSON.
    pub is_packed: bool,
    pub body: Bytes,
}

/// The response of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamResponse {
    pub status: u16,
    pub body: Bytes,
}

/// The receiver of events of clients without an app server.
pub trait Upstream: Send + Sync + 'static {
    /// Whether an upstream is configured for this event.
    fn wants(&self, hub: &str, category: &str, name: &str) -> bool;

    /// Sends an event and waits for the response; the error says why there is none.
    fn tell(&self, event: UpstreamEvent) -> BoxFuture<'_, Result<UpstreamResponse, String>>;
}
