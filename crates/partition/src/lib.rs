//! The runtime of Steadfast's partitions.
//!
//! A partition has one owner, and the owner has one loop that runs commands one after
//! the other. [`Service`]s are plain synchronous code: they read and write rows through
//! a [`Turn`] and request timers, messages and effects. One commit holds all of it, and
//! nothing leaves the partition before that commit is durable.
//!
//! `sequencer` and `run` decide, synchronously; `owner_loop` is the loop around them;
//! `runtime` opens partitions and hands them over.
//!
//! # One command, from caller to disk and back
//!
//! Protocols bring commands in from sockets; from `Handle` on the path is the same.
//!
//! 1. `ingress/router.rs`, `Handle::call`: the address is hashed to a partition
//!    (`ingress/space.rs`), and the router looks up whether this node serves it. If not,
//!    the command is encoded and sent through the `NodeTransport` to the node that does,
//!    whose router continues at the same step.
//! 2. `ingress/mailbox.rs`: a bounded queue leads into the partition. It applies
//!    backpressure: a caller waits while the queue is full.
//! 3. `owner/owner_loop.rs`: the loop of the partition takes some of everything that has
//!    arrived (durability, results of reads, messages, callers, due timers), runs one
//!    **round**, and waits. Inside a round it never waits for disk, network or user code.
//! 4. `execution/sequencer.rs`, `accept`: if an earlier command to the same instance waits
//!    for rows, this one queues behind it (`execution/blocked_commands.rs`). Otherwise it
//!    runs.
//! 5. `execution/run.rs`, `decide`: the `handle` method of the service gets a `Turn`
//!    (`execution/turn.rs`). It reads rows from memory, staged writes included, and
//!    requests rows, timers, messages and work. A row that is not in memory ends the turn:
//!    it is read outside the loop (`owner/load.rs`), pinned until then
//!    (`execution/pinned_rows.rs`), and the command runs again from its beginning. User
//!    code that has to run first is the other reason: a **suspension**
//!    (`execution/suspension.rs`). The service passes a `Completer` to the code outside the
//!    loop, the command waits in the queue of its instance, and runs again with the result,
//!    or with the information that no code has run.
//! 6. `execution/run.rs`, `conclude`: messages get their numbers per destination
//!    (`links/outbox.rs`), the record that deduplicates a message or timer is added
//!    (`links/inbox.rs`, `timing/timers.rs`), and everything is staged as one transaction:
//!    `Ledger::stage_after` in `crates/storage`. It refuses if writes that the turn has
//!    read were rolled back in between.
//! 7. From here the path is that of one commit: the group, the log, one `fdatasync`
//!    (documentation of `crates/storage/src/lib.rs`).
//!
//! Back:
//!
//! 8. The durable LSN of the ledger advances and wakes the loop. `execution/gate.rs`
//!    releases what depended on it, in order: replies, acknowledgements, messages to other
//!    partitions, effects.
//! 9. Messages travel as `MessageBatch`, one in flight per link; the receiver acknowledges
//!    the last number that is durable there, and drops numbers it has seen. Between two
//!    loops of one node the batch and its receipt are control messages
//!    (`ingress/control.rs`), with no task between them. The rows of delivered messages are
//!    deleted with the sender's next commit.
//! 10. Effects go to the `Performer`. **Work** has a row, so it is performed again after
//!     every load of the partition, until a command ends it.
//!
//! If staged writes are rolled back (a full disk), memory no longer matches the rows:
//! callers get an error, and the loop loads the partition again. If the ledger fails, the
//! loop ends, and `owner/runtime.rs` acquires the partition again unless another node owns it.
//!
//! # One request for another node's partition
//!
//! `docs/decisions/0010-cluster.md` gives the reasons.
//!
//! 1. `ingress/router.rs`: this node has no mailbox for the partition. The request is a
//!    command (`Handle::call`), a read (`reads/remote_reader.rs`, with the requests of
//!    `reads/read_request.rs`) or a call of an owner handler (`ingress/owner_handler.rs`).
//! 2. `cluster/forwarder.rs` looks the owner up in `cluster/members.rs`. If there is none,
//!    it waits for a change, for a bounded time.
//! 3. `cluster/request.rs` encodes the request; `crates/cluster-rpc/src/client.rs`
//!    sends it, over one HTTP/2 connection per node on which both sides have proven that
//!    they have the key (`proof.rs`, `trust.rs` and `server.rs` beside it).
//! 4. The other node answers in `cluster/assignment.rs`, from its own mailboxes only: it
//!    forwards nothing.
//! 5. Back: an answer, a refusal with its code, or an error that says whether the owner may
//!    be looked up again. A request that may have been executed is not repeated, unless it
//!    is safe to repeat.
//!
//! `cluster/membership.rs` has three tasks. One renews the lease
//! (`cluster/lease_renewal.rs`). Another writes the record of this node and reads those of
//! the others (`cluster/record_sync.rs`, `cluster/member_record.rs`), makes the plan
//! (`cluster/plan.rs`, pure) and carries it out (`cluster/assignment.rs`). The third probes
//! whether the other nodes are reachable (`cluster/probe.rs`).
//! `crates/storage/src/node_lease.rs` detects an expired lease at the next read from
//! memory.
//!
//! Absent: a coordinator, a clock that is compared with another one, a second hop, a stream
//! between nodes that must be kept, a record that decides anything.
//!
//! # The owner of a space in two regions
//!
//! One commit in two regions is in the documentation of `crates/storage-replicated/src/lib.rs`;
//! `docs/decisions/0013-regions.md` gives the reasons.
//!
//! - `crates/storage-replicated/src/mirror/vote.rs` (pure) is a voter; `region/vote_store.rs` persists
//!   its votes, in both regions and at the witness.
//! - `region/pair.rs` claims a free leader lease, and steps down when it learns of a later
//!   epoch.
//! - `region/leader.rs` renews the lease of the owner and has the mirror make a whole copy.
//! - `region/handover.rs` hands the space over, in a task of its own, and only when no
//!   calls are in progress.
//! - `crates/steadfast/src/node/job_home.rs` assembles this for the jobs of one home,
//!   `crates/steadfast/src/node/region.rs` for both homes of a pair;
//!   `crates/steadfast/src/node/region_server.rs` serves the other regions.
//! - `crates/scheduler/src/pair.rs` finds the home of a collection and forwards
//!   requests to its owner; `crates/jobs/src/name_tickets.rs` keeps a name from being used
//!   in both homes.
//! - `crates/scheduler/src/outbound/call_permit.rs` is checked before every call; on a node
//!   of a cluster it follows the lease.
//!
//! # Tests
//!
//! - `tests/partition/runtime.rs`: commands, cold rows, timers, messages, work,
//!   transactions and drain on one node.
//! - `tests/simulation.rs`: several nodes in one thread: crashes between any two calls of
//!   the engine, lost, late and repeated messages, the hostile engine, jumping clocks,
//!   owners that change. Messages once and in order, timers once, no effect before its
//!   commit, one owner per epoch, nothing acknowledged lost. A seed decides everything.
//!   `cargo xtask mutants partition` plants faults into the runtime, and the simulation
//!   finds them.
//! - `tests/partition/region_pair.rs`: the pair around the mirror on a paused clock:
//!   takeover, the time between stopping and following, work alone and without a witness,
//!   leaving, a loss that is accepted, a copy that is never whole, automatic failback.
//! - `tests/cluster_lease.rs`: a node whose renewals do not arrive is silent before others
//!   may take over, and acquires nothing.

