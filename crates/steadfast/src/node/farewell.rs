//! Clients of a node that leaves.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use steadfast_partition::Hook;
use steadfast_realtime::Departed;
use tokio_util::task::TaskTracker;

use super::inner::Inner;

/// How long a node that leaves waits for what its workers have.
const WORKER_LIMIT: Duration = Duration::from_secs(10);

/// Who is here when a node begins to leave, and who has gone since.
pub(super) struct Farewell {
    /// Connections of AMQP, and streams of work.
    open: [TaskTracker; 2],
    /// How many of those there were.
    before: u64,
    /// Clients of hubs.
    departed: Arc<OnceLock<Departed>>,
}

impl Farewell {
    /// Whoever is here now, before anybody is told.
    pub(super) fn of(inner: &Inner) -> Self {
        let open = [inner.own.served.clone(), inner.own.work.open().clone()];
        let before = open.iter().map(TaskTracker::len).sum::<usize>() as u64;
        Self {
            open,
            before,
            departed: Arc::default(),
        }
    }

    /// What is done in order: results of workers are waited for, and the end of whoever
    /// was told already; then clients of hubs are told, and waited for.
    pub(super) fn hooks(&self, inner: &Inner, limit: Duration) -> Vec<Hook> {
        let task_hubs = inner.own.task_hubs.clone();
        let open = self.open.clone();
        let realtime = inner.hosted.realtime.clone();
        let departed = Arc::clone(&self.departed);
        // Together they leave a third of the time for the partitions.
        let part = limit / 3;
        vec![
            Box::pin(async move {
                let all = async {
                    // Streams of work end with this.
                    task_hubs.leave(WORKER_LIMIT.min(part * 3 / 4)).await;
                    for open in &open {
                        open.close();
                        open.wait().await;
                    }
                };
                let _ = tokio::time::timeout(part, all).await;
            }),
            Box::pin(async move {
                let gone = realtime.drain(part).await;
                let (closed, cut_off, unanswered) = (gone.closed, gone.cut_off, gone.unanswered);
                if closed + cut_off > 0 {
                    tracing::info!(event = "realtime.drained", closed, cut_off, unanswered);
                }
                let _ = departed.set(gone);
            }),
        ]
    }

    /// Calls of clients of hubs that were taken and not answered.
    pub(super) fn unanswered(&self) -> u64 {
        self.hubs().unanswered as u64
    }

    fn hubs(&self) -> Departed {
        self.departed.get().copied().unwrap_or_default()
    }

    /// How many went when they were told to, and how many did not.
    pub(super) fn count(&self) -> (u64, u64) {
        let hubs = self.hubs();
        let left: usize = self.open.iter().map(TaskTracker::len).sum();
        let left = (left as u64).min(self.before);
        (
            hubs.closed as u64 + self.before - left,
            hubs.cut_off as u64 + left,
        )
    }
}
