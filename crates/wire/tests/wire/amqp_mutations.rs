//! Mutated frames and messages: no panic, no great allocation.
//!
//! Seeds are what clients really sent (`tests/corpus/amqp`), and what we write.

use bytes::BytesMut;
use steadfast_wire::amqp::delivery::{FORMAT_BATCH, FORMAT_EVENT};
use steadfast_wire::amqp::event::{self, BatchMessages, StoredMessage, SystemProperties};
use steadfast_wire::amqp::performative::{self, Performative};
use steadfast_wire::amqp::request::Request;
use steadfast_wire::amqp::{frame, link, sasl, selector};

use crate::mutated::{corpus, survive};

/// Memory that a target may use, and per byte of its input.
const BOUND: (u64, u64) = (4096, 4);

/// The messages in what clients sent.
fn messages() -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    for stream in corpus("amqp") {
        let mut buffer = BytesMut::from(&stream[..]);
        while buffer.starts_with(b"AMQP") {
            frame::take_protocol(&mut buffer).expect("a header");
            // SASL is over when the next header comes.
            while !buffer.starts_with(b"AMQP") {
                let Some(frame) = frame::take(&mut buffer).expect("a frame") else {
                    break;
                };
                if let Ok((Performative::Transfer(_), length)) = performative::read(&frame.body) {
                    messages.push(frame.body[length..].to_vec());
                }
            }
        }
    }
    assert!(messages.len() > 10, "only {} messages", messages.len());
    messages
}

fn texts() -> Vec<Vec<u8>> {
    let texts = [
        "amqp.annotation.x-opt-sequence-number >= '12345'",
        "amqps://localhost:5671/houses/ConsumerGroups/$Default/Partitions/15",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// A connection's bytes: headers, frames, and everything inside them.
fn stream(bytes: &[u8]) {
    let mut buffer = BytesMut::from(bytes);
    while buffer.starts_with(b"AMQP") && matches!(frame::take_protocol(&mut buffer), Ok(Some(_))) {}
    while let Ok(Some(frame)) = frame::take(&mut buffer) {
        let _ = sasl::read_init(&frame.body).map(|init| sasl::plain(init.response).is_some());
        let _ = sasl::read_outcome(&frame.body);
        let Ok((performative, length)) = performative::read(&frame.body) else {
            continue;
        };
        match performative {
            Performative::Attach(attach) => look(&attach),
            Performative::Transfer(_) => message(&frame.body[length..]),
            _ => {}
        }
    }
}

fn look(attach: &link::Attach<'_>) {
    let _ = attach.desires("com.microsoft:georeplication");
    let _ = attach.property("com.microsoft:epoch");
    let _ = link::address(attach.target);
    let _ = link::address(attach.source);
    let _ = link::filter(attach.source).and_then(selector::start);
}

fn message(bytes: &[u8]) {
    let _ = Request::read(bytes).is_ok();
    for format in [FORMAT_EVENT, FORMAT_BATCH] {
        let Ok(mut messages) = BatchMessages::open(bytes, format) else {
            continue;
        };
        let key = messages.notes().key;
        while let Ok(Some(message)) = messages.next() {
            store_and_deliver(message, key);
        }
    }
}

/// Whatever is accepted can be delivered, and is a message again.
fn store_and_deliver(message: &[u8], key: Option<&str>) {
    let Ok((stored, _)) = event::store(message, key) else {
        return;
    };
    let stored = match stored {
        StoredMessage::Range(range) => message[range].to_vec(),
        StoredMessage::Rewritten(bytes) => bytes,
    };
    let stamp = SystemProperties {
        sequence: 1,
        offset: 2,
        enqueued_ms: 3,
    };
    let mut delivered = Vec::with_capacity(stored.len() + event::STAMP_BYTES);
    event::deliver(&mut delivered, &stored, &stamp, None).expect("stored events can be delivered");
    assert_eq!(event::read_stamp(&delivered), Ok(Some(stamp)));
    event::store(&delivered, None).expect("delivered events are messages");
}

#[test]
fn mutated_connections_are_survived() {
    survive(&corpus("amqp"), BOUND, stream);
}

#[test]
fn mutated_messages_are_survived() {
    survive(&messages(), BOUND, message);
}

#[test]
fn mutated_texts_are_survived() {
    survive(&texts(), BOUND, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = selector::parse(&text);
        let _ = steadfast_wire::amqp::address::parse(&text);
    });
}
