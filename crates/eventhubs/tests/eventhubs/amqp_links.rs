//! Links over a real socket: entry, sending, reading.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use steadfast_client::amqp::{AmqpClient, ReaderLinkOptions};
use steadfast_core::limits;
use steadfast_events::EventHubDefinition;
use steadfast_wire::amqp::delivery::{FORMAT_BATCH, Transfer};
use steadfast_wire::amqp::link::Detach;
use steadfast_wire::amqp::performative::Performative;
use steadfast_wire::amqp::sasl;
use steadfast_wire::amqp::session::{Begin, Flow};
use steadfast_wire::sas;
use tokio::net::TcpStream;

use crate::amqp_setup::talk::{
    self, Heard, ask_to_read, connect, connect_bare, hear, open_sender, place, read, read_from,
    send,
};
use crate::amqp_setup::{self, KEY, KEY_NAME, Node};

async fn hub() -> (Node, tempfile::TempDir, std::net::SocketAddr) {
    let (node, folder) = amqp_setup::start().await;
    node.hubs
        .create(EventHubDefinition::new("Houses", 4))
        .await
        .unwrap();
    node.hubs
        .create(EventHubDefinition::new("cars", 1))
        .await
        .unwrap();
    let address = node.listen();
    (node, folder, address)
}

fn from(start: &str) -> ReaderLinkOptions<'_> {
    ReaderLinkOptions {
        start: Some(start),
        ..ReaderLinkOptions::default()
    }
}

fn with_epoch(epoch: i64) -> ReaderLinkOptions<'static> {
    ReaderLinkOptions {
        epoch: Some(epoch),
        ..ReaderLinkOptions::default()
    }
}

#[tokio::test]
async fn nothing_is_allowed_before_a_token_not_even_without_sasl() {
    let (node, _folder, address) = hub().await;
    let mut peer = AmqpClient::bare(TcpStream::connect(address).await.unwrap());
    peer.open(None).await.unwrap();
    peer.begin(1).await.unwrap();
    peer.attach_sender(1, 0, "early", "houses");
    peer.flush().await.unwrap();
    assert!(hear(&mut peer).await.is_attach());
    assert_eq!(
        hear(&mut peer).await.condition(),
        "amqp:unauthorized-access"
    );
    let (audience, token) = talk::token("houses");
    assert_eq!(peer.put_token(0, &audience, &token).await.unwrap(), 202);
    open_sender(&mut peer, 1, "houses").await;
    node.stop().await;
}

#[tokio::test]
async fn a_name_and_its_key_open_everything_that_the_key_may() {
    let (node, _folder, address) = hub().await;
    let plain = |response| sasl::SaslInit {
        mechanism: "PLAIN",
        response,
    };
    let stream = TcpStream::connect(address).await.unwrap();
    let refused = AmqpClient::connect(stream, &plain(b"\0sender\0wrong")).await;
    assert!(refused.is_err());
    let stream = TcpStream::connect(address).await.unwrap();
    let init = plain(b"\0sender\0send secret");
    let mut peer = AmqpClient::connect(stream, &init).await.unwrap();
    peer.begin(1).await.unwrap();
    open_sender(&mut peer, 0, "houses/Partitions/1").await;
    ask_to_read(
        &mut peer,
        1,
        &place("houses", 0),
        &ReaderLinkOptions::default(),
    )
    .await;
    assert_eq!(
        hear(&mut peer).await.condition(),
        "amqp:unauthorized-access"
    );
    node.stop().await;
}

#[tokio::test]
async fn events_04_a_wrong_key_or_audience_yields_401() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect_bare(address).await;
    let cases = [
        sas::token("sb://localhost/houses", talk::LATER, KEY_NAME, "wrong"),
        sas::token("sb://localhost/houses", 1000, KEY_NAME, KEY),
        sas::token("sb://localhost/cars", talk::LATER, KEY_NAME, KEY),
        "nonsense".to_owned(),
    ];
    for (channel, token) in cases.iter().enumerate() {
        let status = peer
            .put_token(channel as u16, "sb://localhost/houses", token)
            .await;
        assert_eq!(status.unwrap(), 401, "{token}");
    }
    node.stop().await;
}

