//! A hub message.

use bytes::Bytes;

/// Arguments, and ids of streams, that one call may have.
pub const ARGUMENTS: usize = 255;

/// A message of either side. Values are raw, in the protocol of the message.
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
    /// The caller cancels a stream.
    Cancel {
        id: String,
    },
    Ping,
    Close {
        error: Option<String>,
        allow_reconnect: bool,
    },
    /// Acknowledges all messages up to this number.
    Ack(u64),
    /// The number of the next message.
    Sequence(u64),
    /// An unknown type, to be ignored.
    Unknown(i64),
}

impl Message {
    /// Its type, and the id of its call.
    pub fn head(&self) -> (i64, Option<&str>) {
        match self {
            Self::Invocation(call) if call.is_stream => {
                (kind::STREAM_INVOCATION, call.id.as_deref())
            }
            Self::Invocation(call) => (kind::INVOCATION, call.id.as_deref()),
            Self::Item { id, .. } => (kind::ITEM, Some(id)),
            Self::Completion { id, .. } => (kind::COMPLETION, Some(id)),
            Self::Cancel { id } => (kind::CANCEL, Some(id)),
            Self::Ping => (kind::PING, None),
            Self::Close { .. } => (kind::CLOSE, None),
            Self::Ack(_) => (kind::ACK, None),
            Self::Sequence(_) => (kind::SEQUENCE, None),
            Self::Unknown(other) => (*other, None),
        }
    }
}

/// A call of a method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Without it the caller expects no completion.
    pub id: Option<String>,
    pub target: String,
    /// One raw value each.
    pub arguments: Vec<Bytes>,
    /// Streams that the caller sends, in the order of the method's parameters.
    pub streams: Vec<String>,
    /// Whether the caller wants a stream of items.
    pub is_stream: bool,
}

/// The outcome of a call or a stream.
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

    /// Whether such a message has a sequence number in a stateful reconnect.
    pub fn is_counted(kind: i64) -> bool {
        (INVOCATION..=CANCEL).contains(&kind)
    }
}
