//! Jobs that run when they are due.
//!
//! [`recurrence`] computes occurrences, and is pure. [`JobScheduler`] is the partition
//! service that stores jobs and decides; [`JobRunner`] performs its external effects
//! through a [`Deliverer`]; [`JobClient`] is the client.
//!
//! # One occurrence of a job, from its timer to its history
//!
//! 1. The timer of the partition fires and brings `JobCommand::Due` to `service.rs`, which
//!    reads the two rows of the job: the definition and the status.
//! 2. `due.rs`: missed occurrences are computed from the plan (`recurrence/plan.rs`, pure):
//!    recent ones run one after the other, older ones become one. If another occurrence is
//!    in progress, the overlap policy decides.
//! 3. `run.rs`, `begin`: the occurrence is **claimed**. One commit holds the new status,
//!    the timer of the next occurrence and a row of work with everything that an attempt
//!    needs (`delivery_request.rs`). A target inside Steadfast gets its envelope in the
//!    same commit, and the occurrence is done; for an event hub that is a message to the
//!    catalog (`crates/events/src/publish_message.rs`), which passes it on to the next hub
//!    partition in turn.
//! 4. After that commit `runner.rs` gets the work. Attempts to one host and port share a
//!    lane of 64; further ones wait there, and the collections take turns
//!    (`host_lanes.rs`). The runner checks that this node still serves the partition, in
//!    the tenure that requested the attempt, records the start of an attempt that must not
//!    be made twice, and calls its `Deliverer`.
//! 5. `crates/scheduler/src/outbound/delivery.rs` decrypts the secrets, has the guard
//!    (`guard.rs` beside it) resolve and check the address by the policy
//!    (`crates/net/src/egress/policy.rs`), adds the identifiers of the attempt
//!    (`attempt_ids.rs`) and makes the request (`crates/scheduler/src/outbound/http.rs`).
//! 6. The outcome returns as `JobCommand::AttemptEnded`. `run.rs` closes the work, writes
//!    the history item (`history.rs`), and sets what follows: a timer for the next attempt,
//!    the error action, the dead letter, or the end, after which a waiting occurrence
//!    begins.
//!
//! After a crash before the commit of step 3 the timer fires again. After one between
//! that commit and step 6 the work is performed again, with the same idempotency key; if
//! the job has `inFlight: skip` and the attempt was begun, it is recorded as failed
//! instead.
//!
//! The API is `client.rs`. The REST interface is in `crates/scheduler/src`:
//! `routes.rs` is the entry, `dispatch.rs` finds the operation, `request.rs` performs it,
//! `job.rs`, `action.rs`, `recurrence.rs` and `extension.rs` read and write JSON, `seal.rs`
//! encrypts.
//!
//! # Tests
//!
//! - `tests/jobs/recurrence_oracle.rs`: random recurrences against a filter of every
//!   minute, also where clocks change.
//! - `tests/jobs/names.rs`: names shared by a pair of regions: creations and deletions in
//!   any order, stopped at any step; no name is in both regions.
//! - `tests/jobs/runs.rs`: runs, retries, overlaps, crashes and downtimes of jobs on a
//!   virtual clock; partitions that leave and return, commits in doubt.

mod change;
mod client;
mod collection;
mod command;
mod definition;
mod delivery_request;
mod due;
mod error;
mod history;
mod host_lanes;
mod id;
mod job_message;
mod load;
mod name_tickets;
pub mod recurrence;
pub mod region;
mod rows;
mod run;
mod runner;
mod service;
mod status;
mod sweep;
mod sweeper;

pub use client::{JobClient, JobPage, PageRequest};
pub use collection::{JobCollection, Sweep, SweepKind};
pub use command::{
    AttemptResult, CollectionDraft, Job, JobCommand, JobDraft, JobResponse, NameRequest,
    Precondition,
};
pub use definition::{
    InFlight, JobAction, JobDefinition, JobPolicy, JobRetry, Misfire, Overlap, Target,
};
pub use delivery_request::DeliveryRequest;
pub use error::{Error, ErrorKind, Result};
pub use history::{JobHistoryItem, JobHistoryStatus};
pub use id::{CollectionId, JobId, KIND};
pub use job_message::{JobMessage, cancel, create};
pub use runner::{Deliverer, JobRunner, Outcome};
pub use service::JobScheduler;
pub use status::{AttemptId, JobStatus, OccurrenceSource, RunPhase, State};
