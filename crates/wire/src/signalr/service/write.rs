//! Writes messages of the service protocol.
//!
//! Optional fields are written only where every server expects them, because some do
//! not skip unknown ones.

use bytes::Bytes;

use super::super::frame::counted;
use super::super::pack;
use super::message::{ExistenceCheck, FlowControlKind, Message, Payloads, Target};

/// Writes a message with its length prefix.
pub fn write(message: &Message) -> Bytes {
    let mut out = Vec::new();
    body(&mut out, message);
    counted(&out)
}

/// Members of a group, as the payload of an acknowledgement: connections with their
/// users, and the token of the next page.
pub fn members(members: &[(String, Option<String>)], token: Option<&str>) -> Bytes {
    let mut out = Vec::new();
    pack::array(&mut out, 2);
    pack::array(&mut out, members.len());
    for (connection, user) in members {
        pack::array(&mut out, 2);
        pack::text(&mut out, connection);
        pack::text_or_nil(&mut out, user.as_deref());
    }
    pack::text_or_nil(&mut out, token);
    out.into()
}

fn body(out: &mut Vec<u8>, message: &Message) {
    match message {
        Message::Handshake(own) => {
            head(out, 7, 1);
            int(out, own.version);
            int(out, own.kind);
            pack::text(out, &own.target);
            int(out, own.migration);
            nothing(out);
            pack::bool(out, own.is_stateful);
        }
        Message::Welcome { error, id } => {
            head(out, 4, 2);
            pack::text(out, error);
            nothing(out);
            pack::text_or_nil(out, id.as_deref());
        }
        Message::Ping(texts) => {
            head(out, 1 + texts.len(), 3);
            for text in texts {
                pack::text(out, text);
            }
        }
        Message::Open(own) => {
            head(out, 6, 4);
            pack::text(out, &own.connection);
            pack::map(out, own.claims.len());
            for (name, value) in &own.claims {
                pack::text(out, name);
                pack::text(out, value);
            }
            headers(out, &own.headers);
            pack::text(out, &own.query);
            match &own.protocol {
                Some(protocol) => {
                    pack::map(out, 1);
                    pack::uint(out, 3);
                    pack::text(out, protocol);
                }
                None => nothing(out),
            }
        }
        Message::Close(own) => {
            head(out, 5, 5);
            pack::text(out, &own.connection);
            pack::text(out, &own.error);
            headers(out, &own.headers);
            nothing(out);
        }
        Message::Data(own) => {
            head(out, 4, 6);
            pack::text(out, &own.connection);
            pack::bin(out, &own.payload);
            pack::map(
                out,
                usize::from(own.kind.is_some()) + usize::from(own.is_partial),
            );
            if let Some(kind) = own.kind {
                pack::uint(out, 5);
                int(out, kind);
            }
            if own.is_partial {
                pack::uint(out, 6);
                pack::bool(out, true);
            }
        }
        Message::Send { to, payloads: own } => send(out, to, own),
        Message::Group(own) => {
            head(out, 7, 13);
            pack::text(out, &own.group);
            texts(out, &own.except);
            payloads(out, &own.payloads);
            nothing(out);
            texts(out, &own.except_users);
            pack::text_or_nil(out, own.caller.as_deref());
        }
        Message::Join { .. }
        | Message::Leave { .. }
        | Message::UserJoin { .. }
        | Message::UserLeave { .. } => membership(out, message),
        Message::Fault(text) => {
            head(out, 2, 15);
            pack::text(out, text);
        }
        Message::Ack(own) => {
            head(out, if own.payload.is_some() { 6 } else { 5 }, 20);
            int(out, own.id);
            int(out, own.status);
            pack::text(out, &own.text);
            nothing(out);
            if let Some(payload) = &own.payload {
                pack::bin(out, payload);
            }
        }
        Message::Check { of, ack } => check(out, of, *ack),
        Message::Event {
            object,
            id,
            kind,
            text,
        } => {
            head(out, 6, 22);
            int(out, *object);
            pack::text(out, id);
            int(out, *kind);
            pack::text(out, text);
            nothing(out);
        }
        other => rest(out, other),
    }
}

