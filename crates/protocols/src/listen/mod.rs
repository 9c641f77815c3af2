//! Sockets: bind, accept, encrypt.

mod accept;
mod certificate;
mod error;
mod holder;
mod stream;

pub use accept::{Bind, Listener};
pub use certificate::Certificate;
pub use error::{Error, Kind};
pub use holder::{Holder, holder_of};
pub use stream::Stream;
