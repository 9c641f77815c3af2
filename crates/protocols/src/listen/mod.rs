//! Sockets: bind, accept, encrypt.

mod accept;
mod certificate;
mod error;
mod holder;

pub use accept::{Bind, Listener, Stream};
pub use certificate::Certificate;
pub use error::{Error, Kind};
pub use holder::{Holder, holder_of};
