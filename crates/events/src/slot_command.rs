//! Commands and responses of a hub partition.

use bytes::Bytes;
use steadfast_collections::schema::Record;

use crate::checkpoint::{Checkpoint, Condition};
use crate::definition::Terms;
use crate::parked::Parked;
use crate::place::message;
use crate::producer::{ProducerState, Stamp, Wish};

#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) enum SlotCommand {
    /// Ensures that the stream exists.
    #[n(0)]
    Open(Terms),
    #[n(1)]
    Publish(Publish),
    /// Opens or takes over an idempotent producer.
    #[n(2)]
    Producer {
        #[n(0)]
        terms: Terms,
        #[n(1)]
        wish: Wish,
        /// The id of a new producer.
        #[n(2)]
        fresh: i64,
    },
    /// The event hub was changed.
    #[n(3)]
    Configure(Terms),
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
    Advance(Advance),
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
    Park {
        #[n(0)]
        hub: u64,
        #[n(1)]
        group: String,
        #[n(2)]
        parked: Parked,
    },
    /// Removes a dead letter.
    #[n(10)]
    Unpark {
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
pub(crate) struct Publish {
    #[n(0)]
    pub(crate) terms: Terms,
    #[n(1)]
    pub(crate) count: u32,
    #[n(2)]
    pub(crate) blob: Bytes,
    #[n(3)]
    pub(crate) stamp: Option<Stamp>,
}

#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct Advance {
    #[n(0)]
    pub(crate) hub: u64,
    /// In lower case.
    #[n(1)]
    pub(crate) group: String,
    #[n(2)]
    pub(crate) checkpoint: Checkpoint,
    #[n(3)]
    pub(crate) condition: Condition,
}

#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) enum SlotReply {
    #[n(0)]
    Done,
    /// The number of the hub partition's stream.
    #[n(1)]
    Opened(u32),
    #[n(2)]
    Published(Published),
    #[n(3)]
    Producer(ProducerState),
    #[n(4)]
    Checkpoint(Option<Checkpoint>),
}

/// The acknowledgement of a publication.
#[derive(Record, Clone, Copy, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Published {
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

message!(SlotCommand, SlotReply);
