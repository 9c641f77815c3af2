//! Performatives: full on writing, tolerant on reading.

use bytes::BytesMut;
use steadfast_core::limits;
use steadfast_wire::amqp::condition::{self, AmqpError};
use steadfast_wire::amqp::connection::{Close, Open};
use steadfast_wire::amqp::delivery::{Disposition, Outcome, Transfer};
use steadfast_wire::amqp::frame::{self, Kind, ProtocolHeader};
use steadfast_wire::amqp::link::{self, Attach, Detach, LinkRole};
use steadfast_wire::amqp::performative::{self, Performative};
use steadfast_wire::amqp::sasl;
use steadfast_wire::amqp::scan::EncodedValue;
use steadfast_wire::amqp::session::{Begin, End, Flow};

const PROBLEM: AmqpError<'static> = AmqpError {
    condition: condition::NOT_FOUND,
    description: "gone",
};

fn nine() -> Vec<(Performative<'static>, u32)> {
    vec![
        (
            Performative::Open(Open {
                container: "c",
                host: None,
                max_frame: Some(65536),
                channel_max: Some(4999),
                idle_ms: Some(120_000),
                properties: EncodedValue::NULL,
            }),
            10,
        ),
        (
            Performative::Begin(Begin {
                remote_channel: Some(3),
                next_outgoing: 0,
                incoming_window: 5000,
                outgoing_window: 5000,
                handle_max: Some(255),
            }),
            8,
        ),
        (
            Performative::Attach(Attach {
                name: "link",
                handle: 0,
                role: LinkRole::Receiver,
                snd_settle: Some(1),
                rcv_settle: Some(0),
                source: EncodedValue::NULL,
                target: EncodedValue::NULL,
                initial_count: None,
                max_message: Some(1 << 20),
                offered: EncodedValue::NULL,
                desired: EncodedValue::NULL,
                properties: EncodedValue::NULL,
            }),
            14,
        ),
        (Performative::Flow(Flow::default()), 11),
        (Performative::Transfer(Transfer::default()), 11),
        (
            Performative::Disposition(Disposition {
                role: LinkRole::Receiver,
                first: 4,
                last: Some(9),
                settled: true,
                outcome: Some(Outcome::Accepted),
            }),
            6,
        ),
        (
            Performative::Detach(Detach {
                handle: 1,
                closed: true,
                error: Some(PROBLEM),
            }),
            3,
        ),
        (Performative::End(End { error: None }), 1),
        (
            Performative::Close(Close {
                error: Some(PROBLEM),
            }),
            1,
        ),
    ]
}

/// Descriptor as smallulong, list8 or list32, and the count of fields.
fn arity(bytes: &[u8]) -> u32 {
    assert_eq!(bytes[..2], [0x00, 0x53], "descriptor as smallulong");
    match bytes[3] {
        0xc0 => bytes[5].into(),
        0xd0 => u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]),
        other => panic!("constructor {other:#x}"),
    }
}

#[test]
fn events_02_all_nine_performatives_leave_with_full_arity() {
    for (performative, fields) in nine() {
        let mut bytes = Vec::new();
        performative.write(&mut bytes);
        assert_eq!(arity(&bytes), fields, "{performative:?}");
        let (read, length) = performative::read(&bytes).expect("what we wrote");
        assert_eq!(read, performative);
        assert_eq!(length, bytes.len());
    }
}

#[test]
fn events_02_errors_have_three_fields_and_outcomes_no_list0() {
    let mut bytes = Vec::new();
    Close {
        error: Some(PROBLEM),
    }
    .write(&mut bytes);
    let at = bytes
        .windows(3)
        .position(|three| three == [0x00, 0x53, 0x1d])
        .expect("an error");
    assert_eq!(arity(&bytes[at..]), 3);

    for outcome in [Outcome::Accepted, Outcome::Released] {
        let mut bytes = Vec::new();
        Disposition {
            role: LinkRole::Receiver,
            first: 0,
            last: None,
            settled: true,
            outcome: Some(outcome),
        }
        .write(&mut bytes);
        assert!(!bytes.contains(&0x45), "{bytes:x?}");
    }
}

#[test]
fn events_02_shortened_performatives_and_list0_are_accepted() {
    // end and close as list0, the way two of the clients write them.
    for (bytes, expected) in [
        (
            [0x00, 0x53, 0x17, 0x45],
            Performative::End(End { error: None }),
        ),
        (
            [0x00, 0x53, 0x18, 0x45],
            Performative::Close(Close { error: None }),
        ),
    ] {
        assert_eq!(performative::read(&bytes).expect("accepted").0, expected);
    }
    // begin with four fields, and a descriptor in its long form.
    let begin = [
        0x00, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x11, 0xc0, 0x06, 0x04, 0x40, 0x43, 0x52, 10, 0x43,
    ];
    let Performative::Begin(begin) = performative::read(&begin).expect("accepted").0 else {
        panic!("a begin");
    };
    assert_eq!((begin.incoming_window, begin.handle_max), (10, None));
    // open by its symbol, with one field.
    let mut open = vec![0x00, 0xa3, 14];
    open.extend_from_slice(b"amqp:open:list");
    open.extend_from_slice(&[0xc0, 0x04, 0x01, 0xa1, 0x01, b'x']);
    let Performative::Open(open) = performative::read(&open).expect("accepted").0 else {
        panic!("an open");
    };
    assert_eq!((open.container, open.idle_ms), ("x", None));
}