#[tokio::test]
async fn events_05_a_live_link_is_detached_after_its_token_lapses() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect_bare(address).await;
    let soon = node.clock.now().0 / 1000 + 2;
    let audience = "sb://localhost/houses";
    let token = sas::token(audience, soon, KEY_NAME, KEY);
    assert_eq!(peer.put_token(0, audience, &token).await.unwrap(), 202);
    peer.begin(1).await.unwrap();
    open_sender(&mut peer, 0, "houses").await;
    ask_to_read(
        &mut peer,
        1,
        &place("houses", 0),
        &ReaderLinkOptions::default(),
    )
    .await;
    for _ in 0..2 {
        let heard = tokio::time::timeout(Duration::from_secs(5), hear(&mut peer))
            .await
            .unwrap();
        assert_eq!(heard.condition(), "amqp:unauthorized-access");
    }
    assert!(node.clock.now().0 / 1000 >= soon);
    node.stop().await;
}

#[tokio::test]
async fn events_07_a_token_for_one_event_hub_opens_no_other() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    for (handle, other) in ["cars", "houses2", "house"].into_iter().enumerate() {
        peer.attach_sender(1, handle as u32, other, other);
        peer.flush().await.unwrap();
        assert!(hear(&mut peer).await.is_attach());
        let refused = hear(&mut peer).await;
        assert_eq!(refused.condition(), "amqp:unauthorized-access", "{other}");
    }
    node.stop().await;
}

#[tokio::test]
async fn events_20_a_refused_link_looks_refused_and_gets_no_credit() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "").await;
    let invalid = "com.microsoft:argument-out-of-range";
    let cases = [
        ("none", "amqp:not-found"),
        ("none/Partitions/x", "amqp:not-found"),
        ("houses/Partitions/4", invalid),
        ("houses/Partitions/x", invalid),
        ("houses/Partitions/-1", invalid),
        ("houses/a/b/c", "amqp:not-found"),
    ];
    for (handle, (target, expected)) in cases.iter().enumerate() {
        peer.attach_sender(1, handle as u32, target, target);
        peer.flush().await.unwrap();
        // Without a target the link was not made (AMQP 1.0, 2.6.3); go-amqp waits for the
        // detach only if there is no source either.
        let Heard::Attach {
            has_source,
            has_target,
            ..
        } = hear(&mut peer).await
        else {
            panic!("an attach");
        };
        assert_eq!((has_source, has_target), (false, false));
        let Heard::Detach {
            condition, words, ..
        } = hear(&mut peer).await
        else {
            panic!("a detach");
        };
        assert_eq!(condition, *expected);
        let meant = if *expected == invalid {
            "The specified partition is invalid for an EventHub partition sender"
        } else {
            "The messaging entity '"
        };
        assert!(words.starts_with(meant), "{words}");
        // The client answers; the handle is free again.
        let detach = Detach {
            handle: handle as u32,
            closed: true,
            error: None,
        };
        peer.put(1, &Performative::Detach(detach), &[]);
    }
    open_sender(&mut peer, 0, "houses").await;
    for (source, expected) in [
        (place("none", 0), "amqp:not-found"),
        (
            "houses/ConsumerGroups/x/Partitions/0".to_owned(),
            "amqp:not-found",
        ),
        (place("houses", 4), invalid),
    ] {
        let heard = ask_to_read(&mut peer, 9, &source, &ReaderLinkOptions::default()).await;
        let Heard::Attach {
            has_source,
            has_target,
            ..
        } = heard
        else {
            panic!("an attach");
        };
        assert_eq!((has_source, has_target), (false, false));
        assert_eq!(hear(&mut peer).await.condition(), expected);
        let detach = Detach {
            handle: 9,
            closed: true,
            error: None,
        };
        peer.put(1, &Performative::Detach(detach), &[]);
    }
    node.stop().await;
}

