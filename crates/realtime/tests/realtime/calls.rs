//! What hubs and clients say, without a transport.

use bytes::Bytes;
use serde_json::{Value, json};
use steadfast_core::limits;
use steadfast_realtime::{ClientOptions, ClientOutput, HubOptions};
use steadfast_wire::signalr::frame::read;
use steadfast_wire::signalr::message::{Message, Outcome};
use steadfast_wire::signalr::{Protocol, frame, write};

use crate::desk::Desk;

fn desk() -> Desk {
    Desk::new(HubOptions::default())
}

#[tokio::test]
async fn a_client_keeps_its_handshake_without_the_buffer_it_was_read_into() {
    let desk = desk();
    let mut talker = desk.open("a", &ClientOptions::default());
    let buffer = Bytes::from(b"{\"protocol\":\"json\",\"version\":1}\x1e".to_vec());
    talker.inlet.take(buffer.clone()).await.unwrap();
    assert_eq!(&talker.bytes().await[..], b"{}\x1e");
    assert!(buffer.is_unique());
}

#[tokio::test]
async fn realtime_14_versions_0_to_2_are_accepted_and_3_is_refused() {
    let desk = desk();
    for version in 0..4 {
        let mut talker = desk.open("a", &ClientOptions::default());
        let text = format!("{{\"protocol\":\"json\",\"version\":{version}}}\u{1e}");
        talker.raw(text.as_bytes()).await;
        let said = talker.bytes().await;
        if version < 3 {
            assert_eq!(said, "{}\u{1e}");
            continue;
        }
        let why = "The server does not support version 3 of the 'json' protocol.";
        assert_eq!(said, format!("{{\"error\":\"{why}\"}}\u{1e}"));
        assert_eq!(talker.outgoing().await, ClientOutput::Over);
    }
    let mut talker = desk.open("a", &ClientOptions::default());
    talker
        .raw(b"{\"protocol\":\"xml\",\"version\":1}\x1e")
        .await;
    let why = "{\"error\":\"The protocol 'xml' is not supported.\"}\u{1e}";
    assert_eq!(talker.bytes().await, why);
}

#[tokio::test]
async fn realtime_15_a_handshake_may_be_split_or_have_a_message_behind_it() {
    let desk = desk();
    let call = r#"{"type":1,"invocationId":"1","target":"add","arguments":[1,2]}"#;
    let all = format!("{{\"protocol\":\"json\",\"version\":1}}\u{1e}{call}\u{1e}");
    for size in [1, 7, all.len()] {
        let mut talker = desk.open("a", &ClientOptions::default());
        for piece in all.as_bytes().chunks(size) {
            talker.raw(piece).await;
        }
        assert_eq!(talker.message().await, json!({}));
        let done = json!({"type": 3, "invocationId": "1", "result": 3});
        assert_eq!(talker.message().await, done);
    }
}

#[tokio::test]
async fn realtime_19_a_call_without_an_id_is_never_answered_and_one_with_it_once() {
    let desk = desk();
    let mut talker = desk.json("a").await;
    for target in ["add", "nothing", "missing", "fail"] {
        talker
            .say(json!({"type": 1, "target": target, "arguments": []}))
            .await;
    }
    let void = talker.call("Nothing", json!([])).await;
    assert_eq!(void, json!({"type": 3, "invocationId": "call"}));
    let sum = talker.call("ADD", json!([40, 2])).await;
    assert_eq!(sum["result"], 42);
}

#[tokio::test]
async fn errors_of_calls_are_completions_and_hide_what_is_inside() {
    let desk = desk();
    let mut talker = desk.json("a").await;
    let general = "An unexpected error occurred invoking 'fail' on the server.";
    let cases = [
        (
            "fail",
            json!([true]),
            format!("{general} HubException: as you wish"),
        ),
        ("fail", json!([false]), general.to_owned()),
        (
            "panic",
            json!([]),
            "An unexpected error occurred invoking 'panic' on the server.".to_owned(),
        ),
        (
            "missing",
            json!([]),
            "Failed to invoke 'missing' due to an error on the server. HubException: Method does \
             not exist."
                .to_owned(),
        ),
    ];
    for (target, arguments, expected) in cases {
        let done = talker.call(target, arguments).await;
        assert_eq!(done["error"], expected);
    }
    let unfit = talker.call("add", json!(["x", 1])).await;
    let words = unfit["error"].as_str().unwrap();
    assert!(words.contains("STF-5306"), "{words}");
    let few = talker.call("add", json!([1])).await;
    assert!(
        few["error"].as_str().unwrap().contains("expects 2"),
        "{few}"
    );
    assert_eq!(
        talker.call("add", json!([1, 1])).await["result"],
        2,
        "it goes on"
    );
}

