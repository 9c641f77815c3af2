//! Blobs: containers, bodies, blocks, metadata and leases.

mod block;
mod command;
mod kept;
mod key;
mod lease;
mod mark;
mod page;
mod record;
pub(crate) mod service;
mod store;
mod upload;

pub use kept::Kept;
pub use lease::{Lease, LeaseAction, LeaseState};
pub use mark::event_hub_of;
pub use page::Page;
pub use record::{Blob, Block, BlockChoice, Conditions, Container, Match, Pairs, Put, Staged};
pub use store::{Blobs, Layout};
pub use upload::BlockLists;