/// Writes the rarer messages.
fn rest(out: &mut Vec<u8>, message: &Message) {
    match message {
        Message::KeyRequest { kid } => {
            head(out, 4, 28);
            pack::text(out, "");
            pack::text(out, kid);
            nothing(out);
        }
        Message::KeyResponse {
            kid,
            key,
            error,
            text,
        } => {
            head(out, 6, 29);
            for own in [kid, key, error, text] {
                pack::text(out, own);
            }
            nothing(out);
        }
        Message::CloseMany(own) => {
            let (kind, who) = match (&own.connection, &own.user, &own.group) {
                (Some(who), ..) => (30, Some(who)),
                (_, Some(who), _) => (32, Some(who)),
                (_, _, Some(who)) => (33, Some(who)),
                _ => (31, None),
            };
            let is_one = usize::from(kind == 30);
            head(out, 5 + usize::from(who.is_some()) - is_one, kind);
            if let Some(who) = who {
                pack::text(out, who);
            }
            pack::text(out, &own.reason);
            int(out, own.ack);
            if kind != 30 {
                texts(out, &own.except);
            }
            nothing(out);
        }
        Message::Ask(own) => {
            head(out, 6, 34);
            for text in [&own.id, &own.connection, &own.caller] {
                pack::text(out, text);
            }
            payloads(out, &own.payloads);
            nothing(out);
        }
        Message::Answer(own) => {
            let (count, kind) = match own.outcome {
                Ok(_) => (7, 35),
                Err(_) => (6, 36),
            };
            head(out, count, kind);
            for text in [&own.id, &own.connection, &own.caller] {
                pack::text(out, text);
            }
            match &own.outcome {
                Ok((protocol, payload)) => {
                    pack::text(out, protocol);
                    pack::bin(out, payload);
                }
                Err(error) => pack::text(out, error),
            }
            nothing(out);
        }
        Message::Mapping {
            id,
            connection,
            instance,
        } => {
            head(out, 5, 37);
            for text in [id, connection, instance] {
                pack::text(out, text);
            }
            nothing(out);
        }
        Message::Reconnect { connection } => {
            head(out, 3, 38);
            pack::text(out, connection);
            nothing(out);
        }
        Message::Flow(own) => {
            head(out, 5, 39);
            pack::text(out, &own.id);
            int(out, if own.is_server { 2 } else { 1 });
            int(
                out,
                match own.kind {
                    FlowControlKind::Pause => 1,
                    FlowControlKind::Paused => 2,
                    FlowControlKind::Resume => 3,
                    FlowControlKind::Offline => 4,
                    FlowControlKind::Other(other) => other,
                },
            );
            nothing(out);
        }
        Message::Members {
            group,
            ack,
            most,
            token,
        } => {
            head(out, 6, 40);
            nothing(out);
            pack::text(out, group);
            int(out, *ack);
            match most {
                Some(most) => int(out, *most),
                None => pack::nil(out),
            }
            pack::text_or_nil(out, token.as_deref());
        }
        // Unknown messages are written as their type alone.
        Message::Unknown(kind) => head(out, 1, *kind),
        _ => unreachable!("the other kinds are written by the caller"),
    }
}

fn send(out: &mut Vec<u8>, to: &Target, own: &Payloads) {
    match to {
        Target::Connections(ids) => {
            head(out, 4, 7);
            texts(out, ids);
        }
        Target::User(user) => {
            head(out, 4, 8);
            pack::text(out, user);
        }
        Target::Users(users) => {
            head(out, 4, 9);
            texts(out, users);
        }
        Target::All { except } => {
            head(out, 4, 10);
            texts(out, except);
        }
        Target::Groups(groups) => {
            head(out, 4, 14);
            texts(out, groups);
        }
    }
    payloads(out, own);
    nothing(out);
}

fn membership(out: &mut Vec<u8>, message: &Message) {
    let (plain, with_ack, who, group, ack, ttl_s) = match message {
        Message::Join {
            connection,
            group,
            ack,
        } => (11, 18, connection, Some(group), ack, &None),
        Message::Leave {
            connection,
            group,
            ack,
        } => (12, 19, connection, group.as_ref(), ack, &None),
        Message::UserJoin {
            user,
            group,
            ttl_s,
            ack,
        } => (16, 26, user, Some(group), ack, ttl_s),
        Message::UserLeave { user, group, ack } => (17, 27, user, group.as_ref(), ack, &None),
        _ => unreachable!("the caller has looked"),
    };
    match ack {
        Some(_) => head(out, 5, with_ack),
        None => head(out, 4, plain),
    }
    pack::text(out, who);
    pack::text_or_nil(out, group.map(String::as_str));
    if let Some(ack) = ack {
        int(out, *ack);
    }
    match ttl_s {
        Some(ttl_s) => {
            pack::map(out, 1);
            pack::uint(out, 2);
            int(out, *ttl_s);
        }
        None => nothing(out),
    }
}

fn check(out: &mut Vec<u8>, of: &ExistenceCheck, ack: i64) {
    match of {
        ExistenceCheck::UserInGroup { user, group } => {
            head(out, 5, 21);
            pack::text(out, user);
            pack::text(out, group);
        }
        ExistenceCheck::Group(group) => {
            head(out, 4, 23);
            pack::text(out, group);
        }
        ExistenceCheck::Connection(id) => {
            head(out, 4, 24);
            pack::text(out, id);
        }
        ExistenceCheck::User(user) => {
            head(out, 4, 25);
            pack::text(out, user);
        }
    }
    int(out, ack);
    nothing(out);
}

fn head(out: &mut Vec<u8>, count: usize, kind: i64) {
    pack::array(out, count);
    int(out, kind);
}

/// An empty map in place of optional fields.
fn nothing(out: &mut Vec<u8>) {
    pack::map(out, 0);
}

fn int(out: &mut Vec<u8>, value: i64) {
    match u64::try_from(value) {
        Ok(value) => pack::uint(out, value),
        Err(_) => {
            out.push(0xd3);
            out.extend(value.to_be_bytes());
        }
    }
}

fn texts(out: &mut Vec<u8>, own: &[String]) {
    pack::array(out, own.len());
    for text in own {
        pack::text(out, text);
    }
}

fn headers(out: &mut Vec<u8>, own: &[(String, Vec<String>)]) {
    pack::map(out, own.len());
    for (name, values) in own {
        pack::text(out, name);
        texts(out, values);
    }
}

fn payloads(out: &mut Vec<u8>, own: &Payloads) {
    pack::map(out, own.len());
    for (protocol, bytes) in own {
        pack::text(out, protocol);
        pack::bin(out, bytes);
    }
}
