//! A space that two regions share.
//!
//! [`RegionPair`] decides, with the votes of the other region and of a witness, whether
//! this region owns the space, and serves or follows accordingly. [`VoteStore`] persists
//! the votes of a region or a witness. The transport between the regions is passed in
//! ([`RegionTransport`]).

mod handover;
mod interfaces;
mod leader;
mod messages;
mod pair;
mod status;
mod vote_store;

pub use interfaces::{CopyTransport, ExternalWork, RegionPeer, RegionTransport};
pub use messages::{RegionAction, RegionRequest};
pub use pair::{PairSetup, RegionPair};
pub use status::PairStatus;
pub use vote_store::VoteStore;
