//! Which addresses the server may call.

mod network_kind;
mod policy;
mod rule;

pub use policy::EgressPolicy;
pub(crate) use policy::literal;
pub use rule::EgressRule;
