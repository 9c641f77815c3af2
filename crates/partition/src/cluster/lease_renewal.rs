//! Renewal of a node's lease, and its expiry.

use std::sync::atomic::Ordering;
use std::time::Duration;

use steadfast_core::id::Partition;

use super::membership::Inner;
use super::pending_moves::RETRY;
use crate::error::{Error, ErrorKind, Result};

/// The unused last part of a lease: the node trusts its memory only before it.
const MARGIN: Duration = Duration::from_secs(2);

impl Inner {
    /// Renews the lease periodically.
    pub(super) async fn keep_lease(&self) {
        let beat = self.setup.lease / 4;
        let mut pause = beat;
        loop {
            tokio::time::sleep(pause).await;
            pause = if self.renew_lease().await.is_ok() {
                beat
            } else {
                RETRY
            };
        }
    }

    /// Renews the lease. An expired lease begins again, without any partition.
    pub(super) async fn renew_lease(&self) -> Result<()> {
        if *self.is_superseded.lock() {
            return Ok(());
        }
        let sent = self.now();
        let lease = self.setup.lease;
        let limit = match self.lease.remaining() {
            Duration::ZERO => lease / 2,
            left => left,
        };
        let renewal = self.setup.engine.renew(self.owner, lease);
        let renewed = tokio::time::timeout(limit, renewal).await;
        let until = sent + lease - MARGIN.min(lease / 5);
        let failed = match renewed {
            Ok(Ok(())) if self.lease.extend(until) => return Ok(()),
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("no answer in time".to_owned()),
        };
        if let Some(error) = failed {
            self.counters.late_beats.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                event = "cluster.beat_failed",
                error,
                left_ms = self.lease.remaining().as_millis() as u64
            );
            if !self.lease.holds() {
                self.lapse();
            }
            return Err(Error::new(ErrorKind::Unreachable {
                partition: Partition::new(self.space(), 0),
            }));
        }
        self.lapse();
        self.lease.begin(until);
        Ok(())
    }

    /// The lease has expired: other nodes may own its partitions.
    fn lapse(&self) {
        let had = self.lose_all();
        if had > 0 {
            self.counters.lapses.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                event = "cluster.lease_ended",
                had,
                "the lease of this node has expired; all its partitions were given up"
            );
        }
    }

    /// Gives up the partitions of all stores; answers how many this space had.
    pub(super) fn lose_all(&self) -> usize {
        for beside in &*self.other_stores.lock() {
            beside.abandon_all();
        }
        self.store.abandon_all()
    }
}
