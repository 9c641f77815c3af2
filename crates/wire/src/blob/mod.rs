//! Blob storage on the wire: who has signed, and XML.
//!
//! Only what clients of Event Hubs and of block blobs need.

pub mod block_list;
pub mod place;
pub mod sas;
pub mod shared_key;
pub mod xml;
