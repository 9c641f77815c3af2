//! Our own REST interface, below `/v1`.

mod interface;
mod node;
mod operator;

pub use interface::{Interface, Operation};
pub use node::{no_method, no_route, routes};
pub use operator::{DrainSheet, KeyInfo, KeySecret, Operator, Status, StatusPartition};
