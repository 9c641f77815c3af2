//! Detects worker threads that one task blocks.
//!
//! A task that spins or blocks keeps its worker of the async runtime, and starves the tasks
//! queued there and finally the node. The watchdog compares the runtime's counters on a
//! thread of its own, so it works when no task runs any more. It wakes no worker, and
//! wakes up rarely itself while the node is idle.
//!
//! The log names the source location where the task was spawned. A stack trace is not
//! available: only the thread itself can walk its stack, in a signal handler, which is
//! unsafe code and deadlocks in an interrupted allocator, or a tracer, which containers
//! forbid. The kernel shows root only the part in the kernel.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use steadfast_core::backoff::Backoff;
use steadfast_core::clock::Clock;
use steadfast_core::limits;
use steadfast_core::task::{self, RunningTask};
use tokio::runtime::{Handle, RuntimeMetrics};

use super::threads;

/// Watches the workers until it is dropped.
pub(super) struct Watchdog {
    shared: Arc<WatchdogState>,
}

#[derive(Default)]
struct WatchdogState {
    stuck: AtomicU64,
    stalls: AtomicU64,
    is_over: Mutex<bool>,
    ended: Condvar,
}

/// The last sample of a worker.
#[derive(Default)]
struct WorkerSample {
    /// Its park count and its busy time. Neither changes while one task keeps the worker.
    counts: (u64, Duration),
    /// When they last changed.
    since: Duration,
    is_stuck: bool,
}

struct WatchdogThread {
    shared: Arc<WatchdogState>,
    metrics: RuntimeMetrics,
    clock: Arc<dyn Clock>,
    workers: Vec<WorkerSample>,
}

impl Watchdog {
    /// Watches the workers of the current runtime.
    pub(super) fn start(clock: &Arc<dyn Clock>) -> Self {
        let shared = Arc::new(WatchdogState::default());
        let watch = WatchdogThread {
            shared: Arc::clone(&shared),
            metrics: Handle::current().metrics(),
            clock: Arc::clone(clock),
            workers: Vec::new(),
        };
        let thread = std::thread::Builder::new().name("steadfast-watch".to_owned());
        if let Err(error) = thread.spawn(move || watch.run()) {
            tracing::warn!(event = "runtime.unwatched", %error);
        }
        Self { shared }
    }

    /// The number of workers that are blocked now.
    pub(super) fn stuck(&self) -> u64 {
        self.shared.stuck.load(Ordering::Relaxed)
    }

    /// How often a worker was blocked.
    pub(super) fn stalls(&self) -> u64 {
        self.shared.stalls.load(Ordering::Relaxed)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *self.shared.is_over.lock() = true;
        self.shared.ended.notify_all();
    }
}

impl WatchdogThread {
    fn run(mut self) {
        let mut backoff = Backoff::new(limits::WORKER_LOOK, limits::WORKER_IDLE_LOOK);
        while !self.is_over_after(backoff.pause()) {
            if self.look() {
                backoff.reset();
            }
        }
    }

    fn is_over_after(&self, pause: Duration) -> bool {
        let mut is_over = self.shared.is_over.lock();
        if !*is_over {
            self.shared.ended.wait_for(&mut is_over, pause);
        }
        *is_over
    }

    /// Samples all workers; returns whether one was active since the last sample.
    fn look(&mut self) -> bool {
        let now = self.clock.monotonic();
        self.workers
            .resize_with(self.metrics.num_workers(), || WorkerSample {
                since: now,
                ..WorkerSample::default()
            });
        let mut is_any_active = false;
        for index in 0..self.workers.len() {
            let parks = self.metrics.worker_park_unpark_count(index);
            let counts = (parks, self.metrics.worker_total_busy_duration(index));
            let is_parked = parks % 2 == 1;
            let worker = &mut self.workers[index];
            let is_same = worker.counts == counts;
            is_any_active |= !(is_same && is_parked);
            let kept = now.saturating_sub(worker.since);
            if is_same && !is_parked {
                if kept >= limits::WORKER_STUCK && !worker.is_stuck {
                    worker.is_stuck = true;
                    self.tell_of_stall(index, kept);
                }
                continue;
            }
            if worker.is_stuck {
                self.shared.stuck.fetch_sub(1, Ordering::Relaxed);
                let kept_ms = kept.as_millis() as u64;
                tracing::info!(event = "runtime.worker_back", worker = index, kept_ms);
            }
            *worker = WorkerSample {
                counts,
                since: now,
                is_stuck: false,
            };
        }
        is_any_active
    }

    fn tell_of_stall(&self, index: usize, kept: Duration) {
        self.shared.stuck.fetch_add(1, Ordering::Relaxed);
        self.shared.stalls.fetch_add(1, Ordering::Relaxed);
        let tasks = self.metrics.num_alive_tasks();
        let workers = self.metrics.num_workers();
        let before = task::running_tasks();
        let threads = threads::busiest(limits::SHOWN_THREADS);
        let stuck = still_running(&before);
        tracing::error!(
            event = "runtime.worker_stuck",
            worker = index,
            workers,
            kept_ms = kept.as_millis() as u64,
            tasks,
            stuck,
            threads
        );
    }
}

/// The tasks whose poll has not ended since `before`, as a text for the log.
fn still_running(before: &[RunningTask]) -> String {
    let now = task::running_tasks();
    let still = now.iter().filter(|running| before.contains(running));
    let still = still.take(limits::SHOWN_THREADS);
    still
        .map(RunningTask::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}
