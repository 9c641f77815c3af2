//! Which addresses the server calls, and which it never does.

mod policy;
mod reach;
mod rule;

pub use policy::EgressPolicy;
pub(crate) use policy::literal;
pub use rule::EgressRule;
