//! Sends that are part of a commit.
//!
//! A transaction carries them as commands. They are sent after its commit, and those
//! of one partition in the order of their commits. They are not stored: pushes that
//! were not sent when a node crashes are lost.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use steadfast_collections::{Result as Staged, Tx};
use steadfast_core::codec::{Malformed, Reader, put_bytes, put_varint};
use steadfast_core::limits;
use steadfast_partition::{
    Address, Answer, Effect, Envelope, Halt, Kind, Message, Performer, Service, Turn,
};
use steadfast_wire::signalr::Protocol;

use crate::error::{Error, Kind as ErrorKind, Result};
use crate::payload::{Payload, Protocols};
use crate::reach::To;
use crate::service::Realtime;

/// The kind of the push service.
pub const PUSHES: Kind = Kind(64);

/// One call of a client method, to be sent with a commit.
///
/// ```
/// use steadfast_realtime::{Push, reach::To};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let to = To::Users(vec!["alice".to_owned()]);
/// let push = Push::new("chat", to, "paid", &(12, "euros"))?;
/// # let _ = push;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Push {
    hub: String,
    to: To,
    payload: Payload,
}

/// The version of the encoding.
const FORMAT: u8 = 1;

impl Push {
    /// A call of a method of some clients of a hub, with a tuple of arguments.
    pub fn new<T: Serialize + ?Sized>(
        hub: &str,
        to: To,
        target: &str,
        arguments: &T,
    ) -> Result<Self> {
        if hub.is_empty() || hub.len() > limits::HUB_NAME {
            return Err(Error::new(ErrorKind::Name("hub")));
        }
        let payload = Payload::call(Protocols::BOTH, None, target, arguments)?;
        Ok(Self {
            hub: hub.to_ascii_lowercase(),
            to,
            payload,
        })
    }

    /// The command that sends it, to stage with a commit.
    pub fn letter(&self) -> Envelope {
        let address = Address::new(PUSHES, self.hub.clone(), Bytes::new());
        Envelope::new(address, self.encode())
    }
}

/// Types that can stage pushes.
pub trait Pushing {
    /// Sends this after the commit, and only if it commits.
    fn push(&mut self, push: &Push) -> Staged<()>;
}

impl Pushing for Tx<'_> {
    fn push(&mut self, push: &Push) -> Staged<()> {
        self.stage(push.letter().encode())
    }
}

impl Message for Push {
    fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        put_bytes(&mut out, self.hub.as_bytes());
        let (tag, names, more): (u8, &[String], &[String]) = match &self.to {
            To::All { except } => (0, &[], except),
            To::Group { name, except } => (1, std::slice::from_ref(name), except),
            To::Groups(names) => (2, names, &[]),
            To::Users(users) => (3, users, &[]),
            To::Connections(ids) => (4, ids, &[]),
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

    fn decode(bytes: &Bytes) -> std::result::Result<Self, Malformed> {
        let mut reader = Reader::new(bytes.clone());
        if reader.byte()? != FORMAT {
            return Err(Malformed);
        }
        let hub = text(&mut reader)?;
        let tag = reader.byte()?;
        let (names, except) = (texts(&mut reader)?, texts(&mut reader)?);
        let to = match tag {
            0 => To::All { except },
            1 => To::Group {
                name: names.into_iter().next().ok_or(Malformed)?,
                except,
            },
            2 => To::Groups(names),
            3 => To::Users(names),
            4 => To::Connections(names),
            _ => return Err(Malformed),
        };
        let mut forms = Vec::new();
        for _ in 0..reader.varint()? {
            let protocol = Protocol::named(&text(&mut reader)?).ok_or(Malformed)?;
            forms.push((protocol, reader.bytes()?));
        }
        let payload = Payload::of(forms);
        Ok(Self { hub, to, payload })
    }
}

fn put_texts(out: &mut Vec<u8>, texts: &[String]) {
    put_varint(out, texts.len() as u64);
    for text in texts {
        put_bytes(out, text.as_bytes());
    }
}

fn text(reader: &mut Reader) -> std::result::Result<String, Malformed> {
    let bytes = reader.bytes()?;
    String::from_utf8(bytes.into()).map_err(|_| Malformed)
}

fn texts(reader: &mut Reader) -> std::result::Result<Vec<String>, Malformed> {
    (0..reader.varint()?).map(|_| text(reader)).collect()
}

/// The service whose commands are performed after the commit.
pub struct Pushes;

impl Service for Pushes {
    type Command = Push;
    type Reply = ();

    fn kind(&self) -> Kind {
        PUSHES
    }

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        _to: &Address,
        command: &Push,
    ) -> std::result::Result<Answer<()>, Halt> {
        turn.push(command.encode());
        Ok(Answer::Now(()))
    }
}

/// Performs pushes: it queues them for clients on all nodes.
pub struct Pusher(Realtime);

impl Pusher {
    /// A performer for the clients of this service.
    pub fn new(realtime: Realtime) -> Arc<Self> {
        Arc::new(Self(realtime))
    }
}

impl Performer for Pusher {
    fn perform(&self, effect: Effect) {
        // Clients that are not connected are skipped, and so is a hub without
        // clients.
        if let Ok(push) = Push::decode(&effect.body)
            && let Ok(lobby) = self.0.reached(&push.hub)
        {
            lobby.everywhere().send(&push.to, &push.payload);
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
            To::All {
                except: except.clone(),
            },
            To::Group {
                name: "g".to_owned(),
                except,
            },
            To::Groups(vec!["a".to_owned(), "b".to_owned()]),
            To::Users(vec!["u".to_owned()]),
            To::Connections(vec![]),
        ];
        for to in all {
            let push = Push::new("Chat", to.clone(), "told", &(1, "x")).unwrap();
            let read = Push::decode(&push.encode()).unwrap();
            assert_eq!((&*read.hub, &read.to), ("chat", &to));
            assert_eq!(read.payload.forms(), push.payload.forms());
        }
        let whole = Push::new("chat", To::Users(vec![]), "told", &()).unwrap();
        let whole = whole.encode();
        for end in 0..whole.len() {
            assert!(Push::decode(&whole.slice(..end)).is_err(), "{end}");
        }
    }
}
