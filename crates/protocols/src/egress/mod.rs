//! Which addresses the server may call.

mod policy;
mod reach;
mod rule;

pub use policy::EgressPolicy;
pub(crate) use policy::literal;
pub use rule::EgressRule;
