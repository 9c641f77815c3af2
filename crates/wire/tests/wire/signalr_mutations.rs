//! Mutated hub messages: no panic, no great allocation.
//!
//! Seeds are messages as clients write them, and as we do.

use bytes::Bytes;
use steadfast_wire::signalr::frame::{self, Splitter};
use steadfast_wire::signalr::handshake::HandshakeRequest;
use steadfast_wire::signalr::message::Outcome;
use steadfast_wire::signalr::{Protocol, write};

use crate::mutated::survive;

/// Memory that a target may use, and per byte of its input.
const BOUND: (u64, u64) = (32 * 1024, 8);

/// One of every kind, in a row.
fn seeds(protocol: Protocol, arguments: &[u8], value: &'static [u8]) -> Vec<Vec<u8>> {
    let error = Outcome::Error("it \"failed\"".to_owned());
    let all = [
        write::invocation(protocol, Some("17"), "Send", arguments),
        write::item(protocol, "17", value),
        write::completion(protocol, "17", &Outcome::Value(Bytes::from_static(value))),
        write::completion(protocol, "17", &error),
        write::cancel(protocol, "17"),
        write::ping(protocol),
        write::close(protocol, Some("bye"), true),
        write::ack(protocol, 70_000),
        write::sequence(protocol, 3),
    ];
    let mut seeds: Vec<_> = all.iter().map(|message| message.to_vec()).collect();
    seeds.push(seeds.concat());
    seeds
}

fn stream(protocol: Protocol, bytes: &[u8]) {
    let mut splitter = Splitter::default();
    for piece in bytes.chunks(50) {
        splitter.push(Bytes::copy_from_slice(piece));
        while let Ok(Some(message)) = splitter.next(protocol, 4096) {
            let known = frame::read(protocol, &message);
            let looked = frame::look(protocol, &message);
            // Whatever is read has a type that a look finds as well.
            assert!(known.is_err() || looked.is_ok());
        }
    }
}

#[test]
fn mutated_json_is_survived() {
    let arguments = br#"[1,"two",{"three":[4,null]}]"#;
    let seeds = seeds(Protocol::Json, arguments, b"{\"a\":[1]}");
    survive(&seeds, BOUND, |bytes| {
        stream(Protocol::Json, bytes);
    });
}

#[test]
fn mutated_messagepack_is_survived() {
    let arguments = [
        0x93, 1, 0xa3, b't', b'w', b'o', 0x81, 0xa1, b'x', 0x92, 4, 0xc0,
    ];
    let seeds = seeds(Protocol::MessagePack, &arguments, &[0xc4, 2, 0, 255]);
    survive(&seeds, BOUND, |bytes| {
        stream(Protocol::MessagePack, bytes);
    });
}

#[test]
fn mutated_handshakes_are_survived() {
    let seeds = vec![b"{\"protocol\":\"json\",\"version\":1}\x1e".to_vec()];
    survive(&seeds, BOUND, |bytes| {
        let _ = HandshakeRequest::parse(bytes);
    });
}
