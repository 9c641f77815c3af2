//! Small blobs: containers, bodies, metadata, versions.

mod record;
pub(crate) mod service;
mod store;

pub use record::{Blob, Conditions, Container, Match, Pairs, Put};
pub use store::{Blobs, Page};
