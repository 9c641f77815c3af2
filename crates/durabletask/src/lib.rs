//! Durable Task: gRPC for the SDKs, and a REST API.
//!
//! Unmodified workers and clients speak `TaskHubSidecarService`. `durabletask-messages`
//! translates their messages for the engine; the only state here is the open work streams.
//!
//! # One work item, from a task hub to a worker and back
//!
//! Messages are in `crates/wire/src/durabletask`, generated from the published interface and
//! compared with the bytes of an SDK. The trait of the service is generated too.
//!
//! 1. `routes.rs`: the path names a method, the method a right. `context.rs`: metadata names
//!    the task hub and the worker, and shows a key unless the server is for development.
//!    `crates/net/src/grpc.rs` bounds the body; the generated service reads the message, calls
//!    `service.rs` and writes the answer.
//! 2. `stream.rs`: a worker opens its stream. A ping is sent at once, and after every 30 s of
//!    silence. The stream waits only for `WorkerStream::next` of the engine.
//! 3. `crates/durabletask-messages/src/work.rs` converts the item to a message. A history over
//!    1 MiB is left out if the worker can fetch it (`history.rs`, in chunks of 256 KiB). The
//!    result of a batch does not name its entity, so the token includes it.
//! 4. The worker answers. `workers.rs`: `crates/durabletask-messages/src/action.rs` and
//!    `crates/durabletask-messages/src/entity.rs` decode the result. A malformed result fails
//!    the instance, because a retry would repeat it endlessly. The engine keeps parts of a
//!    result until the last one has arrived.
//! 5. Stale or fresh, the worker gets `OK`; `status.rs` is the one table from errors to
//!    statuses.
//!
//! Clients: `clients.rs` and `entities.rs`. A wait is one future of the engine, beside the
//! client's time-out and the drain of the node. `crates/durabletask-messages/src/legacy.rs`
//! reads and writes messages to entities in the form of older workers: events with JSON in
//! them. `rest/` is the HTTP interface of Durable Functions on the same engine: `resource.rs`
//! parses the path, `rest/request.rs` the rest, `json_views.rs` writes JSON.

mod clients;
mod context;
mod entities;
mod fit;
#[allow(unreachable_pub, unused_qualifications, reason = "it is generated")]
mod generated;
mod history;
pub mod rest;
mod routes;
mod service;
mod status;
mod stream;
mod workers;

pub use context::Context;
pub use routes::{METHODS, no_service, routes};
