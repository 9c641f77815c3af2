//! A hub message.

use bytes::Bytes;

/// Arguments, and ids of streams, that one call may have.
pub const ARGUMENTS: usize = 255;

/// What one end says to the other. Values are raw, in the protocol of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    Invocation(Invocation),
    /// An item of a stream, either way.
    Item {
        id: String,
        item: Bytes,
    },
    /// The end of a call or of a stream.
    Completion {
        id: String,
        outcome: Outcome,
    },
    /// The caller wants no more items.
    Cancel {
        id: String,
    },
    Ping,
    Close {
        error: Option<String>,
        allow_reconnect: bool,
    },
    /// Everything up to this number has been handled.
    Ack(u64),
    /// The number of the message that follows.
    Sequence(u64),
    /// Something that is not known yet, to be ignored.
    Unknown(i64),
}

/// A call of a method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Without it nobody waits for an answer.
    pub id: Option<String>,
    pub target: String,
    /// One raw value each.
    pub arguments: Vec<Bytes>,
    /// Streams that the caller sends, in the order of the method's parameters.
    pub streams: Vec<String>,
    /// Whether the caller wants a stream of items.
    pub is_stream: bool,
}

/// How a call or a stream has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Void,
    Value(Bytes),
    Error(String),
}

/// The types of messages, as numbers.
pub mod kind {
    pub const INVOCATION: i64 = 1;
    pub const ITEM: i64 = 2;
    pub const COMPLETION: i64 = 3;
    pub const STREAM_INVOCATION: i64 = 4;
    pub const CANCEL: i64 = 5;
    pub const PING: i64 = 6;
    pub const CLOSE: i64 = 7;
    pub const ACK: i64 = 8;
    pub const SEQUENCE: i64 = 9;

    /// Whether a client that comes back must not miss such a message.
    pub fn is_counted(kind: i64) -> bool {
        (INVOCATION..=CANCEL).contains(&kind)
    }
}
