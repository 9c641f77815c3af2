//! The runtime of Steadfast's partitions.
//!
//! A partition has one owner, and the owner has one loop that runs commands one after
//! the other. [`Service`]s are plain synchronous code: they read and write rows through
//! a [`Turn`] and request timers, messages and effects. One commit holds all of it, and
//! nothing leaves the partition before that commit is durable.
//!
//! `sequencer` and `run` decide, synchronously; `owner` is the loop around them;
//! `runtime` opens partitions and hands them over.

mod address;
mod ahead;
mod alarm;
mod asking;
mod clerk;
pub mod cluster;
mod command;
mod door;
mod draft;
mod drain;
mod effect;
mod errand;
mod error;
mod gate;
mod handle;
mod inbox;
mod lanes;
mod load;
mod message;
mod metrics;
mod near;
mod outbox;
mod owner;
mod post;
mod question;
mod reading;
mod refusal;
pub mod region;
mod replicas;
mod router;
mod run;
mod runtime;
mod sequencer;
mod service;
mod space;
mod tables;
mod timers;
mod transport;
mod turn;
pub mod volatile;
mod warm;
mod window;
mod written;

pub use address::{Address, Envelope, Kind};
pub use clerk::{Clerk, Inquiry};
pub use door::{Door, Pending};
pub use draft::CallId;
pub use drain::{Hook, Sheet};
pub use effect::{Effect, Idle, Performer};
pub use errand::{Ticket, Trip};
pub use error::{Error, Kind as ErrorKind, Result};
pub use handle::Handle;
pub use message::Message;
pub use metrics::{Counts, Metrics};
pub use question::{Finding, Question};
pub use reading::{Batch, Head, Place, Row, Start};
pub use refusal::{Halt, Refusal};
pub use replicas::Replicas;
pub use router::Router;
pub use runtime::{HandedOver, Options, Parted, Parting, Runtime};
pub use service::{Answer, Service, Services};
pub use space::Space;
pub use steadfast_storage::engine::Scan;
pub use steadfast_storage::{Error as StorageError, Snapshot};
pub use tables::{STREAMS_PER_SERVICE, service_stream, service_table};
pub use transport::{Alone, Link, Parcel, Transport};
pub use turn::Turn;
pub use window::{Glance, Window};
