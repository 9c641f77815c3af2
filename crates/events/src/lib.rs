//! Event hubs: append, read, own, checkpoint.
//!
//! An event hub has a fixed number of partitions, each a log of publications. Hub
//! partitions run as services in Steadfast's own partitions: [`EventHubs`] is the API
//! for the rest of a node, [`register`] adds the services to a node. Event formats and
//! transport protocols are outside this crate.

mod attach;
mod batch;
mod blob;
mod catalog;
mod chair;
mod checkpoint;
mod claim;
mod definition;
mod error;
mod followers;
mod groups;
#[cfg(doctest)]
mod guide;
mod hash;
mod hubs;
mod import;
mod letter;
mod live;
mod parked;
mod place;
mod position;
mod processor;
mod producer;
mod reader;
mod retention;
mod sealer;
mod sender;
mod slot;
mod slot_command;
mod slot_group;
mod traffic;

pub use attach::Attach;
pub use batch::{Batch, Event, Publication};
pub use blob::{
    Blob, Blobs, Block, BlockChoice, BlockLists, Conditions, Container, Kept, Layout, Lease,
    LeaseAction, LeaseState, Match, Page, Pairs, Put, Staged, event_hub_of,
};
pub use catalog::Change;
pub use checkpoint::{Checkpoint, Condition};
pub use claim::Ownership;
pub use definition::{DEFAULT_GROUP, Definition, EventHub, Group, Policy, Retention, Rights};
pub use error::{Error, Kind, Result};
pub use groups::{Claimed, Standing};
pub use hash::partition_of;
pub use hubs::{EventHubs, register, register_sealed};
pub use import::emulator_definitions;
pub use letter::letter;
pub use live::ReaderCounts;
pub use parked::Parked;
pub use place::{BLOB, CATALOG, CLAIM, SLOT};
pub use position::Position;
pub use processor::{
    CloseReason, Context, Every, Failure, Guarantee, Handled, Handler, Opening, Processor,
    ProcessorOptions, Received, Trouble,
};
pub use producer::{ProducerState, Stamp, Wish};
pub use reader::{PartitionProperties, Reader};
pub use sealer::Sealer;
pub use sender::{Sender, Submitted};
pub use slot_command::Published;
pub use traffic::Traffic;
