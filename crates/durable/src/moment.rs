//! Moments as clients write them.

use steadfast_collections::schema::Record;
use steadfast_core::clock::Timestamp;

/// A moment, to the nanosecond. Clients compare the times that they gave with the
/// times that they get back, so nothing is rounded.
#[derive(Record, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[record(crate = "steadfast_collections", closed)]
pub struct Moment {
    /// Seconds since 1970-01-01T00:00:00Z.
    #[n(0)]
    pub seconds: i64,
    /// Below 1,000,000,000.
    #[n(1)]
    pub nanos: u32,
}

impl Moment {
    /// The first full millisecond that is not before this moment.
    pub fn due(self) -> Timestamp {
        let ms = self.seconds.saturating_mul(1000);
        Timestamp(ms.saturating_add(i64::from(self.nanos.div_ceil(1_000_000))))
    }
}

impl From<Timestamp> for Moment {
    fn from(time: Timestamp) -> Self {
        Self {
            seconds: time.0.div_euclid(1000),
            nanos: time.0.rem_euclid(1000) as u32 * 1_000_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_not_due_before_its_moment() {
        let moment = Moment {
            seconds: 7,
            nanos: 1_000_001,
        };
        assert_eq!(moment.due(), Timestamp(7002));
        assert_eq!(Moment::from(Timestamp(7002)).due(), Timestamp(7002));
        assert_eq!(Moment::from(Timestamp(-1)).due(), Timestamp(-1));
    }
}
