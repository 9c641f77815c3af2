//! Blobs: containers, bodies, blocks, leases and accounts.

mod account;
mod allowance;
mod block;
mod checkpoint_blob_name;
mod checkpoint_store;
mod claim_locks;
mod command;
mod key;
mod lease;
mod page;
mod record;
pub(crate) mod service;
mod size;
mod store;
mod upload;
mod usage;
mod usage_record;

pub use account::{AccountUsage, ContainerUsage};
pub use checkpoint_blob_name::event_hub_of;
pub use checkpoint_store::CheckpointStoreEntry;
pub use lease::{BlobLease, LeaseAction, LeaseState};
pub use page::BlobPage;
pub use record::{
    Blob, BlobPairs, Block, BlockChoice, Conditions, Container, PutBlobRequest, UploadHandle,
    VersionMatch,
};
pub use store::{Blobs, Layout};
pub use upload::BlockLists;
