//! The leader: the region that owns the space.
//!
//! It renews its lease, records whether it works alone, copies missing changes to the
//! other region, and hands the space back to its home region.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join;
use steadfast_core::task::name_task;
use steadfast_storage_replicated::mirror::{Ballot, LeaderMode, USED, VoteRequest, VoteResponse};

use super::interfaces::RegionPeer;
use super::pair::Inner;

/// How long the home region must have been up to date before it gets its space back
/// automatically.
const FAILBACK: Duration = Duration::from_secs(300);

impl Inner {
    /// Renews the owner's lease, and records whether it works alone.
    pub(super) async fn renew_lease(self: &Arc<Self>) {
        let setup = &self.setup;
        let Some(epoch) = setup.lease.epoch() else {
            return;
        };
        let wants_alone = setup.lease.is_alone_requested();
        let in_sync = setup.lease.mode() == LeaderMode::Synced && !wants_alone;
        let ballot = Ballot {
            epoch,
            owner: setup.region.clone(),
            in_sync,
            serial: self.serial.fetch_add(1, Ordering::Relaxed) + 1,
        };
        let sent = self.now();
        // A voter that has lost its memory accepts what the other one has granted.
        let ask = |is_agreed| VoteRequest::Renew {
            ballot: ballot.clone(),
            is_agreed,
        };
        let granted = |index: usize| self.granted[index].load(Ordering::Relaxed);
        let at_witness = async {
            if setup.has_witness {
                self.request_vote(RegionPeer::Witness, ask(granted(0)))
                    .await
            } else {
                None
            }
        };
        let at_pair = async {
            // The other region does not answer: the witness records that at once.
            if wants_alone && setup.has_witness {
                None
            } else {
                let ask = ask(granted(1) || !setup.has_witness);
                self.request_vote(RegionPeer::Pair, ask).await
            }
        };
        let (by_pair, by_witness) = join(at_pair, at_witness).await;
        for say in [&by_pair, &by_witness].into_iter().flatten() {
            if let VoteResponse::Refused { ballot, .. } = say
                && ballot.epoch > epoch
            {
                self.learn(ballot);
                self.step_down("another region owns the space").await;
                return;
            }
        }
        let is_granted = |say: &Option<VoteResponse>| *say == Some(VoteResponse::Granted);
        let by_pair = is_granted(&by_pair);
        let by_witness = is_granted(&by_witness);
        self.granted[0].store(by_pair, Ordering::Relaxed);
        self.granted[1].store(by_witness, Ordering::Relaxed);
        if by_pair || by_witness || !setup.has_witness {
            setup.lease.extend(epoch, sent + USED);
        }
        if by_witness || !setup.has_witness {
            self.is_recorded.store(in_sync, Ordering::Relaxed);
        }
        if wants_alone && (by_witness || !setup.has_witness) {
            tracing::warn!(
                event = "region.degraded",
                home = setup.home,
                epoch,
                "the other region does not follow"
            );
            setup.lease.mark_alone(epoch);
        }
        let partitions = usize::from(setup.runtime.space().partitions);
        if setup.runtime.serving().len() < partitions
            && !self.is_handing()
            && let Err(error) = setup.runtime.serve_all().await
        {
            tracing::warn!(event = "region.not_served", home = setup.home, %error);
        }
        self.bring_up(epoch, by_pair);
        self.fail_back(in_sync);
    }

    /// Makes a complete copy in the other region, if that has none.
    fn bring_up(self: &Arc<Self>, epoch: u64, is_reached: bool) {
        let is_wanted = is_reached && self.setup.lease.mode() == LeaderMode::Alone;
        if !is_wanted || self.is_copying.swap(true, Ordering::AcqRel) {
            return;
        }
        let own = Arc::clone(self);
        tokio::spawn(name_task(async move {
            let setup = &own.setup;
            let partitions = usize::from(setup.runtime.space().partitions);
            match setup.mirror.copy_all(&setup.store, partitions).await {
                Ok(()) => {
                    tracing::info!(
                        event = "region.synced",
                        home = setup.home,
                        epoch,
                        "the other region has everything"
                    );
                }
                Err(why) => {
                    tracing::warn!(event = "region.not_synced", home = setup.home, epoch, why)
                }
            }
            own.is_copying.store(false, Ordering::Release);
        }));
    }

    /// Hands the space back to its home region when that has followed for long enough.
    /// The lease is renewed in the meantime.
    fn fail_back(self: &Arc<Self>, in_sync: bool) {
        let now = self.now();
        let since = {
            let mut since = self.synced_since.lock();
            *since = in_sync.then(|| since.unwrap_or(now));
            *since
        };
        let is_home = self.setup.region == self.setup.home;
        let is_due = since.is_some_and(|since| now.saturating_sub(since) >= FAILBACK);
        if is_home || !is_due || self.is_handing() {
            return;
        }
        let handing = self.begin_handing();
        let own = Arc::clone(self);
        tokio::spawn(name_task(async move {
            if let Ok(Err(why)) = handing.await {
                tracing::warn!(event = "region.not_handed_over", home = own.setup.home, why);
                // A retry at once would pause the work too often.
                let mut since = own.synced_since.lock();
                *since = since.map(|_| own.now());
            }
        }));
    }
}
