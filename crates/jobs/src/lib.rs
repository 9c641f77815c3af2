//! Jobs that run when they are due.
//!
//! [`recurrence`] computes occurrences, and is pure. [`Scheduler`] is the partition
//! service that stores jobs and decides; [`Runner`] performs its external effects
//! through a [`Deliver`]; [`Jobs`] is the client.

mod calendar;
mod change;
mod client;
mod collection;
mod command;
mod definition;
mod due;
mod error;
mod history;
mod id;
pub mod iso;
mod kept;
mod lanes;
mod name;
mod order;
pub mod recurrence;
pub mod region;
mod rows;
mod run;
mod runner;
mod service;
mod status;
mod sweep;
mod sweeper;

pub use client::{Jobs, Page, Wanted};
pub use collection::{Collection, Sweep, SweepKind};
pub use command::{Ask, CollectionDraft, Draft, Ended, Expect, Job, Naming, Say};
pub use definition::{Action, Definition, InFlight, Misfire, Overlap, Policy, Retry, Target};
pub use error::{Error, Kind as ErrorKind, Result};
pub use history::{Item, Verdict};
pub use id::{CollectionId, JobId, KIND};
pub use order::Order;
pub use runner::{Deliver, Outcome, Runner};
pub use service::Scheduler;
pub use status::{Claim, Phase, Source, State, Status};
