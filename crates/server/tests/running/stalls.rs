//! Time in which the machine stood still.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often it looks at the clock.
const TICK: Duration = Duration::from_millis(10);

/// What a thread that sleeps waits longer on any machine.
const USUAL: Duration = Duration::from_millis(40);

/// Measures how long the machine ran no thread: such time does not count against limits.
pub(crate) struct Stalls {
    lost_ms: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Stalls {
    #[expect(clippy::disallowed_methods, reason = "processes run in real time")]
    pub(crate) fn watch() -> Self {
        let (lost_ms, is_over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (lost, over) = (Arc::clone(&lost_ms), Arc::clone(&is_over));
        let watch = move || {
            while !over.load(Ordering::Relaxed) {
                let began = Instant::now();
                std::thread::sleep(TICK);
                let late = began.elapsed().saturating_sub(TICK);
                if late > USUAL {
                    lost.fetch_add(late.as_millis() as u64, Ordering::Relaxed);
                }
            }
        };
        let thread = std::thread::Builder::new().name("stalls".into());
        thread.spawn(watch).unwrap();
        Self { lost_ms, is_over }
    }

    /// All that was lost since it watches.
    pub(crate) fn lost(&self) -> Duration {
        Duration::from_millis(self.lost_ms.load(Ordering::Relaxed))
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}
