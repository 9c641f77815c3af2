//! Changes to what was really sent, and what they may cost.

use std::path::Path;
use std::time::Duration;

/// A change to a seed: where, which kind, which byte.
type Change = (u16, u8, u8);

/// How long each target gets: those of AMQP and of blobs together a minute.
const SHARE: Duration = Duration::from_secs(15);

/// How many mutations a target gets, and how long at most: `STEADFAST_ROUNDS` many, or
/// as many as there is time for.
fn amount() -> (usize, Duration) {
    match std::env::var("STEADFAST_ROUNDS") {
        Ok(text) => (text.parse().expect("a number"), Duration::MAX),
        Err(_) => (usize::MAX, SHARE),
    }
}

/// What clients sent, from `tests/corpus/<name>`.
#[allow(dead_code, reason = "not all targets have seeds in files")]
pub(crate) fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let files = std::fs::read_dir(folder.join(name)).expect("the corpus");
    let mut files: Vec<_> = files.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    let seeds = files.iter();
    let seeds: Vec<_> = seeds
        .map(|file| std::fs::read(file).expect("a seed"))
        .collect();
    assert!(!seeds.is_empty());
    seeds
}

/// Runs `target` on every seed and on mutations of them. It may use memory in
/// proportion to its input, `(at least, per byte)`, not to what the input claims.
pub(crate) fn survive(seeds: &[Vec<u8>], (least, per_byte): (u64, u64), target: fn(&[u8])) {
    for seed in seeds {
        target(seed);
    }
    let (rounds, time) = amount();
    bolero::check!()
        .with_iterations(rounds)
        .with_test_time(time)
        .with_type::<(u16, Vec<Change>)>()
        .for_each(|(seed, changes)| {
            let bytes = mutate(&seeds[usize::from(*seed) % seeds.len()], changes);
            let used = allocation_counter::measure(|| target(&bytes));
            let length = bytes.len() as u64;
            assert!(
                used.bytes_max <= least + per_byte * length,
                "{} bytes for {length}",
                used.bytes_max,
            );
        });
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
