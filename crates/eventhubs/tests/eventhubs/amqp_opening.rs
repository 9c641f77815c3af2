//! What a client sends behind an unanswered attach.

use std::net::SocketAddr;
use std::time::Duration;

use steadfast_client::amqp::{AmqpClient, ReaderLinkOptions, WINDOW};
use steadfast_events::EventHubDefinition;
use steadfast_wire::amqp::delivery::Disposition;
use steadfast_wire::amqp::link::{Detach, LinkRole};
use steadfast_wire::amqp::performative::Performative;
use steadfast_wire::amqp::session::Flow;
use tokio::net::TcpStream;

use crate::amqp_setup::talk::{
    ANONYMOUS, Heard, Peer, connect, hear, open_sender, opened, place, send, token,
};
use crate::amqp_setup::{self, KEY, KEY_NAME, Node};

async fn hub() -> (Node, tempfile::TempDir, SocketAddr) {
    let (node, folder) = amqp_setup::start().await;
    let definition = EventHubDefinition::new("houses", 1);
    node.hubs.create(definition).await.unwrap();
    let address = node.listen();
    (node, folder, address)
}

/// What a test hears within a time in which it surely comes.
async fn soon(peer: &mut Peer) -> Heard {
    let heard = tokio::time::timeout(Duration::from_secs(10), hear(peer));
    heard.await.expect("an answer in time")
}

fn credit(handle: u32, credit: u32) -> Flow {
    Flow {
        next_incoming: Some(1),
        incoming_window: WINDOW,
        outgoing_window: WINDOW,
        handle: Some(handle),
        delivery_count: Some(0),
        credit: Some(credit),
        ..Flow::default()
    }
}

#[tokio::test]
async fn credit_that_comes_with_the_attach_is_kept_until_the_link_is_open() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    open_sender(&mut peer, 0, "houses/Partitions/0").await;
    send(&mut peer, 0, 0, &[b"one", b"two"]).await;
    for handle in 1..4 {
        // As the .NET SDK does it: attach and flow in one segment.
        let name = format!("reader-{handle}");
        let reading = ReaderLinkOptions::default();
        peer.attach_reader(1, handle, &name, &place("houses", 0), &reading);
        peer.put(1, &Performative::Flow(credit(handle, 2)), &[]);
        peer.send_all().await.unwrap();
        assert!(soon(&mut peer).await.is_attach());
        for (sequence, body) in [(0, b"one"), (1, b"two")] {
            let Heard::Transfer(message) = soon(&mut peer).await else {
                panic!("an event");
            };
            assert_eq!(opened(&message), (sequence, body.to_vec()));
        }
    }
    node.stop().await;
}

#[tokio::test]
async fn a_drain_and_a_question_that_come_with_the_attach_are_answered_behind_it() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    peer.attach_reader(
        1,
        1,
        "drained",
        &place("houses", 0),
        &ReaderLinkOptions::default(),
    );
    let flow = Flow {
        drain: true,
        echo: true,
        ..credit(1, 10)
    };
    peer.put(1, &Performative::Flow(flow), &[]);
    peer.send_all().await.unwrap();
    assert!(soon(&mut peer).await.is_attach());
    let state = |count, credit, drain| Heard::Flow {
        handle: Some(1),
        count: Some(count),
        credit: Some(credit),
        drain,
    };
    assert_eq!(soon(&mut peer).await, state(0, 10, false));
    assert_eq!(soon(&mut peer).await, state(10, 0, true));
    node.stop().await;
}

