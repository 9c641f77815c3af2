//! A pool of runtime tasks for small jobs.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Waker};

use parking_lot::Mutex;
use steadfast_core::task::name_task;

/// Runs small jobs in order on as many runtime tasks as there are processors: a task per
/// job would cost more than most jobs. The queue is unbounded; callers limit their jobs.
pub(crate) struct TaskPool {
    queue: Arc<Mutex<PoolQueue>>,
    /// The largest number of tasks at a time.
    most: usize,
}

type PoolTask = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct PoolQueue {
    waiting: VecDeque<PoolTask>,
    /// Running tasks.
    runners: usize,
}

/// Jobs that a task runs before it yields to the runtime.
const AT_A_TIME: usize = 16;

impl Default for TaskPool {
    fn default() -> Self {
        Self {
            queue: Arc::default(),
            most: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

impl TaskPool {
    /// Queues a job.
    pub(crate) fn run(&self, errand: impl FnOnce() + Send + 'static) {
        let is_wanted = {
            let mut queue = self.queue.lock();
            queue.waiting.push_back(Box::new(errand));
            let is_wanted = queue.runners < self.most;
            queue.runners += usize::from(is_wanted);
            is_wanted
        };
        if is_wanted {
            // A runtime that shuts down drops the task at once, which locks the queue.
            let runner = PoolRunner {
                queue: Arc::clone(&self.queue),
                is_over: false,
            };
            tokio::spawn(name_task(runner.work_off()));
        }
    }

    /// Queues a future that seldom has to wait. If it does, it gets a task of its own.
    pub(crate) fn begin(&self, errand: impl Future<Output = ()> + Send + 'static) {
        self.run(move || {
            let mut errand = Box::pin(errand);
            let mut context = Context::from_waker(Waker::noop());
            if errand.as_mut().poll(&mut context).is_pending() {
                tokio::spawn(name_task(errand));
            }
        });
    }
}

/// One task of the pool.
struct PoolRunner {
    queue: Arc<Mutex<PoolQueue>>,
    is_over: bool,
}

impl PoolRunner {
    async fn work_off(mut self) {
        loop {
            for _ in 0..AT_A_TIME {
                match self.next() {
                    // A panic drops the job's completer or entry, which reports the failure.
                    Some(errand) => drop(catch_unwind(AssertUnwindSafe(errand))),
                    None => return,
                }
            }
            tokio::task::yield_now().await;
        }
    }

    /// The next job. `None`: this task ends, and the next job starts another one.
    fn next(&mut self) -> Option<PoolTask> {
        let mut queue = self.queue.lock();
        let errand = queue.waiting.pop_front();
        if errand.is_none() {
            queue.runners -= 1;
            self.is_over = true;
        }
        errand
    }
}

impl Drop for PoolRunner {
    fn drop(&mut self) {
        if !self.is_over {
            self.queue.lock().runners -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn one_that_waits_or_panics_keeps_nobody() {
        let (errands, done) = (TaskPool::default(), Arc::new(AtomicUsize::new(0)));
        let count = || {
            let done = Arc::clone(&done);
            move || {
                done.fetch_add(1, Ordering::Relaxed);
            }
        };
        for number in 0..200 {
            let count = count();
            match number % 3 {
                0 => errands.run(count),
                1 => errands.begin(async move {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    count();
                }),
                _ => errands.run(|| panic!("on purpose")),
            }
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(done.load(Ordering::Relaxed), 134);
        assert_eq!(errands.queue.lock().runners, 0);
    }

    #[test]
    fn a_runtime_that_has_ended_keeps_nobody() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let handle = runtime.unwrap().handle().clone();
        let (done, ended) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("afterwards".to_owned());
        let running = thread.spawn(move || {
            let _inside = handle.enter();
            let errands = TaskPool::default();
            errands.run(|| {});
            done.send(errands.queue.lock().runners)
        });
        running.unwrap();
        let runners = ended.recv_timeout(Duration::from_secs(10));
        assert_eq!(runners, Ok(0));
    }
}
