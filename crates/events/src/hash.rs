//! Which partition a key belongs to.
//!
//! Bob Jenkins' lookup3 (`hashlittle2`, in the public domain), as the service's
//! gateway and its SDKs compute it. Event placement depends on it, so it never changes.

/// The partition of a key among `partitions`, which is not 0.
pub fn partition_of(key: &str, partitions: u32) -> u32 {
    // The remainder truncates towards zero, as in the SDKs.
    let remainder = i64::from(hash16(key.as_bytes())) % i64::from(partitions);
    remainder.unsigned_abs() as u32
}

/// The low 16 bits of both halves of the hash, with their sign.
fn hash16(bytes: &[u8]) -> i16 {
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let mut state = [start; 3];
    let mut rest = bytes;
    while rest.len() > 12 {
        let (block, after) = rest.split_at(12);
        add(&mut state, block);
        mix(&mut state);
        rest = after;
    }
    add(&mut state, rest);
    if !rest.is_empty() {
        finish(&mut state);
    }
    let [_, b, c] = state;
    (c ^ b) as i16
}

/// Adds up to twelve bytes, padded with zeros.
fn add(state: &mut [u32; 3], bytes: &[u8]) {
    let mut block = [0; 12];
    block[..bytes.len()].copy_from_slice(bytes);
    for (word, part) in state.iter_mut().zip(block.chunks_exact(4)) {
        let part = part.try_into().expect("chunks of four bytes");
        *word = word.wrapping_add(u32::from_le_bytes(part));
    }
}

fn mix(state: &mut [u32; 3]) {
    let [mut a, mut b, mut c] = *state;
    let step = |x: &mut u32, y: u32, z: &mut u32, k: u32| {
        *x = x.wrapping_sub(*z);
        *x ^= z.rotate_left(k);
        *z = z.wrapping_add(y);
    };
    step(&mut a, b, &mut c, 4);
    step(&mut b, c, &mut a, 6);
    step(&mut c, a, &mut b, 8);
    step(&mut a, b, &mut c, 16);
    step(&mut b, c, &mut a, 19);
    step(&mut c, a, &mut b, 4);
    *state = [a, b, c];
}

fn finish(state: &mut [u32; 3]) {
    let [mut a, mut b, mut c] = *state;
    let step = |x: &mut u32, y: u32, k: u32| {
        *x ^= y;
        *x = x.wrapping_sub(y.rotate_left(k));
    };
    step(&mut c, b, 14);
    step(&mut a, c, 11);
    step(&mut b, a, 25);
    step(&mut c, b, 16);
    step(&mut a, c, 4);
    step(&mut b, a, 14);
    step(&mut c, b, 24);
    *state = [a, b, c];
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Key, hash, and the partition of 4, 16 and 32.
    const VECTORS: &[(&str, i16, [u32; 3])] = &[
        ("", 0, [0, 0, 0]),
        ("a", -16220, [0, 12, 28]),
        ("alphabet", -23478, [2, 6, 22]),
        ("pk1", 13741, [1, 13, 13]),
        ("house-42", 12111, [3, 15, 15]),
        ("house-99999", -867, [3, 3, 3]),
        ("123456789012", 21621, [1, 5, 21]),
        ("1234567890123", 7770, [2, 10, 26]),
        ("abcdefghijklmnopqrstuvwx", 26788, [0, 4, 4]),
        ("Straße", -18926, [2, 14, 14]),
        (
            "partition-key-that-is-longer-than-24-bytes",
            23269,
            [1, 5, 5],
        ),
    ];

    #[test]
    fn events_13_the_hash_has_the_services_values() {
        for (key, hash, partitions) in VECTORS {
            assert_eq!(hash16(key.as_bytes()), *hash, "{key}");
            let found = [4, 16, 32].map(|count| partition_of(key, count));
            assert_eq!(found, *partitions, "{key}");
        }
    }
}
