//! Tokens, and what `$management` tells to their holders.

use std::future::IntoFuture;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use steadfast_client::amqp::ReaderLinkOptions;
use steadfast_core::limits;
use steadfast_eventhubs::amqp;
use steadfast_events::EventHubDefinition;
use steadfast_net::access::{Key, KeyRing, Secret};
use steadfast_wire::amqp::code::descriptor;
use steadfast_wire::amqp::link::{self, Attach, LinkRole};
use steadfast_wire::amqp::message::{MessageSections, SectionKind};
use steadfast_wire::amqp::performative::{self, Performative};
use steadfast_wire::amqp::scan::EncodedValue;
use steadfast_wire::amqp::value::AmqpValue;
use steadfast_wire::amqp::write;
use steadfast_wire::sas;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::amqp_setup::talk::{
    Heard, LATER, Peer, connect, connect_bare, hear, open_sender, place, send, token,
};
use crate::amqp_setup::{self, KEY, KEY_NAME, Node};

async fn hub() -> (Node, tempfile::TempDir, SocketAddr) {
    let (node, folder) = amqp_setup::start().await;
    let definition = EventHubDefinition::new("houses", 4);
    node.hubs.create(definition).await.unwrap();
    let address = node.listen();
    (node, folder, address)
}

/// A connection with links to `$management` on channel 1, and no token.
async fn asker(address: SocketAddr) -> Peer {
    let mut peer = connect_bare(address).await;
    peer.begin(1).await.unwrap();
    open_management(&mut peer);
    peer
}

fn open_management(peer: &mut Peer) {
    peer.attach_sender(1, 0, "ask", "$management");
    peer.attach_reader(1, 1, "told", "$management", &ReaderLinkOptions::default());
    peer.grant(1, 1, 0, 10, 0);
}

/// Asks, and gives back the reply.
async fn ask(peer: &mut Peer, delivery: u32, wishes: &[(&str, &str)]) -> Bytes {
    let mut message = Vec::new();
    let all = [&[("operation", "READ")], wishes].concat();
    steadfast_client::amqp::write_request(&mut message, &all);
    write::descriptor(&mut message, descriptor::VALUE);
    write::string(&mut message, "");
    peer.send(1, 0, delivery, 0, &message);
    peer.flush().await.unwrap();
    loop {
        if let Heard::Transfer(reply) = hear(peer).await {
            return reply;
        }
    }
}

async fn status(peer: &mut Peer, delivery: u32, token: Option<&str>) -> i64 {
    let mut wishes = vec![("type", "com.microsoft:eventhub"), ("name", "houses")];
    wishes.extend(token.map(|token| ("security_token", token)));
    steadfast_client::amqp::status(&ask(peer, delivery, &wishes).await).unwrap()
}

#[tokio::test]
async fn a_token_in_the_request_is_enough_and_is_verified_each_time() {
    // As the .NET SDK does it: no token is put for `$management`.
    let (node, _folder, address) = hub().await;
    let mut peer = asker(address).await;
    assert_eq!(status(&mut peer, 0, None).await, 401);
    let good = sas::token("amqps://localhost/houses", LATER, KEY_NAME, KEY);
    assert_eq!(status(&mut peer, 1, Some(&good)).await, 200);
    // It is good for its own request only, and only if it is good.
    assert_eq!(status(&mut peer, 2, None).await, 401);
    for (delivery, bad) in (3..).zip([
        sas::token("amqps://localhost/houses", LATER, KEY_NAME, "wrong"),
        sas::token("amqps://localhost/houses", 1000, KEY_NAME, KEY),
        sas::token("amqps://localhost/cars", LATER, KEY_NAME, KEY),
        sas::token("elsewhere.example", LATER, KEY_NAME, KEY),
        sas::token("localhost/cars", LATER, KEY_NAME, KEY),
        "eyJhbGciOiJub25lIn0.e30.".to_owned(),
        String::new(),
    ]) {
        let got = status(&mut peer, delivery, Some(&bad)).await;
        assert_eq!(got, 401, "{bad}");
    }
    node.stop().await;
}

/// azeventhubs signs for the host alone, without a scheme.
#[tokio::test]
async fn a_token_for_the_host_is_enough() {
    let (node, _folder, address) = hub().await;
    let token = sas::token("localhost", LATER, KEY_NAME, KEY);
    let mut peer = asker(address).await;
    assert_eq!(status(&mut peer, 0, Some(&token)).await, 200);
    let audience = "amqps://localhost/houses/$management";
    let mut peer = connect_bare(address).await;
    assert_eq!(peer.put_token(0, audience, &token).await.unwrap(), 202);
    node.stop().await;
}

