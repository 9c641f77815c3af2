//! Converts timestamps and durations.

use std::time::Duration;

use steadfast_durable::Moment;
use steadfast_wire::durabletask::well_known;

use super::error::ConvertError;

/// The first and the last second that a timestamp may name: years 1 to 9999.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

const NANOS: std::ops::Range<i32> = 0..1_000_000_000;

/// Decodes a timestamp.
pub fn moment(time: well_known::Timestamp) -> Result<Moment, ConvertError> {
    if SECONDS.contains(&time.seconds) && NANOS.contains(&time.nanos) {
        Ok(Moment {
            seconds: time.seconds,
            nanos: time.nanos.unsigned_abs(),
        })
    } else {
        Err(ConvertError::new(format!(
            "{} s and {} ns since 1970 are no time between the years 1 and 9999",
            time.seconds, time.nanos
        )))
    }
}

/// Encodes a timestamp.
pub fn timestamp(moment: Moment) -> well_known::Timestamp {
    well_known::Timestamp {
        seconds: moment.seconds,
        nanos: moment.nanos as i32,
    }
}

/// The longest duration of the protocol, in seconds: 10,000 years.
const SPAN: u64 = 315_576_000_000;

/// Decodes a duration, which must not be negative.
pub fn span_of_time(span: well_known::Duration) -> Result<Duration, ConvertError> {
    match u64::try_from(span.seconds) {
        Ok(seconds) if seconds <= SPAN && NANOS.contains(&span.nanos) => {
            Ok(Duration::new(seconds, span.nanos.unsigned_abs()))
        }
        _ => Err(ConvertError::new(format!(
            "{} s and {} ns are no span of time from 0 to 10,000 years",
            span.seconds, span.nanos
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kept_to_the_nanosecond_and_nonsense_is_refused() {
        let time = |seconds, nanos| well_known::Timestamp { seconds, nanos };
        let kept = time(-7, 123_456_789);
        assert_eq!(timestamp(moment(kept).unwrap()), kept);
        for bad in [
            time(0, -1),
            time(0, 1_000_000_000),
            time(i64::MAX, 0),
            time(-62_135_596_801, 0),
        ] {
            assert!(moment(bad).is_err(), "{bad:?}");
        }
        let span = |seconds, nanos| span_of_time(well_known::Duration { seconds, nanos });
        assert_eq!(span(1, 5).unwrap(), Duration::new(1, 5));
        for (seconds, nanos) in [(i64::MAX, 0), (i64::MIN, 0), (-1, 0), (0, -1)] {
            assert!(span(seconds, nanos).is_err(), "{seconds} s {nanos} ns");
        }
    }
}
