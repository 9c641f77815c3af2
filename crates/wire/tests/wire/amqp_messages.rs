//! Messages: stored, delivered, refused.

use steadfast_wire::amqp::address::{self, NodeAddress};
use steadfast_wire::amqp::code::descriptor;
use steadfast_wire::amqp::delivery::{FORMAT_BATCH, FORMAT_EVENT};
use steadfast_wire::amqp::event::{
    self, BatchMessages, LastEnqueuedProperties, StoredMessage, SystemProperties,
};
use steadfast_wire::amqp::message::{MessageSections, SectionKind};
use steadfast_wire::amqp::request::{self, Request, ResponseStatus};
use steadfast_wire::amqp::scan::EncodedValue;
use steadfast_wire::amqp::selector::{self, SelectorStart};
use steadfast_wire::amqp::value::AmqpValue;
use steadfast_wire::amqp::write;

const STAMP: SystemProperties = SystemProperties {
    sequence: 41,
    offset: 123_456,
    enqueued_ms: 1_700_000_000_000,
};

fn annotations(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    write::descriptor(&mut out, descriptor::MESSAGE_ANNOTATIONS);
    write::map(&mut out, pairs.len() as u32, |out| {
        for (key, value) in pairs {
            write::symbol(out, key);
            write::string(out, value);
        }
    });
    out
}

fn header() -> Vec<u8> {
    let mut out = Vec::new();
    write::descriptor(&mut out, descriptor::HEADER);
    write::list(&mut out, 1, |out| write::boolean(out, true));
    out
}

fn rest(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write::descriptor(&mut out, descriptor::APPLICATION_PROPERTIES);
    write::map(&mut out, 1, |out| {
        write::string(out, "n");
        write::double(out, 1.5f64.to_bits());
    });
    data(&mut out, body);
    out
}

fn data(out: &mut Vec<u8>, body: &[u8]) {
    write::descriptor(out, descriptor::DATA);
    write::binary(out, body);
}

fn stored(message: &[u8], key: Option<&str>) -> Vec<u8> {
    match event::store(message, key).expect("a message").0 {
        StoredMessage::Range(range) => message[range].to_vec(),
        StoredMessage::Rewritten(bytes) => bytes,
    }
}

/// What a reader gets of a message that was sent.
fn delivered(message: &[u8], tail: Option<&LastEnqueuedProperties>) -> Vec<u8> {
    let stored = stored(message, None);
    let mut delivered = Vec::new();
    event::deliver(&mut delivered, &stored, &STAMP, tail).expect("a stored event");
    assert!(delivered.len() <= stored.len() + event::STAMP_BYTES);
    assert_eq!(event::read_stamp(&delivered), Ok(Some(STAMP)));
    delivered
}

/// The sections of a message, each with its bytes.
fn sections(message: &[u8]) -> Vec<(SectionKind, Vec<u8>)> {
    let mut all = Vec::new();
    let mut sections = MessageSections::new(message);
    while let Some(section) = sections.next().expect("a message") {
        all.push((section.part, message[section.start..section.end].to_vec()));
    }
    all
}

fn map_section(number: u64, key: &str, value: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write::descriptor(&mut out, number);
    write::map(&mut out, 1, |out| {
        write::symbol(out, key);
        write::string(out, value);
    });
    out
}

#[test]
fn every_section_is_kept_byte_for_byte() {
    let delivery = map_section(descriptor::DELIVERY_ANNOTATIONS, "hop", "1");
    let footer = map_section(descriptor::FOOTER, "sum", "2");
    let rest = [rest(b"body"), footer].concat();
    let front = [header(), delivery].concat();
    let message = [front.clone(), annotations(&[("mine", "1")]), rest.clone()].concat();
    let (kept, notes) = event::store(&message, None).expect("a message");
    assert_eq!(kept, StoredMessage::Range(0..message.len()));
    assert_eq!(notes.key, None);
    let delivered = delivered(&message, None);
    assert!(delivered.starts_with(&front));
    assert!(delivered.ends_with(&rest));
}

