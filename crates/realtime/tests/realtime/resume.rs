//! Clients that lose their socket and come back.

use std::sync::Arc;

use serde_json::json;
use steadfast_core::limits;
use steadfast_realtime::{ClientOptions, ClientOutput, ClientReader, HubOptions};
use steadfast_wire::signalr::Protocol;

use crate::desk::{Desk, Talker};

async fn stateful(desk: &Desk, user: &str) -> Talker {
    let wishes = ClientOptions {
        is_stateful: true,
        ..ClientOptions::default()
    };
    let mut talker = desk.open(user, &wishes);
    talker.greet(Protocol::Json).await;
    talker
}

/// Comes back with a new socket, which begins anew.
fn resume(desk: &Desk, talker: &mut Talker) {
    talker.socket = talker.client.resume().expect("it may come back");
    talker.inlet = ClientReader::new(Arc::clone(&talker.client), desk.lobby(), 1 << 20);
}

#[tokio::test]
async fn realtime_25_nothing_is_lost_or_doubled_when_a_socket_is_killed() {
    let desk = Desk::new(HubOptions::default());
    let mut talker = stateful(&desk, "a").await;
    let id = talker.id();
    let clients = desk.realtime.clients("room").unwrap();
    for number in 0..5 {
        talker
            .say(json!({"type": 1, "target": "log", "arguments": [format!("m{number}")]}))
            .await;
        clients.all().send("told", &(number,)).await.unwrap();
    }
    desk.noted("m4").await;
    for number in 0..5 {
        assert_eq!(talker.next().await["arguments"][0], number);
    }
    talker.say(json!({"type": 8, "sequenceId": 2})).await;
    talker.client.socket_lost(0, Some("cut"));
    clients.all().send("told", &(5,)).await.unwrap();
    resume(&desk, &mut talker);
    assert_eq!(talker.next().await, json!({"type": 9, "sequenceId": 3}));
    for number in 2..6 {
        assert_eq!(talker.next().await["arguments"][0], number);
    }
    // The client does not know what has arrived, and sends two of them again.
    talker.say(json!({"type": 9, "sequenceId": 4})).await;
    for number in 3..7 {
        talker
            .say(json!({"type": 1, "target": "log", "arguments": [format!("m{number}")]}))
            .await;
    }
    desk.noted("m6").await;
    let expected = ["+a", "m0", "m1", "m2", "m3", "m4", "m5", "m6"];
    assert_eq!(desk.events(), expected);
    assert_eq!(talker.id(), id);
}

#[tokio::test]
async fn realtime_26_a_new_socket_displaces_the_old_one() {
    let desk = Desk::new(HubOptions::default());
    let mut talker = stateful(&desk, "a").await;
    let old = Arc::clone(&talker.client);
    let waiting =
        tokio::spawn(async move { old.outgoing(0, steadfast_realtime::KeepAlive::Pings).await });
    tokio::task::yield_now().await;
    resume(&desk, &mut talker);
    assert_eq!(waiting.await.unwrap(), ClientOutput::Displaced);
    // That the old one is lost now means nothing.
    talker.client.socket_lost(0, None);
    assert_eq!(talker.next().await, json!({"type": 9, "sequenceId": 1}));
    assert_eq!(desk.events(), ["+a"]);
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_come_back_in_time_has_gone() {
    let desk = Desk::new(HubOptions::default());
    let talker = stateful(&desk, "a").await;
    let began = tokio::time::Instant::now();
    talker.client.socket_lost(0, Some("cut"));
    talker.client.gone().await;
    assert_eq!(began.elapsed(), limits::CLIENT_RESUME);
    assert!(talker.client.resume().is_none());
    desk.noted("-a cut").await;
}

#[tokio::test(start_paused = true)]
async fn what_was_received_is_acknowledged_after_a_second() {
    let desk = Desk::new(HubOptions::default());
    let mut talker = stateful(&desk, "a").await;
    for _ in 0..3 {
        talker
            .say(json!({"type": 1, "target": "nothing", "arguments": []}))
            .await;
    }
    talker.say(json!({"type": 6})).await;
    let began = tokio::time::Instant::now();
    assert_eq!(talker.message().await, json!({"type": 8, "sequenceId": 3}));
    assert_eq!(began.elapsed(), limits::CLIENT_ACK);
}

#[tokio::test]
async fn a_gap_in_the_numbers_ends_the_connection() {
    let desk = Desk::new(HubOptions::default());
    let mut talker = stateful(&desk, "a").await;
    talker.client.socket_lost(0, None);
    resume(&desk, &mut talker);
    talker.say(json!({"type": 9, "sequenceId": 7})).await;
    assert_eq!(talker.next().await["type"], 9);
    let close = talker.next().await;
    assert_eq!(
        (&close["type"], &close["allowReconnect"]),
        (&json!(7), &serde_json::Value::Null)
    );
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_room_when_a_socket_is_lost_is_sent_again() {
    let desk = Desk::new(HubOptions::default());
    let mut talker = stateful(&desk, "a").await;
    talker
        .say(json!({"type": 1, "target": "wait", "arguments": [0]}))
        .await;
    let text = |number: u64| format!("{number} {}", "x".repeat(20_000));
    let message = |number: u64| json!({"type": 1, "target": "log", "arguments": [text(number)]});
    // The first call waits, and the others behind it, until there is no room.
    let mut last = 1;
    loop {
        last += 1;
        let bytes = format!("{}\u{1e}", message(last));
        let taken = talker.inlet.take(bytes.into());
        let taken = tokio::time::timeout(limits::CLIENT_ACK * 2, taken).await;
        if taken.is_err() {
            break;
        }
    }
    resume(&desk, &mut talker);
    assert_eq!(talker.message().await["type"], 9);
    // The last one is not acknowledged, so the client sends it again.
    let told = talker.message().await;
    assert_eq!(told, json!({"type": 8, "sequenceId": last - 1}));
    talker.say(json!({"type": 9, "sequenceId": last})).await;
    desk.seen.gate.add_permits(1);
    talker.say(message(last)).await;
    desk.noted(&text(last)).await;
    let mut expected = vec!["+a".to_owned(), "waited 0".to_owned()];
    expected.extend((2..=last).map(text));
    assert!(desk.events() == expected, "{} events", desk.events().len());
}
