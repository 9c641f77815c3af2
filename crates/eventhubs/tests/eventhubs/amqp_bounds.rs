//! Clients that want too much, or nothing: bounded.

use std::sync::Arc;
use std::time::Duration;

use steadfast_client::amqp::{AmqpClient, ReaderLinkOptions};
use steadfast_core::clock::SystemClock;
use steadfast_core::limits;
use steadfast_events::EventHubDefinition;
use steadfast_wire::amqp::delivery::Transfer;
use steadfast_wire::amqp::link::Detach;
use steadfast_wire::amqp::performative::Performative;
use steadfast_wire::amqp::session::Begin;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::amqp_setup;
use crate::amqp_setup::talk::{
    Heard, ask_to_read, connect, connect_bare, hear, open_sender, place, send,
};

#[tokio::test]
async fn ten_thousand_links_are_not_given() {
    let (node, _folder) = amqp_setup::start().await;
    node.hubs
        .create(EventHubDefinition::new("houses", 4))
        .await
        .unwrap();
    let address = node.listen();
    let mut peer = connect(address, "houses").await;
    let (mut given, mut refused) = (0, 0);
    // 40 sessions of 250 links each.
    for channel in 10..50 {
        peer.begin(channel).await.unwrap();
        for handle in 0..250 {
            peer.attach_sender(
                channel,
                handle,
                &format!("{channel}-{handle}"),
                "$management",
            );
        }
        peer.flush().await.unwrap();
        for _ in 0..250 {
            assert!(hear(&mut peer).await.is_attach());
            match hear(&mut peer).await {
                Heard::Flow { .. } => given += 1,
                heard => {
                    assert_eq!(heard.condition(), "amqp:resource-limit-exceeded");
                    refused += 1;
                }
            }
        }
    }
    assert_eq!(given + refused, 10_000);
    // Two belong to the token.
    assert_eq!(given, limits::AMQP_LINKS - 2);
    node.stop().await;
}

#[tokio::test]
async fn links_before_a_token_are_few() {
    let (node, _folder) = amqp_setup::start().await;
    let mut peer = connect_bare(node.listen()).await;
    peer.begin(1).await.unwrap();
    for handle in 0..=limits::AMQP_UNPROVEN_LINKS as u32 {
        peer.attach_sender(1, handle, &format!("link-{handle}"), "$cbs");
    }
    peer.flush().await.unwrap();
    for _ in 0..limits::AMQP_UNPROVEN_LINKS {
        assert!(hear(&mut peer).await.is_attach());
        assert!(matches!(hear(&mut peer).await, Heard::Flow { .. }));
    }
    assert!(hear(&mut peer).await.is_attach());
    let refused = hear(&mut peer).await;
    assert_eq!(refused.condition(), "amqp:resource-limit-exceeded");
    node.stop().await;
}

#[tokio::test]
async fn a_channel_or_a_handle_over_what_was_agreed_ends_the_connection() {
    let (node, _folder) = amqp_setup::start().await;
    let address = node.listen();
    let mut peer = connect(address, "").await;
    let begin = Begin {
        remote_channel: None,
        next_outgoing: 0,
        incoming_window: 10,
        outgoing_window: 10,
        handle_max: None,
    };
    let channel = limits::AMQP_CHANNEL_MAX + 1;
    peer.put(channel, &Performative::Begin(begin), &[]);
    peer.flush().await.unwrap();
    let closed = hear(&mut peer).await;
    assert!(
        matches!(&closed, Heard::Close(why) if why == "amqp:connection:framing-error"),
        "{closed:?}"
    );
    let mut peer = connect(address, "").await;
    peer.attach_sender(1, limits::AMQP_HANDLE_MAX + 1, "high", "$cbs");
    peer.flush().await.unwrap();
    let closed = hear(&mut peer).await;
    assert!(
        matches!(&closed, Heard::Close(why) if why == "amqp:not-allowed"),
        "{closed:?}"
    );
    node.stop().await;
}

#[tokio::test]
async fn a_reader_that_grants_nothing_gets_nothing_and_disturbs_nobody() {
    let (node, _folder) = amqp_setup::start().await;
    node.hubs
        .create(EventHubDefinition::new("houses", 1))
        .await
        .unwrap();
    let address = node.listen();
    let mut mute = connect(address, "houses").await;
    ask_to_read(
        &mut mute,
        0,
        &place("houses", 0),
        &ReaderLinkOptions::default(),
    )
    .await;
    let mut peer = connect(address, "houses").await;
    open_sender(&mut peer, 0, "houses/Partitions/0").await;
    let bodies: Vec<&[u8]> = vec![&[7; 1024]; 500];
    send(&mut peer, 0, 0, &bodies).await;
    let heard = tokio::time::timeout(Duration::from_millis(100), hear(&mut mute)).await;
    assert!(heard.is_err(), "{heard:?}");
    node.stop().await;
}

