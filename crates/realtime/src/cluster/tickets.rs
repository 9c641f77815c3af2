//! Tickets that move between nodes.
//!
//! Until its connection is open, a ticket can move to the node at which the client
//! has connected.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::clock::whole_ms;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::limits;

use crate::cluster::batch::text;
use crate::connection::client::ClientOptions;
use crate::connection::identity::ClientIdentity;
use crate::connection::ticket::ConnectionTicket;

/// The contents of a ticket: the connection's id, its identity and its options.
pub(crate) type TicketContents = (Arc<str>, Arc<ClientIdentity>, ClientOptions);

/// Encodes a ticket.
pub(crate) fn write(ticket: &ConnectionTicket) -> Bytes {
    let mut out = Vec::new();
    put_bytes(&mut out, ticket.id.as_bytes());
    let (caller, wishes) = (ticket.caller(), ticket.wishes());
    out.push(u8::from(caller.user.is_some()));
    put_bytes(
        &mut out,
        caller.user.as_deref().unwrap_or_default().as_bytes(),
    );
    for pairs in [&caller.claims, &caller.headers] {
        put_varint(&mut out, pairs.len() as u64);
        for (name, value) in pairs {
            put_bytes(&mut out, name.as_bytes());
            put_bytes(&mut out, value.as_bytes());
        }
    }
    put_bytes(&mut out, caller.query.as_bytes());
    out.push(u8::from(wishes.is_stateful));
    for time in [wishes.expires, wishes.handshake] {
        let ms = time.map_or(0, |time| whole_ms(time).saturating_add(1));
        put_varint(&mut out, ms);
    }
    out.into()
}

/// Decodes a ticket of a peer node.
pub(crate) fn read(bytes: Bytes) -> Result<TicketContents, DecodeError> {
    let mut reader = ByteReader::new(bytes);
    let reader = &mut reader;
    let id = text(reader)?;
    let (has_user, user) = (reader.byte()? != 0, text(reader)?);
    let caller = ClientIdentity {
        user: has_user.then_some(user),
        claims: pairs(reader)?,
        headers: pairs(reader)?,
        query: text(reader)?,
    };
    let is_stateful = reader.byte()? != 0;
    let wishes = ClientOptions {
        is_stateful,
        expires: time(reader)?,
        handshake: time(reader)?,
    };
    Ok((id.into(), Arc::new(caller), wishes))
}

fn time(reader: &mut ByteReader) -> Result<Option<Duration>, DecodeError> {
    let ms = reader.varint()?;
    Ok(ms.checked_sub(1).map(Duration::from_millis))
}

fn pairs(reader: &mut ByteReader) -> Result<Vec<(String, String)>, DecodeError> {
    let count = reader.varint()?;
    if count > limits::NODE_BATCH as u64 {
        return Err(DecodeError);
    }
    (0..count)
        .map(|_| Ok((text(reader)?, text(reader)?)))
        .collect()
}
