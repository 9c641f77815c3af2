//! Pauses between attempts that double up to a longest one.
//!
//! Nothing here waits, and nothing is random: a caller whose attempts could meet those of
//! others waits for a random share of the pause.

use std::time::Duration;

/// The pauses of one caller.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Pauses from `first` to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            next: first,
        }
    }

    /// The pause before the next attempt.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next.min(self.longest);
        self.next = pause.saturating_mul(2);
        pause
    }

    /// Begins again with the first pause, after a success.
    pub fn reset(&mut self) {
        self.next = self.first;
    }

    /// The pause after this many failures in a row; the first pause after none or one.
    pub fn after(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1);
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_millis(700);

    #[test]
    fn pauses_double_to_the_longest_and_begin_again() {
        let mut backoff = Backoff::new(FIRST, LONGEST);
        let millis = [100, 200, 400, 700, 700];
        for expected in millis.map(Duration::from_millis) {
            assert_eq!(backoff.pause(), expected);
        }
        backoff.reset();
        assert_eq!(backoff.pause(), FIRST);
    }

    #[test]
    fn a_count_of_failures_gives_the_same_pauses() {
        let backoff = Backoff::new(FIRST, LONGEST);
        let mut counted = Backoff::new(FIRST, LONGEST);
        for failures in 1..40 {
            assert_eq!(backoff.after(failures), counted.pause(), "{failures}");
        }
        assert_eq!(backoff.after(0), FIRST);
        assert_eq!(backoff.after(u32::MAX), LONGEST);
        let long = Backoff::new(Duration::MAX, Duration::MAX);
        assert_eq!(long.after(9), Duration::MAX);
    }

    #[test]
    fn a_first_pause_above_the_longest_is_cut() {
        let mut backoff = Backoff::new(LONGEST, FIRST);
        assert_eq!((backoff.pause(), backoff.after(1)), (FIRST, FIRST));
    }
}
