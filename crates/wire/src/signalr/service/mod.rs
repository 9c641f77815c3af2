//! Messages between the service and app servers, version 1.
//!
//! A stream of MessagePack arrays, each with a length prefix. Elements were added
//! over time: shorter arrays are accepted, and further elements ignored.

mod message;
mod read;
mod write;

pub use message::{
    Ack, Check, Close, CloseMany, Completion, Data, Flow, FlowKind, GroupData, Handshake, Message,
    Open, Payloads, Question, Target, status,
};
pub use read::read;
pub use write::{members, write};
