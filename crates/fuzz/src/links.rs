//! Links of app servers: the service protocol.

use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::clock::Clock;
use steadfast_core::limits;
use steadfast_realtime::{
    AppServerSession, ClientConnection, ClientIdentity, ClientOptions, ClientReader, KeepAlive,
    Realtime,
};
use steadfast_wire::signalr::frame::{self, Splitter};
use steadfast_wire::signalr::service::{
    ClientInvocation, CloseConnection, CloseConnections, ConnectionData, ExistenceCheck,
    FlowControl, FlowControlKind, GroupBroadcast, Message, ServerHandshake, Target, read, write,
};
use steadfast_wire::signalr::{Protocol, write as hub};

use crate::records;
use crate::session::{MemoryBound, Session};
use crate::time::{PausedClock, due, settle};

const HUB: &str = "far";

/// The first byte of an input selects what is sent around the rest.
mod mode {
    /// The handshake of the link is sent for the input.
    pub(super) const GREETED: u8 = 1;
    /// The rest consists of records, each one message without its length.
    pub(super) const FRAMED: u8 = 2;
    /// The connections `1` and `2` in records stand for the connected clients.
    pub(super) const NAMED: u8 = 4;
    /// A second link of the server takes every other record.
    pub(super) const TWO: u8 = 8;
}

pub(crate) struct LinkSession {
    realtime: Realtime,
}

impl Session for LinkSession {
    const NAME: &'static str = "links";

    const BOUND: MemoryBound = MemoryBound {
        least: 128 * 1024,
        per_byte: 64,
    };

    async fn start() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(PausedClock::new());
        let realtime = Realtime::with_clock("here", clock);
        Self { realtime }
    }

    async fn take(&mut self, input: &[u8]) {
        let Some((&mode, rest)) = input.split_first() else {
            return;
        };
        let has = |bit: u8| mode & bit != 0;
        let mut links = vec![self.link("server")];
        if has(mode::TWO) {
            links.push(self.link("other"));
        }
        let mut clients = Vec::new();
        if has(mode::GREETED) {
            for link in &mut links {
                // A new link accepts its handshake.
                let _ = link.take(handshake(0));
            }
            for user in ["alice", "bob"] {
                clients.extend(self.client(user).await);
            }
        }
        let names: Vec<_> = clients.iter().map(|own| own.id().to_string()).collect();
        let messages: Vec<_> = if has(mode::FRAMED) {
            records::split(rest)
                .map(|record| {
                    if has(mode::NAMED) {
                        named(record, &names)
                    } else {
                        frame::counted(record)
                    }
                })
                .collect()
        } else {
            vec![Bytes::copy_from_slice(rest)]
        };
        for (index, message) in messages.into_iter().enumerate() {
            let count = links.len();
            if count == 0 {
                break;
            }
            // An ended link is closed by its transport.
            if links[index % count].take(message).is_err() {
                drop(links.remove(index % count));
            }
            tokio::task::yield_now().await;
        }
        settle().await;
        drop(links);
        settle().await;
        // A hub and its clients hold references to one another.
        for client in &clients {
            client.leave(None);
        }
        settle().await;
    }

    async fn answers(&mut self) {
        welcomes(&self.realtime).await;
    }

    fn seeds() -> Vec<Vec<u8>> {
        seeds()
    }
}

/// Opens a link, and checks the response to its handshake.
///
/// # Panics
///
/// If there is none.
pub(crate) async fn welcomes(realtime: &Realtime) {
    let link = realtime.server(HUB, "good", false);
    let mut link = link.expect("a hub that is not hosted here");
    assert!(link.take(handshake(0)).is_ok(), "a handshake is taken");
    let welcome = due("a welcome", link.link().outgoing()).await;
    let mut splitter = Splitter::default();
    splitter.push(welcome.expect("the link is open"));
    let limit = limits::SERVER_MESSAGE_BYTES;
    let first = splitter.next(Protocol::MessagePack, limit);
    let first = first.expect("a frame").expect("a whole one");
    let body = frame::body(Protocol::MessagePack, &first).expect("a message");
    match read(&body).expect("a message of the protocol") {
        Message::Welcome { error, .. } => assert_eq!(error, ""),
        other => panic!("a welcome, not {other:?}"),
    }
}

impl LinkSession {
    /// Opens a link; a task drains its outgoing bytes.
    fn link(&self, server: &str) -> AppServerSession {
        let link = self.realtime.server(HUB, server, false);
        let link = link.expect("a hub that is not hosted here");
        let written = Arc::clone(link.link());
        tokio::spawn(async move { while written.outgoing().await.is_some() {} });
        link
    }

    /// A client that has sent its handshake and reads its messages.
    async fn client(&self, user: &str) -> Option<Arc<ClientConnection>> {
        let caller = ClientIdentity {
            user: Some(user.to_owned()),
            ..ClientIdentity::default()
        };
        let connected = self
            .realtime
            .connect(HUB, caller, &ClientOptions::default());
        // The server may have disconnected already.
        let (client, lobby) = connected.ok()?;
        let most = limits::CLIENT_MESSAGE_BYTES;
        let mut inlet = ClientReader::new(Arc::clone(&client), lobby, most);
        let reading = Arc::clone(&client);
        tokio::spawn(async move {
            loop {
                let outgoing = reading.outgoing(0, KeepAlive::Pings).await;
                if !matches!(outgoing, steadfast_realtime::ClientOutput::Data(_)) {
                    break;
                }
            }
        });
        tokio::spawn(async move {
            let hello = Bytes::from_static(b"{\"protocol\":\"json\",\"version\":1}\x1e");
            let _ = inlet.take(hello).await;
            inlet.client().gone().await;
        });
        settle().await;
        Some(client)
    }
}

