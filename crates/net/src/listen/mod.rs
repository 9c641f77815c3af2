//! Sockets: bind, accept, encrypt.

mod certificate;
mod error;
mod governor;
mod linger;
mod listener;
mod pending_requests;
mod port_holder;
mod stream;
mod tls;
mod websocket;

pub use certificate::Certificate;
pub use error::{Error, ErrorKind};
pub(crate) use governor::network;
pub use governor::{
    Admission, Caps, CloseCause, ConnectionLimitError, Governor, WaitingRequest, current, proven,
};
pub(crate) use linger::UnreadRequest;
pub use listener::{Listener, ListenerOptions, serve_pipe};
pub use port_holder::{PortHolder, holder_of};
pub use stream::ConnectionStream;
pub use websocket::{ServerWebSocket, SocketLimit, Upgrade};
