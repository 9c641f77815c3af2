//! The REST interface of Azure Scheduler, and what we added.

mod action;
mod answer;
mod body;
mod certificate;
mod collection;
mod context;
mod declare;
mod dispatch;
mod extension;
mod fault;
mod forwarded;
mod home;
mod import;
mod inside;
mod job;
mod merge;
mod operate;
mod operations;
mod pair;
mod path;
mod permit;
mod query;
mod recurrence;
mod routes;
mod seal;
mod value;

pub(crate) use certificate::Pkcs12;
pub use context::{Auth, Context, Internal, Keeping, NoInternal, Settings};
pub use declare::{Declared, declare};
pub use home::{Home, Pair, Replication};
pub use inside::{OCCURRENCE_BYTES, publication};
pub use operations::OPERATIONS;
pub use pair::proxied;
pub(crate) use path::encode;
pub use routes::routes;
pub use seal::SecretKey;
