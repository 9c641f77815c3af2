//! Several nodes that share the partitions of a space.
//!
//! Every node has a lease (`heart`) and a record in the engine (`member`, `record`):
//! its identity, its address, and the partitions it serves. All nodes read all records
//! (`roster`), and each one decides by the same plan which partitions it acquires
//! (`share`); `keeper` runs these. A partition is acquired by the engine's
//! compare-and-swap; records are hints. A request for another node's partition goes
//! there in one hop (`forward`), through a [`Network`] that `protocols` implements. A
//! node that most others do not reach serves nothing (`probe`, `isolation`).

mod exchange;
mod forward;
mod heart;
mod isolation;
mod join;
mod keeper;
mod member;
mod network;
mod plan;
mod probe;
mod record;
mod roster;
mod share;
mod standing;
mod work;

pub use forward::Forward;
pub use join::{JoinError, Setup, join};
pub use keeper::{Cluster, Counts, Listener};
pub use member::{Identity, PROTOCOL, Refused, SCHEMA, fits};
pub use network::{Broken, Network, Peer};
pub use roster::Roster;
pub use standing::{NodeStanding, Standing};
