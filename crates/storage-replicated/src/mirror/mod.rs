//! A space on two engines: every commit is on both.
//!
//! [`Mirror`] stands in front of the owner's engine. What it acknowledges is durable
//! there and, copied by [`PeerRegion`], at the other region, where a [`MirrorFollower`] applies it.
//! It acknowledges alone only once the witness has recorded that ([`LeaderLease`]). [`Voter`]s
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
mod follower;
mod generation;
mod leader_lease;
mod record;
mod times;
mod vote;

pub use copy::{CopyRequest, CopyResponse, CopyStep};
pub use engine::{Mirror, PeerRegion};
pub use follower::MirrorFollower;
pub use generation::CopyGeneration;
pub use leader_lease::{LeaderLease, LeaderMode};
pub use record::{read_record, write_record};
pub use times::{BEGINNING, PATIENCE, RENEWAL, TTL, USED};
pub use vote::{Ballot, VoteDecision, VoteRequest, VoteResponse, Voter};

#[cfg(test)]
mod tests;