#[tokio::test]
async fn a_reader_that_reads_nothing_from_its_socket_stops_being_written_to() {
    let (node, _folder) = amqp_setup::start().await;
    node.hubs
        .create(EventHubDefinition::new("houses", 1))
        .await
        .unwrap();
    let address = node.listen();
    let mut peer = connect(address, "houses").await;
    open_sender(&mut peer, 0, "houses/Partitions/0").await;
    let large = vec![7; 1_000_000];
    let mut deaf = connect(address, "houses").await;
    ask_to_read(
        &mut deaf,
        0,
        &place("houses", 0),
        &ReaderLinkOptions::default(),
    )
    .await;
    deaf.grant(1, 0, 0, 100_000, 0);
    deaf.send_all().await.unwrap();
    // Many times what sockets and buffers hold; all of it is taken in.
    for delivery in 0..64 {
        send(&mut peer, 0, delivery, &[&large]).await;
    }
    assert_eq!(
        node.hubs
            .partition("houses", 0)
            .await
            .unwrap()
            .last_sequence,
        63
    );
    // Once it listens it gets everything, and afterwards what is new.
    for last in [63, 64] {
        let mut bytes = 0;
        let expected = if last == 63 { 64 * large.len() } else { 4 };
        while bytes < expected {
            if let Heard::Transfer(piece) = hear(&mut deaf).await {
                bytes += piece.len();
            }
        }
        send(&mut peer, 0, last + 1, &[b"more"]).await;
    }
    node.stop().await;
}

#[tokio::test]
async fn one_byte_now_and_then_is_silence() {
    let folder = tempfile::tempdir().unwrap();
    let idle = Duration::from_secs(2);
    let node = amqp_setup::open_with(folder.path(), Arc::new(SystemClock::new()), idle).await;
    node.hubs
        .create(EventHubDefinition::new("houses", 1))
        .await
        .unwrap();
    let address = node.listen();

    // Before the open, and in the middle of a frame after it.
    let mut early = TcpStream::connect(address).await.unwrap();
    let mut peer = connect(address, "houses").await;
    peer.put_bytes(&[0, 0, 0, 200, 2, 0, 0, 1]);
    let mut closed = false;
    for byte in 0..200u8 {
        let _ = early
            .write_all(&b"AMQP\x03\x01\x00\x00"[usize::from(byte).min(6)..][..1])
            .await;
        peer.put_bytes(&[0]);
        if peer.send_all().await.is_err() {
            break;
        }
        let heard = tokio::time::timeout(Duration::from_millis(50), peer.next()).await;
        if heard.is_ok() {
            closed = true;
            break;
        }
    }
    assert!(closed, "the silent client is told to go");
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(20), early.read_to_end(&mut rest));
    let _ = ended.await.expect("a client without an open is sent away");
    node.stop().await;
}

#[tokio::test]
async fn a_quiet_client_gets_signs_of_life() {
    let (node, _folder) = amqp_setup::start().await;
    let address = node.listen();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut peer = AmqpClient::bare(&mut stream);
    peer.open(Some(1000)).await.unwrap();
    drop(peer);
    let mut beat = [0; 8];
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_exact(&mut beat));
    read.await.expect("in time").unwrap();
    assert_eq!(beat, [0, 0, 0, 8, 2, 0, 0, 0]);
    node.stop().await;
}

#[tokio::test]
async fn unfinished_messages_are_bounded_per_connection() {
    let (node, _folder) = amqp_setup::start().await;
    node.hubs
        .create(EventHubDefinition::new("houses", 1))
        .await
        .unwrap();
    let address = node.listen();
    let mut peer = connect(address, "houses").await;
    let piece = vec![0; 60_000];
    let mut closed = None;
    'links: for handle in 0..60 {
        open_sender(&mut peer, handle, "houses").await;
        for _ in 0..16 {
            let transfer = Transfer {
                handle,
                delivery: Some(handle),
                tag: Some(b"t"),
                more: true,
                ..Transfer::default()
            };
            peer.put(1, &Performative::Transfer(transfer), &piece);
        }
        peer.flush().await.unwrap();
        // An answer to something else shows that all of it was seen.
        peer.attach_sender(1, 200, "probe", "$cbs");
        let detach = Detach {
            handle: 200,
            closed: true,
            error: None,
        };
        peer.put(1, &Performative::Detach(detach), &[]);
        peer.flush().await.unwrap();
        loop {
            match hear(&mut peer).await {
                Heard::Close(condition) => {
                    closed = Some((handle as usize, condition));
                    break 'links;
                }
                Heard::Detach { .. } => break,
                _ => {}
            }
        }
    }
    let (link, condition) = closed.unwrap();
    assert_eq!(condition, "amqp:resource-limit-exceeded");
    // By the bound of unfinished messages, not by that of all that a connection keeps.
    assert_eq!(link, limits::AMQP_PARTIAL_BYTES / (16 * piece.len()));
    node.stop().await;
}
