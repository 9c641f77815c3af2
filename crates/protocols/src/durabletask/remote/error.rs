//! Converts server responses to engine errors.

use std::time::Duration;

use steadfast_durable::Error;
use tonic::{Code, Status};
use uuid::Uuid;

use crate::durabletask::convert::ConvertError;

/// The first and the longest retry delay.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The error of a failed call.
#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
pub(super) fn from_status(status: Status) -> Error {
    Error::from_text(status.message())
}

/// The error of a malformed response.
#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
pub(super) fn bad_response(why: ConvertError) -> Error {
    Error::from_text(&format!("the server sent a malformed response: {why}"))
}

/// Whether a retry may succeed.
pub(super) fn is_transient(status: &Status) -> bool {
    let code = status.code();
    matches!(
        code,
        Code::Unavailable | Code::Unknown | Code::DeadlineExceeded | Code::Internal
    )
}

/// Exponential backoff with jitter.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self { next: FIRST_PAUSE }
    }

    pub(super) fn reset(&mut self) {
        self.next = FIRST_PAUSE;
    }

    pub(super) async fn rest(&mut self) {
        tokio::time::sleep(self.next()).await;
    }

    /// Between half and all of a delay that doubles.
    fn next(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(LONGEST_PAUSE);
        let share = (Uuid::new_v4().as_u128() % 1024) as u32;
        whole / 2 + whole / 2 * share / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_begin_again() {
        let mut pauses = Backoff::new();
        let first = pauses.next();
        assert!(first >= FIRST_PAUSE / 2 && first <= FIRST_PAUSE);
        let last = (0..20).map(|_| pauses.next()).last().unwrap();
        assert!(last >= LONGEST_PAUSE / 2 && last <= LONGEST_PAUSE);
        pauses.reset();
        assert!(pauses.next() <= FIRST_PAUSE);
    }
}
