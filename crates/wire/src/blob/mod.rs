//! Blob storage on the wire: signatures and XML.
//!
//! Only the subset that clients of Event Hubs and of block blobs need.

pub mod block_list;
pub mod name;
pub mod path;
pub mod sas;
pub mod shared_key;
pub mod xml;
