//! Timestamps of server lists, as .NET counts them.
//!
//! SDKs keep the server list with the largest timestamp. So timestamps grow with
//! every response, even when the wall clock is set back, and across restarts as the
//! wall clock does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use steadfast_core::clock::Clock;

/// Ticks of 100 ns from the year 1 to 1970, as .NET counts them.
const EPOCH: u64 = 621_355_968_000_000_000;

/// Ticks in a millisecond.
const MILLISECOND: u64 = 10_000;

/// A wall clock that only goes forward.
pub(crate) struct Ticks {
    clock: Arc<dyn Clock>,
    last: AtomicU64,
}

impl Ticks {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            last: AtomicU64::new(0),
        }
    }

    /// The current time, later than all returned before.
    pub(crate) fn next(&self) -> u64 {
        let ms = u64::try_from(self.clock.now().0).unwrap_or(0);
        let now = EPOCH.saturating_add(ms.saturating_mul(MILLISECOND));
        let later = |last: u64| Some(now.max(last + 1));
        let former = self
            .last
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        now.max(former.unwrap_or_default() + 1)
    }
}

#[cfg(test)]
mod tests {
    use steadfast_core::clock::{Timestamp, VirtualClock};

    use super::*;

    #[test]
    fn times_are_those_of_dotnet_and_never_go_back() {
        let clock = Arc::new(VirtualClock::starting_at(Timestamp(1_700_000_000_000)));
        let ticks = Ticks::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let first = ticks.next();
        assert_eq!(first, 638_355_968_000_000_000);
        assert_eq!(ticks.next(), first + 1);
        clock.jump_to(Timestamp(0));
        assert_eq!(ticks.next(), first + 2);
        let later = VirtualClock::starting_at(Timestamp(1_700_000_000_001));
        assert!(Ticks::new(Arc::new(later)).next() > first + 2);
    }
}
