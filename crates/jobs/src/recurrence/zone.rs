//! Conversion between local time and instants.
//!
//! A local time that a clock change repeats means its first instant. One that is
//! skipped means the first instant after the gap, or none.

use jiff::tz::{AmbiguousOffset, TimeZone};

use crate::recurrence::rule::Gap;

/// UTC, or a zone whose clocks change.
#[derive(Clone, Debug)]
pub(crate) enum Zone {
    Utc,
    Named(TimeZone),
}

impl Zone {
    /// A zone by its IANA name.
    pub(crate) fn find(name: &str) -> Option<Self> {
        match name {
            "UTC" | "Etc/UTC" => Some(Self::Utc),
            _ => TimeZone::get(name).ok().map(Self::Named),
        }
    }

    pub(crate) fn is_utc(&self) -> bool {
        matches!(self, Self::Utc)
    }

    /// The zone as jiff's type.
    pub(crate) fn time_zone(&self) -> TimeZone {
        match self {
            Self::Utc => TimeZone::UTC,
            Self::Named(zone) => zone.clone(),
        }
    }

    /// The offset of local time from UTC at an instant.
    pub(crate) fn offset_ms(&self, instant: i64) -> i64 {
        match self {
            Self::Utc => 0,
            Self::Named(zone) => i64::from(zone.to_offset(stamp(instant)).seconds()) * 1000,
        }
    }

    /// Local time, as milliseconds since local 1970.
    pub(crate) fn local(&self, instant: i64) -> i64 {
        instant + self.offset_ms(instant)
    }

    /// The instant of a local time. The flag is set for a skipped local time.
    pub(crate) fn instant(&self, local: i64) -> (i64, bool) {
        let Self::Named(zone) = self else {
            return (local, false);
        };
        let civil = TimeZone::UTC.to_datetime(stamp(local));
        match zone.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => (behind(local, offset), false),
            AmbiguousOffset::Fold { before, .. } => (behind(local, before), false),
            AmbiguousOffset::Gap { before, .. } => {
                let inside = behind(local, before);
                let after = stamp(inside + 1);
                let change = zone.preceding(after).next();
                let end = change.map_or(inside, |change| change.timestamp().as_millisecond());
                (end, true)
            }
        }
    }

    /// The instant of a local time under a rule for gaps.
    pub(crate) fn resolve(&self, local: i64, gap: Gap) -> Option<i64> {
        match (self.instant(local), gap) {
            ((_, true), Gap::Skip) => None,
            ((instant, _), _) => Some(instant),
        }
    }

    /// Whether this is the second instant of a repeated local time.
    pub(crate) fn is_repeated(&self, instant: i64) -> bool {
        match self {
            Self::Utc => false,
            Self::Named(_) => self.instant(self.local(instant)).0 != instant,
        }
    }
}

fn behind(local: i64, offset: jiff::tz::Offset) -> i64 {
    local - i64::from(offset.seconds()) * 1000
}

/// Times beyond jiff's range are clamped to its last.
fn stamp(ms: i64) -> jiff::Timestamp {
    let fallback = if ms < 0 {
        jiff::Timestamp::MIN
    } else {
        jiff::Timestamp::MAX
    };
    jiff::Timestamp::from_millisecond(ms).unwrap_or(fallback)
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadfast_core::iso::parse_time;

    fn at(text: &str) -> i64 {
        parse_time(text).unwrap().0
    }

    #[test]
    fn gaps_end_and_repeated_times_mean_the_first() {
        let berlin = Zone::find("Europe/Berlin").unwrap();
        // As if the local clock showed UTC.
        let (instant, is_gap) = berlin.instant(at("2025-03-30T02:30"));
        assert_eq!((instant, is_gap), (at("2025-03-30T01:00Z"), true));
        let (first, _) = berlin.instant(at("2025-10-26T02:30"));
        assert_eq!(first, at("2025-10-26T00:30Z"));
        assert!(!berlin.is_repeated(first));
        assert!(berlin.is_repeated(at("2025-10-26T01:30Z")));
        assert_eq!(berlin.local(first), berlin.local(at("2025-10-26T01:30Z")));
        assert!(Zone::find("Mars/Olympus").is_none());
    }
}
