//! Real-time connections: hubs and their clients.
//!
//! A [`Hub`] has methods that clients call, and calls methods of clients through
//! [`Clients`]. The service, [`Realtime`], tracks connections, groups and users.
//! Transports pass received bytes to an [`Inlet`] and send what [`Client::outgoing`]
//! returns; they know nothing of hubs. A [`Home`](home::Home) is the backend that
//! receives the messages of a client, and a client can migrate between two of them.

mod across;
mod asked;
mod asks;
mod batch;
mod board;
mod caller;
mod calls;
mod claims;
mod client;
mod clients;
mod context;
mod direct;
mod error;
pub mod home;
mod host;
mod hub;
mod id;
mod inlet;
mod lent;
mod link;
mod links;
mod lobby;
mod meter;
mod mode;
mod moving;
mod neighbours;
mod nodes;
mod office;
mod outbox;
mod passed;
mod payload;
mod pulse;
mod push;
pub mod reach;
mod resume;
mod route;
mod said;
mod seat;
mod serverless;
mod service;
mod ticket;
mod ticks;
mod times;
mod upload;
mod value;
mod wire;
mod word;

pub use across::Everywhere;
pub use caller::Caller;
pub use client::{Client, Wishes};
pub use clients::{Audience, Clients, One};
pub use context::{Context, Migration};
pub use error::{Error, Kind as ErrorKind, Result};
pub use host::{Host, HubOptions};
pub use hub::{Call, Hub, HubError, HubResult, Method, Reply};
pub use inlet::{Ended, Inlet};
pub use lent::{Lent, LentWords};
pub use link::Link;
pub use links::{LinkEnded, Server};
pub use lobby::{Lobby, is_name};
pub use meter::HubCounts;
pub use mode::{Answer, Event, Mode, Upstream};
pub use nodes::{Other, Others, WORDS};
pub use office::{Office, OfficeLink, ShutdownMode};
pub use payload::{Payload, Protocols};
pub use pulse::{Outgoing, Pulse};
pub use push::{PUSHES, Push, Pusher, Pushes, Pushing};
pub use service::{Departed, Realtime, ServerLink};
pub use ticket::{Open, Refused, Ticket, Transport};
pub use upload::Upload;
pub use value::Binary;

/// Items that generated code names.
#[doc(hidden)]
pub mod __private {
    pub use futures_util::future::BoxFuture;
    pub use std::sync::Arc;
}
