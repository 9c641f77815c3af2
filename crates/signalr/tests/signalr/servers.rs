//! App servers, by one written from the specification.

use std::time::Duration;

use bytes::Bytes;
use futures_util::SinkExt as _;
use serde_json::json;
use steadfast_core::clock::Clock as _;
use steadfast_wire::signalr::pack::PackReader;
use steadfast_wire::signalr::service::{
    ClientCompletion, ClientInvocation, CloseConnection, CloseConnections, ExistenceCheck,
    FlowControl, FlowControlKind, GroupBroadcast, Message, OpenConnection, Target, status, write,
};
use steadfast_wire::signalr::{Protocol, write as hub};
use tokio_tungstenite::tungstenite::Message as Frame;

use crate::hub_stage::peers::{Client, HELLO, HUB, PATIENCE, Server, completion, text, told};
use crate::hub_stage::{SECRET, Stage};

#[tokio::test]
async fn realtime_28_two_messages_in_one_and_one_over_three() {
    let stage = Stage::start();
    let mut server = Server::start(&stage, "a", 0, 0).await;
    let check = |ack| {
        write(&Message::Check {
            of: ExistenceCheck::User(text("absent")),
            ack,
        })
    };
    server.raw([check(1), check(2)].concat().into()).await;
    assert_eq!(server.acked().await, (1, status::NOT_FOUND));
    assert_eq!(server.acked().await, (2, status::NOT_FOUND));
    for piece in check(3).chunks(3) {
        server.raw(Bytes::copy_from_slice(piece)).await;
    }
    assert_eq!(server.acked().await, (3, status::NOT_FOUND));
}