#[test]
fn sections_in_the_order_of_a_client_come_back_in_that_of_the_standard() {
    let delivery = map_section(descriptor::DELIVERY_ANNOTATIONS, "hop", "1");
    let footer = map_section(descriptor::FOOTER, "sum", "2");
    let standard = [header(), delivery.clone(), rest(b"body"), footer.clone()].concat();
    // rhea writes the footer in front of the body, pyamqp the delivery annotations last.
    let body_last = [header(), delivery.clone(), footer.clone(), rest(b"body")].concat();
    let delivery_last = [header(), rest(b"body"), footer, delivery].concat();
    for message in [body_last, delivery_last] {
        assert_eq!(delivered(&message, None), delivered(&standard, None));
    }
    assert_eq!(sections(&delivered(&standard, None)).len(), 6);
}

#[test]
fn a_header_loses_what_describes_one_hop_and_an_empty_one_is_left_out() {
    let mut hop = Vec::new();
    write::descriptor(&mut hop, descriptor::HEADER);
    write::list(&mut hop, 5, |out| {
        write::boolean(out, true);
        write::ubyte(out, 7);
        write::uint(out, 60_000);
        write::boolean(out, true);
        write::uint(out, 3);
    });
    let mut lasting = Vec::new();
    write::descriptor(&mut lasting, descriptor::HEADER);
    write::list(&mut lasting, 3, |out| {
        write::boolean(out, true);
        write::ubyte(out, 7);
        write::uint(out, 60_000);
    });
    let got = delivered(&[hop, rest(b"x")].concat(), None);
    assert_eq!(sections(&got)[0], (SectionKind::Header, lasting));
    let empty = [0x00, 0x53, 0x70, 0x45];
    let got = delivered(&[&empty[..], &rest(b"x")].concat(), None);
    assert_eq!(sections(&got)[0].0, SectionKind::MessageAnnotations);
}

#[test]
fn delivery_annotations_of_the_sender_stand_beside_the_end_of_the_partition() {
    let delivery = map_section(descriptor::DELIVERY_ANNOTATIONS, "hop", "1");
    let tail = LastEnqueuedProperties {
        last: STAMP,
        retrieved_ms: 5,
    };
    let got = delivered(&[delivery, rest(b"x")].concat(), Some(&tail));
    let section = MessageSections::new(&got)
        .next()
        .expect("a section")
        .expect("one");
    let map = section.map().expect("a map");
    assert_eq!(map.find("hop"), Ok(Some(AmqpValue::String("1"))));
    let last = map.find("last_enqueued_offset");
    assert_eq!(last, Ok(Some(AmqpValue::String("123456"))));
    // A sender does not speak for the partition.
    let forged = map_section(
        descriptor::DELIVERY_ANNOTATIONS,
        "last_enqueued_offset",
        "1",
    );
    let got = delivered(&[forged, rest(b"x")].concat(), Some(&tail));
    let section = MessageSections::new(&got)
        .next()
        .expect("a section")
        .expect("one");
    assert_eq!(section.map().expect("a map").count(), 8);
}

#[test]
fn bodies_of_every_kind_are_kept() {
    // Values described by an integer, by a text, by a described value; null as a value
    // and as data; no body at all.
    let bodies: [&[u8]; 7] = [
        &[0x00, 0x53, 0x77, 0x00, 0x54, 0x05, 0x54, 0x01],
        &[0x00, 0x53, 0x77, 0x00, 0x71, 0, 0, 1, 0, 0xa1, 1, b'x'],
        &[0x00, 0x53, 0x77, 0x00, 0xa1, 1, b'd', 0x40],
        &[0x00, 0x53, 0x77, 0x00, 0x00, 0x54, 1, 0x54, 2, 0x41],
        &[0x00, 0x53, 0x77, 0x40],
        &[0x00, 0x53, 0x75, 0x40],
        &[],
    ];
    for body in bodies {
        let message = [&annotations(&[("mine", "1")]), body].concat();
        assert!(delivered(&message, None).ends_with(body), "{body:02x?}");
        let alone = delivered(body, None);
        assert!(alone.ends_with(body), "{body:02x?}");
    }
    let mut single = BatchMessages::open(b"", FORMAT_EVENT).expect("a message without a body");
    assert_eq!(single.next(), Ok(Some(&b""[..])));
}