fn handshake(kind: i64) -> Bytes {
    write(&Message::Handshake(ServerHandshake {
        version: 1,
        kind,
        migration: 1,
        elements: 7,
        ..ServerHandshake::default()
    }))
}

/// A record as a message, with the names of real connections.
fn named(record: &[u8], names: &[String]) -> Bytes {
    let Ok(mut message) = read(&Bytes::copy_from_slice(record)) else {
        return frame::counted(record);
    };
    let put = |name: &mut String| match name.as_str() {
        "1" => name.clone_from(names.first().unwrap_or(&String::new())),
        "2" => name.clone_from(names.get(1).unwrap_or(&String::new())),
        _ => {}
    };
    match &mut message {
        Message::Data(ConnectionData { connection, .. })
        | Message::Close(CloseConnection { connection, .. })
        | Message::Join { connection, .. }
        | Message::Leave { connection, .. }
        | Message::Ask(ClientInvocation { connection, .. })
        | Message::Reconnect { connection } => put(connection),
        Message::Flow(FlowControl { id, .. }) => put(id),
        Message::Send {
            to: Target::Connections(all) | Target::All { except: all },
            ..
        } => all.iter_mut().for_each(put),
        Message::Check {
            of: ExistenceCheck::Connection(connection),
            ..
        } => put(connection),
        _ => {}
    }
    write(&message)
}

fn seeds() -> Vec<Vec<u8>> {
    let text = |own: &str| own.to_owned();
    let told = hub::invocation(Protocol::Json, None, "told", b"[\"hi\"]");
    let payloads = vec![(text("json"), told.clone())];
    let data = |payload: &Bytes, is_partial: bool| {
        Message::Data(ConnectionData {
            connection: text("1"),
            payload: payload.clone(),
            is_partial,
            ..ConnectionData::default()
        })
    };
    let join = |connection: &str, ack: Option<i64>| Message::Join {
        connection: text(connection),
        group: text("group"),
        ack,
    };
    let send = |to: Target| Message::Send {
        to,
        payloads: payloads.clone(),
    };
    let groups = vec![
        join("1", Some(1)),
        join("2", None),
        Message::Group(GroupBroadcast {
            group: text("group"),
            except: vec![text("2")],
            payloads: payloads.clone(),
            ..GroupBroadcast::default()
        }),
        Message::UserJoin {
            user: text("alice"),
            group: text("group"),
            ttl_s: Some(60),
            ack: Some(2),
        },
        Message::Members {
            group: text("group"),
            ack: 3,
            most: Some(1),
            token: None,
        },
        Message::UserLeave {
            user: text("alice"),
            group: None,
            ack: Some(4),
        },
        Message::Leave {
            connection: text("1"),
            group: None,
            ack: Some(5),
        },
        Message::Check {
            of: ExistenceCheck::Group(text("group")),
            ack: 6,
        },
    ];
    let sends = vec![
        data(&Bytes::from_static(b"{}\x1e"), false),
        data(&told.slice(..5), true),
        data(&told.slice(5..), false),
        send(Target::All { except: vec![] }),
        send(Target::Connections(vec![text("1"), text("2")])),
        send(Target::User(text("bob"))),
        send(Target::Users(vec![text("bob"), text("alice")])),
        send(Target::Groups(vec![text("group")])),
    ];
    let others = vec![
        Message::Ping(vec![text("status"), text("1")]),
        Message::Ping(vec![text("shutdown"), text("fin:1")]),
        Message::Ask(ClientInvocation {
            id: text("q"),
            connection: text("1"),
            caller: text("server"),
            payloads: payloads.clone(),
        }),
        Message::Flow(FlowControl {
            id: text("1"),
            is_server: false,
            kind: FlowControlKind::Pause,
        }),
        Message::Flow(FlowControl {
            id: text("1"),
            is_server: false,
            kind: FlowControlKind::Resume,
        }),
        Message::Close(CloseConnection {
            connection: text("1"),
            error: text("away"),
            ..CloseConnection::default()
        }),
        Message::CloseMany(CloseConnections {
            user: Some(text("bob")),
            reason: text("away"),
            ack: 7,
            ..CloseConnections::default()
        }),
        Message::Unknown(99),
    ];
    let input = |mode: u8, messages: &[Message]| {
        let bodies: Vec<_> = messages
            .iter()
            .map(|own| frame::body(Protocol::MessagePack, &write(own)).expect("a message"))
            .map(|body| body.to_vec())
            .collect();
        records::with_mode(mode, &records::join(&bodies))
    };
    let all = mode::GREETED | mode::FRAMED | mode::NAMED;
    vec![
        input(all, &groups),
        input(all, &sends),
        input(all, &others),
        input(all | mode::TWO, &[groups.clone(), sends, others].concat()),
        records::with_mode(0, &handshake(0)),
        records::with_mode(0, &handshake(2)),
        records::with_mode(0, &[handshake(1), write(&groups[0])].concat()),
    ]
}
