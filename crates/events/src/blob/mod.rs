//! Blobs: containers, bodies, blocks, metadata and leases.

mod block;
mod checkpoint_blob_name;
mod checkpoint_store;
mod command;
mod key;
mod lease;
mod page;
mod record;
pub(crate) mod service;
mod store;
mod upload;

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