#[test]
fn annotations_of_ours_are_replaced_and_those_of_the_sender_kept() {
    let forged = annotations(&[
        ("x-opt-offset", "9"),
        ("mine", "1"),
        ("x-opt-partition-key", "a"),
    ]);
    let message = [forged, rest(b"x")].concat();
    let mut delivered = Vec::new();
    event::deliver(&mut delivered, &stored(&message, Some("b")), &STAMP, None).expect("an event");
    let section = MessageSections::new(&delivered)
        .next()
        .expect("a section")
        .expect("one");
    let map = section.map().expect("a map");
    assert_eq!(map.count(), 10);
    for (name, value) in [
        ("x-opt-offset", "123456"),
        ("mine", "1"),
        ("x-opt-partition-key", "b"),
    ] {
        assert_eq!(
            map.find(name).expect("a map"),
            Some(AmqpValue::String(value))
        );
    }
}

#[test]
fn each_annotation_of_ours_is_taken_from_a_sender() {
    for name in [
        "x-opt-sequence-number",
        "x-opt-offset",
        "x-opt-enqueued-time",
    ] {
        let forged = annotations(&[(name, "9"), ("mine", "1")]);
        let message = [forged, rest(b"x")].concat();
        let mut delivered = Vec::new();
        event::deliver(&mut delivered, &stored(&message, None), &STAMP, None).expect("an event");
        let section = MessageSections::new(&delivered)
            .next()
            .expect("a section")
            .expect("one");
        assert_eq!(section.map().expect("a map").count(), 8, "{name}");
        assert_eq!(event::read_stamp(&delivered), Ok(Some(STAMP)), "{name}");
    }
}

#[test]
fn the_key_of_a_batch_replaces_that_of_its_events() {
    let own = annotations(&[("x-opt-partition-key", "a")]);
    let kept = stored(&[own, rest(b"x")].concat(), Some("b"));
    let section = MessageSections::new(&kept)
        .next()
        .expect("a section")
        .expect("one");
    let map = section.map().expect("a map");
    assert_eq!(map.count(), 2);
    let key = map.find("x-opt-partition-key");
    assert_eq!(key, Ok(Some(AmqpValue::String("b"))));
}

#[test]
fn the_key_of_a_batch_is_given_to_events_without_one() {
    let message = rest(b"x");
    let kept = stored(&message, Some("house-42"));
    assert!(kept.ends_with(&message));
    let section = MessageSections::new(&kept)
        .next()
        .expect("a section")
        .expect("one");
    let key = section.map().expect("a map").find("x-opt-partition-key");
    assert_eq!(key, Ok(Some(AmqpValue::String("house-42"))));
}

#[test]
fn readers_that_ask_learn_of_the_end_of_the_partition() {
    let tail = LastEnqueuedProperties {
        last: STAMP,
        retrieved_ms: 5,
    };
    let mut delivered = Vec::new();
    event::deliver(&mut delivered, &rest(b"x"), &STAMP, Some(&tail)).expect("an event");
    let section = MessageSections::new(&delivered)
        .next()
        .expect("a section")
        .expect("one");
    assert_eq!(section.part, SectionKind::DeliveryAnnotations);
    let last = section.map().expect("a map").find("last_enqueued_offset");
    assert_eq!(last, Ok(Some(AmqpValue::String("123456"))));
    assert_eq!(event::read_stamp(&delivered), Ok(Some(STAMP)));
}

#[test]
fn events_12_a_single_event_and_a_batch_of_one_are_stored_alike() {
    let inner = rest(b"same");
    let mut batch = Vec::new();
    data(&mut batch, &inner);
    let mut single = BatchMessages::open(&inner, FORMAT_EVENT).expect("an event");
    let mut batched = BatchMessages::open(&batch, FORMAT_BATCH).expect("a batch");
    let (one, other) = (single.next(), batched.next());
    assert_eq!(one, other);
    assert_eq!(single.next(), Ok(None));
    assert_eq!(batched.next(), Ok(None));
}

