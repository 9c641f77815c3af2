//! Sizes and times in units that users read.

const SIZES: [(&str, u64); 4] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];
const TIMES: [(&str, u64); 3] = [("d", 86_400), ("h", 3600), ("m", 60)];

/// A number of bytes, such as `64MiB`; exact if a whole number of a unit, which every
/// option and setting accepts.
pub(crate) fn size(bytes: u64) -> String {
    let exact = SIZES
        .iter()
        .find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    let Some((largest, unit)) = SIZES.iter().find(|(_, unit)| bytes >= *unit) else {
        return format!("{bytes}B");
    };
    match exact {
        // 1025MiB is exact, but 1.0GiB reads better only if it is not.
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => format!("{:.1}{largest}", bytes as f64 / *unit as f64),
    }
}

/// A number of seconds, such as `7d`: the largest unit without a remainder, which every
/// option accepts.
pub(crate) fn seconds(seconds: u64) -> String {
    let unit = TIMES
        .iter()
        .find(|(_, unit)| seconds > 0 && seconds.is_multiple_of(*unit));
    match unit {
        Some((name, unit)) => format!("{}{name}", seconds / unit),
        None => format!("{seconds}s"),
    }
}

/// A duration since a point in time: two units at most, such as `3d 4h`.
pub(crate) fn elapsed(seconds: u64) -> String {
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (name, unit) in TIMES.iter().chain(&[("s", 1)]) {
        let count = rest / unit;
        rest %= unit;
        if count > 0 || !parts.is_empty() {
            parts.push(format!("{count}{name}"));
        }
        if parts.len() == 2 {
            break;
        }
    }
    if parts.is_empty() {
        "0s".to_owned()
    } else {
        parts.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_the_unit_that_fits() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1 << 20, "1MiB"),
            (1 << 30, "1GiB"),
            (1_500_000, "1.4MiB"),
            (3 << 29, "1536MiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
        for (time, text) in [(0, "0s"), (90, "90s"), (5400, "90m"), (604_800, "7d")] {
            assert_eq!(seconds(time), text);
        }
        for (time, text) in [
            (0, "0s"),
            (61, "1m 1s"),
            (86_400, "1d 0h"),
            (90_061, "1d 1h"),
        ] {
            assert_eq!(elapsed(time), text);
        }
    }
}
