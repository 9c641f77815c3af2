//! Messages between partitions.

pub(crate) mod inbox;
pub(crate) mod outbox;
