//! Conversion of sends to and from service messages.

use steadfast_wire::signalr::Protocol;
use steadfast_wire::signalr::service::{GroupData, Message, Payloads, Target};

use crate::payload::Payload;
use crate::reach::To;

/// Converts a send to a service message.
pub(crate) fn send(to: &To, payload: &Payload) -> Message {
    let payloads = payloads(payload);
    let to = match to.clone() {
        To::Group { name, except } => {
            return Message::Group(GroupData {
                group: name,
                except,
                payloads,
                ..GroupData::default()
            });
        }
        To::All { except } => Target::All { except },
        To::Groups(groups) => Target::Groups(groups),
        To::Users(users) => Target::Users(users),
        To::Connections(ids) => Target::Connections(ids),
    };
    Message::Send { to, payloads }
}

/// Converts the target of a service message.
pub(crate) fn target(to: Target) -> To {
    match to {
        Target::Connections(ids) => To::Connections(ids),
        Target::User(user) => To::Users(vec![user]),
        Target::Users(users) => To::Users(users),
        Target::All { except } => To::All { except },
        Target::Groups(groups) => To::Groups(groups),
    }
}

/// Framed messages by the names of their protocols.
pub(crate) fn payloads(payload: &Payload) -> Payloads {
    let forms = payload.forms().iter();
    let forms = forms.map(|(protocol, bytes)| (protocol.name().to_owned(), bytes.clone()));
    forms.collect()
}

/// The messages in known protocols.
pub(crate) fn payload(payloads: Payloads) -> Payload {
    let forms = payloads.into_iter();
    let forms = forms.filter_map(|(name, bytes)| Some((Protocol::named(&name)?, bytes)));
    Payload::of(forms.collect())
}
