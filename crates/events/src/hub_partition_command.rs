//! Commands and responses of a hub partition.

use bytes::Bytes;
use steadfast_collections::schema::Record;

use crate::checkpoint::{Checkpoint, CheckpointCondition};
use crate::dead_letter::DeadLetter;
use crate::definition::EventHubTerms;
use crate::keys::message;
use crate::producer::{ProducerOptions, ProducerSequence, ProducerState};

#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) enum HubPartitionCommand {
    /// Ensures that the stream exists.
    #[n(0)]
    Open(EventHubTerms),
    #[n(1)]
    Publish(PublishCommand),
    /// Opens or takes over an idempotent producer.
    #[n(2)]
    Producer {
        #[n(0)]
        terms: EventHubTerms,
        #[n(1)]
        wish: ProducerOptions,
        /// The id of a new producer.
        #[n(2)]
        fresh: i64,
    },
    /// The event hub was changed.
    #[n(3)]
    Configure(EventHubTerms),
    /// The event hub was deleted; it had these groups.
    #[n(4)]
    Close {
        #[n(0)]
        hub: u64,
        #[n(1)]
        groups: Vec<String>,
    },
    /// A group was deleted.
    #[n(5)]
    Forget {
        #[n(0)]
        hub: u64,
        #[n(1)]
        group: String,
    },
    /// A timer: events may have exceeded the age bound.
    #[n(6)]
    Expire(u64),
    /// Moves a group's checkpoint.
    #[n(7)]
    Advance(AdvanceCommand),
    /// Reads a group's checkpoint.
    #[n(8)]
    Checkpoint {
        #[n(0)]
        hub: u64,
        #[n(1)]
        group: String,
    },
    /// Stores a dead letter of a group.
    #[n(9)]
    AddDeadLetter {
        #[n(0)]
        hub: u64,
        #[n(1)]
        group: String,
        #[n(2)]
        parked: DeadLetter,
    },
    /// Removes a dead letter.
    #[n(10)]
    RemoveDeadLetter {
        #[n(0)]
        hub: u64,
        #[n(1)]
        group: String,
        #[n(2)]
        sequence: i64,
    },
}

#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct PublishCommand {
    #[n(0)]
    pub(crate) terms: EventHubTerms,
    #[n(1)]
    pub(crate) count: u32,
    #[n(2)]
    pub(crate) blob: Bytes,
    #[n(3)]
    pub(crate) stamp: Option<ProducerSequence>,
}

#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct AdvanceCommand {
    #[n(0)]
    pub(crate) hub: u64,
    /// In lower case.
    #[n(1)]
    pub(crate) group: String,
    #[n(2)]
    pub(crate) checkpoint: Checkpoint,
    #[n(3)]
    pub(crate) condition: CheckpointCondition,
}

#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) enum HubPartitionResponse {
    #[n(0)]
    Done,
    /// The number of the hub partition's stream.
    #[n(1)]
    Opened(u32),
    #[n(2)]
    Published(PublishReceipt),
    #[n(3)]
    Producer(ProducerState),
    #[n(4)]
    Checkpoint(Option<Checkpoint>),
}

/// The acknowledgement of a publication.
#[derive(Record, Clone, Copy, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Published", closed)]
pub struct PublishReceipt {
    /// The sequence number of the first event; -1 for a repetition.
    #[n(0)]
    pub sequence: i64,
    /// The offset of the last event; -1 for a repetition.
    #[n(1)]
    pub last_offset: i64,
    #[n(2)]
    pub count: u32,
    /// A producer had published it before, so nothing was appended.
    #[n(3)]
    pub is_repeated: bool,
    /// The partition of the event hub.
    #[n(4)]
    pub partition: u32,
}

message!(HubPartitionCommand, HubPartitionResponse);