#[tokio::test]
async fn realtime_20_streams_end_with_a_completion_without_a_result() {
    let desk = desk();
    let mut talker = desk.json("a").await;
    let stream = |id: &str, target: &str, arguments: Value| json!({"type": 4, "invocationId": id, "target": target, "arguments": arguments});
    talker.say(stream("1", "count", json!([3, false]))).await;
    for item in 0..3 {
        let expected = json!({"type": 2, "invocationId": "1", "item": item});
        assert_eq!(talker.next().await, expected);
    }
    assert_eq!(talker.next().await, json!({"type": 3, "invocationId": "1"}));
    talker.say(stream("2", "count", json!([1, true]))).await;
    assert_eq!(talker.next().await["item"], 0);
    let error = talker.next().await;
    assert!(
        error["error"]
            .as_str()
            .unwrap()
            .ends_with("HubException: enough"),
        "{error}"
    );
    talker.say(stream("3", "forever", json!([]))).await;
    assert_eq!(talker.next().await["item"], 0);
    talker.say(json!({"type": 5, "invocationId": "3"})).await;
    talker
        .say(json!({"type": 5, "invocationId": "unknown"}))
        .await;
    let mut next = 1;
    loop {
        let message = talker.next().await;
        if message["type"] == 3 {
            assert_eq!(message, json!({"type": 3, "invocationId": "3"}));
            break;
        }
        assert_eq!(message["item"], next);
        next += 1;
    }
    let plain = talker.call("count", json!([1, false])).await;
    assert!(
        plain["error"]
            .as_str()
            .unwrap()
            .contains("returns a stream")
    );
    talker.say(stream("4", "add", json!([1, 2]))).await;
    assert!(
        talker.next().await["error"]
            .as_str()
            .unwrap()
            .contains("is not a stream")
    );
}

#[tokio::test]
async fn uploads_reach_their_method_in_order_and_late_items_are_ignored() {
    let desk = desk();
    let mut talker = desk.json("a").await;
    let call = json!({
        "type": 1, "invocationId": "1", "target": "total", "arguments": [10], "streamIds": ["s"],
    });
    talker.say(call.clone()).await;
    for number in 1..=100 {
        talker
            .say(json!({"type": 2, "invocationId": "s", "item": number}))
            .await;
    }
    talker.say(json!({"type": 3, "invocationId": "s"})).await;
    talker
        .say(json!({"type": 2, "invocationId": "s", "item": 1000}))
        .await;
    assert_eq!(talker.next().await["result"], 50_500);
    talker.say(call).await;
    talker
        .say(json!({"type": 3, "invocationId": "s", "error": "broken"}))
        .await;
    assert!(talker.next().await["error"].is_string());
}

#[tokio::test]
async fn realtime_21_clients_answer_hubs_or_fail_or_go() {
    let desk = desk();
    let mut asker = desk.json("a").await;
    let mut asked = desk.json("b").await;
    asker.invoke("1", "ask", json!([asked.id()])).await;
    let question = asked.next().await;
    assert_eq!(
        (&question["target"], &question["arguments"]),
        (&json!("name"), &json!([]))
    );
    let id = question["invocationId"].clone();
    // A result of a client that was not called is ignored.
    asker
        .say(json!({"type": 3, "invocationId": id, "result": "a liar"}))
        .await;
    asked
        .say(json!({"type": 3, "invocationId": id, "result": "Bob"}))
        .await;
    assert_eq!(asker.next().await["result"], "it is Bob");

    asker.invoke("2", "ask", json!([asked.id()])).await;
    let id = asked.next().await["invocationId"].clone();
    let words = "Client didn't provide a result.";
    asked
        .say(json!({"type": 3, "invocationId": id, "error": words}))
        .await;
    assert!(asker.next().await["error"].is_string());

    asker.invoke("3", "ask", json!([asked.id()])).await;
    asked.next().await;
    asked.client.socket_lost(0, None);
    assert!(asker.next().await["error"].is_string());
    asker.invoke("4", "ask", json!(["absent"])).await;
    assert!(asker.next().await["error"].is_string());
}

#[tokio::test]
async fn calls_run_one_at_a_time_and_nothing_else_waits_for_them() {
    let desk = desk();
    let mut talker = desk.json("a").await;
    for number in 1..=3 {
        talker
            .invoke(&number.to_string(), "wait", json!([number]))
            .await;
    }
    talker.say(json!({"type": 6})).await;
    desk.noted("+a").await;
    desk.seen.gate.add_permits(3);
    for number in 1..=3 {
        assert_eq!(talker.next().await["result"], number);
    }
    assert_eq!(desk.events(), ["+a", "waited 1", "waited 2", "waited 3"]);
}

