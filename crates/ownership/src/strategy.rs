//! How eagerly a member claims its share.
//!
//! A strategy is a step (what one cycle may do) and a pace (when the next cycle
//! begins). The named ones are those of the SDKs that share groups with us, and
//! our own.

use std::time::Duration;

use crate::random::Random;

/// How a member balances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strategy {
    /// What one cycle may do.
    pub step: BalanceStep,
    /// When the next cycle begins.
    pub pace: CyclePace,
}

/// What one cycle may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BalanceStep {
    /// Claim or steal one partition, chosen at random: the reference (.NET).
    One,
    /// Claim at random all unclaimed partitions that repeated single steps would claim;
    /// if there are none, steal one (Python, and JS as far as it claims).
    Deficit,
    /// Claim and steal the whole difference to our share. All members with the same view
    /// choose disjoint partitions, and together they move as few as possible. A newcomer
    /// that no listing shows yet takes one first, so that others count it.
    Share,
}

/// When the next cycle begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CyclePace {
    /// One cycle per interval.
    Interval,
    /// At once, until balanced; then one per interval.
    UntilBalanced,
    /// One per quarter of an interval until balanced, then one per interval.
    Brisk,
}

impl Strategy {
    /// One claim per interval.
    pub const BALANCED: Self = Self {
        step: BalanceStep::One,
        pace: CyclePace::Interval,
    };

    /// Cycle after cycle without waiting, one claim each, until balanced (.NET).
    pub const GREEDY: Self = Self {
        step: BalanceStep::One,
        pace: CyclePace::UntilBalanced,
    };

    /// As [`Strategy::GREEDY`], with all that is unclaimed and due to us at once (Python).
    pub const GREEDY_AT_ONCE: Self = Self {
        step: BalanceStep::Deficit,
        pace: CyclePace::UntilBalanced,
    };

    /// For many members: few cycles, few conflicts, few moves. The cluster uses it.
    pub const SHARE: Self = Self {
        step: BalanceStep::Share,
        pace: CyclePace::Brisk,
    };

    /// Time from the beginning of a cycle to the beginning of the next. Up to a fifth of it
    /// is randomly taken off: in lockstep, a member that renews just when another wants to
    /// steal would defeat it every time.
    pub fn wait(self, timing: &GroupTiming, balanced: bool, random: &mut dyn Random) -> Duration {
        match self.pace {
            CyclePace::UntilBalanced if !balanced => Duration::ZERO,
            CyclePace::Brisk if !balanced => (timing.interval - timing.chance(random)) / 4,
            CyclePace::Interval | CyclePace::UntilBalanced | CyclePace::Brisk => {
                timing.interval - timing.chance(random)
            }
        }
    }
}

/// The times of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupTiming {
    /// Between two cycles of a member.
    pub interval: Duration,
    /// The age at which any member may claim a record.
    pub expiration: Duration,
    /// The age of its newest record at which a member is late. Then nothing is set aside for
    /// it any more, though it keeps what it has. Only [`BalanceStep::Share`] sets anything aside.
    pub patience: Duration,
}

impl GroupTiming {
    /// The defaults of .NET: 30 s and 120 s.
    pub const DOTNET: Self = Self::new(Duration::from_secs(30), Duration::from_secs(120));
    /// The defaults of Python: 30 s and 180 s.
    pub const PYTHON: Self = Self::new(Duration::from_secs(30), Duration::from_secs(180));
    /// The defaults of JS: 10 s and 60 s.
    pub const JS: Self = Self::new(Duration::from_secs(10), Duration::from_secs(60));

    /// Times with a patience of one and a half intervals.
    pub const fn new(interval: Duration, expiration: Duration) -> Self {
        Self {
            interval,
            expiration,
            patience: Duration::from_nanos(interval.as_nanos() as u64 / 2 * 3),
        }
    }

    /// Up to a fifth of the interval.
    pub(crate) fn chance(&self, random: &mut dyn Random) -> Duration {
        self.interval * random.below(1_001) / 5_000
    }

    /// Whether a member that renews once per interval keeps what it has. If not, a single
    /// late renewal makes partitions change owners, and the operator should be warned. Three
    /// intervals or more are advisable.
    pub fn is_steady(&self) -> bool {
        self.expiration >= 2 * self.interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greedy_waits_only_when_balanced() {
        let timing = GroupTiming::DOTNET;
        let wait = |strategy: Strategy, balanced| {
            let mut least = |_| 0;
            let mut most = |bound| bound - 1;
            let longest = strategy.wait(&timing, balanced, &mut least);
            (strategy.wait(&timing, balanced, &mut most), longest)
        };
        let an_interval = (timing.interval * 4 / 5, timing.interval);
        assert_eq!(wait(Strategy::GREEDY, false), Default::default());
        assert_eq!(wait(Strategy::GREEDY, true), an_interval);
        assert_eq!(wait(Strategy::BALANCED, false), an_interval);
        assert_eq!(wait(Strategy::SHARE, true), an_interval);
        assert_eq!(wait(Strategy::SHARE, false).1, timing.interval / 4);
    }

    #[test]
    fn an_expiration_below_two_intervals_is_not_steady() {
        let timing = |expiration| {
            GroupTiming::new(Duration::from_secs(10), Duration::from_secs(expiration)).is_steady()
        };
        assert_eq!((timing(19), timing(20)), (false, true));
        assert!(GroupTiming::DOTNET.is_steady() && GroupTiming::JS.is_steady());
    }
}
