//! Sends that are part of a commit.
//!
//! A transaction carries them as messages. They leave after its commit, and those of one
//! partition in the order of their commits. They are not stored: pushes that were not sent
//! when a node crashes are lost, so each is sent at most once.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use steadfast_collections::{Error as StateError, OutgoingMessage, Result as Staged};
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::id::Partition;
use steadfast_core::limits;
use steadfast_partition::{
    Address, Effect, Envelope, Message, Performer, Service, ServiceKind, Space, Turn, TurnError,
    TurnOutcome,
};
use steadfast_wire::signalr::Protocol;

use crate::dispatch::gateway::{HubPayload, ProtocolSet, Recipients};
use crate::error::{Error, ErrorKind, Result};
use crate::service::Realtime;

/// The kind of the push service.
pub const PUSHES: ServiceKind = ServiceKind(64);

/// One call of a client method, to be sent with a commit.
///
/// ```
/// use steadfast_realtime::{PushCommand, gateway::Recipients};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let to = Recipients::Users(vec!["alice".to_owned()]);
/// let push = PushCommand::new("chat", to, "paid", &(12, "euros"))?;
/// # let _ = push;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PushCommand {
    hub: String,
    to: Recipients,
    payload: HubPayload,
}

/// The version of the encoding.
const FORMAT: u8 = 1;

impl PushCommand {
    /// A call of a method of some clients of a hub, with a tuple of arguments.
    pub fn new<T: Serialize + ?Sized>(
        hub: &str,
        to: Recipients,
        target: &str,
        arguments: &T,
    ) -> Result<Self> {
        if hub.is_empty() || hub.len() > limits::HUB_NAME {
            return Err(Error::new(ErrorKind::Name("hub")));
        }
        let payload = HubPayload::call(ProtocolSet::BOTH, None, target, arguments)?;
        Ok(Self {
            hub: hub.to_ascii_lowercase(),
            to,
            payload,
        })
    }

    /// The message that sends it with a commit.
    pub(crate) fn envelope(&self) -> Envelope {
        let address = Address::new(PUSHES, self.hub.clone(), Bytes::new());
        Envelope::new(address, self.encode())
    }
}

/// A call of a client method to send with a commit, made by [`push`].
#[derive(Clone, Debug)]
#[must_use = "a message is sent by a transaction"]
pub struct PushMessage(Result<PushCommand>);

/// A message that calls a method of some clients of a hub, with a tuple of arguments:
/// `tx.send(push("chat", to, "paid", &(12, "euros")))`. Clients that are not connected are
/// skipped.
pub fn push<T: Serialize + ?Sized>(
    hub: &str,
    to: Recipients,
    target: &str,
    arguments: &T,
) -> PushMessage {
    PushMessage(PushCommand::new(hub, to, target, arguments))
}

impl OutgoingMessage for PushMessage {
    fn into_bytes(self) -> Staged<Bytes> {
        match self.0 {
            Ok(push) => (&push).into_bytes(),
            Err(error) => Err(StateError::rejected(error.code(), error.to_string())),
        }
    }
}

impl OutgoingMessage for &PushCommand {
    fn into_bytes(self) -> Staged<Bytes> {
        Ok(self.envelope().encode())
    }
}