#[tokio::test]
async fn events_11_a_batch_lands_in_one_partition_in_order() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    open_sender(&mut peer, 0, "houses/Partitions/2").await;
    let mut message = Vec::new();
    for number in 0..500u32 {
        let mut event = Vec::new();
        steadfast_client::amqp::write_event(&mut event, &number.to_be_bytes());
        steadfast_client::amqp::write_event(&mut message, &event);
    }
    peer.send(1, 0, 0, FORMAT_BATCH, &message);
    peer.flush().await.unwrap();
    assert_eq!(hear(&mut peer).await, Heard::Accepted(0, 0));
    let events = read_from(
        &mut peer,
        1,
        &place("houses", 2),
        &ReaderLinkOptions::default(),
        500,
    )
    .await;
    for (number, (sequence, body)) in events.iter().enumerate() {
        assert_eq!(*sequence, number as i64);
        assert_eq!(*body, (number as u32).to_be_bytes());
    }
    node.stop().await;
}

#[tokio::test]
async fn events_16_large_messages_pass_and_larger_ones_are_rejected() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    open_sender(&mut peer, 0, "houses/Partitions/0").await;
    // The largest there is: with its section it fills a message to the last byte.
    const SIZE: usize = limits::PUBLICATION_BYTES - 8;
    send(&mut peer, 0, 0, &[&vec![1; SIZE]]).await;
    let mut message = Vec::new();
    steadfast_client::amqp::write_event(&mut message, &vec![2; 1_100_000]);
    peer.send(1, 0, 1, 0, &message);
    peer.flush().await.unwrap();
    let Heard::Rejected(1, condition, words) = hear(&mut peer).await else {
        panic!("a rejection");
    };
    assert_eq!(condition, "amqp:link:message-size-exceeded");
    let expected = "The received message (delivery-id:1, size:1100008 bytes) exceeds the limit \
                    (1048576 bytes) currently allowed on the link.";
    assert!(words.starts_with(expected), "{words}");
    send(&mut peer, 0, 2, &[b"again"]).await;

    // The large one comes back in frames of the size that was agreed.
    let heard = ask_to_read(
        &mut peer,
        2,
        &place("houses", 0),
        &ReaderLinkOptions::default(),
    )
    .await;
    peer.grant(1, 2, 0, 1, 0);
    peer.flush().await.unwrap();
    let mut message = Vec::new();
    while message.len() < SIZE {
        let Heard::Transfer(piece) = hear(&mut peer).await else {
            panic!("a piece");
        };
        message.extend_from_slice(&piece);
    }
    assert_eq!(talk::opened(&message), (0, vec![1; SIZE]));
    // The reader was told of no limit below that.
    let Heard::Attach { max_message, .. } = heard else {
        panic!("an attach");
    };
    assert!(max_message.unwrap() >= message.len() as u64, "{heard:?}");
    node.stop().await;
}

#[tokio::test]
async fn events_18_settling_second_is_never_agreed_to() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    peer.attach_sender(1, 0, "second", "houses");
    peer.flush().await.unwrap();
    let Heard::Attach { rcv_settle, .. } = hear(&mut peer).await else {
        panic!("an attach");
    };
    assert_eq!(rcv_settle, Some(0));
    node.stop().await;
}

#[tokio::test]
async fn malformed_messages_are_rejected_and_the_link_goes_on() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    open_sender(&mut peer, 0, "houses/Partitions/0").await;
    let mut inner = Vec::new();
    steadfast_client::amqp::write_event(&mut inner, b"not a message");
    peer.send(1, 0, 0, FORMAT_BATCH, &inner);
    peer.send(1, 0, 1, 0, b"nonsense");
    peer.flush().await.unwrap();
    for delivery in [0, 1] {
        let Heard::Rejected(rejected, condition, _) = hear(&mut peer).await else {
            panic!("a rejection");
        };
        assert_eq!((rejected, &condition[..]), (delivery, "amqp:decode-error"));
    }
    send(&mut peer, 0, 2, &[b"good"]).await;
    assert_eq!(
        node.hubs
            .partition("houses", 0)
            .await
            .unwrap()
            .last_sequence,
        0
    );
    node.stop().await;
}

