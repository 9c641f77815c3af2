//! What has come from a client that may come back.
//!
//! Its messages are numbered from 1 without saying so. After a loss it says with
//! which number it goes on; what was handled already is dropped.

use steadfast_core::limits;
use tokio::time::Instant;

/// The numbers of a client's messages.
#[derive(Debug)]
pub(crate) struct Received {
    /// The highest that was handled.
    last: u64,
    /// The number of the next message; unknown until the client says it.
    next: Option<u64>,
    /// What the client was told last.
    told: u64,
    /// When it is told more.
    pub(crate) ack_at: Option<Instant>,
    /// Its socket is lost.
    pub(crate) is_away: bool,
}

impl Default for Received {
    fn default() -> Self {
        Self {
            last: 0,
            next: Some(1),
            told: 0,
            ack_at: None,
            is_away: false,
        }
    }
}

impl Received {
    /// A message has come. False if it was handled before, or cannot be told.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let Some(number) = self.next else {
            return false;
        };
        self.next = Some(number + 1);
        if number <= self.last {
            return false;
        }
        self.last = number;
        self.ack_at.get_or_insert(now + limits::CLIENT_ACK);
        true
    }

    /// The client says which number comes next. False if some are missing.
    pub(crate) fn sequence(&mut self, number: u64) -> bool {
        let is_whole = number >= 1 && number <= self.last + 1;
        if is_whole {
            self.next = Some(number);
        }
        is_whole
    }

    /// The client is back, and will say where it goes on.
    pub(crate) fn back(&mut self) {
        self.next = None;
        self.is_away = false;
    }

    /// What to acknowledge now, if anything.
    pub(crate) fn ack(&mut self, now: Instant) -> Option<u64> {
        if self.ack_at.is_none_or(|due| now < due) {
            return None;
        }
        self.ack_at = None;
        let is_more = self.last > self.told;
        self.told = self.last;
        is_more.then_some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_comes_twice_is_handled_once() {
        let now = Instant::now();
        let mut received = Received::default();
        assert!(received.take(now) && received.take(now) && received.take(now));
        received.back();
        assert!(!received.take(now), "nobody has said which one it is");
        assert!(!received.sequence(5), "the fourth is missing");
        assert!(received.sequence(2));
        assert!(!received.take(now) && !received.take(now));
        assert!(received.take(now));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_told_at_most_once_a_second() {
        let now = Instant::now();
        let mut received = Received::default();
        assert_eq!(received.ack(now), None);
        received.take(now);
        received.take(now);
        assert_eq!(received.ack(now), None);
        let later = now + limits::CLIENT_ACK;
        assert_eq!(received.ack(later), Some(2));
        assert_eq!(received.ack(later), None);
    }
}
