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
//! 2. `client_reader.rs`: the handshake, then whole messages
//!    (`crates/wire/src/signalr/frame.rs`). Messages that were handled before are dropped
//!    (`resume.rs`).
//! 3. `migration.rs`, `deliver`: the message goes to the client's backend, or is held while
//!    the client migrates. A backend is a `HubDispatcher` (`dispatcher.rs`) in this
//!    process, an `AppServerLink` (`link.rs`) to an app server, where `app_server_hub.rs`
//!    has the same dispatcher behind it, or `serverless.rs`, which calls an upstream
//!    (`crates/signalr/src/upstream.rs`).
//! 4. `dispatcher.rs` and `call_queue.rs`: one call of a client at a time, in order;
//!    streams and uploads run beside them. `#[hub]` (`crates/macros/src/hub.rs`) has
//!    generated how arguments are decoded and the method is called.
//! 5. What the method sends goes through a `ClientGateway` (`gateway.rs`): to the
//!    connections of the hub directly (`hub_connections.rs`), or as messages to the
//!    service, where `links.rs` handles them.
//! 6. `outbox.rs`: the bounded queue of each client; `ClientConnection::outgoing` returns
//!    what the transport writes next, and pings.
//!
//! A send that is part of a commit is a command of its transaction
//! (`crates/collections/src/commit_path.rs`, `Tx::stage`; in an operation of an entity
//! `EntityContext::tell`). The owner of the partition runs it in the same commit
//! (`push.rs`, `PushService`), and its gate releases it to the queues of the clients
//! (`PushPerformer`) when the commit is durable.
//!
//! # One send in a cluster
//!
//! The sender uses `cluster/broadcast.rs`, which puts the message into the queues of this
//! node's clients and, once per node, into the lanes to the others (`cluster/peers.rs`,
//! `cluster/batch.rs`). There `cluster/server.rs` receives it, and `links.rs`,
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
//! calls end (`open_calls.rs`); the old server is paused; the new one is informed of the
//! client; the old one is informed that it has left; the held messages go to the new one.
//!
//! # Tests
//!
//! - `crates/realtime/tests`: hubs and clients without a transport: calls, streams, groups,
//!   bounds, clients that reconnect.

mod app_server_hub;
pub mod backend;
mod call_queue;
mod claims;
mod client;
mod client_reader;
mod client_times;
mod clients;
mod cluster;
mod context;
mod dispatcher;
mod error;
pub mod gateway;
mod hub;
mod hub_connections;
mod id;
mod identity;
mod keep_alive;
mod link;
mod link_set;
mod link_writer;
mod links;
mod local_gateway;
mod metrics;
mod migration;
mod mode;
mod open_calls;
mod outbox;
mod payload;
mod push;
mod resume;
mod routing;
mod serverless;
mod service;
mod ticket;
mod ticks;
mod upload;
mod value;

pub use app_server_hub::{AppServerHub, AppServerHubLink, ShutdownMode};
pub use client::{ClientConnection, ClientOptions};
pub use client_reader::{ClientClosedError, ClientReader};
pub use clients::{Audience, Clients, SingleClient};
pub use cluster::borrowed::{LentLink, LentLinkOutput};
pub use cluster::broadcast::ClusterConnections;
pub use cluster::census::{HubCensus, HubPage};
pub use cluster::peers::{PeerNode, PeerTransport, WORDS};
pub use context::{ClientMigration, Context};
pub use dispatcher::{HubDispatcher, HubOptions};
pub use error::{Error, ErrorKind, Result};
pub use hub::{Hub, HubError, HubResult, Method, MethodCall, MethodResponse};
pub use hub_connections::{HubConnections, is_name};
pub use identity::ClientIdentity;
pub use keep_alive::{ClientOutput, KeepAlive};
pub use link::AppServerLink;
pub use links::{AppServerStatus, LinkClosedError};
pub use metrics::HubCounts;
pub use mode::{ServiceMode, Upstream, UpstreamEvent, UpstreamResponse};
pub use payload::{HubPayload, ProtocolSet};
pub use push::{PUSHES, PushCommand, PushExt, PushPerformer, PushService};
pub use service::{AppServerSession, ClientDrainSummary, Realtime};
pub use ticket::{ClientTransport, ConnectionTicket, TicketConnection, TicketError};
pub use upload::Upload;
pub use value::Binary;

/// Items that generated code names.
#[doc(hidden)]
pub mod __private {
    pub use futures_util::future::BoxFuture;
    pub use std::sync::Arc;
}
