//! Draining of client connections.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use steadfast_partition::DrainHook;
use steadfast_realtime::ClientDrainSummary;
use tokio_util::task::TaskTracker;

use super::inner::Inner;

/// How long a drain waits for results of workers.
const WORKER_LIMIT: Duration = Duration::from_secs(10);

/// The connections at the start of a drain, and how many have closed since.
pub(super) struct ConnectionDrain {
    /// AMQP connections, and work item streams of workers.
    open: [TaskTracker; 2],
    /// Their number at the start.
    before: u64,
    /// The outcome for SignalR clients.
    departed: Arc<OnceLock<ClientDrainSummary>>,
}

impl ConnectionDrain {
    /// Records the connections that are open now, before any of them is closed.
    pub(super) fn of(inner: &Inner) -> Self {
        let open = [
            inner.services.served.clone(),
            inner.services.work.open().clone(),
        ];
        let before = open.iter().map(TaskTracker::len).sum::<usize>() as u64;
        Self {
            open,
            before,
            departed: Arc::default(),
        }
    }

    /// The hooks of the drain, in order: wait for results of workers and for AMQP
    /// connections to close, then close SignalR clients and wait for them.
    pub(super) fn hooks(&self, inner: &Inner, limit: Duration) -> Vec<DrainHook> {
        let task_hubs = inner.services.task_hubs.clone();
        let open = self.open.clone();
        let realtime = inner.hosted.realtime.clone();
        let departed = Arc::clone(&self.departed);
        // Together they leave a third of the time for handing over partitions.
        let part = limit / 3;
        vec![
            Box::pin(async move {
                let all = async {
                    // This ends the work item streams.
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

    /// Hub calls of clients that were accepted and not answered.
    pub(super) fn unanswered(&self) -> u64 {
        self.hubs().unanswered as u64
    }

    fn hubs(&self) -> ClientDrainSummary {
        self.departed.get().copied().unwrap_or_default()
    }

    /// How many connections closed in time, and how many were cut off.
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