#[test]
fn a_batch_is_split_with_its_key_behind_empty_sections() {
    // As one of the clients writes it: empty header, properties and annotations.
    let mut batch = header();
    batch.extend_from_slice(&annotations(&[("x-opt-partition-key", "k")]));
    write::descriptor(&mut batch, descriptor::PROPERTIES);
    batch.push(0x45);
    for body in [b"one", b"two"] {
        data(&mut batch, &rest(body));
    }
    let mut messages = BatchMessages::open(&batch, FORMAT_BATCH).expect("a batch");
    assert_eq!(messages.notes().key, Some("k"));
    assert_eq!(messages.next(), Ok(Some(&rest(b"one")[..])));
    assert_eq!(messages.next(), Ok(Some(&rest(b"two")[..])));
    assert_eq!(messages.next(), Ok(None));
}

#[test]
fn malformed_messages_are_refused() {
    let twice = [annotations(&[]), rest(b"x"), annotations(&[])].concat();
    let mut mixed = rest(b"x");
    mixed.extend_from_slice(&[0x00, 0x53, 0x77, 0x40]);
    let mut number = Vec::new();
    write::descriptor(&mut number, descriptor::APPLICATION_PROPERTIES);
    write::int(&mut number, 7);
    // Application properties: a text that is cut short, half a pair, a byte too many.
    let broken = [0x00, 0x53, 0x74, 0xc1, 0x03, 0x02, 0xa1, 0xff];
    let half = [0x00, 0x53, 0x74, 0xc1, 0x02, 0x01, 0x40];
    let behind = [0x00, 0x53, 0x74, 0xc1, 0x04, 0x02, 0x40, 0x40, 0x40];
    let others: [&[u8]; 5] = [&broken, &half, &behind, b"not amqp", &[0x00]];
    for message in [&twice[..], &mixed, &number].into_iter().chain(others) {
        assert!(event::store(message, None).is_err(), "{message:02x?}");
    }
    assert!(BatchMessages::open(&rest(b"x"), 77).is_err());
    let mut value = Vec::new();
    write::descriptor(&mut value, descriptor::VALUE);
    write::string(&mut value, "x");
    let mut messages = BatchMessages::open(&value, FORMAT_BATCH).expect("sections");
    assert!(messages.next().is_err());
}