#[tokio::test]
async fn an_aborted_message_is_as_if_never_sent() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    open_sender(&mut peer, 0, "houses/Partitions/0").await;
    for (more, aborted) in [(true, false), (false, true)] {
        let transfer = Transfer {
            handle: 0,
            delivery: Some(0),
            tag: Some(b"t"),
            more,
            aborted,
            ..Transfer::default()
        };
        peer.put(1, &Performative::Transfer(transfer), b"half a message");
    }
    send(&mut peer, 0, 1, &[b"whole"]).await;
    let events = read_from(
        &mut peer,
        1,
        &place("houses", 0),
        &ReaderLinkOptions::default(),
        1,
    )
    .await;
    assert_eq!(events, [(0, b"whole".to_vec())]);
    node.stop().await;
}

#[tokio::test]
async fn events_21_every_kind_of_position_starts_at_the_right_event() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    open_sender(&mut peer, 0, "houses/Partitions/0").await;
    let bodies: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
    send(&mut peer, 0, 0, &bodies).await;
    let end = node.hubs.partition("houses", 0).await.unwrap();
    let (offset, time) = (end.last_offset, end.last_time.0);
    let cases = [
        ("amqp.annotation.x-opt-offset > '-1'".to_owned(), 0),
        (format!("amqp.annotation.x-opt-offset >= '{offset}'"), 3),
        (format!("amqp.annotation.x-opt-offset>'{}'", offset - 1), 3),
        ("amqp.annotation.x-opt-sequence-number > '1'".to_owned(), 2),
        ("amqp.annotation.x-opt-sequence-number>='1'".to_owned(), 1),
        ("amqp.annotation.x-opt-enqueued-time > '0'".to_owned(), 0),
    ];
    for (handle, (start, sequence)) in (1..).zip(cases) {
        let place = place("houses", 0);
        let events = read_from(&mut peer, handle, &place, &from(&start), 1).await;
        assert_eq!(events[0].0, sequence, "{start}");
        detach(&mut peer, handle).await;
    }
    // Behind the last event: nothing until the next one is sent.
    for start in [
        format!("amqp.annotation.x-opt-offset > '{offset}'"),
        "amqp.annotation.x-opt-offset > '@latest'".to_owned(),
        format!("amqp.annotation.x-opt-enqueued-time > '{}'", time + 1),
    ] {
        ask_to_read(&mut peer, 30, &place("houses", 0), &from(&start)).await;
        peer.grant(1, 30, 0, 1, 0);
        peer.flush().await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
        let mut message = Vec::new();
        steadfast_client::amqp::write_event(&mut message, b"next");
        peer.send(1, 0, 100, 0, &message);
        peer.flush().await.unwrap();
        let mut body = None;
        while body.is_none() {
            if let Heard::Transfer(message) = hear(&mut peer).await {
                body = Some(talk::opened(&message).1);
            }
        }
        assert_eq!(body.unwrap(), b"next", "{start}");
        detach_and_skip(&mut peer, 30).await;
    }
    node.stop().await;
}

async fn detach(peer: &mut talk::Peer, handle: u32) {
    put_detach(peer, handle).await;
    assert_eq!(hear(peer).await.condition(), "");
}

async fn detach_and_skip(peer: &mut talk::Peer, handle: u32) {
    put_detach(peer, handle).await;
    while !matches!(hear(peer).await, Heard::Detach { .. }) {}
}

async fn put_detach(peer: &mut talk::Peer, handle: u32) {
    let detach = Detach {
        handle,
        closed: true,
        error: None,
    };
    peer.put(1, &Performative::Detach(detach), &[]);
    peer.flush().await.unwrap();
}

#[tokio::test]
async fn events_23_beyond_the_end_is_refused_in_the_documented_words() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    let start = "amqp.annotation.x-opt-offset > '777'";
    ask_to_read(&mut peer, 0, &place("houses", 0), &from(start)).await;
    let Heard::Detach {
        condition, words, ..
    } = hear(&mut peer).await
    else {
        panic!("a detach");
    };
    assert_eq!(condition, "com.microsoft:argument-error");
    let expected = "The supplied offset '777' is invalid. The last offset in the system is '-1'";
    assert!(words.starts_with(expected), "{words}");
    node.stop().await;
}