/// Frames byte by byte: a change here is a change that clients see.
#[test]
fn golden_frames() {
    let mut out = Vec::new();
    frame::put(&mut out, Kind::Amqp, 1, |out| {
        Transfer {
            handle: 2,
            delivery: Some(5),
            tag: Some(&[0, 0, 0, 5]),
            format: Some(0),
            settled: Some(true),
            more: false,
            aborted: false,
        }
        .write(out);
        out.extend_from_slice(b"payload");
    });
    let head = [
        0, 0, 0, 0x27, 2, 0, 0, 1, 0x00, 0x53, 0x14, 0xc0, 0x13, 0x0b, 0x52, 2, 0x52, 5, 0xa0, 4,
        0, 0, 0, 5, 0x43, 0x41, 0x42, 0x40, 0x40, 0x42, 0x42, 0x42,
    ];
    assert_eq!(out, [&head[..], b"payload"].concat());

    let mut out = Vec::new();
    frame::put(&mut out, Kind::Sasl, 0, |out| {
        sasl::write_outcome(out, sasl::OK)
    });
    assert_eq!(
        out,
        [
            0, 0, 0, 0x17, 2, 1, 0, 0, 0x00, 0x53, 0x44, 0xd0, 0, 0, 0, 7, 0, 0, 0, 2, 0x50, 0,
            0x40
        ]
    );
}

#[test]
fn frames_are_taken_one_by_one_and_large_ones_refused_by_their_size() {
    let mut out = Vec::new();
    frame::put(&mut out, Kind::Amqp, 7, |out| {
        End { error: None }.write(out)
    });
    frame::put(&mut out, Kind::Amqp, 0, |_| {});
    let mut buffer = BytesMut::new();
    let mut taken = Vec::new();
    for byte in &out {
        buffer.extend_from_slice(&[*byte]);
        while let Some(frame) = frame::take(&mut buffer).expect("frames") {
            taken.push(frame);
        }
    }
    assert_eq!(taken.len(), 2);
    assert_eq!(taken[0].channel, 7);
    assert!(taken[1].body.is_empty());

    let mut large = BytesMut::from(&[0x7f, 0, 0, 0, 2, 0, 0, 0][..]);
    assert!(frame::take(&mut large).is_err());
    let largest = limits::AMQP_FRAME_BYTES;
    for (size, is_awaited) in [(largest, true), (largest + 1, false), (u32::MAX, false)] {
        let mut head = BytesMut::from(&size.to_be_bytes()[..]);
        let missing = frame::missing(&head);
        assert!(missing <= largest as usize, "{missing} for {size}");
        head.extend_from_slice(&[2, 0, 0, 0]);
        assert_eq!(frame::take(&mut head).is_ok(), is_awaited, "{size}");
    }
    for wrong in [
        [0, 0, 0, 7, 2, 0, 0, 0],
        [0, 0, 0, 8, 1, 0, 0, 0],
        [0, 0, 0, 8, 3, 0, 0, 0],
    ] {
        assert!(frame::take(&mut BytesMut::from(&wrong[..])).is_err());
    }
}

#[test]
fn another_protocol_is_refused_at_its_first_byte() {
    let mut http = BytesMut::from(&b"G"[..]);
    assert!(frame::take_protocol(&mut http).is_err());
    let mut part = BytesMut::from(&b"AMQP"[..]);
    assert_eq!(frame::take_protocol(&mut part), Ok(None));
    part.extend_from_slice(&[3, 1, 0, 0]);
    assert_eq!(
        frame::take_protocol(&mut part),
        Ok(Some(ProtocolHeader::Sasl))
    );
}

#[test]
fn capabilities_and_properties_of_a_link_are_found() {
    let mut bytes = Vec::new();
    let mut desired = Vec::new();
    steadfast_wire::amqp::write::array_of_symbols(&mut desired, ["a:b", "c:d"].into_iter());
    let mut properties = Vec::new();
    steadfast_wire::amqp::write::map(&mut properties, 1, |out| {
        steadfast_wire::amqp::write::symbol(out, "com.microsoft:epoch");
        steadfast_wire::amqp::write::int(out, 7);
    });
    let mut source = Vec::new();
    link::write_source(&mut source, Some("hub"), EncodedValue::NULL);
    Attach {
        name: "n",
        handle: 0,
        role: LinkRole::Receiver,
        snd_settle: None,
        rcv_settle: None,
        source: EncodedValue::new(&source).expect("a source"),
        target: EncodedValue::NULL,
        initial_count: None,
        max_message: None,
        offered: EncodedValue::NULL,
        desired: EncodedValue::new(&desired).expect("an array"),
        properties: EncodedValue::new(&properties).expect("a map"),
    }
    .write(&mut bytes);
    let Performative::Attach(attach) = performative::read(&bytes).expect("an attach").0 else {
        panic!("an attach");
    };
    assert!(attach.desires("c:d") && !attach.desires("e"));
    let epoch = attach.property("com.microsoft:epoch").expect("a map");
    assert_eq!(epoch.and_then(|value| value.as_i64()), Some(7));
    assert_eq!(link::address(attach.source), Ok(Some("hub")));
    assert_eq!(link::address(attach.target), Ok(None));
}

#[test]
fn plain_needs_exactly_three_parts() {
    assert_eq!(sasl::plain(b"\0user\0word"), Some(("user", "word")));
    assert_eq!(sasl::plain(b"id\0user\0word"), Some(("user", "word")));
    assert_eq!(sasl::plain(b"user\0word"), None);
    assert_eq!(sasl::plain(b"\0a\0b\0c"), None);
}