impl Message for PushCommand {
    fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        put_bytes(&mut out, self.hub.as_bytes());
        let (tag, names, more): (u8, &[String], &[String]) = match &self.to {
            Recipients::All { except } => (0, &[], except),
            Recipients::Group { name, except } => (1, std::slice::from_ref(name), except),
            Recipients::Groups(names) => (2, names, &[]),
            Recipients::Users(users) => (3, users, &[]),
            Recipients::Connections(ids) => (4, ids, &[]),
        };
        out.push(tag);
        put_texts(&mut out, names);
        put_texts(&mut out, more);
        put_varint(&mut out, self.payload.forms().len() as u64);
        for (protocol, bytes) in self.payload.forms() {
            put_bytes(&mut out, protocol.name().as_bytes());
            put_bytes(&mut out, bytes);
        }
        out.into()
    }

    fn decode(bytes: &Bytes) -> std::result::Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes.clone());
        if reader.byte()? != FORMAT {
            return Err(DecodeError);
        }
        let hub = text(&mut reader)?;
        let tag = reader.byte()?;
        let (names, except) = (texts(&mut reader)?, texts(&mut reader)?);
        let to = match tag {
            0 => Recipients::All { except },
            1 => Recipients::Group {
                name: names.into_iter().next().ok_or(DecodeError)?,
                except,
            },
            2 => Recipients::Groups(names),
            3 => Recipients::Users(names),
            4 => Recipients::Connections(names),
            _ => return Err(DecodeError),
        };
        let mut forms = Vec::new();
        for _ in 0..reader.varint()? {
            let protocol = Protocol::named(&text(&mut reader)?).ok_or(DecodeError)?;
            forms.push((protocol, reader.bytes()?));
        }
        let payload = HubPayload::of(forms);
        Ok(Self { hub, to, payload })
    }
}

fn put_texts(out: &mut Vec<u8>, texts: &[String]) {
    put_varint(out, texts.len() as u64);
    for text in texts {
        put_bytes(out, text.as_bytes());
    }
}

fn text(reader: &mut ByteReader) -> std::result::Result<String, DecodeError> {
    let bytes = reader.bytes()?;
    String::from_utf8(bytes.into()).map_err(|_| DecodeError)
}

fn texts(reader: &mut ByteReader) -> std::result::Result<Vec<String>, DecodeError> {
    (0..reader.varint()?).map(|_| text(reader)).collect()
}

/// The service whose commands are performed after the commit.
pub struct PushService;

impl Service for PushService {
    type Command = PushCommand;
    type Response = ();

    fn kind(&self) -> ServiceKind {
        PUSHES
    }

    /// A push has no row: it leaves from the partition that sends it.
    fn partition(&self, _space: &Space, _to: &Address) -> Option<Partition> {
        None
    }

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        _to: &Address,
        command: &PushCommand,
    ) -> std::result::Result<TurnOutcome<()>, TurnError> {
        turn.push(command.encode());
        Ok(TurnOutcome::Now(()))
    }
}

/// Performs pushes: it queues them for clients on all nodes.
pub struct PushPerformer(Realtime);

impl PushPerformer {
    /// A performer for the clients of this service.
    pub fn new(realtime: Realtime) -> Arc<Self> {
        Arc::new(Self(realtime))
    }
}

impl Performer for PushPerformer {
    fn perform(&self, effect: Effect) {
        // Clients that are not connected are skipped, and so is a hub without
        // clients.
        if let Ok(push) = PushCommand::decode(&effect.body)
            && let Ok(lobby) = self.0.reachable(&push.hub)
        {
            lobby.cluster().send(&push.to, &push.payload);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_is_read_as_it_was_written() {
        let except = vec!["c1".to_owned()];
        let all = [
            Recipients::All {
                except: except.clone(),
            },
            Recipients::Group {
                name: "g".to_owned(),
                except,
            },
            Recipients::Groups(vec!["a".to_owned(), "b".to_owned()]),
            Recipients::Users(vec!["u".to_owned()]),
            Recipients::Connections(vec![]),
        ];
        for to in all {
            let push = PushCommand::new("Chat", to.clone(), "told", &(1, "x")).unwrap();
            let read = PushCommand::decode(&push.encode()).unwrap();
            assert_eq!((&*read.hub, &read.to), ("chat", &to));
            assert_eq!(read.payload.forms(), push.payload.forms());
        }
        let whole = PushCommand::new("chat", Recipients::Users(vec![]), "told", &()).unwrap();
        let whole = whole.encode();
        for end in 0..whole.len() {
            assert!(PushCommand::decode(&whole.slice(..end)).is_err(), "{end}");
        }
    }
}