#[tokio::test]
async fn events_that_come_with_the_attach_are_published_when_the_link_is_open() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    peer.attach_sender(1, 0, "early", "houses/Partitions/0");
    for delivery in 0..3 {
        let mut message = Vec::new();
        // The last one comes in several frames.
        let body = vec![delivery as u8; if delivery == 2 { 200_000 } else { 10 }];
        steadfast_client::amqp::write_event(&mut message, &body);
        peer.send(1, 0, delivery, 0, &message);
    }
    peer.send_all().await.unwrap();
    assert!(soon(&mut peer).await.is_attach());
    let mut accepted = 0;
    while accepted < 3 {
        match soon(&mut peer).await {
            Heard::Accepted(first, last) => accepted += last - first + 1,
            Heard::Flow { .. } => {}
            other => panic!("accepted, not {other:?}"),
        }
    }
    let end = node.hubs.partition("houses", 0).await.unwrap();
    assert_eq!(end.last_sequence, 2);
    node.stop().await;
}

#[tokio::test]
async fn what_comes_behind_a_refused_attach_is_dropped_and_the_connection_goes_on() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "").await;
    peer.attach_reader(
        1,
        1,
        "reader",
        &place("none", 0),
        &ReaderLinkOptions::default(),
    );
    peer.put(1, &Performative::Flow(credit(1, 10)), &[]);
    peer.attach_sender(1, 2, "sender", "none");
    let mut message = Vec::new();
    steadfast_client::amqp::write_event(&mut message, b"lost");
    peer.send(1, 2, 0, 0, &message);
    let settled = Disposition {
        role: LinkRole::Receiver,
        first: 0,
        last: None,
        settled: true,
        outcome: None,
    };
    peer.put(1, &Performative::Disposition(settled), &[]);
    peer.send_all().await.unwrap();
    for _ in 0..2 {
        assert!(soon(&mut peer).await.is_attach());
        assert_eq!(soon(&mut peer).await.condition(), "amqp:not-found");
    }
    open_sender(&mut peer, 3, "houses/Partitions/0").await;
    send(&mut peer, 3, 1, &[b"kept"]).await;
    node.stop().await;
}

#[tokio::test]
async fn a_detach_that_comes_with_its_attach_is_answered_with_both() {
    let (node, _folder, address) = hub().await;
    let mut peer = connect(address, "houses").await;
    for _ in 0..3 {
        peer.attach_reader(
            1,
            1,
            "brief",
            &place("houses", 0),
            &ReaderLinkOptions::default(),
        );
        let detach = Detach {
            handle: 1,
            closed: true,
            error: None,
        };
        peer.put(1, &Performative::Detach(detach), &[]);
    }
    peer.send_all().await.unwrap();
    for _ in 0..3 {
        assert!(soon(&mut peer).await.is_attach());
        assert_eq!(soon(&mut peer).await.condition(), "");
    }
    node.stop().await;
}

#[tokio::test]
async fn a_whole_connection_in_one_write_reads_its_events() {
    let (node, _folder, address) = hub().await;
    let mut sender = connect(address, "houses").await;
    open_sender(&mut sender, 0, "houses/Partitions/0").await;
    send(&mut sender, 0, 0, &[b"one"]).await;
    // The key by SASL, so that no token need be waited for.
    let response = format!("\0{KEY_NAME}\0{KEY}");
    let init = steadfast_wire::amqp::sasl::SaslInit {
        mechanism: "PLAIN",
        response: response.as_bytes(),
    };
    let stream = TcpStream::connect(address).await.unwrap();
    let mut peer = AmqpClient::pipelined(stream, &init);
    peer.begin(1).await.unwrap();
    peer.attach_reader(
        1,
        0,
        "reader",
        &place("houses", 0),
        &ReaderLinkOptions::default(),
    );
    peer.put(1, &Performative::Flow(credit(0, 1)), &[]);
    assert!(soon(&mut peer).await.is_attach());
    assert!(matches!(soon(&mut peer).await, Heard::Transfer(_)));
    node.stop().await;
}

#[tokio::test]
async fn a_token_and_its_session_in_one_write_are_answered() {
    let (node, _folder, address) = hub().await;
    let stream = TcpStream::connect(address).await.unwrap();
    let mut peer = AmqpClient::pipelined(stream, &ANONYMOUS);
    let (audience, token) = token("houses");
    assert_eq!(peer.put_token(0, &audience, &token).await.unwrap(), 202);
    node.stop().await;
}
