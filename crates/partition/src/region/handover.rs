//! Hand-over of a space to the other region.
//!
//! The owner starts no more work, waits for work in progress, hands the partitions over
//! and releases its lease; then the other region acquires the space. Nothing is lost,
//! and nothing is done twice: work that was started has ended, and its result is in
//! both regions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use steadfast_core::task::name_task;
use steadfast_storage_replicated::mirror::{LeaderMode, VoteRequest};
use tokio::task::JoinHandle;

use super::interfaces::RegionPeer;
use super::messages::RegionAction;
use super::pair::{Inner, decode_answer, error_text};

/// How long to wait for work in progress.
const UNDER_WAY: Duration = Duration::from_secs(20);

/// How long commands in progress may take.
const COMMANDS: Duration = Duration::from_secs(2);

/// How long the other region may take to acquire the space.
const TAKING: Duration = Duration::from_secs(10);

/// Counts a hand-over until it ends in any way.
struct HandOverGuard<'a>(&'a AtomicUsize);

impl Drop for HandOverGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Inner {
    /// Makes a region the owner of the space.
    pub(super) async fn transfer(
        self: &Arc<Self>,
        to: &str,
        accepts_loss: bool,
    ) -> Result<(), String> {
        let setup = &self.setup;
        let is_owner = setup.lease.epoch().is_some();
        if to != setup.region {
            return if is_owner {
                self.hand_over().await
            } else if self.known.lock().owner == to {
                Ok(())
            } else {
                Err(format!("{} does not own the space", setup.region))
            };
        }
        if is_owner {
            return Ok(());
        }
        let limit = UNDER_WAY + TAKING + COMMANDS;
        let given = self
            .send_request(RegionPeer::Pair, RegionAction::HandOver, limit)
            .await;
        match given.map(|given| decode_answer(Some(given))) {
            // Perhaps neither region owns it; the votes decide.
            Some(Err(why)) if accepts_loss && setup.has_witness => {
                let taken = self.take_abandoned(true).await;
                taken.map_err(|still| format!("{why}; {still}"))
            }
            Some(given) => given,
            None => self.take_abandoned(accepts_loss).await,
        }
    }

    /// Acquires the space without the other region, which does not answer.
    async fn take_abandoned(self: &Arc<Self>, accepts_loss: bool) -> Result<(), String> {
        let setup = &self.setup;
        if !setup.has_witness && !accepts_loss {
            return Err(format!(
                "there is no witness, so {} may work alone or have acknowledged changes that \
                 are not here: make sure that it is down, and accept the loss",
                setup.pair
            ));
        }
        if !setup.follower.is_whole().await.map_err(error_text)? {
            return Err("this region's copy is incomplete".to_owned());
        }
        // A refused claim returns the current epoch, and the next claim uses it.
        let mut last = String::new();
        for _ in 0..3 {
            match self.claim(accepts_loss).await {
                Ok(()) => return Ok(()),
                Err(why) => last = why,
            }
        }
        Err(last)
    }

    /// Hands the space over to the other region. Runs to its end even if the caller
    /// stops waiting.
    pub(super) async fn hand_over(self: &Arc<Self>) -> Result<(), String> {
        let handing = self.begin_handing();
        match handing.await {
            Ok(handed) => handed,
            Err(_) => Err("the hand-over was aborted".to_owned()),
        }
    }

    /// Starts a hand-over; several run one after the other.
    pub(super) fn begin_handing(self: &Arc<Self>) -> JoinHandle<Result<(), String>> {
        let own = Arc::clone(self);
        own.handing.fetch_add(1, Ordering::AcqRel);
        tokio::spawn(name_task(async move {
            let _counted = HandOverGuard(&own.handing);
            own.hand_over_now().await
        }))
    }

    /// Whether the space is being handed over.
    pub(super) fn is_handing(&self) -> bool {
        self.handing.load(Ordering::Acquire) > 0
    }

    async fn hand_over_now(self: &Arc<Self>) -> Result<(), String> {
        let epoch = self.give_up().await?;
        let setup = &self.setup;
        let release = VoteRequest::Release {
            epoch,
            owner: setup.region.clone(),
        };
        if setup.has_witness {
            let _ = self.request_vote(RegionPeer::Witness, release).await;
        }
        let taken = self
            .send_request(RegionPeer::Pair, RegionAction::Take(epoch), TAKING)
            .await;
        self.follow(epoch).await.map_err(error_text)?;
        if decode_answer(taken.clone()).is_err() {
            // This region may claim the space again at once.
            *self.not_before.lock() = self.now();
        }
        decode_answer(taken)
    }

    /// Stops this region, so that everything is in both regions and nothing is in
    /// progress.
    async fn give_up(&self) -> Result<u64, String> {
        let _turning = self.turning.lock().await;
        let setup = &self.setup;
        let Some(epoch) = setup.lease.epoch() else {
            return Err(format!("{} does not own the space", setup.region));
        };
        if setup.lease.mode() != LeaderMode::Synced {
            return Err(format!("{} does not have everything yet", setup.pair));
        }
        tracing::info!(event = "region.resting", home = setup.home);
        let busy = setup.external_work.pause(UNDER_WAY).await;
        if busy > 0 {
            // Their results would be lost, and the next owner would run them again.
            setup.external_work.resume();
            let limit = UNDER_WAY.as_secs();
            return Err(format!(
                "{busy} calls of jobs still ran after {limit} s, so nothing was handed over \
                 and {} goes on: try again when they have ended, or give those jobs a \
                 shorter timeout",
                setup.region
            ));
        }
        let all = setup.runtime.serving().into_iter();
        let all = all.map(|partition| setup.runtime.hand_over(partition, COMMANDS));
        for given in join_all(all).await {
            if let Err(error) = given {
                tracing::warn!(event = "region.partition_kept", home = setup.home, %error);
            }
        }
        let was_synced =
            setup.lease.mode() == LeaderMode::Synced && setup.lease.epoch() == Some(epoch);
        *self.not_before.lock() = self.now() + TAKING;
        setup.lease.release();
        setup.store.abandon_all();
        for partition in setup.runtime.serving() {
            setup.runtime.abandon(partition);
        }
        tracing::info!(
            event = "region.handing_over",
            home = setup.home,
            epoch,
            to = setup.pair
        );
        if was_synced {
            Ok(epoch)
        } else {
            setup.follower.open(epoch).await.map_err(error_text)?;
            *self.not_before.lock() = self.now();
            Err("the other region was lost during the hand-over".to_owned())
        }
    }

    /// Acquires the space that the owner has handed over to this region.
    pub(super) async fn take_given(self: &Arc<Self>, epoch: u64) -> Result<(), String> {
        let setup = &self.setup;
        let release = VoteRequest::Release {
            epoch,
            owner: setup.pair.clone(),
        };
        setup
            .votes
            .vote(&setup.space, &release)
            .await
            .map_err(error_text)?;
        let (ballot, _) = setup.votes.look(&setup.space).await.map_err(error_text)?;
        self.learn(&ballot);
        match self.claim(false).await {
            // The first claim may have learned of a later epoch.
            Err(_) => self.claim(false).await,
            done => done,
        }
    }
}
