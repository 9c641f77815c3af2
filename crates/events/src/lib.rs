//! Event hubs: append, read, own, checkpoint.
//!
//! An event hub has a fixed number of partitions, each a log of publications. Hub
//! partitions run as services in Steadfast's own partitions: [`EventHubs`] is the API
//! for the rest of a node, [`register`] adds the services to a node. Event formats and
//! transport protocols are outside this crate.
//!
//! # One event, from sender to disk and back
//!
//! This crate does not know how the bytes of an event came from a socket.
//!
//! 1. `batch.rs`, `EventDataBatch`: events are opaque bytes, one after the other in one
//!    blob, behind the partition key. One blob per publication; no row and no allocation
//!    per event.
//! 2. `sender.rs`, `EventSender::submit`: the partition is the named one, or the hash of
//!    the key (`hash.rs`), or the next in turn. Partitions of one event hub lie in
//!    neighbouring partitions of the store. `Mailbox::begin` puts the command into the
//!    queue there, so the next submission comes after it.
//! 3. `hub_partition.rs`, in the owner loop. A hub partition is created on first use: its
//!    row names its stream. The number of an idempotent producer is checked
//!    (`producer.rs`). `Turn::publish` returns sequence number and offset at once, because
//!    the loop is the only writer of the stream.
//! 4. `retention.rs` marks a position now and then, in the row of the hub partition, and
//!    trims at such a mark: by size in the same commit, by age when the durable timer of
//!    the partition fires. It never reads events.
//! 5. From here the path is that of one commit (documentation of
//!    `crates/storage/src/lib.rs`). The acknowledgement waits in the gate.
//!
//! Back, to readers:
//!
//! 6. `hubs.rs`, `EventHubs::reader`: the start position becomes a sequence number
//!    (`position.rs`), and `reader_registry.rs` admits the reader. A reader that has to
//!    yield is disconnected in the same step, before the new one starts.
//! 7. `reader.rs`: a reader buffers a small read-ahead (`limits::READER_BYTES`) and nothing
//!    else. At the end it waits for the durable end of the stream (`Ledger::follow`), which
//!    only events of its own stream move.
//! 8. `batch.rs`, `EventPublication`: events are cut out of the blob one by one. The offset
//!    of an event is the position of its last byte, so the last event of a stream has the
//!    offset before its end, and an empty stream ends at -1.
//!
//! A definition (`catalog.rs`) is a row of one instance, so that all can be listed; hub
//! partitions learn of a change through messages of the same commit. Ownerships of a group
//! are one instance (`ownership.rs`); checkpoints and dead letters are stored with the hub
//! partition (`hub_partition_groups.rs`), for exactly-once processing.
//!
//! # One event, handled exactly once
//!
//! 1. `processor/balancer.rs`: a processor is a member of its group (`crates/ownership`).
//!    Each cycle renews, lists, and writes what the plan says, through `EventHubs::claim`.
//!    A claim that changes the owner disconnects the previous reader before the claim is
//!    answered.
//! 2. `processor/pump.rs`: one task per partition. It reads from the checkpoint on.
//! 3. `processor/attempt.rs`: the handler gets some events and, with exactly-once, a
//!    transaction over collections that live in the same partition of the store.
//!    `CollectionReplicas::commit` (`crates/partition`) prepares it and commits it together
//!    with a command that moves the checkpoint **from the position that this task
//!    expects**. If the checkpoint is elsewhere (another owner, a reset), the hub partition
//!    refuses, and nothing of the transaction is written. So no clock and no lease decides
//!    whether an effect happens twice. What the handler sends is in the outbox of the same
//!    commit; a message that the commit refuses is a failure of the handler.
//! 4. A handler that fails gets the events again, one by one; then the event that fails is
//!    dead-lettered, in the same commit that moves the checkpoint past it.
//!
//! # Blobs
//!
//! Blobs (`blob/`) are rows in pieces, with a version from one counter per partition. An
//! upload is a run of pieces that no blob refers to yet, and a timer removes it if it
//! stays unused; a blob in blocks is a list of such runs (`blob/block.rs`). A lease is
//! part of the row of its blob (`blob/lease.rs`). A write to an SDK's ownership blob that
//! changes the owner disconnects readers like a claim. The documentation of
//! `crates/net/src/lib.rs` describes their path from a socket.
//!
//! # Tests
//!
//! - `crates/events/tests`: event hubs on the local engine in a folder: publishing, start
//!   positions, epochs, retention, definitions, blobs, processors that join, leave and
//!   fail; items of the checklist are named `events_NN_..`.
//! - `tests/events/kill.rs`: real processes, `kill -9`: accepted events are still stored,
//!   idempotent producers store no duplicates, the totals of a processor are exact.

mod batch;
mod blob;
mod catalog;
mod checkpoint;
mod dead_letter;
mod definition;
mod emulator_config;
mod error;
mod groups;
#[cfg(doctest)]
mod guide;
mod hash;
mod hub_partition;
mod hub_partition_command;
mod hub_partition_groups;
mod hubs;
mod keys;
mod local_processors;
mod ownership;
mod position;
mod processor;
mod producer;
mod publish_message;
mod reader;
mod reader_lease;
mod reader_options;
mod reader_registry;
mod retention;
mod sealer;
mod sender;
mod traffic;

pub use batch::{EventData, EventDataBatch, EventPublication};
pub use blob::{
    AccountUsage, Blob, BlobLease, BlobPage, BlobPairs, Blobs, Block, BlockChoice, BlockLists,
    CheckpointStoreEntry, Conditions, Container, ContainerUsage, Layout, LeaseAction, LeaseState,
    PutBlobRequest, UploadHandle, VersionMatch, event_hub_of,
};
pub use catalog::EventHubChange;
pub use checkpoint::{Checkpoint, CheckpointCondition};
pub use dead_letter::DeadLetter;
pub use definition::{
    AccessPolicy, ConsumerGroup, DEFAULT_GROUP, EventHub, EventHubDefinition, EventRetention,
    Rights,
};
pub use emulator_config::emulator_definitions;
pub use error::{Error, ErrorKind, Result};
pub use groups::{ClaimOutcome, GroupPartitionStatus};
pub use hash::partition_of;
pub use hub_partition_command::PublishReceipt;
pub use hubs::{EventHubs, limit_blob_accounts, register, register_sealed};
pub use keys::{BLOB, CATALOG, CLAIM, HUB_PARTITION};
pub use ownership::Ownership;
pub use position::EventPosition;
pub use processor::{
    CheckpointPolicy, CloseReason, Context, Guarantee, Handler, HandlerError, HandlerResult,
    PartitionStart, Processor, ProcessorError, ProcessorOptions, ReceivedEvent,
};
pub use producer::{ProducerOptions, ProducerSequence, ProducerState};
pub use publish_message::{EventMessage, publish, publish_message};
pub use reader::{PartitionProperties, PartitionReader};
pub use reader_options::ReaderOptions;
pub use reader_registry::ReaderCounts;
pub use sealer::Sealer;
pub use sender::{EventSender, PendingPublication};
pub use traffic::Traffic;
