//! Real-time connections: hubs and their clients.
//!
//! A [`Hub`] has methods that clients call, and calls theirs by [`Clients`]. The
//! service, [`Realtime`], knows who is connected, in which groups and as which
//! users. Transports bring bytes by an [`Inlet`] and take what [`Client::outgoing`]
//! gives; they know nothing of hubs. A [`Home`](home::Home) is where messages of a
//! client go, and can be changed between two of them.

mod asked;
mod caller;
mod calls;
mod claims;
mod client;
mod clients;
mod context;
mod error;
pub mod home;
mod host;
mod hub;
mod id;
mod inlet;
mod link;
mod links;
mod lobby;
mod office;
mod outbox;
mod payload;
pub mod reach;
mod resume;
mod seat;
mod service;
mod ticket;
mod upload;
mod value;

pub use caller::Caller;
pub use client::{Client, Outgoing, Pulse, Wishes};
pub use clients::{Audience, Clients, One};
pub use context::{Context, Migration};
pub use error::{Error, Kind as ErrorKind, Result};
pub use host::{Host, HubOptions};
pub use hub::{Call, Hub, HubError, HubResult, Method, Reply};
pub use inlet::{Ended, Inlet};
pub use link::Link;
pub use links::LinkEnded;
pub use lobby::Lobby;
pub use office::{Office, ShutdownMode};
pub use payload::{Payload, Protocols};
pub use service::{Departed, Realtime, ServerLink};
pub use ticket::{Open, Refused, Ticket, Transport};
pub use upload::Upload;
pub use value::Binary;

/// What generated code names.
#[doc(hidden)]
pub mod __private {
    pub use futures_util::future::BoxFuture;
    pub use std::sync::Arc;
}
