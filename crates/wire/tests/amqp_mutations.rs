//! Mutated frames and messages: no panic, no great allocation.
//!
//! Seeds are what clients really sent (`tests/corpus/amqp`), and what we write.

use std::path::Path;

use bytes::BytesMut;
use steadfast_wire::amqp::batch::Messages;
use steadfast_wire::amqp::delivery::{FORMAT_BATCH, FORMAT_EVENT};
use steadfast_wire::amqp::event::{self, Stamp, Stored};
use steadfast_wire::amqp::performative::{self, Performative};
use steadfast_wire::amqp::request::Request;
use steadfast_wire::amqp::{frame, link, sasl, selector};

/// A change to a seed: where, which kind, which byte.
type Change = (u16, u8, u8);

/// How many mutations each target gets; `STEADFAST_ROUNDS` says otherwise.
fn rounds() -> usize {
    let told = std::env::var("STEADFAST_ROUNDS").ok();
    told.map_or(200_000, |text| text.parse().expect("a number"))
}

fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/amqp");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the corpus")
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.sort();
    let seeds: Vec<_> = files
        .iter()
        .map(|file| std::fs::read(file).expect("a seed"))
        .collect();
    assert!(!seeds.is_empty());
    seeds
}

fn mutate(seed: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for &(place, kind, byte) in changes {
        if bytes.is_empty() {
            break;
        }
        let at = usize::from(place) % bytes.len();
        match kind % 6 {
            0 => bytes[at] = byte,
            1 => bytes[at] ^= 1 << (byte % 8),
            2 => bytes.insert(at, byte),
            3 => drop(bytes.remove(at)),
            4 => bytes.truncate(at),
            _ => {
                let piece = bytes[at..(at + usize::from(byte)).min(bytes.len())].to_vec();
                bytes.extend_from_slice(&piece);
            }
        }
    }
    bytes
}

/// The messages in what clients sent.
fn messages() -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    for stream in corpus() {
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

/// Runs `target` on mutations of every seed; it may use memory in proportion to its
/// input, not to what the input claims.
fn run(seeds: &[Vec<u8>], target: fn(&[u8])) {
    for seed in seeds {
        target(seed);
    }
    bolero::check!()
        .with_iterations(rounds())
        .with_type::<(u16, Vec<Change>)>()
        .for_each(|(seed, changes)| {
            let bytes = mutate(&seeds[usize::from(*seed) % seeds.len()], changes);
            let used = allocation_counter::measure(|| target(&bytes));
            assert!(
                used.bytes_max <= 4096 + 4 * bytes.len() as u64,
                "{} bytes for {}",
                used.bytes_max,
                bytes.len()
            );
        });
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
        let Ok(mut messages) = Messages::open(bytes, format) else {
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
        Stored::Range(range) => message[range].to_vec(),
        Stored::Rewritten(bytes) => bytes,
    };
    let stamp = Stamp {
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
    run(&corpus(), stream);
}

#[test]
fn mutated_messages_are_survived() {
    run(&messages(), message);
}

#[test]
fn mutated_texts_are_survived() {
    run(&texts(), |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = selector::parse(&text);
        let _ = steadfast_wire::amqp::address::parse(&text);
    });
}