#[tokio::test]
async fn replies_that_wait_for_credit_are_bounded() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    peer.attach_sender(1, 0, "ask", "$management");
    peer.attach_reader(1, 1, "told", "$management", &ReaderLinkOptions::default());
    let mut message = Vec::new();
    let wishes = [
        ("operation", "READ"),
        ("type", "com.microsoft:eventhub"),
        ("name", "houses"),
    ];
    steadfast_client::amqp::write_request(&mut message, &wishes);
    write::descriptor(&mut message, descriptor::VALUE);
    write::string(&mut message, "");
    for delivery in 0..=limits::AMQP_REPLIES as u32 {
        peer.send(1, 0, delivery, 0, &message);
        peer.flush().await.unwrap();
        while !matches!(hear(&mut peer).await, Heard::Accepted(..)) {}
    }
    // The bytes of so few replies are not what ends the link.
    let (handle, words) = loop {
        if let Heard::Detach { handle, words, .. } = hear(&mut peer).await {
            break (handle, words);
        }
    };
    assert_eq!(handle, 1);
    assert!(words.contains("too many replies"), "{words}");
    node.stop().await;
}

#[tokio::test]
async fn a_rotated_key_ends_what_its_tokens_may_read() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect_bare(address).await;
    let (audience, token) = token("houses");
    assert_eq!(peer.put_token(0, &audience, &token).await.unwrap(), 202);
    peer.begin(1).await.unwrap();
    open_management(&mut peer);
    assert_eq!(status(&mut peer, 0, Some(&token)).await, 200);
    let mut ring = KeyRing::new();
    assert!(ring.add(Key {
        name: KEY_NAME.to_owned(),
        grants: vec!["manage *".parse().unwrap()],
        primary: Secret::new("another"),
        secondary: None,
    }));
    node.context.access.as_ref().unwrap().replace(ring);
    assert_eq!(status(&mut peer, 1, Some(&token)).await, 401);
    let next = sas::token(&audience, LATER, KEY_NAME, "another");
    assert_eq!(status(&mut peer, 2, Some(&next)).await, 200);
    node.stop().await;
}

#[tokio::test]
async fn events_10_unknown_event_hubs_are_told_by_management() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "").await;
    peer.attach_sender(1, 0, "ask", "$management");
    peer.attach_reader(1, 1, "told", "$management", &ReaderLinkOptions::default());
    peer.grant(1, 1, 0, 10, 0);
    let cases: [(&[(&str, &str)], i64); 5] = [
        (
            &[("type", "com.microsoft:eventhub"), ("name", "HOUSES")],
            200,
        ),
        (
            &[
                ("type", "com.microsoft:partition"),
                ("name", "houses"),
                ("partition", "3"),
            ],
            200,
        ),
        (&[("type", "com.microsoft:eventhub"), ("name", "none")], 404),
        (
            &[
                ("type", "com.microsoft:partition"),
                ("name", "houses"),
                ("partition", "4"),
            ],
            400,
        ),
        (&[("type", "com.microsoft:colour"), ("name", "houses")], 400),
    ];
    for (delivery, (wishes, expected)) in (0..).zip(cases) {
        let mut message = Vec::new();
        let all = [&[("operation", "READ")], wishes].concat();
        steadfast_client::amqp::write_request(&mut message, &all);
        write::descriptor(&mut message, 0x77);
        write::string(&mut message, "");
        peer.send(1, 0, delivery, 0, &message);
        peer.flush().await.unwrap();
        let reply = loop {
            if let Heard::Transfer(reply) = hear(&mut peer).await {
                break reply;
            }
        };
        assert_eq!(
            steadfast_client::amqp::status(&reply),
            Some(expected),
            "{wishes:?}"
        );
    }
    node.stop().await;
}

/// A client of Rust notes what it has sent only afterwards, and never stops waiting if the
/// answer, or what became of the request, comes before that.
#[tokio::test]
async fn requests_are_accepted_at_once_and_answered_after_a_pause() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "").await;
    type Wishes<'a> = &'a [(&'a str, &'a str)];
    let asked: [(&str, Wishes<'_>, &str); 2] = [
        (
            "$management",
            &[
                ("operation", "READ"),
                ("type", "com.microsoft:eventhub"),
                ("name", "houses"),
            ],
            "",
        ),
        (
            "$cbs",
            &[
                ("operation", "put-token"),
                ("type", "servicebus.windows.net:sastoken"),
                ("name", &token("houses").0),
            ],
            &token("houses").1,
        ),
    ];
    for (handle, (desk, wishes, body)) in (0..).step_by(2).zip(asked) {
        peer.attach_sender(1, handle, &format!("ask {desk}"), desk);
        let told = format!("told {desk}");
        peer.attach_reader(1, handle + 1, &told, desk, &ReaderLinkOptions::default());
        peer.grant(1, handle + 1, 0, 10, 0);
        let mut message = Vec::new();
        steadfast_client::amqp::write_request(&mut message, wishes);
        write::descriptor(&mut message, 0x77);
        write::string(&mut message, body);
        peer.send(1, handle, handle / 2, 0, &message);
        let asked = node.clock.monotonic();
        peer.flush().await.unwrap();
        let mut is_accepted = false;
        loop {
            match hear(&mut peer).await {
                Heard::Accepted(..) => is_accepted = true,
                Heard::Transfer(_) => break,
                _ => {}
            }
        }
        assert!(is_accepted, "{desk} answered before it had accepted");
        let took = node.clock.monotonic() - asked;
        assert!(took >= limits::AMQP_REPLY_PAUSE, "{desk} after {took:?}");
    }
    node.stop().await;
}