#[tokio::test]
async fn realtime_29_handshakes_of_any_age_are_accepted_and_other_versions_are_not() {
    let stage = Stage::start();
    for hex in [
        &[3, 0x92, 1, 1][..],
        &[5, 0x94, 1, 1, 0, 0xa0],
        &[6, 0x95, 1, 1, 0, 0xa0, 1],
        &[7, 0x96, 1, 1, 0, 0xa0, 1, 0x80],
        &[8, 0x97, 1, 1, 0, 0xa0, 1, 0x80, 0xc2],
    ] {
        let mut server = Server::dial(&stage, "a").await;
        server.raw(Bytes::copy_from_slice(hex)).await;
        match server.next().await {
            Message::Welcome { error, .. } => assert_eq!(error, ""),
            other => panic!("{other:?}"),
        }
    }
    let mut server = Server::dial(&stage, "a").await;
    server.raw(Bytes::from_static(&[3, 0x92, 1, 2])).await;
    match server.next().await {
        Message::Welcome { error, .. } => assert!(error.contains("Version 2"), "{error}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn realtime_31_pings_are_answered_as_tabled() {
    let stage = Stage::start();
    let mut server = Server::start(&stage, "a", 0, 0).await;
    let _other = Server::start(&stage, "b", 0, 0).await;
    let ping = |words: &[&str]| Message::Ping(words.iter().map(|own| text(own)).collect());
    server.say(ping(&["status", "1"])).await;
    let expected = ping(&["status", "0", "clientcount", "0", "servercount", "2"]);
    assert_eq!(server.next().await, expected);
    server.say(ping(&["servers", ""])).await;
    let first = match server.next().await {
        Message::Ping(words) => {
            let (stamp, names) = words[1].split_once(':').unwrap();
            let ticks: u64 = stamp.parse().unwrap();
            let now = 621_355_968_000_000_000 + stage.clock.now().0 as u64 * 10_000;
            let minute = 60 * 10_000_000;
            assert!(
                ticks > now - minute && ticks < now + minute,
                "{ticks} is not {now}"
            );
            assert_eq!(names, "a;b");
            ticks
        }
        other => panic!("{other:?}"),
    };
    server.say(ping(&["servers", ""])).await;
    match server.next().await {
        Message::Ping(words) => {
            let (stamp, _) = words[1].split_once(':').unwrap();
            assert!(
                stamp.parse::<u64>().unwrap() > first,
                "{stamp} is not newer than {first}"
            );
        }
        other => panic!("{other:?}"),
    }
    let first = tokio::time::timeout(2 * PATIENCE, server.any()).await;
    assert_eq!(first.expect("a ping every 5 s"), ping(&[]));
}

#[tokio::test]
async fn realtime_32_a_server_learns_who_has_come() {
    let stage = Stage::start();
    let mut server = Server::start(&stage, "a", 0, 0).await;
    let audience = format!("http://localhost/client/?hub={HUB}");
    let ends = stage.clock.now().0 / 1000 + 60;
    let claims = json!({
        "aud": audience, "exp": ends, "asrs.s.uid": "u", "role": ["x", "y"], "own": 7,
    });
    let token = steadfast_wire::jwt::token(claims.as_object().unwrap(), SECRET);
    let mut client = Client::with(&stage, &token).await;
    let Message::Open(open) = server.next().await else {
        panic!("no client");
    };
    assert_eq!(open.protocol.as_deref(), Some("json"));
    assert_eq!(open.query, format!("?hub={HUB}&colour=blue"));
    assert!(
        open.claims.contains(&(text("asrs.s.uid"), text("u"))),
        "{:?}",
        open.claims
    );
    let role = "http://schemas.microsoft.com/ws/2008/06/identity/claims/role";
    for value in ["x", "y"] {
        assert!(
            open.claims.contains(&(text(role), text(value))),
            "{:?}",
            open.claims
        );
    }
    assert!(open.claims.contains(&(text("own"), text("7"))));
    let names: Vec<_> = open.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.contains(&"Asrs-Instance-Id"), "{names:?}");
    assert!(names.contains(&"X-Forwarded-For"), "{names:?}");
    assert!(
        !names
            .iter()
            .any(|name| name.eq_ignore_ascii_case("authorization"))
    );
    // 33: the handshake is first, and the answer is the server's.
    let shake = server.data().await;
    assert_eq!((shake.payload, shake.kind), (Bytes::from(HELLO), Some(1)));
    client.silent().await;
    server
        .send(&open.connection, Bytes::from_static(b"{}\x1e"))
        .await;
    assert_eq!(client.next().await, json!({}));
}

#[tokio::test]
async fn realtime_33_the_answer_to_the_handshake_is_the_servers() {
    let stage = Stage::start();
    let mut server = Server::start(&stage, "a", 0, 0).await;
    let mut client = Client::dial(&stage, "u", &[]).await;
    let Message::Open(open) = server.next().await else {
        panic!("no client");
    };
    assert_eq!(server.data().await.payload, Bytes::from(HELLO));
    server
        .send(
            &open.connection,
            Bytes::from_static(b"{\"error\":\"no\"}\x1e"),
        )
        .await;
    assert_eq!(client.next().await, json!({"error": "no"}));
}

#[tokio::test]
async fn realtime_34_every_ackable_message_is_acknowledged_where_it_came_from() {
    let stage = Stage::start();
    let mut server = Server::start(&stage, "a", 0, 0).await;
    let (mut client, id) = Client::on(&stage, "u", &mut server).await;
    let join = |connection: &str, ack| Message::Join {
        connection: text(connection),
        group: text("g"),
        ack: Some(ack),
    };
    let check = |of, ack| Message::Check { of, ack };
    let in_group = ExistenceCheck::UserInGroup {
        user: text("u"),
        group: text("g"),
    };
    let close = |ack| CloseConnections {
        ack,
        ..CloseConnections::default()
    };
    let cases = [
        (join(&id, 1), status::OK),
        (join("absent", 2), status::NOT_FOUND),
        (check(in_group, 3), status::OK),
        (check(ExistenceCheck::Group(text("g")), 4), status::OK),
        (
            check(ExistenceCheck::Group(text("h")), 5),
            status::NOT_FOUND,
        ),
        (check(ExistenceCheck::Connection(id.clone()), 6), status::OK),
        (
            check(ExistenceCheck::Connection(text("x")), 7),
            status::NOT_FOUND,
        ),
        (check(ExistenceCheck::User(text("u")), 8), status::OK),
        (check(ExistenceCheck::User(text("v")), 9), status::NOT_FOUND),
        (
            Message::UserJoin {
                user: text("later"),
                group: text("g"),
                ttl_s: None,
                ack: Some(10),
            },
            status::OK,
        ),
        (
            Message::UserLeave {
                user: text("unknown"),
                group: None,
                ack: Some(11),
            },
            status::OK,
        ),
        (
            Message::Leave {
                connection: id.clone(),
                group: Some(text("foreign")),
                ack: Some(12),
            },
            status::OK,
        ),
        (
            Message::CloseMany(CloseConnections {
                user: Some(text("u")),
                except: vec![id.clone()],
                ..close(13)
            }),
            status::OK,
        ),
    ];
    for (number, (message, expected)) in (1..).zip(cases) {
        server.say(message).await;
        assert_eq!(server.acked().await, (number, expected));
    }
    server
        .say(Message::CloseMany(CloseConnections {
            group: Some(text("g")),
            reason: text("over"),
            ..close(14)
        }))
        .await;
    assert_eq!(server.acked().await, (14, status::OK));
    assert_eq!(client.next().await, json!({"type": 7, "error": "over"}));
}

#[tokio::test]
async fn realtime_35_an_acknowledged_join_is_seen_by_other_links() {
    let stage = Stage::start();
    let mut server = Server::start(&stage, "a", 0, 0).await;
    let (mut client, id) = Client::on(&stage, "u", &mut server).await;
    let mut other = Server::start(&stage, "b", 2, 0).await;
    for round in 0..20 {
        let group = format!("g{round}");
        server
            .say(Message::Join {
                connection: id.clone(),
                group: group.clone(),
                ack: Some(round),
            })
            .await;
        assert_eq!(server.acked().await, (round, status::OK));
        other.tell(Target::Groups(vec![group]), "hi").await;
        assert_eq!(client.told().await, "hi");
    }
}

#[tokio::test]
async fn realtime_36_groups_honour_exceptions_and_a_client_gets_one_copy_per_group() {
    let stage = Stage::start();
    let mut server = Server::start(&stage, "a", 0, 0).await;
    let mut clients = Vec::new();
    for user in ["u", "v", "w"] {
        let (client, id) = Client::on(&stage, user, &mut server).await;
        for group in ["g", "h"] {
            server
                .say(Message::Join {
                    connection: id.clone(),
                    group: text(group),
                    ack: None,
                })
                .await;
        }
        clients.push((client, id));
    }
    server
        .say(Message::Group(GroupBroadcast {
            group: text("g"),
            except: vec![clients[0].1.clone()],
            payloads: told("some"),
            except_users: vec![text("v")],
            caller: None,
        }))
        .await;
    assert_eq!(clients[2].0.told().await, "some");
    server
        .tell(Target::Groups(vec![text("g"), text("h")]), "each")
        .await;
    server
        .tell(Target::Users(vec![text("u"), text("v")]), "users")
        .await;
    server.tell(Target::User(text("w")), "user").await;
    server
        .tell(Target::Connections(vec![clients[0].1.clone()]), "one")
        .await;
    let except = vec![clients[1].1.clone()];
    server.tell(Target::All { except }, "most").await;
    let expected = [
        &["each", "each", "users", "one", "most"][..],
        &["each", "each", "users"],
        &["each", "each", "user", "most"],
    ];
    for ((client, _), words) in clients.iter_mut().zip(expected) {
        for word in words {
            assert_eq!(client.told().await, *word);
        }
        client.silent().await;
    }
}

#[tokio::test]
async fn realtime_37_a_lost_link_closes_only_its_own_clients() {
    let stage = Stage::start();
    let mut first = Server::start(&stage, "a", 0, 0).await;
    let (mut one, _) = Client::on(&stage, "u", &mut first).await;
    // The second link of the same server has no client yet, so it gets the next.
    let mut second = Server::start(&stage, "a", 0, 0).await;
    let (mut other, id) = Client::on(&stage, "v", &mut second).await;
    drop(first);
    let close = one.next().await;
    assert_eq!(
        (&close["type"], &close["allowReconnect"]),
        (&json!(7), &json!(true))
    );
    second
        .tell(Target::Connections(vec![id]), "still here")
        .await;
    assert_eq!(other.told().await, "still here");
}

#[tokio::test]
async fn realtime_38_clients_answer_servers_through_the_service() {
    let stage = Stage::start();
    let mut owner = Server::start(&stage, "a", 0, 0).await;
    let (mut client, id) = Client::on(&stage, "u", &mut owner).await;
    let mut caller = Server::start(&stage, "b", 0, 0).await;
    let payload = hub::invocation(Protocol::Json, Some("q"), "name", b"[]");
    let ask = |id: &str, connection: &str, caller: &str| {
        Message::Ask(ClientInvocation {
            id: text(id),
            connection: text(connection),
            caller: text(caller),
            payloads: vec![(text("json"), payload.clone())],
        })
    };
    // The caller's own client.
    owner.say(ask("q", &id, "a")).await;
    assert_eq!(client.next().await["invocationId"], "q");
    client
        .say(json!({"type": 3, "invocationId": "q", "result": "Bob"}))
        .await;
    assert_eq!(owner.heard().await["result"], "Bob");
    let answer = |id: &str, connection: &str, from: &str| {
        Message::Answer(ClientCompletion {
            id: text(id),
            connection: text(connection),
            caller: text(from),
            outcome: Ok((text("json"), completion("q", "\"Bob\""))),
        })
    };
    owner.say(answer("q", &id, "a")).await;
    // Another server's client.
    caller.say(ask("q", &id, "b")).await;
    match caller.next().await {
        Message::Mapping { id, .. } => assert_eq!(id, "q"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(owner.next().await, Message::Ask(_)));
    assert_eq!(client.next().await["target"], "name");
    client
        .say(json!({"type": 3, "invocationId": "q", "result": "Bob"}))
        .await;
    assert_eq!(owner.heard().await["result"], "Bob");
    owner.say(answer("q", &id, "a")).await;
    assert_eq!(caller.next().await, answer("q", &id, "a"));
    // An unknown client, and one that disconnects.
    caller.say(ask("r", "absent", "b")).await;
    let gone = |message: Message, expected: &str| match message {
        Message::Answer(ClientCompletion { id, outcome, .. }) => {
            assert_eq!(id, expected);
            assert!(outcome.is_err());
        }
        other => panic!("{other:?}"),
    };
    gone(caller.next().await, "r");
    caller.say(ask("q", &id, "b")).await;
    assert!(matches!(caller.next().await, Message::Mapping { .. }));
    drop(client);
    gone(caller.next().await, "q");
}

#[tokio::test]
async fn realtime_39_weak_links_send_but_get_no_clients_and_unknown_types_are_ignored() {
    let stage = Stage::start();
    let mut weak = Server::start(&stage, "w", 2, 0).await;
    let mut server = Server::start(&stage, "a", 0, 0).await;
    let (mut client, _) = Client::on(&stage, "u", &mut server).await;
    weak.say(Message::Unknown(99)).await;
    weak.tell(Target::All { except: vec![] }, "weak").await;
    assert_eq!(client.told().await, "weak");
    weak.silent(Duration::from_millis(100)).await;
}

#[tokio::test]
async fn nobody_there_is_said_after_a_while() {
    let stage = Stage::start();
    let mut client = Client::dial(&stage, "u", &[]).await;
    assert_eq!(client.next().await, json!({}));
    let close = client.next().await;
    assert_eq!(
        (&close["type"], &close["allowReconnect"]),
        (&json!(7), &json!(true))
    );
    let why = close["error"].as_str().unwrap();
    assert!(
        why.starts_with("No app server is currently connected"),
        "{why}"
    );
    assert!(why.contains("Default"), "the mode is named");
    // One that comes in time is found.
    let mut client = Client::dial(&stage, "u", &[]).await;
    let mut server = Server::start(&stage, "a", 0, 0).await;
    server.open().await;
    assert_eq!(client.next().await, json!({}));
}

#[tokio::test]
async fn a_client_that_leaves_or_is_sent_away_is_told_of_once() {
    let stage = Stage::start();
    let mut server = Server::start(&stage, "a", 0, 0).await;
    let (client, id) = Client::on(&stage, "u", &mut server).await;
    drop(client);
    match server.next().await {
        Message::Close(own) => {
            assert_eq!(own.connection, id);
            assert!(own.headers.is_empty(), "{:?}", own.headers);
        }
        other => panic!("{other:?}"),
    }
    let (mut client, id) = Client::on(&stage, "u", &mut server).await;
    server
        .say(Message::Close(CloseConnection {
            connection: id,
            error: text("enough"),
            headers: vec![],
        }))
        .await;
    assert_eq!(client.next().await, json!({"type": 7, "error": "enough"}));
    server.silent(Duration::from_millis(200)).await;
}

#[tokio::test]
async fn realtime_40_fin_is_acknowledged_on_its_own_link_every_time() {
    let stage = Stage::start();
    let mut server = Server::start(&stage, "a", 0, 1).await;
    for how in ["fin:2", "fin:2", "fin:1", "fin:0"] {
        server.fin(how).await;
    }
    server.silent(Duration::from_millis(200)).await;
}

#[tokio::test]
async fn realtime_41_no_client_comes_after_finack() {
    let stage = Stage::start();
    let mut first = Server::start(&stage, "a", 0, 0).await;
    let mut second = Server::start(&stage, "b", 0, 0).await;
    first.fin("fin:2").await;
    for _ in 0..5 {
        drop(Client::on(&stage, "u", &mut second).await);
        second.next().await;
    }
    first.silent(Duration::from_millis(200)).await;
}

#[tokio::test]
async fn realtime_42_an_offline_link_still_works() {
    let stage = Stage::start();
    let mut server = Server::start(&stage, "a", 0, 0).await;
    let (mut client, id) = Client::on(&stage, "u", &mut server).await;
    server.fin("fin:2").await;
    client.invoke(1, "x").await;
    assert_eq!(server.heard().await["target"], "x");
    server
        .say(Message::Join {
            connection: id.clone(),
            group: text("g"),
            ack: Some(5),
        })
        .await;
    assert_eq!(server.acked().await, (5, status::OK));
    server.tell(Target::Groups(vec![text("g")]), "group").await;
    server.tell(Target::All { except: vec![] }, "exit").await;
    server.send(&id, completion("1", "1")).await;
    assert_eq!(client.told().await, "group");
    assert_eq!(client.told().await, "exit");
    assert_eq!(client.next().await["result"], 1);
}

#[tokio::test]
async fn realtime_43_with_fin_2_clients_are_served_until_the_link_closes() {
    let stage = Stage::start();
    let mut first = Server::start(&stage, "a", 0, 1).await;
    let (mut old, _) = Client::on(&stage, "u", &mut first).await;
    let mut second = Server::start(&stage, "b", 0, 1).await;
    first.fin("fin:2").await;
    let (mut new, _) = Client::on(&stage, "v", &mut second).await;
    old.invoke(1, "x").await;
    assert_eq!(first.heard().await["target"], "x");
    drop(first);
    assert_eq!(old.next().await["allowReconnect"], true);
    new.invoke(2, "y").await;
    assert_eq!(second.heard().await["target"], "y");
}

/// Lets the server say that it pauses, and checks what it is told last.
async fn let_go(server: &mut Server, id: &str, to: &str) {
    let pause = |kind| {
        Message::Flow(FlowControl {
            id: text(id),
            is_server: false,
            kind,
        })
    };
    assert_eq!(server.next().await, pause(FlowControlKind::Pause));
    server.say(pause(FlowControlKind::Paused)).await;
    match server.next().await {
        Message::Close(close) => {
            assert_eq!(close.connection, id);
            assert_eq!(close.error, "");
            let header = (text("Asrs-Migrate-To"), vec![text(to)]);
            assert_eq!(close.headers, [header]);
        }
        other => panic!("{other:?}"),
    }
}

async fn taken_in(server: &mut Server, id: &str, from: &str) -> OpenConnection {
    let open = server.open().await;
    assert_eq!(open.connection, id);
    let header = (text("Asrs-Migrate-From"), vec![text(from)]);
    assert!(open.headers.contains(&header), "{:?}", open.headers);
    open
}

#[tokio::test]
async fn realtime_45_headers_name_the_servers_and_close_is_the_last_message() {
    let stage = Stage::start();
    let mut first = Server::start(&stage, "a", 0, 1).await;
    let (mut client, id) = Client::on(&stage, "u", &mut first).await;
    let mut second = Server::start(&stage, "b", 0, 1).await;
    first.fin("fin:1").await;
    let_go(&mut first, &id, "b").await;
    taken_in(&mut second, &id, "a").await;
    // A's late words are ignored, B's second answer to the handshake too.
    first.send(&id, completion("9", "9")).await;
    first
        .say(Message::Close(CloseConnection {
            connection: id.clone(),
            error: text("late"),
            headers: vec![],
        }))
        .await;
    client.invoke(1, "x").await;
    assert_eq!(second.heard().await["target"], "x");
    second.send(&id, completion("1", "7")).await;
    assert_eq!(client.next().await["result"], 7);
    first.silent(Duration::from_millis(200)).await;
    // But what it says to groups and to all counts.
    first.tell(Target::All { except: vec![] }, "all").await;
    assert_eq!(client.told().await, "all");
}

#[tokio::test]
async fn realtime_46_groups_user_and_id_survive_a_move() {
    let stage = Stage::start();
    let mut first = Server::start(&stage, "a", 0, 1).await;
    let (mut client, id) = Client::on(&stage, "u", &mut first).await;
    first
        .say(Message::Join {
            connection: id.clone(),
            group: text("g"),
            ack: Some(1),
        })
        .await;
    assert_eq!(first.acked().await, (1, status::OK));
    let mut second = Server::start(&stage, "b", 0, 1).await;
    first.fin("fin:1").await;
    let_go(&mut first, &id, "b").await;
    let open = taken_in(&mut second, &id, "a").await;
    assert!(open.claims.contains(&(text("asrs.s.uid"), text("u"))));
    drop(first);
    second.tell(Target::Groups(vec![text("g")]), "group").await;
    second.tell(Target::User(text("u")), "user").await;
    assert_eq!(client.told().await, "group");
    assert_eq!(client.told().await, "user");
    client.silent().await;
}

#[tokio::test]
async fn realtime_47_a_client_never_moves_to_a_sibling_or_an_offline_server() {
    let stage = Stage::start();
    let mut first = Server::start(&stage, "a", 0, 1).await;
    let (mut client, id) = Client::on(&stage, "u", &mut first).await;
    let mut sibling = Server::start(&stage, "a", 0, 1).await;
    let mut offline = Server::start(&stage, "b", 0, 1).await;
    offline.fin("fin:2").await;
    first.fin("fin:1").await;
    sibling.silent(Duration::from_millis(300)).await;
    offline.silent(Duration::from_millis(100)).await;
    // A server that comes before the old one goes is taken.
    let mut late = Server::start(&stage, "c", 0, 1).await;
    let_go(&mut first, &id, "c").await;
    taken_in(&mut late, &id, "a").await;
    client.invoke(1, "x").await;
    assert_eq!(late.heard().await["target"], "x");
}

#[tokio::test]
async fn realtime_48_a_call_that_is_pending_returns_its_real_result() {
    let stage = Stage::start();
    let mut first = Server::start(&stage, "a", 0, 1).await;
    let (mut client, id) = Client::on(&stage, "u", &mut first).await;
    client.invoke(1, "slow").await;
    assert_eq!(first.heard().await["target"], "slow");
    let mut second = Server::start(&stage, "b", 0, 1).await;
    first.fin("fin:1").await;
    client.invoke(2, "next").await;
    client.invoke(3, "last").await;
    // The old server keeps the call, and what belongs to it; what follows is held.
    client.say(json!({"type": 5, "invocationId": "1"})).await;
    client.say(json!({"type": 6})).await;
    assert_eq!(first.heard().await["type"], 5);
    assert_eq!(first.heard().await["type"], 6);
    second.silent(Duration::from_millis(200)).await;
    first.send(&id, completion("1", "1")).await;
    assert_eq!(client.next().await["result"], 1);
    let_go(&mut first, &id, "b").await;
    taken_in(&mut second, &id, "a").await;
    assert_eq!(second.heard().await["target"], "next");
    assert_eq!(second.heard().await["target"], "last");
}

#[tokio::test]
async fn realtime_49_a_message_that_is_half_sent_arrives_whole_at_one_server() {
    let stage = Stage::start();
    let mut first = Server::start(&stage, "a", 0, 1).await;
    let (mut client, id) = Client::on(&stage, "u", &mut first).await;
    let mut second = Server::start(&stage, "b", 0, 1).await;
    client
        .socket
        .send(Frame::text("{\"type\":1,\"target\":\"ha"))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    first.fin("fin:1").await;
    let_go(&mut first, &id, "b").await;
    taken_in(&mut second, &id, "a").await;
    client
        .socket
        .send(Frame::text("lf\",\"arguments\":[]}\u{1e}"))
        .await
        .unwrap();
    assert_eq!(second.heard().await["target"], "half");
    first.silent(Duration::from_millis(200)).await;
}

#[tokio::test]
async fn realtime_50_without_a_target_a_client_stays_and_may_come_back() {
    let stage = Stage::start();
    let mut server = Server::start(&stage, "a", 0, 1).await;
    let (mut client, _) = Client::on(&stage, "u", &mut server).await;
    server.fin("fin:1").await;
    client.invoke(1, "x").await;
    assert_eq!(server.heard().await["target"], "x");
    drop(server);
    let close = client.next().await;
    assert_eq!(
        (&close["type"], &close["allowReconnect"]),
        (&json!(7), &json!(true))
    );
}

#[tokio::test]
async fn sticky_clients_go_where_their_token_says() {
    let stage = Stage::start();
    let _first = Server::start(&stage, "a", 0, 0).await;
    let mut second = Server::start(&stage, "b", 0, 0).await;
    for _ in 0..3 {
        let claims = [("asrs.s.sn", "b"), ("asrs.s.ssticky", "Required")];
        let mut client = Client::dial(&stage, "u", &claims).await;
        second.open().await;
        assert_eq!(client.next().await, json!({}));
        drop(client);
        second.next().await;
    }
}

#[tokio::test]
async fn members_of_a_group_are_told_page_by_page() {
    let stage = Stage::start();
    let mut server = Server::start(&stage, "a", 0, 0).await;
    let mut ids = Vec::new();
    let mut clients = Vec::new();
    for user in ["u", "v", "w"] {
        let (client, id) = Client::on(&stage, user, &mut server).await;
        clients.push(client);
        ids.push((id.clone(), text(user)));
        server
            .say(Message::Join {
                connection: id,
                group: text("g"),
                ack: Some(1),
            })
            .await;
        assert_eq!(server.acked().await, (1, status::OK));
    }
    ids.sort();
    let mut found = Vec::new();
    let mut token = None;
    for _ in 0..2 {
        server
            .say(Message::Members {
                group: text("g"),
                ack: 7,
                most: Some(2),
                token: token.clone(),
            })
            .await;
        let Message::Ack(ack) = server.next().await else {
            panic!("no acknowledgement")
        };
        assert_eq!((ack.id, ack.status), (7, status::OK));
        let payload = ack.payload.unwrap();
        let mut reader = PackReader::new(&payload);
        assert_eq!(reader.array().unwrap(), 2);
        for _ in 0..reader.array().unwrap() {
            assert_eq!(reader.array().unwrap(), 2);
            let connection = reader.text().unwrap().unwrap().to_owned();
            found.push((connection, reader.text().unwrap().unwrap().to_owned()));
        }
        token = reader.text().unwrap().map(str::to_owned);
        assert!(reader.is_at_end());
    }
    assert_eq!(token, None);
    assert_eq!(found, ids);
}

#[tokio::test]
async fn a_node_that_leaves_tells_its_servers_first() {
    let stage = Stage::start();
    let mut server = Server::start(&stage, "a", 0, 0).await;
    let (mut client, id) = Client::on(&stage, "u", &mut server).await;
    let realtime = stage.realtime.clone();
    let leaving = tokio::spawn(async move { realtime.drain(PATIENCE).await });
    match server.next().await {
        Message::Flow(FlowControl {
            is_server: true,
            kind: FlowControlKind::Offline,
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
    let offline = Message::Ping(vec![text("offline"), text("here")]);
    assert_eq!(server.next().await, offline);
    let closed = client.next().await;
    assert_eq!(closed["type"], 7);
    assert_eq!(closed["allowReconnect"], true);
    drop(client);
    match server.next().await {
        Message::Close(own) => assert_eq!(own.connection, id),
        other => panic!("{other:?}"),
    }
    let departed = leaving.await.unwrap();
    assert_eq!((departed.closed, departed.cut_off), (1, 0));
}

#[tokio::test]
async fn links_that_were_asked_for_carry_clients_too() {
    let stage = Stage::start();
    let mut usual = Server::start(&stage, "a", 0, 0).await;
    let (_first, _) = Client::on(&stage, "u", &mut usual).await;
    let mut asked_for = Server::start(&stage, "a", 1, 0).await;
    // It has the fewest clients.
    let (_second, _) = Client::on(&stage, "v", &mut asked_for).await;
    let servers = stage.realtime.servers(HUB).unwrap();
    let own = &servers[0];
    assert_eq!((&*own.name, own.links, own.clients), ("a", 2, 2));
}

#[tokio::test]
async fn an_operator_takes_all_clients_away_from_a_server() {
    let stage = Stage::start();
    let mut first = Server::start(&stage, "a", 0, 1).await;
    let (mut client, id) = Client::on(&stage, "u", &mut first).await;
    assert!(stage.realtime.drain_server(HUB, "absent").is_err());
    assert!(stage.realtime.drain_server("room", "here").is_err());
    let mut second = Server::start(&stage, "b", 0, 1).await;
    assert_eq!(stage.realtime.drain_server(HUB, "a").unwrap(), 1);
    assert!(matches!(
        first.next().await,
        Message::Flow(FlowControl {
            is_server: true,
            kind: FlowControlKind::Offline,
            ..
        })
    ));
    match first.next().await {
        Message::Flow(flow) => assert_eq!((&flow.id, flow.kind), (&id, FlowControlKind::Pause)),
        other => panic!("{other:?}"),
    }
    first
        .say(Message::Flow(FlowControl {
            id: id.clone(),
            is_server: false,
            kind: FlowControlKind::Paused,
        }))
        .await;
    assert_eq!(second.open().await.connection, id);
    match first.next().await {
        Message::Close(own) => assert_eq!(own.connection, id),
        other => panic!("{other:?}"),
    }
    client.invoke(1, "next").await;
    assert_eq!(second.heard().await["target"], "next");
    let servers = stage.realtime.servers(HUB).unwrap();
    let balance: Vec<_> = servers
        .iter()
        .map(|own| (&*own.name, own.clients, own.moved, own.is_offline))
        .collect();
    assert_eq!(balance, [("a", 0, 1, true), ("b", 1, 0, false)]);
    let counts = stage.realtime.counts();
    let counts = counts.iter().find(|own| own.hub == HUB).unwrap();
    assert_eq!((counts.clients, counts.moved, counts.unmoved), (1, 1, 0));
}

#[tokio::test]
async fn a_client_counts_as_moved_as_soon_as_it_is_elsewhere() {
    let stage = Stage::start();
    let mut first = Server::start(&stage, "a", 0, 1).await;
    let (_moving, moving) = Client::on(&stage, "u", &mut first).await;
    let (_waiting, _) = Client::on(&stage, "v", &mut first).await;
    let mut second = Server::start(&stage, "b", 0, 1).await;
    assert_eq!(stage.realtime.drain_server(HUB, "a").unwrap(), 2);
    // The server lets one of them go; of the other one it says nothing.
    let pause = Message::Flow(FlowControl {
        id: moving.clone(),
        is_server: false,
        kind: FlowControlKind::Pause,
    });
    while first.next().await != pause {}
    first
        .say(Message::Flow(FlowControl {
            id: moving.clone(),
            is_server: false,
            kind: FlowControlKind::Paused,
        }))
        .await;
    assert_eq!(second.open().await.connection, moving);
    let servers = stage.realtime.servers(HUB).unwrap();
    assert_eq!((servers[0].clients, servers[0].moved), (1, 1));
}