#[tokio::test]
async fn events_25_neither_credit_nor_window_is_ever_exceeded() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    open_sender(&mut peer, 0, "houses/Partitions/0").await;
    let bodies: Vec<&[u8]> = vec![b"x"; 60];
    send(&mut peer, 0, 0, &bodies).await;
    // A session with a window of seven.
    let begin = Begin {
        remote_channel: None,
        next_outgoing: 0,
        incoming_window: 7,
        outgoing_window: 7,
        handle_max: None,
    };
    peer.put(2, &Performative::Begin(begin), &[]);
    peer.attach_reader(
        2,
        0,
        "small",
        &place("houses", 0),
        &ReaderLinkOptions::default(),
    );
    let flow = |seen: u32, credit: u32, window: u32| Flow {
        next_incoming: Some(1 + seen),
        incoming_window: window,
        handle: Some(0),
        delivery_count: Some(seen),
        credit: Some(credit),
        ..Flow::default()
    };
    peer.flush().await.unwrap();
    assert_eq!(hear(&mut peer).await, Heard::Other);
    assert!(hear(&mut peer).await.is_attach());
    for (seen, credit, window, expected) in
        [(0, 50, 7, 7), (7, 3, 7, 3), (10, 5, 0, 0), (10, 9, 5, 5)]
    {
        peer.put(2, &Performative::Flow(flow(seen, credit, window)), &[]);
        peer.flush().await.unwrap();
        for _ in 0..expected {
            assert!(matches!(hear(&mut peer).await, Heard::Transfer(_)));
        }
        let more = tokio::time::timeout(Duration::from_millis(50), hear(&mut peer)).await;
        assert!(more.is_err(), "{more:?} after {expected}");
    }
    node.stop().await;
}

#[tokio::test]
async fn draining_gives_credit_back_at_the_end() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    open_sender(&mut peer, 0, "houses/Partitions/0").await;
    send(&mut peer, 0, 0, &[b"one", b"two"]).await;
    ask_to_read(
        &mut peer,
        1,
        &place("houses", 0),
        &ReaderLinkOptions::default(),
    )
    .await;
    let flow = Flow {
        next_incoming: Some(1),
        incoming_window: 100,
        handle: Some(1),
        delivery_count: Some(0),
        credit: Some(10),
        drain: true,
        ..Flow::default()
    };
    peer.put(1, &Performative::Flow(flow), &[]);
    peer.flush().await.unwrap();
    for _ in 0..2 {
        assert!(matches!(hear(&mut peer).await, Heard::Transfer(_)));
    }
    let expected = Heard::Flow {
        handle: Some(1),
        count: Some(10),
        credit: Some(0),
        drain: true,
    };
    assert_eq!(hear(&mut peer).await, expected);
    node.stop().await;
}

#[tokio::test]
async fn events_28_to_31_epochs_displace_and_refuse() {
    let (node, _folder, address) = hub().await;
    let (mut first, mut second) = (
        connect(address, "houses").await,
        connect(address, "houses").await,
    );
    let place = place("houses", 1);
    ask_to_read(&mut first, 0, &place, &with_epoch(1)).await;
    // A higher epoch displaces, and so does an equal one.
    for epoch in [2, 2] {
        ask_to_read(&mut second, 0, &place, &with_epoch(epoch)).await;
        let Heard::Detach {
            condition, words, ..
        } = hear(&mut first).await
        else {
            panic!("a detach");
        };
        assert_eq!(condition, "amqp:link:stolen");
        assert!(words.starts_with("New receiver '"), "{words}");
        put_detach(&mut first, 0).await;
        std::mem::swap(&mut first, &mut second);
    }
    // A lower one, and none at all, are refused; the owner does not notice.
    for reading in [with_epoch(1), ReaderLinkOptions::default()] {
        // azeventhubs recognises a lost partition by a link that ends, so this one must not
        // look like one that was never made.
        let Heard::Attach { has_target, .. } = ask_to_read(&mut second, 0, &place, &reading).await
        else {
            panic!("an attach");
        };
        assert!(has_target);
        assert_eq!(hear(&mut second).await.condition(), "amqp:link:stolen");
        put_detach(&mut second, 0).await;
    }
    open_sender(&mut first, 5, "houses/Partitions/1").await;
    send(&mut first, 5, 0, &[b"still mine"]).await;
    assert_eq!(read(&mut first, 0, 0, 1).await.len(), 1);
    node.stop().await;
}

