//! Long work on a background thread.
//!
//! Folding and freeing a generation of a million rows takes a while. One thread of
//! low priority does it, so that flushing never crowds out committing.

use std::sync::mpsc::{Sender, channel};

use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind, Result};

/// Handle of the background thread, which ends when it is dropped.
pub(crate) struct BackgroundThread {
    /// `None` if no thread was requested or the system could not start one: work
    /// then runs in the caller.
    work: Option<Sender<Box<dyn FnOnce() + Send>>>,
}

impl BackgroundThread {
    pub(crate) fn start(wants_thread: bool) -> Self {
        if !wants_thread {
            return Self { work: None };
        }
        let (work, inbox) = channel::<Box<dyn FnOnce() + Send>>();
        let run = move || {
            lower_priority();
            for work in inbox {
                work();
            }
        };
        let thread = std::thread::Builder::new().name("steadfast-behind".into());
        let work = thread.spawn(run).is_ok().then_some(work);
        Self { work }
    }

    /// Runs `work` on the thread and returns its result.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let Some(thread) = &self.work else {
            return Ok(work());
        };
        let (reply, answer) = oneshot::channel();
        let work = Box::new(move || drop(reply.send(work())));
        let closed = || Error::new(ErrorKind::Closed);
        thread.send(work).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())
    }
}

/// Gives the calling thread the lowest priority. If it falls too far behind, writers
/// are throttled, which leaves it enough CPU.
pub fn lower_priority() {
    const LOWEST: i32 = 19;
    // If the system refuses, the thread runs at normal priority.
    let _ = rustix::process::nice(LOWEST);
}
