//! Hub messages: golden bytes, and what clients send.

use bytes::Bytes;
use proptest::prelude::*;
use steadfast_wire::signalr::frame::{look, read};
use steadfast_wire::signalr::message::{Invocation, Message, Outcome};
use steadfast_wire::signalr::{Protocol, frame, pack, write};

const JSON: Protocol = Protocol::Json;
const PACK: Protocol = Protocol::MessagePack;

fn record(text: &str) -> Bytes {
    Bytes::from(format!("{text}\u{1e}"))
}

fn bytes(hex: &str) -> Bytes {
    let digits: Vec<u8> = hex.bytes().filter(|byte| *byte != b' ').collect();
    let pairs = digits.chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(byte).collect::<Vec<_>>().into()
}

fn call(arguments: &[&[u8]]) -> Invocation {
    Invocation {
        id: Some("1".to_owned()),
        target: "Add".to_owned(),
        arguments: arguments
            .iter()
            .map(|raw| Bytes::copy_from_slice(raw))
            .collect(),
        streams: Vec::new(),
        is_stream: false,
    }
}

#[test]
fn realtime_18_json_has_no_field_that_the_protocol_does_not_name() {
    let value = Outcome::Value(Bytes::from_static(b"null"));
    let error = Outcome::Error("no".to_owned());
    let cases = [
        (
            write::invocation(JSON, None, "say \"x\"", b"[1,\"a\"]"),
            r#"{"type":1,"target":"say \"x\"","arguments":[1,"a"]}"#,
        ),
        (
            write::invocation(JSON, Some("7"), "ask", b"[]"),
            r#"{"type":1,"invocationId":"7","target":"ask","arguments":[]}"#,
        ),
        (
            write::item(JSON, "2", b"5"),
            r#"{"type":2,"invocationId":"2","item":5}"#,
        ),
        (
            write::completion(JSON, "2", &Outcome::Void),
            r#"{"type":3,"invocationId":"2"}"#,
        ),
        (
            write::completion(JSON, "2", &value),
            r#"{"type":3,"invocationId":"2","result":null}"#,
        ),
        (
            write::completion(JSON, "2", &error),
            r#"{"type":3,"invocationId":"2","error":"no"}"#,
        ),
        (write::ping(JSON), r#"{"type":6}"#),
        (write::close(JSON, None, false), r#"{"type":7}"#),
        (
            write::close(JSON, Some("gone"), true),
            r#"{"type":7,"error":"gone","allowReconnect":true}"#,
        ),
        (write::ack(JSON, 12), r#"{"type":8,"sequenceId":12}"#),
        (write::sequence(JSON, 13), r#"{"type":9,"sequenceId":13}"#),
    ];
    for (written, expected) in cases {
        assert_eq!(written, record(expected));
    }
}

#[test]
fn messagepack_is_written_as_the_specification_shows() {
    let value = Outcome::Value(Bytes::from_static(&[0x2a]));
    let error = Outcome::Error("Error".to_owned());
    let cases = [
        (write::ping(PACK), "02 91 06"),
        // An invocation has six elements: the streams are there, though empty.
        (
            write::invocation(PACK, Some("xyz"), "method", &[0x91, 0x2a]),
            "11 96 01 80 a3 78797a a6 6d6574686f64 91 2a 90",
        ),
        (
            write::invocation(PACK, None, "method", &[0x91, 0x2a]),
            "0e 96 01 80 c0 a6 6d6574686f64 91 2a 90",
        ),
        (
            write::item(PACK, "xyz", &[0x2a]),
            "08 94 02 80 a3 78797a 2a",
        ),
        (
            write::completion(PACK, "xyz", &error),
            "0e 95 03 80 a3 78797a 01 a5 4572726f72",
        ),
        (
            write::completion(PACK, "xyz", &Outcome::Void),
            "08 94 03 80 a3 78797a 02",
        ),
        (
            write::completion(PACK, "xyz", &value),
            "09 95 03 80 a3 78797a 03 2a",
        ),
        (write::cancel(PACK, "xyz"), "07 93 05 80 a3 78797a"),
        (
            write::close(PACK, Some("xyz"), true),
            "07 93 07 a3 78797a c3",
        ),
        (write::close(PACK, None, false), "04 93 07 c0 c2"),
        (write::ack(PACK, 300), "05 92 08 cd 012c"),
    ];
    for (written, expected) in cases {
        assert_eq!(written, bytes(expected), "{expected}");
    }
}

#[test]
fn realtime_17_invocations_are_read_with_five_and_with_six_elements() {
    let five = bytes("10 95 01 80 a3 78797a a6 6d6574686f64 91 2a");
    let six = bytes("15 96 01 80 a3 78797a a6 6d6574686f64 91 2a 91 a3 616263");
    for (message, streams) in [(five, vec![]), (six, vec!["abc".to_owned()])] {
        let Message::Invocation(read) = read(PACK, &message).unwrap() else {
            panic!("not an invocation");
        };
        assert_eq!(
            (read.id.as_deref(), read.target.as_str()),
            (Some("xyz"), "method")
        );
        assert_eq!(read.arguments, [Bytes::from_static(&[0x2a])]);
        assert_eq!(read.streams, streams);
    }
    let written = write::invocation(PACK, None, "m", &[0x90]);
    assert_eq!(written[1], 0x96, "six are written");
}

#[test]
fn properties_of_json_come_in_any_order() {
    let text = r#"{"arguments":[40, {"b" : [2]}],"headers":{"a":"b"},"streamIds":["s"],"target":"Add","invocationId":"1","type":4}"#;
    let expected = Message::Invocation(Invocation {
        streams: vec!["s".to_owned()],
        is_stream: true,
        ..call(&[b"40", br#"{"b" : [2]}"#])
    });
    assert_eq!(read(JSON, &record(text)), Ok(expected));
    let nothing = r#"{"type":3,"invocationId":"1"}"#;
    let null = r#"{"type":3,"invocationId":"1","result":null}"#;
    let outcome = |text: &str| match read(JSON, &record(text)).unwrap() {
        Message::Completion { outcome, .. } => outcome,
        other => panic!("{other:?}"),
    };
    assert_eq!(outcome(nothing), Outcome::Void);
    assert_eq!(outcome(null), Outcome::Value(Bytes::from_static(b"null")));
}

#[test]
fn what_is_no_message_is_refused() {
    let texts = [
        "",
        "[]",
        "null",
        r#"{"type":"1"}"#,
        r#"{"type":1,"arguments":[]}"#,
        r#"{"type":2,"invocationId":"1"}"#,
        r#"{"type":3,"invocationId":1}"#,
        r#"{"type":3,"invocationId":"1","result":1,"error":"x"}"#,
        r#"{"type":8}"#,
        r#"{"type":9,"sequenceId":-1}"#,
    ];
    for text in texts {
        assert!(read(JSON, &record(text)).is_err(), "{text}");
    }
    let many = format!(
        r#"{{"type":1,"target":"x","arguments":[{}1]}}"#,
        "1,".repeat(255)
    );
    assert!(read(JSON, &record(&many)).is_err());
    let packed = [
        "01 c0",
        "01 91",
        "02 92 01",
        "05 95 03 80 a1 31",
        "03 92 08 ff",
    ];
    for hex in packed {
        assert!(read(PACK, &bytes(hex)).is_err(), "{hex}");
    }
    for (count, is_read) in [(255, true), (256, false)] {
        // [1, {}, nil, "x", [nil, ..]]
        let mut body = vec![0x95, 1, 0x80, 0xc0, 0xa1, b'x', 0xdc];
        body.extend(u16::to_be_bytes(count));
        body.extend(vec![0xc0; usize::from(count)]);
        let many = frame::counted(&body);
        assert_eq!(read(PACK, &many).is_ok(), is_read, "{count}");
    }
}

#[test]
fn unknown_types_are_no_error() {
    assert_eq!(
        read(JSON, &record(r#"{"type":99,"x":1}"#)),
        Ok(Message::Unknown(99))
    );
    assert_eq!(read(PACK, &bytes("03 92 63 c0")), Ok(Message::Unknown(99)));
}

#[test]
fn a_look_tells_type_and_id() {
    let id = Some("xyz".to_owned());
    let cases = [
        (
            JSON,
            record(r#"{"target":"a","arguments":[{"type":9}],"invocationId":"xyz","type":1}"#),
        ),
        (PACK, bytes("10 95 01 80 a3 78797a a6 6d6574686f64 91 2a")),
    ];
    for (protocol, message) in cases {
        assert_eq!(look(protocol, &message), Ok((1, id.clone())));
    }
    assert_eq!(look(PACK, &bytes("02 91 06")), Ok((6, None)));
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Void),
        ".+".prop_map(Outcome::Error),
        any::<u64>().prop_map(|value| Outcome::Value(Bytes::from(value.to_string()))),
    ]
}

/// The same value in MessagePack.
fn packed(outcome: &Outcome) -> Outcome {
    match outcome {
        Outcome::Value(text) => {
            let number = std::str::from_utf8(text).unwrap().parse().unwrap();
            let mut out = Vec::new();
            pack::uint(&mut out, number);
            Outcome::Value(Bytes::from(out))
        }
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn completions_are_read_as_they_are_written(id in ".{1,20}", outcome in outcomes()) {
        for (protocol, outcome) in [(JSON, outcome.clone()), (PACK, packed(&outcome))] {
            let written = write::completion(protocol, &id, &outcome);
            let expected = Message::Completion { id: id.clone(), outcome };
            prop_assert_eq!(read(protocol, &written), Ok(expected));
        }
    }

    #[test]
    fn calls_are_read_as_they_are_written(id in proptest::option::of(".{1,20}"), target in ".{1,200}") {
        let expected = |arguments: [Bytes; 2]| Message::Invocation(Invocation {
            id: id.clone(),
            target: target.clone(),
            arguments: arguments.to_vec(),
            streams: Vec::new(),
            is_stream: false,
        });
        let json = write::invocation(JSON, id.as_deref(), &target, b"[1,{\"a\":\"b\"}]");
        let values = [Bytes::from_static(b"1"), Bytes::from_static(b"{\"a\":\"b\"}")];
        prop_assert_eq!(read(JSON, &json), Ok(expected(values)));
        let packed = write::invocation(PACK, id.as_deref(), &target, &[0x92, 1, 0x81, 0xa1, b'a', 0xa1, b'b']);
        let values = [Bytes::from_static(&[1]), Bytes::from_static(&[0x81, 0xa1, b'a', 0xa1, b'b'])];
        prop_assert_eq!(read(PACK, &packed), Ok(expected(values)));
    }

    #[test]
    fn a_stream_is_cut_into_the_messages_that_it_was_made_of(
        sizes in proptest::collection::vec(0_usize..400, 1..20),
        chunk in 1_usize..500,
    ) {
        let bodies: Vec<Vec<u8>> = sizes.iter().map(|size| vec![b'a'; *size]).collect();
        for protocol in [JSON, PACK] {
            let mut stream = Vec::new();
            for body in &bodies {
                match protocol {
                    JSON => stream.extend([&body[..], &[frame::SEPARATOR]].concat()),
                    _ => stream.extend(frame::counted(body)),
                }
            }
            let mut splitter = frame::Splitter::default();
            let mut found = Vec::new();
            for piece in stream.chunks(chunk) {
                splitter.push(Bytes::copy_from_slice(piece));
                while let Some(message) = splitter.next(protocol, 1000).unwrap() {
                    found.push(frame::body(protocol, &message).unwrap().to_vec());
                }
            }
            prop_assert_eq!(&found, &bodies);
        }
    }
}