pub mod cluster;
mod error;
mod execution;
mod ingress;
mod links;
mod message_check;
mod metrics;
mod owner;
mod reads;
pub mod region;
mod replicas;
mod timing;
pub mod volatile;

pub use error::{Error, ErrorKind, Result};
pub use execution::effect::{Effect, NoopPerformer, Performer};
pub use execution::pending_effects::CallId;
pub use execution::service_error::{ServiceError, TurnError};
pub use execution::suspension::{Completer, SuspensionState};
pub use execution::tables::{STREAMS_PER_SERVICE, service_stream, service_table};
pub use execution::turn::{Service, Services, Turn, TurnOutcome};
pub use ingress::address::{Address, Envelope, ServiceKind};
pub use ingress::mailbox::{Mailbox, PendingResponse};
pub use ingress::message::Message;
pub use ingress::owner_handler::{OwnerHandler, OwnerRequest};
pub use ingress::router::{Handle, Router};
pub use ingress::space::Space;
pub use ingress::transport::{MessageBatch, NodeTransport, PartitionLink, SingleNode};
pub use message_check::MessageCheck;
pub use metrics::{Metrics, PartitionCounts};
pub use owner::drain::{DrainHook, DrainSummary};
pub use owner::idle::{FiredTimer, IdleReport};
pub use owner::runtime::{HandOverFuture, HandOverHook, HandOverReport, Options, Runtime};
pub use reads::durable_reads::{AppendPosition, Batch, ReadPosition, StreamHead, TableRow};
pub use reads::read_request::{ReadRequest, ReadResponse};
pub use reads::remote_reader::{ReadView, RemoteReader};
pub use replicas::CollectionReplicas;
pub use steadfast_collections::OutgoingMessage;
pub use steadfast_storage::engine::Scan;
pub use steadfast_storage::{Error as StorageError, Snapshot};
