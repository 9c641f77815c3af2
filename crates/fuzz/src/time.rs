//! Time that moves only when all tasks wait.

use std::time::Duration;

use steadfast_core::clock::{Clock, Timestamp};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

/// The wall clock at the start of every execution, in milliseconds.
const START_MS: i64 = 1_700_000_000_000;

/// How long a server may take, in its own time, to end a session or to answer.
const PATIENCE: Duration = Duration::from_secs(3600);

/// A wall clock that follows the paused time of the runtime.
pub(crate) struct PausedClock {
    began: Instant,
}

impl PausedClock {
    /// Starts the clock; needs a runtime.
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
        }
    }
}

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        let elapsed = self.began.elapsed().as_millis();
        Timestamp(START_MS + i64::try_from(elapsed).unwrap_or(i64::MAX - START_MS))
    }

    fn monotonic(&self) -> Duration {
        self.began.elapsed()
    }
}

/// Builds the runtime of one execution: one thread, paused time.
pub(crate) fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build();
    runtime.expect("a runtime without I/O needs nothing of the system")
}

/// Lets every task run until it waits for time or for input.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Waits for something that must happen.
///
/// # Panics
///
/// If it has not happened after an hour of the server's time.
pub(crate) async fn due<F: Future>(what: &str, future: F) -> F::Output {
    due_within(what, PATIENCE, future).await
}

/// Waits for something that must happen within a time of the server.
///
/// # Panics
///
/// If it has not happened then.
pub(crate) async fn due_within<F: Future>(what: &str, limit: Duration, future: F) -> F::Output {
    match tokio::time::timeout(limit, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what} takes longer than {limit:?}"),
    }
}