/// The first number and whether it is empty, as a partition's properties tell it.
fn beginning(reply: &[u8]) -> (i64, bool) {
    let mut sections = MessageSections::new(reply);
    while let Some(section) = sections.next().unwrap() {
        if section.part == SectionKind::Value {
            let map = section.map().unwrap();
            let first = map.find("begin_sequence_number").unwrap().unwrap();
            let empty = map.find("is_partition_empty").unwrap().unwrap();
            return (first.as_i64().unwrap(), empty.as_bool().unwrap());
        }
    }
    panic!("no properties");
}

#[tokio::test]
async fn an_empty_partition_begins_at_minus_one_and_an_unknown_one_is_out_of_range() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    open_management(&mut peer);
    let wishes = |partition| {
        [
            ("type", "com.microsoft:partition"),
            ("name", "houses"),
            ("partition", partition),
        ]
    };
    let reply = ask(&mut peer, 0, &wishes("0")).await;
    assert_eq!(beginning(&reply), (-1, true));
    open_sender(&mut peer, 2, "houses/Partitions/0").await;
    send(&mut peer, 2, 1, &[b"one"]).await;
    let reply = ask(&mut peer, 2, &wishes("0")).await;
    assert_eq!(beginning(&reply), (0, false));
    for (delivery, unknown) in (3..).zip(["4", "-1", "XYZ"]) {
        let reply = ask(&mut peer, delivery, &wishes(unknown)).await;
        assert_eq!(
            steadfast_client::amqp::status(&reply),
            Some(400),
            "{unknown}"
        );
        let mut sections = MessageSections::new(&reply);
        while let Some(section) = sections.next().unwrap() {
            if section.part == SectionKind::ApplicationProperties {
                let condition = section.map().unwrap().find("error-condition");
                let expected = AmqpValue::Symbol("com.microsoft:argument-out-of-range");
                assert_eq!(condition.unwrap(), Some(expected));
            }
        }
    }
    node.stop().await;
}

#[tokio::test]
async fn filters_that_are_not_applied_are_not_echoed() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    let (mut filter, mut source, mut target) = (Vec::new(), Vec::new(), Vec::new());
    write::map(&mut filter, 2, |out| {
        write::symbol(out, "com.example:no-local");
        write::descriptor(out, 0x0000_468c_0000_0003);
        write::list(out, 0, |_| {});
        write::symbol(out, "apache.org:selector-filter:string");
        write::descriptor(out, descriptor::SELECTOR);
        write::string(out, "amqp.annotation.x-opt-offset > '-1'");
    });
    let place = place("houses", 0);
    link::write_source(
        &mut source,
        Some(&place),
        EncodedValue::new(&filter).unwrap(),
    );
    link::write_target(&mut target, Some("reader"));
    let attach = Attach {
        name: "reader",
        handle: 0,
        role: LinkRole::Receiver,
        snd_settle: None,
        rcv_settle: None,
        source: EncodedValue::new(&source).unwrap(),
        target: EncodedValue::new(&target).unwrap(),
        initial_count: None,
        max_message: None,
        offered: EncodedValue::NULL,
        desired: EncodedValue::NULL,
        properties: EncodedValue::NULL,
    };
    peer.put(1, &Performative::Attach(attach), &[]);
    peer.flush().await.unwrap();
    let frame = peer.next().await.unwrap();
    let Ok((Performative::Attach(answer), _)) = performative::read(&frame.body) else {
        panic!("an attach");
    };
    assert_eq!(link::address(answer.source).unwrap(), Some(&place[..]));
    let mut filters = link::filter(answer.source).unwrap();
    let mut names = Vec::new();
    while let Some((name, _)) = filters.next_pair().unwrap() {
        names.push(name.as_text().unwrap());
    }
    assert_eq!(names, ["apache.org:selector-filter:string"]);
    node.stop().await;
}

#[tokio::test]
async fn a_websocket_is_found_by_both_paths_and_both_names_of_its_protocol() {
    let (node, _folder) = amqp_setup::start().await;
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let routes = amqp::routes(Arc::clone(&node.context), node.stop.clone());
    let stop = node.stop.clone().cancelled_owned();
    let serving = axum::serve(socket, routes).with_graceful_shutdown(stop);
    let serving = tokio::spawn(serving.into_future());
    for (path, protocol) in [
        ("/$servicebus/websocket", "AMQPWSB10"),
        ("/$servicebus/websocket/", "AMQPWSB10"),
        ("/$servicebus/websocket/", "amqp"),
    ] {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\n\
             upgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             sec-websocket-protocol: other, {protocol}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await.unwrap());
        }
        let answer = String::from_utf8(answer).unwrap().to_ascii_lowercase();
        assert!(answer.starts_with("http/1.1 101"), "{path}: {answer}");
        let named = format!(
            "\r\nsec-websocket-protocol: {}\r\n",
            protocol.to_lowercase()
        );
        assert!(answer.contains(&named), "{path}: {answer}");
    }
    node.stop().await;
    serving.abort();
}
