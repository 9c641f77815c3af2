//! Outbound calls of jobs, checked by a guard.

mod action;
mod bus;
mod caller;
mod deliver;
mod guard;
mod http;
mod permit;
mod queue;
mod stamp;
mod token;

pub(crate) use caller::Caller;
pub use caller::Options;
pub use deliver::Outbound;
pub use guard::Guard;
pub(crate) use http::cause;
pub use permit::Permit;