#[test]
fn events_21_selectors_are_read_with_and_without_blanks() {
    let cases = [
        (
            "amqp.annotation.x-opt-offset > '-1'",
            SelectorStart::Beginning,
        ),
        (
            "amqp.annotation.x-opt-offset > '@latest'",
            SelectorStart::Latest,
        ),
        (
            "amqp.annotation.x-opt-offset>'12345'",
            SelectorStart::Offset {
                offset: 12345,
                inclusive: false,
            },
        ),
        (
            "amqp.annotation.x-opt-offset >= '7'",
            SelectorStart::Offset {
                offset: 7,
                inclusive: true,
            },
        ),
        (
            "amqp.annotation.x-opt-sequence-number >='3'",
            SelectorStart::Sequence {
                sequence: 3,
                inclusive: true,
            },
        ),
        (
            "amqp.annotation.x-opt-enqueued-time > '1700000000000'",
            SelectorStart::Enqueued {
                ms: 1_700_000_000_000,
                inclusive: false,
            },
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(selector::parse(text), Ok(expected), "{text}");
    }
    for text in [
        "",
        "amqp.annotation.x-opt-offset = '1'",
        "amqp.annotation.x-opt-offset > 'x'",
        "amqp.annotation.x-opt-offset > '1",
        "amqp.annotation.x-opt-colour > '1'",
    ] {
        assert!(selector::parse(text).is_err(), "{text}");
    }
}

#[test]
fn filters_are_found_by_symbol_and_by_number() {
    for number in [None, Some(descriptor::SELECTOR)] {
        let mut out = Vec::new();
        write::map(&mut out, 1, |out| {
            write::symbol(out, selector::NAME);
            match number {
                Some(number) => write::descriptor(out, number),
                None => {
                    out.push(0x00);
                    write::symbol(out, selector::NAME);
                }
            }
            write::string(out, "amqp.annotation.x-opt-sequence-number > '5'");
        });
        let Ok(AmqpValue::Map(filter)) = EncodedValue::new(&out).and_then(EncodedValue::value)
        else {
            panic!("a map");
        };
        let expected = SelectorStart::Sequence {
            sequence: 5,
            inclusive: false,
        };
        assert_eq!(selector::start(filter), Ok(expected));
    }
}

#[test]
fn addresses_of_every_client_are_read() {
    let reader = NodeAddress::Reader {
        hub: "Hub",
        group: "$Default",
        partition: "3",
    };
    let cases = [
        ("$cbs", Some(NodeAddress::Cbs)),
        ("$management", Some(NodeAddress::Management)),
        ("hub/$management", Some(NodeAddress::Management)),
        ("amqps://localhost/hub", Some(NodeAddress::Hub("hub"))),
        ("sb://a:5672/hub/", Some(NodeAddress::Hub("hub"))),
        (
            "hub/Partitions/0",
            Some(NodeAddress::Partition {
                hub: "hub",
                partition: "0",
            }),
        ),
        (
            "/hub/publishers/p-1",
            Some(NodeAddress::Publisher {
                hub: "hub",
                name: "p-1",
            }),
        ),
        (
            "amqps://h/Hub/ConsumerGroups/$Default/Partitions/3",
            Some(reader),
        ),
        ("Hub/consumergroups/$Default/partitions/3", Some(reader)),
        ("amqps://h/", None),
        ("", None),
        ("hub//0", None),
        ("hub/partitions//", None),
        ("/hub/publishers//", None),
        ("a/b/c/d/e/f/g/h", None),
    ];
    for (text, expected) in cases {
        assert_eq!(address::parse(text), expected, "{text}");
    }
    assert_eq!(address::number("12"), 12);
    for text in ["", "+1", "-1", " 1", "1x", "4294967296"] {
        assert_eq!(address::number(text), u32::MAX, "{text}");
    }
}

#[test]
fn events_08_a_reply_repeats_the_id_with_its_type() {
    let mut ids: Vec<Vec<u8>> = vec![Vec::new(), Vec::new(), Vec::new()];
    write::uuid(&mut ids[0], &[7; 16]);
    write::string(&mut ids[1], "id");
    write::ulong(&mut ids[2], 1_000_000);
    for id in ids {
        let mut request = Vec::new();
        write::descriptor(&mut request, descriptor::PROPERTIES);
        write::list(&mut request, 5, |out| {
            out.extend_from_slice(&id);
            (0..3).for_each(|_| write::null(out));
            write::string(out, "back");
        });
        write::descriptor(&mut request, descriptor::APPLICATION_PROPERTIES);
        write::map(&mut request, 2, |out| {
            write::string(out, "operation");
            write::binary(out, b"put-token");
            write::string(out, "name");
            write::string(out, "sb://h/hub");
        });
        write::descriptor(&mut request, descriptor::VALUE);
        write::string(&mut request, "the token");
        let request = Request::read(&request).expect("a request");
        assert_eq!(request.id.bytes(), id);
        assert_eq!(request.reply_to, Some("back"));
        assert_eq!(request.operation, Some("put-token"));
        assert_eq!(request.body, Some("the token"));

        let mut reply = Vec::new();
        let status = ResponseStatus {
            code: 404,
            description: "none",
            condition: Some("amqp:not-found"),
        };
        request::write_reply(&mut reply, request.id, &status, write::null);
        let mut sections = MessageSections::new(&reply);
        let properties = sections.next().expect("a section").expect("one");
        let mut fields = properties.list().expect("a list");
        assert_eq!(fields.count(), 13);
        (0..5).for_each(|_| assert!(fields.next_raw().is_ok()));
        assert_eq!(fields.next_raw().expect("an id").bytes(), id);
        let wishes = sections.next().expect("a section").expect("one").map();
        assert_eq!(
            wishes.expect("a map").find("status-code"),
            Ok(Some(AmqpValue::Int(404)))
        );
    }
}
