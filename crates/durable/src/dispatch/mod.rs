//! Delivers work to workers.
//!
//! The service requests work; the [`Dispatcher`] queues it until a worker takes it, reads
//! what the worker needs from durable rows, and returns the result to the service.
//! Nothing here is stored: after a restart the service requests the same again.

mod abandon;
mod affinity;
mod counts;
mod delivery;
mod delivery_lease;
mod dispatcher;
mod entry;
mod histories;
mod hub_cache;
mod load;
mod local_entities;
mod peer_messages;
mod queue_status;
mod result_claim;
mod state_cache;
mod token;
mod waiters;
mod watch;
mod work_queue;
mod worker_slot;
mod worker_stream;

pub use counts::{TaskHubCounts, WorkCounts};
pub use delivery::DeliveryOptions;
pub use dispatcher::Dispatcher;
pub(crate) use entry::{DeliveredWork, EntryState, Key};
pub(crate) use load::scan;
pub(crate) use local_entities::{LocalOutcome, LocalRequest};
pub(crate) use peer_messages::{
    HubList, HubRecord, PackedOptions, RemoteResult, WorkerList, WorkerMessage, WorkerRecord, pack,
    unpack,
};
pub(crate) use result_claim::ResultClaim;
pub(crate) use state_cache::CachedState;
pub(crate) use token::DeliveryToken;
pub(crate) use work_queue::{WorkQueue, WorkerPresence};
pub(crate) use worker_stream::WorkSender;
pub use worker_stream::WorkerStream;
