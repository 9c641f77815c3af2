//! Conversion of sends to and from service messages.

use crate::dispatch::gateway::{HubPayload, Recipients};
use steadfast_wire::signalr::Protocol;
use steadfast_wire::signalr::service::{GroupBroadcast, Message, Payloads, Target};

/// Converts a send to a service message.
pub(crate) fn send(to: &Recipients, payload: &HubPayload) -> Message {
    let payloads = payloads(payload);
    let to = match to.clone() {
        Recipients::Group { name, except } => {
            return Message::Group(GroupBroadcast {
                group: name,
                except,
                payloads,
                ..GroupBroadcast::default()
            });
        }
        Recipients::All { except } => Target::All { except },
        Recipients::Groups(groups) => Target::Groups(groups),
        Recipients::Users(users) => Target::Users(users),
        Recipients::Connections(ids) => Target::Connections(ids),
    };
    Message::Send { to, payloads }
}

/// Converts the target of a service message.
pub(crate) fn target(to: Target) -> Recipients {
    match to {
        Target::Connections(ids) => Recipients::Connections(ids),
        Target::User(user) => Recipients::Users(vec![user]),
        Target::Users(users) => Recipients::Users(users),
        Target::All { except } => Recipients::All { except },
        Target::Groups(groups) => Recipients::Groups(groups),
    }
}

/// Framed messages by the names of their protocols.
pub(crate) fn payloads(payload: &HubPayload) -> Payloads {
    let forms = payload.forms().iter();
    let forms = forms.map(|(protocol, bytes)| (protocol.name().to_owned(), bytes.clone()));
    forms.collect()
}

/// The messages in known protocols.
pub(crate) fn payload(payloads: Payloads) -> HubPayload {
    let forms = payloads.into_iter();
    let forms = forms.filter_map(|(name, bytes)| Some((Protocol::named(&name)?, bytes)));
    HubPayload::of(forms.collect())
}
