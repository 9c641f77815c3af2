//! Who owns which partition, decided without I/O.
//!
//! Records and their conditional writes, a census of a listing, the balancing
//! plan, the member that carries it out cycle by cycle, and the drain in four
//! phases. Everything is synchronous; time, randomness and the results of writes are
//! passed in. The same code serves users' event processors and the cluster's own
//! partitions, app servers and nodes.

pub mod balance;
pub mod census;
pub mod drain;
pub mod listing;
pub mod member;
pub mod random;
pub mod record;
pub mod strategy;