#[tokio::test]
async fn sends_reach_groups_users_and_all_in_their_protocols() {
    let desk = desk();
    let mut one = desk.json("a").await;
    let mut other = desk.json("b").await;
    let mut packed = desk.connect("b", Protocol::MessagePack).await;
    for talker in [&mut one, &mut other] {
        assert!(talker.call("enter", json!(["g"])).await["error"].is_null());
    }
    desk.lobby().join(&packed.id(), "g").unwrap();
    let told = json!({"type": 1, "target": "told", "arguments": ["x"]});
    let expected = write::invocation(Protocol::MessagePack, None, "told", b"\x91\xa1x");
    for (target, arguments, reaches_self) in [
        ("tell_group", json!(["g", "x"]), false),
        ("tell_user", json!(["b", "x"]), false),
        ("tell_all", json!(["x"]), true),
    ] {
        one.invoke("1", target, arguments).await;
        if reaches_self {
            assert_eq!(one.next().await, told);
        }
        assert_eq!(
            one.next().await,
            json!({"type": 3, "invocationId": "1"}),
            "{target}"
        );
        assert_eq!(other.next().await, told, "{target}");
        assert_eq!(packed.bytes().await, expected, "{target}");
    }
    assert_eq!(desk.lobby().groups_of(&one.id()), ["g"]);
    one.client.socket_lost(0, None);
    assert!(desk.lobby().has_user("b") && !desk.lobby().has_user("a"));
    let long = "g".repeat(limits::GROUP_NAME + 1);
    let refused = desk.lobby().join(&other.id(), &long).unwrap_err();
    assert_eq!(refused.code().0, "STF-5308");
    assert_eq!(
        desk.lobby().join("absent", "g").unwrap_err().code().0,
        "STF-5302"
    );
    assert_eq!(
        desk.realtime.connections("none").err().unwrap().code().0,
        "STF-5301"
    );
}

#[tokio::test]
async fn binary_values_survive_messagepack() {
    let desk = desk();
    let mut talker = desk.connect("a", Protocol::MessagePack).await;
    let all: Vec<u8> = (0..=255).collect();
    let mut arguments = vec![0x91, 0xc5, 1, 0];
    arguments.extend(&all);
    let call = write::invocation(Protocol::MessagePack, Some("1"), "Echo", &arguments);
    talker.raw(&call).await;
    let done = read(Protocol::MessagePack, &talker.bytes().await).unwrap();
    let value = Bytes::copy_from_slice(&arguments[1..]);
    let expected = Message::Completion {
        id: "1".to_owned(),
        outcome: Outcome::Value(value),
    };
    assert_eq!(done, expected);
}

#[tokio::test]
async fn hooks_are_called_once_and_in_order() {
    let desk = desk();
    let mut talker = desk.json("a").await;
    talker.invoke("1", "wait", json!([1])).await;
    talker.client.socket_lost(0, Some("broken"));
    talker.client.leave(None);
    desk.seen.gate.add_permits(1);
    desk.noted("-a broken").await;
    assert_eq!(desk.events(), ["+a", "waited 1", "-a broken"]);
    assert_eq!(desk.lobby().count(), 0);
}

#[tokio::test]
async fn realtime_24_a_reconnect_is_allowed_exactly_where_it_should_be() {
    let desk = desk();
    let no = |message: &Value| message["type"] == 7 && message["allowReconnect"].is_null();
    let yes = |message: &Value| message["type"] == 7 && message["allowReconnect"] == true;
    // The hub ends it, or refuses it.
    let mut talker = desk.json("a").await;
    talker.invoke("1", "go", json!([])).await;
    assert!(no(&talker.next().await));
    assert!(no(&desk.json("unwanted").await.next().await));
    // The client breaks the protocol.
    let mut talker = desk.json("a").await;
    talker.say(json!({"type": "x"})).await;
    assert!(no(&talker.next().await));
    assert_eq!(talker.outgoing().await, ClientOutput::Over);
    let mut talker = desk.json("a").await;
    talker.raw(&vec![b' '; limits::HUB_MESSAGE_BYTES + 1]).await;
    let close = talker.next().await;
    assert!(no(&close), "{close}");
    assert!(
        close["error"]
            .as_str()
            .unwrap()
            .contains("32768B was exceeded")
    );
    // The client says goodbye.
    let mut talker = desk.json("a").await;
    talker.say(json!({"type": 7})).await;
    assert_eq!(talker.outgoing().await, ClientOutput::Over);
    // The node goes away.
    let mut talker = desk.json("a").await;
    talker.invoke("1", "wait", json!([1])).await;
    talker.invoke("2", "wait", json!([2])).await;
    let realtime = desk.realtime.clone();
    let draining = tokio::spawn(async move {
        // Clients of this test that were closed have no transport that would end them.
        let limit = std::time::Duration::from_secs(1);
        realtime.drain(limit).await
    });
    assert!(yes(&talker.next().await));
    assert_eq!(talker.outgoing().await, ClientOutput::Over);
    talker.client.socket_lost(0, None);
    let gone = draining.await.unwrap();
    assert_eq!((gone.closed, gone.unanswered), (1, 2));
}

