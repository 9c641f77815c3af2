//! Sessions and routing of all protocols.
//!
//! Protocol types end here: the services below know nothing of HTTP or AMQP. No state in
//! this crate outlives a connection.
//!
//! # One request, from socket to answer
//!
//! 1. `listen/listener.rs`: the listener takes a permit (connections are bounded;
//!    `listen/stream.rs` holds it until the connection closes, also after an upgrade to
//!    a WebSocket), accepts the connection and, with a `Certificate`
//!    (`listen/certificate.rs`), encrypts it within a time limit. When descriptors run
//!    out the listener waits, and continues.
//! 2. `http/serve.rs`: HTTP/1.1 or 2, with its limits. An idle client is disconnected.
//! 3. The middleware of all routes, from outside in: `http/forwarded.rs` (the client's
//!    address, and which proxies are trusted), `http/span.rs` (a span under the caller's
//!    `traceparent`), `http/metrics.rs`, `http/cors.rs`.
//! 4. `rest/interface.rs`: the guard of the route passes the proof and the demand of the
//!    route (`access/demand.rs`: rights, area, entity, audience) to `access/verify.rs`, the
//!    one place that verifies secrets, signatures and web tokens; it returns a `Principal`.
//!    Only then is the body read, within limits.
//! 5. `rest/node.rs`: the handler calls `NodeAdmin`, which the node implements:
//!    `crates/steadfast/src/node/admin.rs`. Services are reached by a `Handle`
//!    (documentation of `crates/partition/src/lib.rs`).
//! 6. Back: `http/problem.rs` is the one form of errors and the one table from codes to
//!    statuses.
//!
//! # One event over AMQP, from socket to service and back
//!
//! One task per connection does all of it. The codecs are in `crates/wire/src/amqp`.
//!
//! 1. `amqp/handshake.rs`: headers, SASL, open. A client may also connect without SASL. In
//!    both cases it has no rights before it puts a token on `$cbs` (`amqp/requests.rs`),
//!    which `amqp/permit.rs` verifies by the server's keys or by the policies of the event
//!    hub.
//! 2. `amqp/serve.rs` reads into one buffer, which grows under load and is released when
//!    the connection is quiet, and cuts frames out of it without copying
//!    (`crates/wire/src/amqp/frame.rs`). It stops reading while too much is not durable or
//!    not written.
//! 3. `amqp/connection.rs`: what each performative does
//!    (`crates/wire/src/amqp/performative.rs`); missing fields at the end are null.
//!    `amqp/attach.rs` reads and checks the request for a link and calls the service;
//!    `amqp/attach_reply.rs` answers, and then handles what the client has sent behind its
//!    attach. A refused link gets an attach without our terminus and a detach in one write,
//!    and no credit.
//! 4. `amqp/receive.rs`: messages in many frames are joined, up to the limit; a larger one
//!    is discarded and rejected. A batch is cut at its data sections
//!    (`crates/wire/src/amqp/batch.rs`). Each message is stored whole, section by section,
//!    byte for byte (`event.rs` and `message.rs` beside it): sections are found, bodies
//!    never decoded. Publications of one link are submitted one after another, so order is
//!    kept, and many wait for durability at a time.
//! 5. From here the path is that of one event, from sender to disk (documentation of
//!    `crates/events/src/lib.rs`).
//! 6. Durable publications are accepted together in one disposition (`amqp/session.rs`).
//!
//! To readers:
//!
//! 7. `amqp/deliver.rs`: a link holds one publication and fetches the next when that is
//!    delivered. While there is credit, window and room in the frame buffer, each event is
//!    written straight into it: a transfer, our annotations, the sender's, and the stored
//!    bytes. Links take turns.
//! 8. `amqp/frame_buffer.rs`: many frames leave in one write.
//!
//! All waiting is in `amqp/work.rs`: results return to the connection as `WorkCompletion`,
//! and the work of a link ends with the link. `amqp/condition.rs` is the one table from
//! errors to conditions. `amqp/websocket.rs` is the same stream inside binary messages;
//! `publish/` accepts events by plain HTTP. `amqp/client.rs` is a small client for load,
//! tests and commands.
//!
//! # One work item, from a task hub to a worker and back
//!
//! Messages are in `crates/wire/src/durabletask`, written as derives and compared with the
//! bytes of an SDK.
//!
//! 1. `durabletask/routes.rs`: the path names a method, the method a right.
//!    `durabletask/context.rs`: metadata names the task hub and the worker, and shows a key
//!    unless the server is for development. `grpc.rs` reads the message and writes the
//!    answer.
//! 2. `durabletask/stream.rs`: a worker opens its stream. A ping is sent at once, and after
//!    every 30 s of silence. The stream waits only for `WorkerStream::next` of the engine.
//! 3. `durabletask/convert/work.rs` converts the item to a message. A history over 1 MiB
//!    is left out if the worker can fetch it (`durabletask/history.rs`, in chunks of 256
//!    KiB). The result of a batch does not name its entity, so the token includes it.
//! 4. The worker answers. `durabletask/workers.rs`: `durabletask/convert/action.rs` and
//!    `durabletask/convert/entity.rs` decode the result. A malformed result fails the
//!    instance, because a retry would repeat it endlessly. The engine keeps parts of a
//!    result until the last one has arrived.
//! 5. Stale or fresh, the worker gets `OK`; `durabletask/status.rs` is the one table from
//!    errors to statuses.
//!
//! `durabletask/remote/` is the other end, for Rust: `target.rs` parses the connection
//! string, `channel.rs` keeps one HTTP/2 connection, `worker.rs` opens one stream after the
//! other and runs the work items by `crates/durable/src/native/runner.rs`, `chunks.rs`
//! splits long results, `results.rs` sends waiting results together, `client.rs` is the
//! client. `durabletask/convert/decode_remote.rs` and `durabletask/convert/encode.rs` are
//! the reverse directions.
//!
//! Clients: `durabletask/clients.rs` and `durabletask/entities.rs`. A wait is one future of
//! the engine, beside the client's time-out and the drain of the node.
//! `durabletask/convert/legacy.rs` reads and writes messages to entities in the form of
//! older workers: events with JSON in them. `durabletask/rest/` is the HTTP interface of
//! Durable Functions on the same engine: `resource.rs` parses the path,
//! `durabletask/rest/request.rs` the rest, `json_views.rs` writes JSON.
//!
//! # One blob, from socket to row
//!
//! 1. `blob/request.rs`: address, parameters and headers are parsed once
//!    (`crates/wire/src/blob/path.rs`).
//! 2. `blob/permit.rs`: the signature covers the request
//!    (`crates/wire/src/blob/shared_key.rs`) or a part of the query
//!    (`crates/wire/src/blob/sas.rs`). Secrets are compared in `access/verify.rs`, as
//!    everywhere.
//! 3. `blob/operation.rs`: which operation it is, or that it is not supported; then whether
//!    the signer is authorised.
//! 4. `blob/container.rs`, `blob/object.rs`, `blob/block.rs`, `blob/lease.rs`,
//!    `blob/list.rs`: the operation itself, by `steadfast_events::Blobs`. A body is read
//!    within limits and with room for all of them together, uploaded part by part if it is
//!    over 1 MiB, and sent in pieces (`blob/body.rs`).
//! 5. `blob/error.rs` is the one table from errors to the codes that clients know.
//!    `blob/routes.rs` adds the headers of every answer.
//!
//! # Tests
//!
//! - `tests/blob_*.rs`: blobs request by request: what .NET's clients send in blocks and
//!   with leases, the rights of keys and of signatures, and the memory that 256 MiB take.
//! - `tests/scheduler_*.rs`: the Scheduler over real sockets, killed processes, the Python
//!   SDK, Azurite.
//! - `tests/scheduler_pair.rs`: REST over two regions, one of which is unhealthy or
//!   cannot reach the other.
//! - `tests/cluster_talk.rs`: admission between nodes, by key, cluster, version and
//!   certificate.
//! - `tests/realtime_*.rs`: SignalR over real sockets: transports byte by byte, an app
//!   server written from the specification, servers that are replaced under load, clients
//!   without servers and their upstreams.
//! - `cargo xtask mutants access`, `protocols` and `wire` plant faults in proofs and
//!   rights, in sessions and budgets, and in the formats.

pub mod access;
pub mod amqp;
pub mod blob;
pub mod cluster;
pub mod connection_string;
pub mod durabletask;
pub mod egress;
mod grpc;
pub mod http;
pub mod listen;
pub mod log_ring;
pub mod network;
pub mod outbound;
pub mod publish;
pub mod realtime;
pub mod rest;
pub mod scheduler;
pub mod sealing;
pub mod telemetry;
