//! Mutated hub messages: no panic, no great allocation.
//!
//! Seeds are messages as clients write them, and as we do.

use bytes::Bytes;
use steadfast_wire::signalr::frame::Splitter;
use steadfast_wire::signalr::handshake::Handshake;
use steadfast_wire::signalr::message::Outcome;
use steadfast_wire::signalr::{Protocol, read, write};

/// A change to a seed: where, which kind, which byte.
type Change = (u16, u8, u8);

/// How many mutations each target gets; `STEADFAST_ROUNDS` says otherwise.
fn rounds() -> usize {
    let told = std::env::var("STEADFAST_ROUNDS").ok();
    told.map_or(200_000, |text| text.parse().expect("a number"))
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
                used.bytes_max <= 32 * 1024 + 8 * bytes.len() as u64,
                "{} bytes for {}",
                used.bytes_max,
                bytes.len()
            );
        });
}

fn stream(protocol: Protocol, bytes: &[u8]) {
    let mut splitter = Splitter::default();
    for piece in bytes.chunks(50) {
        splitter.push(Bytes::copy_from_slice(piece));
        while let Ok(Some(message)) = splitter.next(protocol, 4096) {
            let known = read::message(protocol, &message);
            let looked = read::look(protocol, &message);
            // Whatever is read has a type that a look finds as well.
            assert!(known.is_err() || looked.is_ok());
        }
    }
}

#[test]
fn mutated_json_is_survived() {
    let arguments = br#"[1,"two",{"three":[4,null]}]"#;
    run(&seeds(Protocol::Json, arguments, b"{\"a\":[1]}"), |bytes| {
        stream(Protocol::Json, bytes);
    });
}

#[test]
fn mutated_messagepack_is_survived() {
    let arguments = [
        0x93, 1, 0xa3, b't', b'w', b'o', 0x81, 0xa1, b'x', 0x92, 4, 0xc0,
    ];
    run(
        &seeds(Protocol::MessagePack, &arguments, &[0xc4, 2, 0, 255]),
        |bytes| {
            stream(Protocol::MessagePack, bytes);
        },
    );
}

#[test]
fn mutated_handshakes_are_survived() {
    let seeds = vec![b"{\"protocol\":\"json\",\"version\":1}\x1e".to_vec()];
    run(&seeds, |bytes| {
        let _ = Handshake::parse(bytes);
    });
}
