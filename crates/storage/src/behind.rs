//! Work behind the scenes: long, and nobody waits for it.
//!
//! Folding and freeing a generation of a million rows takes a while. It is done on
//! one thread of low priority, so that flushing never crowds out committing.

use std::sync::mpsc::{Sender, channel};

use tokio::sync::oneshot;

use crate::error::{Error, Kind, Result};

/// The thread, which ends with this handle.
pub(crate) struct Behind {
    /// `None` if nobody wants a thread, or the system gave us none: then work is
    /// done on the spot.
    work: Option<Sender<Box<dyn FnOnce() + Send>>>,
}

impl Behind {
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

    /// Does a piece of work when its turn comes.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let Some(thread) = &self.work else {
            return Ok(work());
        };
        let (reply, answer) = oneshot::channel();
        let work = Box::new(move || drop(reply.send(work())));
        let closed = || Error::new(Kind::Closed);
        thread.send(work).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())
    }
}

/// Lets the calling thread run behind everything that somebody waits for. If it
/// falls behind too far, writers are throttled, and then it has the machine.
pub(crate) fn lower_priority() {
    const LOWEST: i32 = 19;
    // Where that is not allowed the thread is merely in the way.
    let _ = rustix::process::nice(LOWEST);
}
