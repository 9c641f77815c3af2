//! Volatile partitions in the memory of several nodes.
//!
//! [`Copies`] is the mirror of volatile spaces in a cluster: an engine whose entries are
//! acknowledged when a majority of the holders has them. Who holds a partition is a
//! record of the durable engine ([`Charter`]).
//!
//! Why nothing acknowledged is lost while enough holders live:
//!
//! - Only the owner of the epoch on the record changes the holders, by compare-and-swap,
//!   and only to those who have everything. While that is under way, an entry needs a
//!   majority of both sets.
//! - Whoever wants to own the partition raises the epoch first, then asks the holders.
//!   They obey no earlier epoch from then on. Of so many answers that every majority is
//!   among them, the furthest is begun from ([`decide`]).
//! - If so many holders are dead that an acknowledged entry may be gone, everything is:
//!   the partition begins anew, empty, which collections notice by their incarnation.
//! - A node that is the only holder is fenced by its lease alone.
//!
//! What travels is entries with their numbers, not redo in steps as between regions:
//! copies of several nodes have to be comparable. A copy has no log; entries become rows
//! at once. Streams of events are not copied, and an entry with events is refused.

mod charter;
mod claim;
mod engine;
mod line;
mod peers;
mod quorum;
mod seat;
mod tend;
mod word;

pub use charter::Charter;
pub use engine::{Copies, Setup};
pub use peers::Peers;
pub use quorum::{COPIES, Heard, Verdict, decide, hearing, majority};

pub use crate::copied::Position;

#[cfg(test)]
mod tests;
