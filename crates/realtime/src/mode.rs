//! Who answers clients of hubs that are not hosted here.

use bytes::Bytes;
use futures_util::future::BoxFuture;

/// Whether clients need app servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Clients are given to app servers, and wait for one.
    #[default]
    Default,
    /// There are no app servers: the service answers clients, and upstreams are told.
    Serverless,
    /// App servers, if one is there when a client comes; otherwise without.
    Classic,
}

/// Something that has happened to a client without an app server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    pub hub: String,
    /// `connections` or `messages`.
    pub category: &'static str,
    /// `connected`, `disconnected`, or the method that is called.
    pub name: String,
    pub connection: String,
    pub user: Option<String>,
    pub claims: Vec<(String, String)>,
    /// What the application has put into the address, with `?`.
    pub query: String,
    /// Whether the body is MessagePack rather than JSON.
    pub is_packed: bool,
    pub body: Bytes,
}

/// What an upstream has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: Bytes,
}

/// Who is told of events.
pub trait Upstream: Send + Sync + 'static {
    /// Whether anybody wants to know of this.
    fn wants(&self, hub: &str, category: &str, name: &str) -> bool;

    /// Tells it, and waits for the answer; or says why there is none.
    fn tell(&self, event: Event) -> BoxFuture<'_, Result<Answer, String>>;
}
