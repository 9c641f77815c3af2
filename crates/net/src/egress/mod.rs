//! Outbound HTTP: the policy of egress, its guard, clients.

mod connect;
mod guard;
mod network_kind;
mod policy;
mod rule;

pub use connect::{ConnectOptions, root_cause};
pub use guard::{AllowedHost, Guard};
pub use policy::EgressPolicy;
pub use rule::EgressRule;
