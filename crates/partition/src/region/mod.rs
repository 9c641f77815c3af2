//! A space that two regions share.
//!
//! [`Pairing`] decides, with the votes of the other region and of a witness, whether
//! this region owns the space, and serves or follows accordingly. [`Polls`] persist the
//! votes of a region or a witness. The transport between the regions is given
//! ([`Ways`]).

mod handing;
mod lines;
mod owning;
mod pairing;
mod polls;
mod standing;
mod word;

pub use lines::{CopyWay, Hands, To, Ways};
pub use pairing::{Pairing, Setup};
pub use polls::Polls;
pub use standing::Standing;
pub use word::{Wish, Word};
