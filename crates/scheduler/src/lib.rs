//! The REST interface of Azure Scheduler; calls of jobs.
//!
//! # Tests
//!
//! - `tests/scheduler/*.rs`: the Scheduler over real sockets, killed processes, the Python
//!   SDK, Azurite.
//! - `tests/scheduler/pair.rs`: REST over two regions, one of which is unhealthy or
//!   cannot reach the other.

mod action;
mod authorization;
mod body;
mod certificate;
mod collection;
mod context;
mod declaration;
mod dispatch;
mod error;
mod event_hub_target;
mod extension;
mod forwarding;
mod home;
mod import;
mod job;
mod job_draft;
mod merge;
mod operations;
pub mod outbound;
mod pair;
mod path;
#[cfg(feature = "pkcs12")]
mod pfx;
mod query;
mod recurrence;
mod request;
mod response;
mod routes;
mod seal;
mod value;

pub(crate) use certificate::Pkcs12;
pub use context::{Auth, Context, InternalTargets, JobPlacement, NoInternalTargets, Settings};
pub use declaration::{CollectionDeclaration, declare};
pub use event_hub_target::{OCCURRENCE_BYTES, publication};
pub use home::{HomePair, JobHome, Replication};
pub use job_draft::draft_job;
pub use operations::OPERATIONS;
pub use pair::serve_forwarded;
pub(crate) use path::encode;
pub use routes::routes;
pub use seal::SecretKey;
pub(crate) use seal::SecretOwner;
