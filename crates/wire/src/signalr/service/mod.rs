//! Messages between the service and app servers, version 1.
//!
//! A stream of MessagePack arrays, each with a length prefix. Elements were added
//! over time: shorter arrays are accepted, and further elements ignored.

mod message;
mod read;
mod write;

pub use message::{
    Ack, ClientCompletion, ClientInvocation, CloseConnection, CloseConnections, ConnectionData,
    ExistenceCheck, FlowControl, FlowControlKind, GroupBroadcast, Message, OpenConnection,
    Payloads, ServerHandshake, Target, status,
};
pub use read::read;
pub use write::{members, write};
