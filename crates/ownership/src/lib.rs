//! Who owns which partition, decided without I/O.
//!
//! Records and their conditional writes, a census of a listing, the balancing
//! plan, the member that carries it out cycle by cycle, and the drain in four
//! phases. Everything is synchronous; time, randomness and the results of writes are
//! passed in. The same code serves users' event processors and the cluster's own
//! partitions, app servers and nodes.
//!
//! # One balancing cycle
//!
//! Nothing here does I/O: the caller of a member carries the writes to a store and the
//! answers back.
//!
//! 1. `member.rs`, `GroupMember::renewals`: a conditional write for each partition that the
//!    member holds. A conflict means lost.
//! 2. The caller lists the records of the group into an `OwnershipListing` (`listing.rs`):
//!    one row per partition, owners numbered.
//! 3. `census.rs`, `Census::take`: one pass counts what each owner has, as of the time at
//!    which the listing was *requested*, so a slow answer makes no member look dead.
//!    Members are sorted by what they own, so every set that the rules speak of is one
//!    range. O(partitions); a plan then costs what its member holds and takes.
//! 4. `balance.rs`, `plan`: adopts, claims and steals. `strategy.rs` sets how many: one at
//!    random (the reference), all that is unclaimed and due, or the whole **share**.
//! 5. `member.rs`, `GroupMember::record_outcome`: won, lost, or unknown; an unknown write
//!    is settled by the next listing.
//!
//! Three rules make shares work for a thousand members that see old listings:
//!
//! - All members compute the same matching of what is missing with what is unclaimed or in
//!   **excess**, and the same partitions as excess. So two members with one view never
//!   steal the same partition, and no steal leaves a member below its share. Several
//!   members may claim the same unclaimed partition; the conditional write picks one, and
//!   that is no surplus move.
//! - A newcomer that is in no other member's listing takes one partition and waits for an
//!   interval. Otherwise members that join together would each take what belongs to the
//!   others. (A cluster knows its members by other means and passes them in:
//!   `Census::with_members`.)
//! - An owner now is better than the right owner later: a partition that expired half an
//!   interval ago, or is set aside for a member that is **late**, goes to any member.
//!
//! A steal of a user's partition is a write. A steal of one of the cluster's own is a
//! request to its owner, which answers with `GroupMember::give`.
//!
//! The drain (`drain.rs`) is a separate state machine: events in, actions out, four phases
//! (offline, hooks, leave, close), one limit. It knows guests, and not whether they are
//! clients or partitions.
//!
//! # Tests
//!
//! - `tests/ownership/reference.rs`: the plan against a naive model of the rules: the
//!   same set of permitted choices.
//! - `tests/ownership/properties.rs`: small groups, any strategy, any conditions: they
//!   come to rest, stay there, and leave nothing behind.
//! - `tests/ownership/members.rs`: 1,000 members, 32,768 partitions, joins, crashes,
//!   leaves and a slow store: balanced within 6 rounds (10 if slow) after the expiration,
//!   at most 10 % surplus moves, nothing without an owner for longer than expiration and
//!   interval. A seed decides everything.
//! - `tests/ownership/drain.rs`: the drain under any order of events.

pub mod balance;
pub mod census;
pub mod drain;
pub mod listing;
pub mod member;
pub mod random;
pub mod record;
pub mod strategy;
