//! Sockets: bind, accept, encrypt.

mod accept;
mod certificate;
mod error;
mod governor;
mod holder;
mod stream;
mod websocket;

pub use accept::{Bind, Listener};
pub use certificate::Certificate;
pub use error::{Error, Kind};
pub(crate) use governor::network;
pub use governor::{Admission, Caps, Cause, Exhausted, Governor, WaitingRequest, current, proven};
pub use holder::{Holder, holder_of};
pub use stream::Stream;
pub use websocket::{Socket, SocketLimit, Upgrade};
