//! Names of the tasks that are being polled.
//!
//! A task that spins or blocks does not return to its runtime, which then cannot name
//! it. [`name_task`] records the spawn location of a future on the thread that polls it,
//! and [`running_tasks`] reads these records from any other thread.

use std::cell::RefCell;
use std::fmt::{self, Display};
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

pin_project! {
    /// A future that carries the location at which it was spawned.
    pub struct NamedTask<F> {
        #[pin]
        future: F,
        place: &'static Location<'static>,
    }
}

/// Names a future after the location of this call.
#[track_caller]
pub fn name_task<F: Future>(future: F) -> NamedTask<F> {
    NamedTask {
        future,
        place: Location::caller(),
    }
}

impl<F: Future> Future for NamedTask<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _poll = TaskPollGuard::begin(this.place);
        this.future.poll(context)
    }
}

/// A task that is being polled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunningTask {
    /// Where it was spawned.
    place: &'static Location<'static>,
    thread: String,
    /// Which poll on this thread it is.
    poll: u64,
}

impl Display for RunningTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, thread, .. } = self;
        write!(f, "{}:{} on {thread}", place.file(), place.line())
    }
}

/// The named tasks that are being polled at this moment, by any thread.
pub fn running_tasks() -> Vec<RunningTask> {
    let mut threads = lock(&THREADS);
    threads.retain(|thread| thread.strong_count() > 0);
    let threads = threads.iter().filter_map(Weak::upgrade);
    threads
        .filter_map(|thread| {
            let place = (*lock(&thread.place))?;
            Some(RunningTask {
                place,
                thread: thread.name.clone(),
                poll: thread.polls.load(Ordering::Relaxed),
            })
        })
        .collect()
}

/// The task that a thread polls.
struct PollingThread {
    name: String,
    place: Mutex<Option<&'static Location<'static>>>,
    polls: AtomicU64,
}

/// Threads that have polled a named task.
static THREADS: Mutex<Vec<Weak<PollingThread>>> = Mutex::new(Vec::new());

thread_local! {
    static THREAD: RefCell<Option<Arc<PollingThread>>> = const { RefCell::new(None) };
}

/// Guard of one poll; dropping it restores the record of the enclosing poll.
struct TaskPollGuard {
    thread: Option<Arc<PollingThread>>,
    around: Option<&'static Location<'static>>,
}

impl TaskPollGuard {
    fn begin(place: &'static Location<'static>) -> Self {
        let thread = this_thread();
        let around = thread.as_ref().and_then(|thread| {
            thread.polls.fetch_add(1, Ordering::Relaxed);
            lock(&thread.place).replace(place)
        });
        Self { thread, around }
    }
}

impl Drop for TaskPollGuard {
    fn drop(&mut self) {
        if let Some(thread) = &self.thread {
            *lock(&thread.place) = self.around;
        }
    }
}

/// The record of this thread, unless the thread is about to end.
fn this_thread() -> Option<Arc<PollingThread>> {
    THREAD
        .try_with(|own| Arc::clone(own.borrow_mut().get_or_insert_with(register)))
        .ok()
}

fn register() -> Arc<PollingThread> {
    let name = std::thread::current().name().unwrap_or("?").to_owned();
    let thread = Arc::new(PollingThread {
        name,
        place: Mutex::new(None),
        polls: AtomicU64::new(0),
    });
    lock(&THREADS).push(Arc::downgrade(&thread));
    thread
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A panic leaves nothing half done: one value is written under the lock.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    fn here() -> Vec<String> {
        let line = |running: &RunningTask| running.to_string();
        let all = running_tasks().iter().map(line).collect::<Vec<_>>();
        let own = std::thread::current().name().unwrap_or("?").to_owned();
        let own = format!("on {own}");
        all.into_iter().filter(|one| one.ends_with(&own)).collect()
    }

    #[test]
    fn a_task_is_known_by_its_place_while_it_is_polled() {
        let line = line!() + 1;
        let inner = name_task(async { here() });
        let outer = name_task(async move { (inner.await, here()) });
        assert!(here().is_empty());
        let mut outer = std::pin::pin!(outer);
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready((inside, around)) = outer.as_mut().poll(&mut context) else {
            panic!("it waits for nothing");
        };
        let at = |line: u32| format!("task.rs:{line} on ");
        assert!(inside[0].contains(&at(line)), "{inside:?}");
        assert!(around[0].contains(&at(line + 1)), "{around:?}");
        assert!(here().is_empty());
    }
}
