//! Messages of app servers: golden bytes and mutations.

use bytes::Bytes;
use steadfast_wire::signalr::frame::Splitter;
use steadfast_wire::signalr::service::{
    Ack, ClientCompletion, ClientInvocation, CloseConnection, CloseConnections, ConnectionData,
    ExistenceCheck, FlowControl, FlowControlKind, GroupBroadcast, Message, OpenConnection,
    ServerHandshake, Target, read, write,
};
use steadfast_wire::signalr::{Protocol, frame};

fn bytes(hex: &str) -> Bytes {
    let digits: Vec<u8> = hex.bytes().filter(|byte| *byte != b' ').collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect::<Vec<_>>().into()
}

fn text(own: &str) -> String {
    own.to_owned()
}

fn whole(message: &Bytes) -> Message {
    read(&frame::body(Protocol::MessagePack, message).unwrap()).unwrap()
}

/// As the specification shows them.
fn golden() -> Vec<(&'static str, Message)> {
    let header = |name: &str, value: &str| vec![(text(name), vec![text(value)])];
    vec![
        ("02 91 03", Message::Ping(vec![])),
        (
            "08 97 01 01 00 a0 01 80 c2",
            Message::Handshake(ServerHandshake {
                version: 1,
                migration: 1,
                elements: 7,
                ..ServerHandshake::default()
            }),
        ),
        (
            "05 94 02 a0 80 c0",
            Message::Welcome {
                error: String::new(),
                id: None,
            },
        ),
        (
            "11 93 03 a8 73687574646f776e a5 66696e3a31",
            Message::Ping(vec![text("shutdown"), text("fin:1")]),
        ),
        (
            "12 93 03 a8 73687574646f776e a6 66696e61636b",
            Message::Ping(vec![text("shutdown"), text("finack")]),
        ),
        (
            "06 95 14 07 01 a0 80",
            Message::Ack(Ack {
                id: 7,
                status: 1,
                ..Ack::default()
            }),
        ),
        (
            "08 95 27 a2 6331 01 01 80",
            Message::Flow(FlowControl {
                id: text("c1"),
                is_server: false,
                kind: FlowControlKind::Pause,
            }),
        ),
        (
            "1e 95 05 a2 6331 a0 81 af 417372732d4d6967726174652d546f 91 a4 73727642 80",
            Message::Close(CloseConnection {
                connection: text("c1"),
                error: String::new(),
                headers: header("Asrs-Migrate-To", "srvB"),
            }),
        ),
        (
            "3e 96 04 a2 6331 81 aa 617372732e732e756964 a2 7531 81 b1 \
             417372732d4d6967726174652d46726f6d 91 a4 73727641 a9 3f6875623d63686174 81 03 a4 \
             6a736f6e",
            Message::Open(OpenConnection {
                connection: text("c1"),
                claims: vec![(text("asrs.s.uid"), text("u1"))],
                headers: header("Asrs-Migrate-From", "srvA"),
                query: text("?hub=chat"),
                protocol: Some(text("json")),
            }),
        ),
    ]
}

/// One of every other kind.
fn others() -> Vec<Message> {
    let payloads = vec![
        (text("json"), Bytes::from_static(b"{\"type\":6}\x1e")),
        (text("messagepack"), Bytes::from_static(&[2, 0x91, 6])),
    ];
    let several = vec![text("a"), text("b")];
    let send = |to| Message::Send {
        to,
        payloads: payloads.clone(),
    };
    let close = CloseConnections {
        reason: text("bye"),
        ack: 9,
        ..CloseConnections::default()
    };
    let question = |outcome| {
        Message::Answer(ClientCompletion {
            id: text("1"),
            connection: text("c"),
            caller: text("s"),
            outcome,
        })
    };
    let mut all = vec![
        Message::Data(ConnectionData {
            connection: text("c"),
            payload: Bytes::from_static(b"{}\x1e"),
            kind: Some(1),
            is_partial: true,
        }),
        send(Target::Connections(several.clone())),
        send(Target::User(text("u"))),
        send(Target::Users(several.clone())),
        send(Target::All {
            except: several.clone(),
        }),
        send(Target::Groups(several.clone())),
        Message::Group(GroupBroadcast {
            group: text("g"),
            except: several.clone(),
            payloads: payloads.clone(),
            except_users: vec![text("u")],
            caller: Some(text("me")),
        }),
        Message::Fault(text("go")),
        Message::Event {
            object: 4,
            id: text("x"),
            kind: 3,
            text: text("full"),
        },
        Message::KeyRequest { kid: text("k") },
        Message::KeyResponse {
            kid: text("k"),
            key: String::new(),
            error: text("no"),
            text: text("none"),
        },
        Message::Ask(ClientInvocation {
            id: text("1"),
            connection: text("c"),
            caller: text("s"),
            payloads,
        }),
        question(Ok((text("json"), Bytes::from_static(b"{}\x1e")))),
        question(Err(text("gone"))),
        Message::Mapping {
            id: text("1"),
            connection: text("c"),
            instance: text("i"),
        },
        Message::Reconnect {
            connection: text("c"),
        },
        Message::Members {
            group: text("g"),
            ack: 1,
            most: Some(200),
            token: None,
        },
        Message::CloseMany(close.clone()),
        Message::CloseMany(CloseConnections {
            connection: Some(text("c")),
            ..close.clone()
        }),
        Message::CloseMany(CloseConnections {
            user: Some(text("u")),
            except: several.clone(),
            ..close.clone()
        }),
        Message::CloseMany(CloseConnections {
            group: Some(text("g")),
            except: several.clone(),
            ..close
        }),
    ];
    for ack in [None, Some(70_000)] {
        let (connection, user) = (text("c"), text("u"));
        all.extend([
            Message::Join {
                connection: connection.clone(),
                group: text("g"),
                ack,
            },
            Message::Leave {
                connection,
                group: None,
                ack,
            },
            Message::UserJoin {
                user: user.clone(),
                group: text("g"),
                ttl_s: Some(60),
                ack,
            },
            Message::UserLeave {
                user,
                group: Some(text("g")),
                ack,
            },
        ]);
    }
    let checks = [
        ExistenceCheck::UserInGroup {
            user: text("u"),
            group: text("g"),
        },
        ExistenceCheck::Group(text("g")),
        ExistenceCheck::Connection(text("c")),
        ExistenceCheck::User(text("u")),
    ];
    all.extend(checks.map(|of| Message::Check { of, ack: 3 }));
    all
}