#[tokio::test]
async fn events_32_the_sixth_reader_without_an_epoch_is_refused() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    for handle in 0..5 {
        ask_to_read(
            &mut peer,
            handle,
            &place("houses", 0),
            &ReaderLinkOptions::default(),
        )
        .await;
    }
    ask_to_read(
        &mut peer,
        5,
        &place("houses", 0),
        &ReaderLinkOptions::default(),
    )
    .await;
    let Heard::Detach {
        condition, words, ..
    } = hear(&mut peer).await
    else {
        panic!("a detach");
    };
    assert_eq!(condition, "amqp:resource-limit-exceeded");
    assert!(
        words.contains("maximum number of allowed receivers"),
        "{words}"
    );
    assert!(words.contains("reader-3"), "{words}");
    node.stop().await;
}

#[tokio::test]
async fn events_33_a_broken_connection_frees_its_place() {
    let (node, _folder, address) = hub().await;
    let mut owner = connect(address, "houses").await;
    ask_to_read(&mut owner, 0, &place("houses", 0), &with_epoch(9)).await;
    drop(owner);
    let freed = async {
        while node.hubs.reader_counts().attached > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(1), freed)
        .await
        .unwrap();
    let mut next = connect(address, "houses").await;
    ask_to_read(&mut next, 0, &place("houses", 0), &with_epoch(0)).await;
    let quiet = tokio::time::timeout(Duration::from_millis(50), hear(&mut next)).await;
    assert!(quiet.is_err(), "{quiet:?}");
    node.stop().await;
}

#[tokio::test]
async fn a_second_link_of_a_name_takes_it_over() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    open_sender(&mut peer, 0, "houses").await;
    peer.attach_sender(1, 1, "sender-0", "houses");
    peer.flush().await.unwrap();
    assert_eq!(hear(&mut peer).await.condition(), "amqp:link:stolen");
    assert!(hear(&mut peer).await.is_attach());
    node.stop().await;
}

#[tokio::test]
async fn a_server_that_goes_away_says_so() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    ask_to_read(
        &mut peer,
        0,
        &place("houses", 0),
        &ReaderLinkOptions::default(),
    )
    .await;
    let stopping = tokio::spawn(node.stop());
    assert_eq!(
        hear(&mut peer).await,
        Heard::Close("amqp:connection:forced".to_owned())
    );
    drop(peer);
    stopping.await.unwrap();
}

/// Clients encode the resource in their own way, and sign what they have written.
#[tokio::test]
async fn events_06_both_cases_of_percent_encoding_verify() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect_bare(address).await;
    let key = hmac::Key::new(hmac::HMAC_SHA256, KEY.as_bytes());
    for (channel, resource) in (0..).zip([
        "sb%3a%2f%2flocalhost%2fhouses",
        "sb%3A%2F%2Flocalhost%2Fhouses",
        "sb://localhost/houses",
    ]) {
        let expiry = talk::LATER;
        let signature = hmac::sign(&key, format!("{resource}\n{expiry}").as_bytes());
        let signature = STANDARD
            .encode(signature)
            .replace('+', "%2b")
            .replace('=', "%3d");
        let token = format!(
            "SharedAccessSignature sr={resource}&sig={signature}&se={expiry}&skn={KEY_NAME}"
        );
        let status = peer.put_token(channel, "amqps://localhost/houses", &token);
        assert_eq!(status.await.unwrap(), 202, "{resource}");
    }
    node.stop().await;
}
