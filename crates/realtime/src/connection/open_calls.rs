//! Open calls and streams between a client and its backend.
//!
//! A client that migrates leaves its open calls behind: they end at the old backend,
//! which still receives their messages.

use std::collections::HashSet;

use bytes::Bytes;
use steadfast_core::limits;
use steadfast_wire::signalr::Protocol;
use steadfast_wire::signalr::frame::{self, FramedMessage};
use steadfast_wire::signalr::message::kind;

/// Ids of open calls and streams.
#[derive(Debug, Default)]
pub(crate) struct OpenCalls {
    /// Calls of the client without a completion.
    made: HashSet<String>,
    /// Streams of the client that have not ended.
    uploads: HashSet<String>,
    /// Calls of the backend that the client has not completed.
    asked: HashSet<String>,
}

impl OpenCalls {
    pub(crate) fn is_empty(&self) -> bool {
        self.made.is_empty() && self.uploads.is_empty() && self.asked.is_empty()
    }

    /// Number of calls of the client without a completion.
    pub(crate) fn made(&self) -> usize {
        self.made.len()
    }

    /// Notes a message of the client, with or without its streams. True if nothing is
    /// open after it.
    pub(crate) fn note_client(
        &mut self,
        protocol: Protocol,
        message: &FramedMessage,
        with_streams: bool,
    ) -> bool {
        match message.head() {
            Some((kind::INVOCATION | kind::STREAM_INVOCATION, id)) => {
                if self.made.len() < limits::CLIENT_OPEN_CALLS {
                    self.made.extend(id.map(str::to_owned));
                }
                if with_streams {
                    self.uploads.extend(message.streams(protocol));
                }
            }
            Some((kind::COMPLETION, Some(id))) => {
                if !self.uploads.remove(id) {
                    self.asked.remove(id);
                }
            }
            _ => return false,
        }
        self.is_empty()
    }

    /// Notes a message of the backend. True if nothing is open after it.
    pub(crate) fn note_home(&mut self, protocol: Protocol, message: &Bytes) -> bool {
        match frame::look(protocol, message) {
            Ok((kind::COMPLETION, Some(id))) => self.made.remove(&id),
            Ok((kind::INVOCATION, Some(id))) => self.asked.insert(id),
            _ => return false,
        };
        self.is_empty()
    }

    /// Whether a message of the client belongs to an open call, or to no call, such as a
    /// ping.
    pub(crate) fn is_part(&self, message: &FramedMessage) -> bool {
        match message.head() {
            Some((kind::PING, _)) => true,
            Some((kind::ITEM | kind::COMPLETION | kind::CANCEL, Some(id))) => {
                self.made.contains(id) || self.uploads.contains(id) || self.asked.contains(id)
            }
            _ => false,
        }
    }

    /// Forgets everything and returns the client's open calls, which get no result.
    pub(crate) fn abandon(&mut self) -> Vec<String> {
        self.uploads.clear();
        self.asked.clear();
        self.made.drain().collect()
    }
}

/// Whether a message of a client is a call that expects a completion.
pub(crate) fn is_call(protocol: Protocol, message: &Bytes) -> bool {
    let look = frame::look(protocol, message);
    matches!(
        look,
        Ok((kind::INVOCATION | kind::STREAM_INVOCATION, Some(_)))
    )
}

#[cfg(test)]
mod tests {
    use steadfast_wire::signalr::message::Outcome;
    use steadfast_wire::signalr::write;

    use super::*;

    const JSON: Protocol = Protocol::Json;

    fn record(text: &str) -> FramedMessage {
        looked(Bytes::from(format!("{text}\u{1e}")))
    }

    fn looked(message: Bytes) -> FramedMessage {
        FramedMessage::look(JSON, message).unwrap()
    }

    #[test]
    fn calls_are_open_until_they_are_answered() {
        let mut calls = OpenCalls::default();
        let call = r#"{"type":1,"invocationId":"1","target":"a","arguments":[],"streamIds":["s"]}"#;
        assert!(!calls.note_client(JSON, &record(call), true));
        let item = record(r#"{"type":2,"invocationId":"s","item":1}"#);
        assert!(calls.is_part(&item));
        assert!(calls.is_part(&looked(write::ping(JSON))));
        assert!(calls.is_part(&looked(write::cancel(JSON, "1"))));
        assert!(!calls.is_part(&looked(write::cancel(JSON, "2"))));
        let ended = looked(write::completion(JSON, "s", &Outcome::Void));
        assert!(!calls.note_client(JSON, &ended, true));
        assert!(!calls.is_part(&item));
        let done = write::completion(JSON, "1", &Outcome::Void);
        assert!(calls.note_home(JSON, &done));
    }

    #[test]
    fn what_the_home_asks_is_open_until_the_client_answers() {
        let mut calls = OpenCalls::default();
        let question = write::invocation(JSON, Some("q"), "name", b"[]");
        assert!(!calls.note_home(JSON, &question));
        let answer = looked(write::completion(JSON, "q", &Outcome::Void));
        assert!(calls.is_part(&answer));
        assert!(calls.note_client(JSON, &answer, true));
    }
}