#[test]
fn realtime_27_golden_bytes_are_written_and_read() {
    for (hex, message) in golden() {
        assert_eq!(write(&message), bytes(hex), "{message:?}");
        assert_eq!(whole(&bytes(hex)), message, "{hex}");
    }
    for message in others() {
        assert_eq!(whole(&write(&message)), message);
    }
}

#[test]
fn realtime_28_messages_are_the_same_however_they_are_cut() {
    let all = [golden().into_iter().map(|(_, own)| own).collect(), others()].concat();
    let stream: Vec<u8> = all.iter().flat_map(|own| write(own).to_vec()).collect();
    for size in [1, 2, 3, 7, stream.len()] {
        let mut splitter = Splitter::default();
        let mut found = Vec::new();
        for piece in stream.chunks(size) {
            splitter.push(Bytes::copy_from_slice(piece));
            while let Some(message) = splitter.next(Protocol::MessagePack, 1 << 20).unwrap() {
                found.push(whole(&message));
            }
        }
        assert_eq!(found, all);
    }
}

#[test]
fn realtime_29_older_servers_send_shorter_handshakes() {
    let cases = [
        ("03 92 01 01", 2, 0, ""),
        ("05 94 01 01 01 a0", 4, 1, ""),
        ("08 95 01 01 00 a2 7878 01", 5, 0, "xx"),
        ("07 96 01 01 00 a0 01 80", 6, 0, ""),
        ("08 97 01 01 00 a0 01 80 c3", 7, 0, ""),
    ];
    for (hex, elements, kind, target) in cases {
        let Message::Handshake(own) = whole(&bytes(hex)) else {
            panic!("{hex}");
        };
        assert_eq!((own.version, own.elements), (1, elements));
        assert_eq!((own.kind, own.target.as_str()), (kind, target));
        assert_eq!(own.is_stateful, elements == 7);
        assert_eq!(own.migration, i64::from(elements > 4));
    }
}

#[test]
fn what_is_newer_is_ignored() {
    // Type 99; and a close with an extra element and an unknown key.
    assert_eq!(whole(&bytes("03 92 63 c0")), Message::Unknown(99));
    let close = whole(&bytes("0a 96 05 a1 63 a0 80 81 09 c0 c0"));
    let Message::Close(close) = close else {
        panic!("{close:?}");
    };
    assert_eq!(close.connection, "c");
}

#[test]
fn a_message_with_too_many_names_is_refused() {
    // [7, [nil, ..], {}]: a message to so many connections.
    let to = |count: u32| {
        let mut body = vec![0x93, 7, 0xdd];
        body.extend(count.to_be_bytes());
        body.extend(vec![0xc0; count as usize]);
        body.push(0x80);
        read(&Bytes::from(body))
    };
    assert!(to(100_000).is_ok());
    assert!(to(100_001).is_err());
}

/// A change to a seed: where, which kind, which byte.
type Change = (u16, u8, u8);

#[test]
fn mutated_service_messages_are_survived() {
    let told = std::env::var("STEADFAST_ROUNDS").ok();
    let rounds = told.map_or(200_000, |text| text.parse().expect("a number"));
    let all = [golden().into_iter().map(|(_, own)| own).collect(), others()].concat();
    let seeds: Vec<Vec<u8>> = all.iter().map(|own| write(own)[1..].to_vec()).collect();
    bolero::check!()
        .with_iterations(rounds)
        .with_type::<(u16, Vec<Change>)>()
        .for_each(|(seed, changes)| {
            let mut bytes = seeds[usize::from(*seed) % seeds.len()].clone();
            for &(place, kind, byte) in changes {
                if bytes.is_empty() {
                    break;
                }
                let at = usize::from(place) % bytes.len();
                match kind % 4 {
                    0 => bytes[at] = byte,
                    1 => bytes.insert(at, byte),
                    2 => drop(bytes.remove(at)),
                    _ => bytes.truncate(at),
                }
            }
            let bytes = Bytes::from(bytes);
            let used = allocation_counter::measure(|| drop(read(&bytes)));
            let most = 4096 + 64 * bytes.len() as u64;
            assert!(
                used.bytes_max <= most,
                "{} for {}",
                used.bytes_max,
                bytes.len()
            );
        });
}
