//! Small blobs: containers, bodies, metadata, versions.

mod kept;
mod mark;
mod record;
pub(crate) mod service;
mod store;

pub use kept::Kept;
pub use record::{Blob, Conditions, Container, Match, Pairs, Put};
pub use store::{Blobs, Page};
