//! Event Hubs SDKs: AMQP, Blob, events over HTTP.
//!
//! # One event over AMQP, from socket to service and back
//!
//! One task per connection does all of it. The codecs are in `crates/wire/src/amqp`.
//!
//! 1. `amqp/handshake.rs`: headers, SASL, open. A client may also connect without SASL. In
//!    both cases it has no rights before it puts a token on `$cbs` (`amqp/requests.rs`), which
//!    `amqp/permit.rs` verifies by the server's keys or by the policies of the event hub.
//! 2. `amqp/serve.rs` reads into one buffer, which grows under load and is released when the
//!    connection is quiet, and cuts frames out of it without copying
//!    (`crates/wire/src/amqp/frame.rs`). It stops reading while too much is not durable or not
//!    written.
//!    The same file dispatches frames by their performative
//!    (`crates/wire/src/amqp/performative.rs`; missing fields at the end are null), and work
//!    that is done.
//! 3. `amqp/connection.rs` has sessions, links and tokens. `amqp/attach.rs` reads and checks
//!    the request for a link, calls the service, answers, and then handles what the client
//!    has sent behind its attach. A refused link gets an attach without our terminus and a detach in one write,
//!    and no credit.
//! 4. `amqp/receive.rs`: messages in many frames are joined, up to the limit; a larger one is
//!    discarded and rejected. A batch is cut at its data sections
//!    (`crates/wire/src/amqp/event.rs`). Each message is stored whole, section by section,
//!    byte for byte (`message.rs` beside it): sections are found, bodies never
//!    decoded. Publications of one link are submitted one after another, so order is kept, and
//!    many wait for durability at a time.
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
//! All waiting is in `amqp/work.rs`: results return to the connection as `WorkCompletion`, and
//! the work of a link ends with the link. `amqp/condition.rs` is the one table from errors to
//! conditions. `amqp/websocket.rs` is the same stream inside binary messages; `publish/`
//! accepts events by plain HTTP. A small client for load, tests and commands is in
//! `crates/client/src/amqp.rs`.
//!
//! # Walk: one AMQP event
//!
//! A producer sends an event of 1 KiB in one frame, to a partition of this node in a data
//! folder. The list has every file with a function that the event runs through, until it is
//! accepted; those that branch on the event or on a state decide. Left out are declarations,
//! primitives of an encoding, locks and queues, and what a step only looks up. The goal is 11
//! deciding files and 25 in all.
//!
//! - decides `crates/eventhubs/src/amqp/serve.rs`: `on_frame`
//! - passes `crates/wire/src/amqp/frame.rs`: `take`
//! - passes `crates/wire/src/amqp/performative.rs`: `read`
//! - passes `crates/wire/src/amqp/delivery.rs`: `read`
//! - decides `crates/eventhubs/src/amqp/receive.rs`: `on_transfer`, `on_published`
//! - decides `crates/eventhubs/src/amqp/session.rs`: `on_transfer`, `take`, `flush_accepted`
//! - passes `crates/wire/src/amqp/event.rs`: `open`, `store`
//! - passes `crates/wire/src/amqp/message.rs`: `next`
//! - passes `crates/events/src/batch.rs`: `push`
//! - decides `crates/events/src/sender.rs`: `submit_as`, `published`
//! - passes `crates/partition/src/ingress/mailbox.rs`: `begin`
//! - decides `crates/partition/src/owner/owner_loop.rs`: from `calls`
//! - decides `crates/partition/src/execution/sequencer.rs`: `accept_some`, `release`
//! - decides `crates/partition/src/execution/blocked_commands.rs`: `blocking`
//! - decides `crates/partition/src/execution/run.rs`: `settle`
//! - passes `crates/partition/src/execution/turn.rs`: `handle`
//! - decides `crates/events/src/hub_partition.rs`: `handle`
//! - decides `crates/events/src/retention.rs`: `note`
//! - decides `crates/storage/src/ledger.rs`: `stage_after`
//! - decides `crates/storage/src/partition_state.rs`: `begin`, `stage`
//! - passes `crates/storage/src/state.rs`: `redo`
//! - passes `crates/storage/src/streams.rs`: `stage`
//! - decides `crates/storage/src/commit.rs`: from `ready`
//! - passes `crates/storage/src/body.rs`: `encode`
//! - passes `crates/storage-local/src/engine.rs`: `append`
//! - decides `crates/storage-local/src/commit_log.rs`: `append`
//! - passes `crates/storage-local/src/record.rs`: `put_entry`
//! - decides `crates/partition/src/execution/gate.rs`: `hold`, `pass`
//! - passes `crates/eventhubs/src/amqp/frame_buffer.rs`: `frame`
//!
//! Missed: nine of these files are the log of one node, whose parts stand in files of their
//! own because engines and tests replace them; four check a state each before the loop may
//! go on (blocked commands, retention, rollback, gate).
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
//! 4. `blob/container.rs`, `blob/object.rs`, `blob/block.rs`, `blob/lease.rs`, `blob/list.rs`:
//!    the operation itself, by `steadfast_events::Blobs`. A body is read within limits and
//!    with room for all of them together, uploaded part by part if it is over 1 MiB, and sent
//!    in pieces (`blob/body.rs`).
//! 5. `blob/error.rs` is the one table from errors to the codes that clients know.
//!    `blob/routes.rs` adds the headers of every answer.
//!
//! # Tests
//!
//! - `tests/eventhubs/amqp_*.rs`: AMQP frame by frame: openings, links, producers,
//!   requests, bounds.
//! - `tests/eventhubs/blob_*.rs`: blobs request by request: what .NET's clients send in
//!   blocks and with leases, the rights of keys and of signatures, and the memory that
//!   256 MiB take.
//! - `tests/eventhubs/events_http.rs`: events over HTTP.
//! - `cargo xtask mutants protocols` plants faults in sessions and budgets.

pub mod amqp;
pub mod blob;
pub mod publish;
