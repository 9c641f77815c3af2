//! Durable orchestrations and entities.
//!
//! An orchestration is replayed from its history; an entity is a state with a queue of
//! requests. Both are instances of one partitioned service. Workers run user code, in
//! this process or in another one: they receive [`WorkDelivery`]s, and each result is one commit.
//!
//! # One turn of an orchestration, from event to commit
//!
//! 1. A client raises an event, a timer fires, or an activity or child ends. It reaches
//!    `service.rs` as a `Command`, and `instance/loaded_instance.rs` puts it into the
//!    inbox, if it is for the current execution. `save` detects that a turn is due. If
//!    the code is in this process, and the instance is new or in memory as its last turn
//!    has left it, the turn runs inline, as a suspension of its command
//!    (`instance/inline.rs`, `inline.rs`): the command waits while a task of
//!    `task_pool.rs` runs it (step 4), and event and turn are one commit (step 5). Of
//!    inbox, work and history, such a turn writes only the next row of the history, and
//!    reads none. Otherwise `save` opens a row of work with a new generation.
//! 2. After that commit `dispatch/dispatcher.rs` gets the work request, and
//!    `dispatch/work_queue.rs` keeps it until a worker with room and code for it is
//!    connected: the one that had the instance last, or the next in turn.
//! 3. `dispatch/load.rs` reads what the worker needs from durable rows outside the loop:
//!    the front of the inbox, and the part of the history that is not in memory
//!    (`dispatch/histories.rs`). A worker in this process that remembers the instance needs
//!    neither: the number of events and the time of the last turn, both in the row of the
//!    instance, prove it. A remote worker that claims to remember it
//!    (`dispatch/worker_slot.rs`; ours in Rust does) is trusted if it had the instance
//!    last, and is sent the two numbers instead; if they differ from its own, it requests
//!    the history. The time of the turn is later than any before it.
//! 4. The worker runs the code. In this process that is `native/host.rs`, elsewhere the
//!    worker of `crates/client`; both use `native/runner.rs`: an instance whose last
//!    turn ran here continues where it stands, another is replayed (`native/replay.rs`),
//!    and every action of the code is compared with the history.
//! 5. `hub/results.rs` takes the result, if it is of the newest delivery, and
//!    `instance/commit.rs` makes one commit of it: the next row of the history, the actions
//!    (`instance/actions.rs`: activities as rows of work, timers, messages to children and
//!    entities), and the end, if it was reached.
//!
//! After a crash before step 5 the next owner requests the work again, and a worker gets
//! the same events. An inline turn has written nothing, so its sender sends the event
//! again. A result that arrives twice, late, or for an execution that is over is ignored:
//! `generation` and `execution` detect it.
//!
//! A drop guard returns a work item to the queue when its holder disconnects: a worker by
//! its stream (`dispatch/worker_stream.rs`), one of another node by its worker slot
//! (`hub/peers.rs`), a result in transit by its claim (`dispatch/result_claim.rs`). A
//! partition that is closed takes its requests out of the work queue
//! (`Performer::partition_closed`), and waiters for its instances ask the next owner
//! (`hub/task_hub.rs`, `moved`).
//!
//! # One call of an idle entity, from client to answer
//!
//! 1. `hub/entities.rs`: if the code of the entity is in this process and the operation is
//!    not known to wait for anything, the request joins the running entity
//!    (`dispatch/local_entities.rs`), and one task runs its requests, batch after batch.
//! 2. The state is the one that was committed here last, if no worker was requested since
//!    and the partition has not moved; otherwise it is read: first the row, then the state.
//!    Requests to an entity that is open, locked or has a queue are queued.
//! 3. `native/runner.rs` polls the operation once. One that has to wait is recorded as
//!    slow: it continues as a task, its request goes into the queue, and the batch that
//!    brings the request back takes the task over.
//! 4. `entity/batch.rs`, in the loop: if the entity is still idle and of the same
//!    generation, state, messages and the records of repeatable requests are one commit,
//!    and the answer follows it. Otherwise the run is discarded, and the requests go into
//!    the queue.
//!
//! An operation that an orchestration or another entity calls runs inline, as a suspension
//! of the message that brings it (`entity/inline.rs`), if no request is in front of it:
//! both share one commit, without a row in the queue. This includes the holder's calls in
//! a critical section.
//!
//! # One lock, from request to release
//!
//! 1. An orchestration requests a set. `instance/actions.rs` sorts it, records the section
//!    in the row of the instance, and sends the request to the first entity.
//! 2. `entity/lock.rs`: an idle entity grants the lock at once. Otherwise the request waits
//!    in the main lane like any other. At the head of the lane, with no worker at the
//!    entity, it gets the lock and moves on to the next entity; the last one notifies the
//!    orchestration.
//! 3. While an entity is locked its main lane is blocked. The holder's requests use the
//!    front lane.
//! 4. The end of the execution, of any kind, sends `Release` to the first entity of every
//!    section that is still in the row (`instance/end.rs`). It follows the request from
//!    entity to entity, so it cannot overtake it, and stops at the entity where the
//!    request still waits.
//!
//! # Walk: one entity signal
//!
//! A client signals an idle entity over gRPC; its code is in this process, and its partition
//! on this node in a data folder. The list has every file with a function that the signal
//! runs through, until the operation is committed; those that branch on the signal or on a
//! state decide. Left out are declarations, primitives of an encoding, locks and queues, and
//! what a step only looks up. The goal is 12 deciding files and 24 in all.
//!
//! - decides `crates/durabletask/src/routes.rs`: `handle`
//! - decides `crates/durabletask/src/context.rs`: `new`
//! - decides `crates/net/src/access/verify.rs`: `authorize`
//! - passes `crates/net/src/grpc.rs`: `call`
//! - decides `crates/durabletask/src/generated.rs`: from `TaskHubSidecarServiceServer`
//! - passes `crates/durabletask/src/service.rs`: from `signal_entity`
//! - passes `crates/durabletask/src/entities.rs`: `signal`
//! - decides `crates/durabletask-messages/src/error.rs`: `payload`
//! - decides `crates/durable/src/hub/entities.rs`: `signal`
//! - decides `crates/durable/src/hub/task_hub.rs`: `check_payload`, `ask`
//! - passes `crates/durable/src/id.rs`: `parse`
//! - decides `crates/durable/src/dispatch/local_entities.rs`: `executor`, `join`, `next`
//! - decides `crates/durable/src/native/runner.rs`: `run_operation`
//! - decides `crates/partition/src/ingress/router.rs`: `call`
//! - passes `crates/partition/src/ingress/mailbox.rs`: `call`
//! - decides `crates/partition/src/owner/owner_loop.rs`: from `calls`
//! - decides `crates/partition/src/execution/sequencer.rs`: `accept_some`, `release`
//! - decides `crates/partition/src/execution/blocked_commands.rs`: `blocking`
//! - decides `crates/partition/src/execution/run.rs`: `settle`
//! - passes `crates/partition/src/execution/turn.rs`: `handle`
//! - decides `crates/durable/src/service.rs`: `handle`
//! - decides `crates/durable/src/entity/batch.rs`: `direct`
//! - decides `crates/durable/src/entity/record.rs`: `find`, `save`
//! - passes `crates/durable/src/entity/queue.rs`: `note`
//! - decides `crates/storage/src/ledger.rs`: `stage_after`
//! - decides `crates/storage/src/partition_state.rs`: `begin`, `stage`
//! - passes `crates/storage/src/state.rs`: `redo`
//! - passes `crates/storage/src/overlay.rs`: `apply`
//! - decides `crates/storage/src/commit.rs`: from `ready`
//! - passes `crates/storage/src/body.rs`: `encode`
//! - passes `crates/storage-local/src/engine.rs`: `append`
//! - decides `crates/storage-local/src/commit_log.rs`: `append`
//! - passes `crates/storage-local/src/record.rs`: `put_entry`
//! - decides `crates/partition/src/execution/gate.rs`: `hold`, `pass`
//!
//! Missed: eight of these files are the runtime and nine the log, which every durable
//! command passes, and ten of the seventeen decide. The others check who calls and what
//! is asked, run the operation before its commit, and check in the loop that the entity is
//! still as it was: three places, because user code never runs in the loop. Two more are
//! the generated dispatch of gRPC and the trait that it calls.
//!
//! # Tests
//!
//! - `crates/durable/tests`: orchestrations, entities, locks and delivery to workers, also
//!   of other nodes over connections that break, on a virtual clock and a disk that
//!   outlives processes.

