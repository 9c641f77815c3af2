//! Real-time connections: hubs and their clients.
//!
//! A [`Hub`] has methods that clients call, and calls methods of clients through
//! [`Clients`]. The service, [`Realtime`], tracks connections, groups and users.
//! Transports pass received bytes to a [`ClientReader`] and send what
//! [`ClientConnection::outgoing`] returns; they do not depend on hubs. A
//! [`HubBackend`](backend::HubBackend) is the backend that receives the messages of a
//! client, and a client can migrate between two of them.
//!
//! # One call of a hub, from socket to method and back
//!
//! 1. `crates/signalr/src/websocket.rs` (or `sse.rs`, `polling.rs` beside it):
//!    bytes of a client. `admit.rs` has verified its token, `negotiate.rs` has issued its
//!    ticket.
//! 2. `connection/client_reader.rs`: the handshake, then whole messages
//!    (`crates/wire/src/signalr/frame.rs`). Each is parsed once: its type and id, or all of it
//!    if the backend needs that. Messages that were handled before are dropped
//!    (`connection/resume.rs`).
//! 3. In the same file, `deliver`: the message goes to the client's backend, or is held
//!    while the client migrates (`connection/migration.rs`). A backend is a `HubDispatcher`
//!    (`dispatch/dispatcher.rs`) in this process, an `AppServerLink` (`app_server/link.rs`)
//!    to an app server, where `app_server/app_server_hub.rs` has the same dispatcher behind
//!    it, or `serverless.rs`, which calls an upstream (`crates/signalr/src/upstream.rs`).
//! 4. `dispatch/dispatcher.rs` and `dispatch/call_queue.rs`: one call of a client at a
//!    time, in order; streams and uploads run beside them. `#[hub]`
//!    (`crates/macros/src/hub.rs`) has generated how arguments are decoded and the method
//!    is called.
//! 5. What the method sends goes through a `ClientGateway` (`dispatch/gateway.rs`): to the
//!    connections of the hub directly (`hub_connections.rs`), or as messages to the
//!    service, where `app_server/links.rs` handles them.
//! 6. `connection/outbox.rs`: the bounded queue of each client;
//!    `ClientConnection::outgoing` returns what the transport writes next, and pings.
//!
//! A send that is part of a commit is a message of its transaction
//! (`crates/collections/src/outgoing_message.rs`, `Tx::send`; in an operation of an entity
//! `EntityContext::send`). The owner of the partition runs it in the same commit
//! (`push.rs`, `PushService`), and its gate releases it to the queues of the clients
//! (`PushPerformer`) when the commit is durable.
//!
//! # Walk: one SignalR send
//!
//! A client of a hub in this process invokes a method, which sends to all clients. The list
//! has every file with a function that the message runs through; those that branch on the
//! message or on a state decide. Left out are declarations, primitives of an encoding, and
//! what a step only looks up. At most 12 files.
//!
//! - decides `crates/signalr/src/websocket.rs`: `run`
//! - decides `crates/realtime/src/connection/client_reader.rs`: `take`
//! - passes `crates/wire/src/signalr/frame.rs`: `next`, `read`
//! - passes `crates/wire/src/signalr/json.rs`: `read`
//! - decides `crates/realtime/src/dispatch/dispatcher.rs`: `data`
//! - decides `crates/realtime/src/dispatch/call_queue.rs`: `add`, `next`; the method
//!   takes its arguments there, in code that `#[hub]` has generated
//! - passes `crates/realtime/src/dispatch/gateway.rs`: `send`
//! - passes `crates/wire/src/signalr/write.rs`: `invocation`
//! - decides `crates/realtime/src/cluster/broadcast.rs`: `send`
//! - decides `crates/realtime/src/hub_connections.rs`: `send`
//! - decides `crates/realtime/src/connection/client.rs`: `send`, `outgoing`
//! - decides `crates/realtime/src/connection/outbox.rs`: `put`, `take`
//!
//! # One send in a cluster
//!
//! The sender uses `cluster/broadcast.rs`, which puts the message into the queues of this
//! node's clients and, once per node, into the lanes to the others (`cluster/peers.rs`,
//! `cluster/batch.rs`). There `cluster/server.rs` receives it, and `app_server/links.rs`,
//! `cluster/remote_results.rs` or `cluster/broadcast.rs` do the same for the clients of
//! that node. The messages are those of app servers (`cluster/messages.rs`).
//!
//! A link of an app server that another node requests is relayed by `cluster/borrowed.rs`,
//! and is a link like any other there. A client that connects to another node than its own
//! takes its ticket along (`cluster/tickets.rs`), or has its polls forwarded
//! (`crates/signalr/src/remote_poll.rs`).
//!
//! # One migration of a client
//!
//! `ClientConnection::migrate` has six steps: the client's messages are held; its open
//! calls end (`connection/open_calls.rs`); the old server is paused; the new one is
//! informed of the client; the old one is informed that it has left; the held messages go
//! to the new one.
//!
//! # Tests
//!
//! - `crates/realtime/tests`: hubs and clients without a transport: calls, streams, groups,
//!   bounds, clients that reconnect.

mod app_server;
pub mod backend;
mod cluster;
mod connection;
mod dispatch;
mod error;
mod hub_connections;
mod metrics;
mod mode;
mod push;
mod serverless;
mod service;

pub use app_server::app_server_hub::{AppServerHub, AppServerHubLink, ShutdownMode};
pub use app_server::link::AppServerLink;
pub use app_server::links::{AppServerStatus, LinkClosedError};
pub use cluster::borrowed::{LentLink, LentLinkOutput};
pub use cluster::broadcast::ClusterConnections;
pub use cluster::census::{HubCensus, HubPage};
pub use cluster::peers::{PeerNode, PeerTransport, WORDS};

pub use connection::client::{ClientConnection, ClientOptions, ClientOutput, KeepAlive};
pub use connection::client_reader::{ClientClosedError, ClientReader};
pub use connection::identity::ClientIdentity;
pub use connection::ticket::{ClientTransport, ConnectionTicket, TicketConnection, TicketError};
pub use dispatch::call_queue::{MethodCall, MethodResponse};
pub use dispatch::clients::{Clients, SingleClient};
pub use dispatch::context::{ClientMigration, Context};
pub use dispatch::dispatcher::{HubDispatcher, HubOptions};
pub use dispatch::gateway;
pub use dispatch::gateway::{Audience, Binary, HubPayload, ProtocolSet};
pub use dispatch::hub::{Hub, Method};
pub use dispatch::upload::Upload;
pub use error::{Error, ErrorKind, HubError, HubResult, Result};
pub use hub_connections::{HubConnections, is_name};
pub use metrics::HubCounts;
pub use mode::{ServiceMode, Upstream, UpstreamEvent, UpstreamResponse};
pub use push::{PUSHES, PushCommand, PushMessage, PushPerformer, PushService, push};
pub use service::{AppServerSession, ClientDrainSummary, Realtime};

/// Items that generated code names.
#[doc(hidden)]
pub mod __private {
    pub use futures_util::future::BoxFuture;
    pub use std::sync::Arc;
}
