//! Engines whose state is in several places.
//!
//! [`mirror`] keeps a space in two regions, [`replicated_memory`] keeps volatile partitions in
//! the memory of several nodes. Both take their connections from `crates/partition`.
//!
//! # One commit in two regions
//!
//! The mirror is in `mirror`, the pair of regions in `crates/partition/src/region`.
//! `docs/decisions/0013-regions.md` gives the reasons.
//!
//! 1. A group goes from `storage/src/commit.rs` to `mirror/engine.rs` instead of the local
//!    engine. The mirror checks its leader lease (`mirror/leader_lease.rs`): a region that
//!    does not own the space writes nothing.
//! 2. The group is appended to the local engine. Then `crates/cluster-rpc/src/client.rs` sends
//!    its redo to the other region as one numbered step (`mirror/copy.rs`).
//! 3. There, `crates/partition/src/region/pair.rs` passes it to `mirror/follower.rs`, which
//!    refuses an old epoch, an earlier session or a missing step. Otherwise it commits the
//!    step through a store of its own, as one transaction in each partition with the number of
//!    the step, and answers when that is durable. After a restart that number says where to
//!    continue. A whole copy is made in a second generation of the partitions
//!    (`mirror/generation.rs`) and replaces the previous one by one record.
//! 4. Back: acknowledged. If there is no answer for 5 s, the mirror requests to work alone,
//!    and waits until `crates/partition/src/region/pair.rs` has had the witness record it.
//!
//! Absent: a clock that is compared with another one, a way to rewind a log, job data at the
//! witness, a redirect, a transaction over two homes.
//!
//! # One volatile commit in a cluster
//!
//! The engine is in `replicated_memory`; `crates/partition/src/volatile` opens its partitions.
//! `docs/decisions/0015-volatile-copies.md` gives the reasons.
//!
//! 1. `crates/steadfast/src/node/volatile_services.rs` opens a partition of a service: it
//!    requests the ledger of its store partition from
//!    `crates/partition/src/volatile/space.rs`, and compares the incarnation there with the
//!    one in the store partition of the same index in the main space
//!    (`crates/collections/src/service.rs`). If they differ, the owner is informed first.
//! 2. From `storage/src/commit.rs` on, where each partition has a committer of its own, an
//!    entry goes to `replicated_memory/engine.rs`. It is written to the memory of this node
//!    and, in the same moment, put into the queue of each holder
//!    (`replicated_memory/leader_state.rs`).
//! 3. `replicated_memory/stream.rs`, one task per holder, sends the queue in order, one
//!    `ReplicationEnvelope` (`replicated_memory/message.rs`) at a time, through
//!    `crates/partition/src/volatile/replica_peers.rs` and `Cluster::request`. Envelopes of
//!    several partitions to one node share a call
//!    (`crates/partition/src/volatile/batching.rs`). At the holder,
//!    `storage/src/memory/replicas.rs` refuses earlier epochs and gaps, and applies the entry
//!    to the rows of the replica (`storage/src/replica_content.rs`).
//! 4. Back: an entry that a majority has is acknowledged if the lease holds. If the epoch is
//!    over, the outcome is unknown, and `storage/src/commit.rs` resolves it by `acquire`, as
//!    always.
//!
//! A takeover is `replicated_memory/claim.rs`: raise the epoch on the record
//! (`replicated_memory/replica_set.rs`), ask the holders, decide
//! (`replicated_memory/quorum.rs`, pure), fetch if another replica is further, bring the
//! living holders to the same content, record them, begin. `replicated_memory/reconcile.rs`
//! decides which nodes hold a replica afterwards. `crates/partition/src/volatile/space.rs`
//! follows what the main runtime serves, and releases a volatile partition before the main one
//! is handed over (`Runtime::on_hand_over`).
//!
//! Absent: a plan or a lease of its own, a write to the database per commit, a log in a
//! replica, a replica that counts before it is whole.
//!
//! # Tests
//!
//! - `mirror/tests.rs`: two regions and a witness in one thread, on a virtual clock: links
//!   cut, answers lost, time that jumps. A takeover loses nothing acknowledged, no region
//!   acknowledges in an old epoch, one owner at the end. A seed decides everything.
//! - `replicated_memory/tests.rs`: several nodes in one process on one durable engine:
//!   takeover by a node that holds nothing, a newcomer under load, an owner that is cut off,
//!   holders that die one after the other, all that die at once.

mod error;
pub mod mirror;
pub mod replicated_memory;

pub use error::ErrorKind;
