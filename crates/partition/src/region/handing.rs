//! Handing a space over, from one region to the other.
//!
//! Begin nothing any more, wait for what is under way, hand the partitions over, give
//! the seat back, and have the other region take it. Nothing is lost, and nothing is
//! done twice: what was begun has ended, and its end is in both regions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use steadfast_core::task::named;
use steadfast_storage::mirror::{Ask, Mode};
use tokio::task::JoinHandle;

use super::lines::To;
use super::pairing::{Inner, wished, words};
use super::word::Wish;

/// How long work that is under way is waited for.
const UNDER_WAY: Duration = Duration::from_secs(20);

/// How long commands may take that are under way.
const COMMANDS: Duration = Duration::from_secs(2);

/// How long the other region may take.
const TAKING: Duration = Duration::from_secs(10);

/// Somebody who hands over, counted however that ends.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Inner {
    /// Has a region own the space from now on.
    pub(super) async fn transfer(
        self: &Arc<Self>,
        to: &str,
        accepts_loss: bool,
    ) -> Result<(), String> {
        let setup = &self.setup;
        let is_owner = setup.seat.epoch().is_some();
        match to == setup.region {
            true if is_owner => Ok(()),
            false if is_owner => self.hand_over().await,
            false if self.known.lock().owner == to => Ok(()),
            false => Err(format!("{} does not own the space", setup.region)),
            true => {
                let limit = UNDER_WAY + TAKING + COMMANDS;
                let given = self.say(To::Pair, Wish::Give, limit).await;
                match given.map(|given| wished(Some(given))) {
                    // Perhaps neither region owns it; the voters know.
                    Some(Err(why)) if accepts_loss && setup.has_witness => {
                        let taken = self.take_abandoned(true).await;
                        taken.map_err(|still| format!("{why}; {still}"))
                    }
                    Some(given) => given,
                    None => self.take_abandoned(accepts_loss).await,
                }
            }
        }
    }

    /// The other region is not there: takes the space without it.
    async fn take_abandoned(self: &Arc<Self>, accepts_loss: bool) -> Result<(), String> {
        let setup = &self.setup;
        if !setup.has_witness && !accepts_loss {
            return Err(format!(
                "there is no witness, so nobody knows whether {} works alone or has \
                 acknowledged what is not here: make sure that it is down, and accept the loss",
                setup.pair
            ));
        }
        if !setup.follower.is_whole().await.map_err(words)? {
            return Err("this region's copy is not whole".to_owned());
        }
        // Refused claims tell how it stands, and the next one fits that.
        let mut last = String::new();
        for _ in 0..3 {
            match self.claim(accepts_loss).await {
                Ok(()) => return Ok(()),
                Err(why) => last = why,
            }
        }
        Err(last)
    }

    /// Gives the space to the other region. It comes to its end also if nobody waits
    /// for it any more.
    pub(super) async fn hand_over(self: &Arc<Self>) -> Result<(), String> {
        let handing = self.begin_handing();
        match handing.await {
            Ok(handed) => handed,
            Err(_) => Err("handing over broke off".to_owned()),
        }
    }

    /// Begins to hand over; one after another if there are several.
    pub(super) fn begin_handing(self: &Arc<Self>) -> JoinHandle<Result<(), String>> {
        let own = Arc::clone(self);
        own.handing.fetch_add(1, Ordering::AcqRel);
        tokio::spawn(named(async move {
            let _counted = Counted(&own.handing);
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
        let release = Ask::Release {
            epoch,
            owner: setup.region.clone(),
        };
        if setup.has_witness {
            let _ = self.ask(To::Witness, release).await;
        }
        let taken = self.say(To::Pair, Wish::Take(epoch), TAKING).await;
        self.follow(epoch).await.map_err(words)?;
        if wished(taken.clone()).is_err() {
            // It may try again itself.
            *self.not_before.lock() = self.now();
        }
        wished(taken)
    }

    /// Stops, so that everything is in both regions and nothing is under way.
    async fn give_up(&self) -> Result<u64, String> {
        let _turning = self.turning.lock().await;
        let setup = &self.setup;
        let Some(epoch) = setup.seat.epoch() else {
            return Err(format!("{} does not own the space", setup.region));
        };
        if setup.seat.mode() != Mode::Synced {
            return Err(format!("{} does not have everything yet", setup.pair));
        }
        tracing::info!(event = "region.resting", home = setup.home);
        let busy = setup.hands.rest(UNDER_WAY).await;
        if busy > 0 {
            // What they come to would be lost, and the next owner would make them again.
            setup.hands.resume();
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
        let was_synced = setup.seat.mode() == Mode::Synced && setup.seat.epoch() == Some(epoch);
        *self.not_before.lock() = self.now() + TAKING;
        setup.seat.leave();
        setup.store.lapse();
        for partition in setup.runtime.serving() {
            setup.runtime.abandon(partition);
        }
        tracing::info!(
            event = "region.handing_over",
            home = setup.home,
            epoch,
            to = setup.pair
        );
        match was_synced {
            true => Ok(epoch),
            false => {
                setup.follower.open(epoch).await.map_err(words)?;
                *self.not_before.lock() = self.now();
                Err("the other region was lost meanwhile".to_owned())
            }
        }
    }

    /// The owner has given the space up for this region.
    pub(super) async fn take_given(self: &Arc<Self>, epoch: u64) -> Result<(), String> {
        let setup = &self.setup;
        let release = Ask::Release {
            epoch,
            owner: setup.pair.clone(),
        };
        setup
            .polls
            .vote(&setup.space, &release)
            .await
            .map_err(words)?;
        let (ballot, _) = setup.polls.look(&setup.space).await.map_err(words)?;
        self.learn(&ballot);
        match self.claim(false).await {
            // The first answer may have told that there is a later epoch.
            Err(_) => self.claim(false).await,
            done => done,
        }
    }
}
