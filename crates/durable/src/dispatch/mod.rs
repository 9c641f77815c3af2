//! Delivers work to workers.
//!
//! The service requests work; the [`Dispatcher`] queues it until a worker takes it, reads
//! what the worker needs from durable rows, and returns the result to the service.
//! Nothing here is stored: after a restart the service requests the same again.

mod abandon;
mod claim;
mod delivery;
mod desk;
mod dispatcher;
mod entry;
mod habits;
mod histories;
mod hub_cache;
mod lease;
mod load;
mod local;
mod parcel;
mod seat;
mod token;
mod waits;
mod warm;
mod watch;
mod worker;

pub(crate) use claim::Claim;
pub use delivery::Delivery;
pub(crate) use desk::Desk;
pub use dispatcher::Dispatcher;
pub(crate) use entry::{Given, Key, Place};
pub(crate) use load::scan;
pub(crate) use local::{Asked, Settled};
pub(crate) use parcel::{Brought, Wanted, Word, pack, unpack};
pub(crate) use token::Token;
pub(crate) use warm::Warm;
pub(crate) use worker::Inbox;
pub use worker::Worker;