#[tokio::test]
async fn a_client_that_does_not_read_is_closed_and_holds_up_nobody() {
    let desk = desk();
    let slow = desk.json("slow").await;
    let mut quick = desk.json("quick").await;
    let clients = desk.realtime.clients("room").unwrap();
    let text = "x".repeat(100_000);
    for _ in 0..50 {
        clients.all().send("told", &(&text,)).await.unwrap();
        assert_eq!(quick.next().await["arguments"][0], text);
    }
    assert!(slow.client.is_ending());
    let waiting = slow.client.waiting_bytes();
    assert!(waiting <= limits::CLIENT_OUT_BYTES + 200_000, "{waiting}");
    let mut last = Bytes::new();
    let mut slow = slow;
    while let ClientOutput::Data(bytes) = slow.outgoing().await {
        last = bytes;
    }
    assert!(last.ends_with(b"\"allowReconnect\":true}\x1e"));
}

#[tokio::test(start_paused = true)]
async fn realtime_22_idle_clients_are_pinged_and_silent_ones_are_closed() {
    let desk = desk();
    let mut talker = desk.json("a").await;
    let began = tokio::time::Instant::now();
    assert_eq!(talker.message().await, json!({"type": 6}));
    assert_eq!(began.elapsed(), limits::CLIENT_PING);
    talker.say(json!({"type": 6})).await;
    assert_eq!(talker.message().await, json!({"type": 6}));
    assert_eq!(talker.message().await["type"], 7);
    assert_eq!(
        began.elapsed(),
        limits::CLIENT_PING + limits::CLIENT_SILENCE
    );
    let mut silent = desk.open("b", &ClientOptions::default());
    let refused = "{\"error\":\"Handshake was canceled.\"}\u{1e}";
    assert_eq!(silent.bytes().await, refused);
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_read_its_last_word_has_gone_after_a_while() {
    let desk = desk();
    let mut talker = desk.json("a").await;
    let watching = tokio::spawn(std::sync::Arc::clone(&talker.client).watch());
    talker.say(json!({"type": 6})).await;
    talker.client.close(Some("go"), false);
    let began = tokio::time::Instant::now();
    tokio::time::sleep(limits::CLIENT_SILENCE / 2).await;
    talker.client.note_activity();
    talker.client.gone().await;
    assert!(began.elapsed() <= 3 * limits::CLIENT_SILENCE);
    watching.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_connection_ends_with_its_token_if_that_is_asked_for() {
    let desk = desk();
    let wishes = ClientOptions {
        expires: Some(std::time::Duration::from_secs(5)),
        ..ClientOptions::default()
    };
    let mut talker = desk.open("a", &wishes);
    talker.greet(Protocol::Json).await;
    let close = talker.next().await;
    assert_eq!(
        (&close["type"], &close["allowReconnect"]),
        (&json!(7), &json!(true))
    );
}

#[tokio::test]
async fn realtime_16_what_is_sent_ends_with_a_whole_message() {
    let desk = Desk::new(HubOptions {
        message_bytes: 20 << 20,
        ..HubOptions::default()
    });
    let mut talker = desk.json("a").await;
    let clients = desk.realtime.clients("room").unwrap();
    for size in [1, 60_000, 10 << 20, 70_000, 3] {
        // The queue is full after the large one; reading makes room.
        if size == 70_000 {
            assert!(talker.bytes().await.ends_with(b"\x1e"));
            assert!(talker.bytes().await.ends_with(b"\x1e"));
        }
        let text = "y".repeat(size);
        clients.all().send("told", &(&text,)).await.unwrap();
    }
    let mut messages = 0;
    while messages < 2 {
        let bytes = talker.bytes().await;
        assert_eq!(bytes.last(), Some(&frame::SEPARATOR));
        messages += bytes
            .iter()
            .filter(|byte| **byte == frame::SEPARATOR)
            .count();
    }
}
