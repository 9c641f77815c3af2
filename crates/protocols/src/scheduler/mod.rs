//! The REST interface of Azure Scheduler, and what we added.

mod action;
mod answer;
mod certificate;
mod collection;
mod context;
mod declare;
mod extension;
mod fault;
mod import;
mod inside;
mod job;
mod merge;
mod operate;
mod path;
mod query;
mod recurrence;
mod regional;
mod routes;
mod seal;
mod value;

pub(crate) use certificate::Pkcs12;
pub use context::{Auth, Context, Internal, NoInternal, Settings};
pub use declare::declare;
pub use inside::{OCCURRENCE_BYTES, publication};
pub(crate) use path::encode;
pub use regional::{Regional, Replication};
pub use routes::{proxied, routes};
pub use seal::SecretKey;
