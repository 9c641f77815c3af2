//! Messages between nodes about hubs.
//!
//! Most of them wrap messages of the service protocol: a node asks a peer to do what
//! an app server asks of the service.

use bytes::Bytes;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::limits;
use steadfast_wire::signalr::Protocol;
use steadfast_wire::signalr::frame;
use steadfast_wire::signalr::service::{Message, read, write};

use crate::cluster::batch::text;

/// One message to a peer node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PeerRequest {
    /// The receiver executes this for its clients of a hub.
    Execute { hub: String, message: Message },
    /// Clients of a hub on the sending node wait for an app server.
    RequestServer { hub: String },
    /// An app server has connected with a link for the receiver.
    Link {
        id: String,
        hub: String,
        server: String,
        is_ours: bool,
    },
    /// Bytes from the server of such a link.
    FromServer { id: String, bytes: Bytes },
    /// Bytes to the server of such a link.
    ToServer { id: String, bytes: Bytes },
    /// Such a link has ended.
    End { id: String },
    /// Return the number of clients and the app servers of a hub.
    Census { hub: String },
    /// Return the names of the hubs with clients or servers, `count` at most after a name.
    Hubs { after: String, count: u64 },
}

impl PeerRequest {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        match self {
            Self::Execute { hub, message } => {
                put(&mut out, 1, &[hub]);
                put_bytes(&mut out, &write(message));
            }
            Self::RequestServer { hub } => put(&mut out, 2, &[hub]),
            Self::Link {
                id,
                hub,
                server,
                is_ours,
            } => {
                put(&mut out, 3, &[id, hub, server]);
                out.push(u8::from(*is_ours));
            }
            Self::FromServer { id, bytes } => {
                put(&mut out, 4, &[id]);
                put_bytes(&mut out, bytes);
            }
            Self::ToServer { id, bytes } => {
                put(&mut out, 5, &[id]);
                put_bytes(&mut out, bytes);
            }
            Self::End { id } => put(&mut out, 6, &[id]),
            Self::Census { hub } => put(&mut out, 7, &[hub]),
            Self::Hubs { after, count } => {
                put(&mut out, 8, &[after]);
                put_varint(&mut out, *count);
            }
        }
        out.into()
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        let reader = &mut reader;
        Ok(match reader.byte()? {
            1 => {
                let (hub, written) = (text(reader)?, reader.bytes()?);
                let body = frame::body(Protocol::MessagePack, &written);
                let message = body.and_then(|body| read(&body)).map_err(|_| DecodeError)?;
                Self::Execute { hub, message }
            }
            2 => Self::RequestServer { hub: text(reader)? },
            3 => Self::Link {
                id: text(reader)?,
                hub: text(reader)?,
                server: text(reader)?,
                is_ours: reader.byte()? != 0,
            },
            4 => Self::FromServer {
                id: text(reader)?,
                bytes: reader.bytes()?,
            },
            5 => Self::ToServer {
                id: text(reader)?,
                bytes: reader.bytes()?,
            },
            6 => Self::End { id: text(reader)? },
            7 => Self::Census { hub: text(reader)? },
            8 => Self::Hubs {
                after: text(reader)?,
                count: reader.varint()?,
            },
            _ => return Err(DecodeError),
        })
    }
}

fn put(out: &mut Vec<u8>, tag: u8, texts: &[&String]) {
    out.push(tag);
    for text in texts {
        put_bytes(out, text.as_bytes());
    }
}

/// The response of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeerResponse {
    /// How many were found, or closed.
    pub(crate) count: u64,
    /// Members of a group with their users.
    pub(crate) members: Vec<(String, Option<String>)>,
    /// There are more members.
    pub(crate) has_more: bool,
    /// App servers of a hub, or names of hubs.
    pub(crate) servers: Vec<String>,
}

impl PeerResponse {
    /// A response of 1 if something was found, else 0.
    pub(crate) fn found(is_found: bool) -> Self {
        Self {
            count: u64::from(is_found),
            ..Self::default()
        }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        put_varint(&mut out, self.count);
        out.push(u8::from(self.has_more));
        put_varint(&mut out, self.members.len() as u64);
        for (connection, user) in &self.members {
            put_bytes(&mut out, connection.as_bytes());
            out.push(u8::from(user.is_some()));
            put_bytes(&mut out, user.as_deref().unwrap_or_default().as_bytes());
        }
        // Older nodes read up to here only.
        if !self.servers.is_empty() {
            put_varint(&mut out, self.servers.len() as u64);
            for server in &self.servers {
                put_bytes(&mut out, server.as_bytes());
            }
        }
        out.into()
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        let (count, has_more) = (reader.varint()?, reader.byte()? != 0);
        let length = reader.varint()?;
        if length > limits::GROUP_PAGE as u64 {
            return Err(DecodeError);
        }
        let mut members = Vec::new();
        for _ in 0..length {
            let connection = text(&mut reader)?;
            let has_user = reader.byte()? != 0;
            let user = text(&mut reader)?;
            members.push((connection, has_user.then_some(user)));
        }
        let mut servers = Vec::new();
        if !reader.is_empty() {
            let length = reader.varint()?;
            if length > limits::GROUP_PAGE as u64 {
                return Err(DecodeError);
            }
            for _ in 0..length {
                servers.push(text(&mut reader)?);
            }
        }
        Ok(Self {
            count,
            members,
            has_more,
            servers,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_written() {
        let text = |text: &str| text.to_owned();
        let words = [
            PeerRequest::Execute {
                hub: text("chat"),
                message: Message::Join {
                    connection: text("c"),
                    group: text("g"),
                    ack: Some(0),
                },
            },
            PeerRequest::RequestServer { hub: text("chat") },
            PeerRequest::Link {
                id: text("1"),
                hub: text("chat"),
                server: text("s"),
                is_ours: true,
            },
            PeerRequest::FromServer {
                id: text("1"),
                bytes: "up".into(),
            },
            PeerRequest::ToServer {
                id: text("1"),
                bytes: "down".into(),
            },
            PeerRequest::End { id: text("1") },
            PeerRequest::Census { hub: text("chat") },
            PeerRequest::Hubs {
                after: text("chat"),
                count: 7,
            },
        ];
        for word in words {
            let bytes = word.encode();
            assert_eq!(PeerRequest::decode(bytes.clone()), Ok(word));
            for end in 0..bytes.len() {
                assert!(PeerRequest::decode(bytes.slice(..end)).is_err());
            }
        }
    }

    #[test]
    fn replies_come_back_as_written() {
        let reply = PeerResponse {
            count: 3,
            members: vec![
                ("c".to_owned(), None),
                ("d".to_owned(), Some("u".to_owned())),
            ],
            has_more: true,
            servers: Vec::new(),
        };
        let of_older_nodes = reply.encode();
        assert_eq!(PeerResponse::decode(of_older_nodes), Ok(reply.clone()));
        let reply = PeerResponse {
            servers: vec!["a".to_owned(), "b".to_owned()],
            ..reply
        };
        assert_eq!(PeerResponse::decode(reply.encode()), Ok(reply));
    }
}