mod action;
mod command;
mod dispatch;
mod entity;
mod error;
mod event;
mod external_message;
mod failure;
mod hub;
mod id;
mod inline;
mod instance;
mod moment;
pub mod native;
mod outgoing;
mod rows;
mod service;
mod status;
mod stream_counts;
mod task_pool;
mod view;
mod work;

pub use action::{ActionKind, TurnAction};
pub use command::ReusePolicy;
pub use dispatch::{DeliveryOptions, Dispatcher, TaskHubCounts, WorkCounts, WorkerStream};
pub use entity::Outcome;
pub use error::{Error, ErrorKind, Result};
pub use event::{
    EntityOperation, EventKind, ExecutionStart, InstanceEvent, LegacyMessage, LockRequest,
    NO_ACTION, Parent, Tags, Task, Trace, UnlockRequest,
};
pub use external_message::{
    RaiseMessage, SignalMessage, StartMessage, raise, signal, signal_message, start, start_message,
};
pub use failure::FailureDetails;
pub use hub::{
    ConnectedWorker, Diagnosis, LockView, PendingWait, TaskHub, TaskHubDetails, TaskHubPage,
    TaskHubs, WorkerPage, WorkerPeers,
};
pub use id::{EntityId, KIND, is_entity};
pub use moment::Moment;
pub use service::Instances;
pub use status::InstanceStatus;
pub use stream_counts::TaskServiceCounts;
pub use view::{
    EntityListQuery, EntityView, FinishedListQuery, InstanceListQuery, InstanceView, NewInstance,
    PurgeOutcome, PurgeQuery, ResultPage,
};
pub use work::{
    ActivityResult, ActivityRun, ActivityWork, BatchResult, BatchWork, EntityAction,
    HistoryPosition, OrchestrationSpan, QueuedOperation, TurnResult, TurnWork, WorkDelivery,
    WorkFilter, WorkFilters, WorkPayload, WorkerOptions,
};
