//! Commits in the order of the log.
//!
//! Staging and joining the queue are one step, so the queue has the order of the LSNs.
//! One task awaits the commits in turn and finishes each: new versions become visible,
//! notices are sent and locks released in log order, and only after the append. The task
//! continues even if the caller stops waiting.

use parking_lot::Mutex;
use steadfast_core::id::Lsn;
use steadfast_core::task::name_task;
use steadfast_storage::{Ledger, Result, Writes};
use tokio::sync::mpsc;

/// The callback that gets the outcome of a commit.
type FinishCallback = Box<dyn FnOnce(Result<Lsn>) + Send>;

/// The queue of commits that wait for their outcome.
pub(crate) struct Committer {
    // At most one entry per transaction.
    queue: Mutex<mpsc::UnboundedSender<(Lsn, FinishCallback)>>,
    ledger: Ledger,
}

impl Committer {
    /// Starts on the current runtime; ends when it is dropped and all is finished.
    pub(crate) fn start(ledger: Ledger) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::spawn(name_task(run(ledger.clone(), receiver)));
        Self {
            queue: Mutex::new(sender),
            ledger,
        }
    }

    /// Stages a transaction; `finish` is called with its outcome, in log order.
    pub(crate) fn commit(&self, writes: Writes, finish: FinishCallback) {
        let queue = self.queue.lock();
        let refused = match self.ledger.stage(writes) {
            Ok(staged) => match queue.send((staged.lsn, finish)) {
                Ok(()) => return,
                // The runtime is shutting down: the outcome of the commit is unknown.
                Err(unsent) => {
                    let partition = self.ledger.partition();
                    let kind = steadfast_storage::ErrorKind::OutcomeUnknown { partition };
                    (steadfast_storage::Error::new(kind), unsent.0.1)
                }
            },
            Err(error) => (error, finish),
        };
        drop(queue);
        let (error, finish) = refused;
        finish(Err(error));
    }
}

async fn run(ledger: Ledger, mut queue: mpsc::UnboundedReceiver<(Lsn, FinishCallback)>) {
    while let Some((lsn, finish)) = queue.recv().await {
        let outcome = ledger.wait(lsn).await;
        finish(outcome.map(|()| lsn));
    }
}
