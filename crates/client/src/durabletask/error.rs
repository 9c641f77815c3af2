//! Converts server responses to engine errors.

use std::time::Duration;

use steadfast_core::backoff::Backoff;
use steadfast_durable::Error;
use steadfast_durabletask_messages::ConvertError;
use tonic::{Code, Status};
use uuid::Uuid;

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

/// The pauses between attempts of a client.
pub(super) fn retry_backoff() -> Backoff {
    Backoff::new(FIRST_PAUSE, LONGEST_PAUSE)
}

/// Waits between half and all of the next pause, so that clients which failed together do
/// not come back together.
pub(super) async fn rest(backoff: &mut Backoff) {
    let share = (Uuid::new_v4().as_u128() % 1024) as u32;
    let half = backoff.pause() / 2;
    tokio::time::sleep(half + half * share / 1024).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_rest_is_half_to_all_of_the_pause() {
        let mut backoff = retry_backoff();
        for failures in 1..10 {
            let whole = retry_backoff().after(failures);
            let began = tokio::time::Instant::now();
            rest(&mut backoff).await;
            let waited = began.elapsed();
            // Timers have a resolution of a millisecond.
            assert!(waited >= whole / 2 && waited <= whole + Duration::from_millis(1));
        }
    }
}
