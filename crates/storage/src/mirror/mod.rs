//! A space on two engines: every commit is on both.
//!
//! [`Mirror`] stands in front of the owner's engine. What it acknowledges is durable
//! there and, copied by [`Pair`], at the other region, where a [`Follower`] applies it.
//! It acknowledges alone only once the witness has recorded that ([`Seat`]). [`Voter`]s
//! decide who owns the space: one in each region, one at the witness; two of three agree.
//!
//! Why nothing acknowledged is lost by a takeover:
//!
//! - The other region takes over only with the witness's vote, and the witness gives it
//!   only if the last owner has not recorded that it works alone.
//! - Before it claims, it refuses copies of the old epoch. So an entry is in its copy
//!   before the takeover, or is never acknowledged.
//! - A voter that has granted an owner a lease votes for no other region until the lease
//!   has ended, by its own clock; the owner stops two seconds earlier, by its own.
//!
//! Tables are mirrored; streams of events are not, and an entry with events is refused.

mod copy;
mod engine;
mod follow;
mod generation;
mod record;
mod seat;
mod times;
mod vote;

pub use copy::{Copy, Reply, Step};
pub use engine::{Mirror, Pair};
pub use follow::Follower;
pub use generation::Generation;
pub use record::{read_record, write_record};
pub use seat::{Mode, Seat};
pub use times::{BEGINNING, PATIENCE, RENEWAL, TTL, USED};
pub use vote::{Ask, Ballot, Say, Verdict, Voter};

#[cfg(test)]
mod tests;
