//! Wakes a loop when time alone makes something happen.
//!
//! Most waits end for another reason, and setting a timer costs a lock. So the alarm
//! stays as it is unless it would ring too late; one that rings too early costs one
//! round of the loop.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

pub(crate) struct Alarm {
    sleep: Pin<Box<Sleep>>,
}

/// Waits are whole milliseconds, so two computations of one moment may differ by this.
const BLUR: Duration = Duration::from_millis(1);

impl Alarm {
    /// Rings after `wait` at the latest.
    pub(crate) fn new(wait: Duration) -> Self {
        Self {
            sleep: Box::pin(sleep(wait)),
        }
    }

    /// Makes the alarm ring `wait` from now at the latest.
    pub(crate) fn within(&mut self, wait: Duration) -> Pin<&mut Sleep> {
        let at = Instant::now() + wait;
        if self.sleep.is_elapsed() || at + BLUR < self.sleep.deadline() {
            self.sleep.as_mut().reset(at);
        }
        self.sleep.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_rings_in_time_whatever_it_was_set_to() {
        let mut alarm = Alarm::new(Duration::from_secs(60));
        for wait_ms in [30, 5, 200, 0, 1] {
            let (wait, began) = (Duration::from_millis(wait_ms), Instant::now());
            // It may ring early once, at the time that was set before.
            while began.elapsed() < wait {
                alarm.within(wait - began.elapsed()).await;
            }
            assert!(began.elapsed() <= wait + BLUR * 2, "{wait_ms}");
        }
        alarm.within(Duration::from_secs(60)).as_mut().await;
    }
}
