//! Sockets: bind, accept, encrypt.

mod accept;
mod asked;
mod certificate;
mod error;
mod governor;
mod holder;
mod linger;
mod stream;
mod tls;
mod websocket;

pub use accept::{Bind, Listener, serve_pipe};
pub use certificate::Certificate;
pub use error::{Error, Kind};
pub(crate) use governor::network;
pub use governor::{Admission, Caps, Cause, Exhausted, Governor, WaitingRequest, current, proven};
pub use holder::{Holder, holder_of};
pub(crate) use linger::UnreadRequest;
pub use stream::Stream;
pub use websocket::{Socket, SocketLimit, Upgrade};
