//! The state machine of one region in its pair.
//!
//! The owner renews its lease, asks the witness to record when it works alone, and
//! brings the other region up to date. The other region follows, and claims the lease
//! when it is promised to no region. A region that learns of a later epoch steps down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join;
use parking_lot::Mutex;
use steadfast_core::task::named;
use steadfast_storage::mirror::{
    Ask, Ballot, Follower, Mirror, Mode, RENEWAL, Reply, Say, Seat, USED,
};
use steadfast_storage::{Engine, Ledger, Store};
use tokio::task::AbortHandle;

use super::lines::{Hands, To, Ways};
use super::polls::Polls;
use super::standing::Standing;
use super::word::{Wish, Word, opened, outcome};
use crate::runtime::Runtime;

/// Dependencies of a region in its pair.
pub struct Setup {
    /// This region, the other one, and the one that should own the space.
    pub region: String,
    pub pair: String,
    pub home: String,
    /// The name of the space: `jobs@West US`.
    pub space: String,
    pub has_witness: bool,
    /// Under the mirror.
    pub engine: Arc<dyn Engine>,
    pub seat: Arc<Seat>,
    pub mirror: Arc<Mirror>,
    /// Above the mirror.
    pub store: Arc<Store>,
    pub runtime: Arc<Runtime>,
    pub follower: Arc<Follower>,
    pub polls: Arc<Polls>,
    pub ways: Arc<dyn Ways>,
    pub hands: Arc<dyn Hands>,
}

/// One region in its pair. It ends when it is dropped.
pub struct Pairing {
    pub(super) inner: Arc<Inner>,
    task: AbortHandle,
}

pub(super) struct Inner {
    pub(super) setup: Setup,
    /// The owner as this region last heard.
    pub(super) known: Mutex<Ballot>,
    /// Counts requests of one tenure.
    pub(super) serial: AtomicU64,
    pub(super) reaches: [AtomicBool; 2],
    /// Which voters have granted the last request: the other region, the witness.
    pub(super) granted: [AtomicBool; 2],
    is_catching_up: AtomicBool,
    /// The copy is open.
    is_following: AtomicBool,
    pub(super) is_copying: AtomicBool,
    /// The number of hand-overs in progress.
    pub(super) handing: AtomicUsize,
    /// The witness knows that the other region has everything.
    pub(super) is_recorded: AtomicBool,
    /// Changes of the role are made one at a time.
    pub(super) turning: tokio::sync::Mutex<()>,
    /// No claim is made before this time: the other region is to acquire the space.
    pub(super) not_before: Mutex<Duration>,
    pub(super) synced_since: Mutex<Option<Duration>>,
    takeovers: AtomicU64,
}

/// How often a follower checks whether the lease is free.
const LOOK: Duration = Duration::from_millis(500);

/// The time limit of a vote.
const ANSWER: Duration = Duration::from_secs(2);

impl Pairing {
    /// Starts the state machine.
    pub async fn start(setup: Setup) -> Result<Self, steadfast_storage::Error> {
        let (ballot, _) = setup.polls.look(&setup.space).await?;
        let is_catching_up = setup.follower.is_catching_up().await?;
        setup.follower.open(ballot.epoch).await?;
        let inner = Arc::new(Inner {
            setup,
            known: Mutex::new(ballot),
            serial: AtomicU64::new(0),
            reaches: [AtomicBool::new(false), AtomicBool::new(false)],
            granted: [AtomicBool::new(false), AtomicBool::new(false)],
            is_catching_up: AtomicBool::new(is_catching_up),
            is_following: AtomicBool::new(true),
            is_copying: AtomicBool::new(false),
            handing: AtomicUsize::new(0),
            is_recorded: AtomicBool::new(false),
            turning: tokio::sync::Mutex::new(()),
            not_before: Mutex::new(Duration::ZERO),
            synced_since: Mutex::new(None),
            takeovers: AtomicU64::new(0),
        });
        let running = Arc::clone(&inner);
        let task = tokio::spawn(named(async move { running.run().await })).abort_handle();
        Ok(Self { inner, task })
    }

    /// The epoch in which this region may answer and send right now.
    pub fn epoch(&self) -> Option<u64> {
        self.inner.setup.seat.epoch()
    }

    /// This region's copy of a partition that it does not own: it may be stale.
    pub fn stale(&self, partition: steadfast_core::id::Partition) -> Option<Ledger> {
        self.inner.setup.follower.ledger(partition)
    }

    /// The status of the pair.
    pub fn standing(&self) -> Standing {
        self.inner.standing()
    }

    /// Answers the other region, which is authenticated and means this space. Requests
    /// for the service are not answered here. A change runs to its end even if the
    /// caller stops waiting.
    pub async fn answer(&self, wish: Wish) -> Bytes {
        let inner = Arc::clone(&self.inner);
        let answering = tokio::spawn(named(async move { inner.answer(wish).await }));
        answering.await.unwrap_or_default()
    }

    /// Makes this region, or the other one, the owner of the space. Runs to its end
    /// even if the caller stops waiting.
    pub async fn transfer(&self, to: &str, accepts_loss: bool) -> Result<(), String> {
        let (inner, to) = (Arc::clone(&self.inner), to.to_owned());
        let moving = tokio::spawn(named(
            async move { inner.transfer(&to, accepts_loss).await },
        ));
        let moved = moving.await;
        moved.unwrap_or_else(|_| Err("the transfer was aborted".to_owned()))
    }

    /// Sends a request to the owner; `None` if the outcome is unknown.
    pub async fn ask_owner(&self, request: Bytes, limit: Duration) -> Option<Bytes> {
        let wish = Wish::Proxy(request);
        self.inner.say(To::Pair, wish, limit).await
    }

    /// Hands the space over to the other region if that follows; for a server that
    /// leaves.
    pub async fn leave(&self) {
        if self.epoch().is_some() && self.inner.setup.seat.mode() == Mode::Synced {
            let _ = self.inner.hand_over().await;
        }
        self.task.abort();
    }
}

impl Drop for Pairing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Inner {
    async fn run(self: Arc<Self>) {
        let mut changes = self.setup.seat.changes();
        let mut next_greeting = Duration::ZERO;
        loop {
            if self.setup.seat.mode() == Mode::Away && self.now() >= next_greeting {
                next_greeting = self.now() + RENEWAL;
                let own = Arc::clone(&self);
                tokio::spawn(named(async move { own.greet().await }));
            }
            let pause = match self.setup.seat.mode() {
                Mode::Away => LOOK,
                _ if self.setup.seat.epoch().is_none() => {
                    self.step_down("the lease has ended").await;
                    continue;
                }
                _ => RENEWAL,
            };
            match self.setup.seat.mode() {
                Mode::Away => {
                    self.settle().await;
                    self.look().await;
                }
                _ => self.go_on().await,
            }
            changes.mark_unchanged();
            let is_urgent = self.setup.seat.wants_alone();
            let pause = if is_urgent { LOOK } else { pause };
            let _ = tokio::time::timeout(pause, changes.changed()).await;
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.setup.seat.now()
    }

    /// As a follower: checks whether the other region and the witness answer, and
    /// learns their epochs.
    async fn greet(&self) {
        let setup = &self.setup;
        let seen = self.say(To::Pair, Wish::Look, ANSWER);
        // Epoch 0 never had an owner: the request is refused, and the refusal holds the
        // current epoch.
        let nothing = Ask::Release {
            epoch: 0,
            owner: setup.region.clone(),
        };
        let at_witness = async {
            match setup.has_witness {
                true => self.ask(To::Witness, nothing).await,
                false => None,
            }
        };
        let (seen, said) = join(seen, at_witness).await;
        self.reaches[0].store(seen.is_some(), Ordering::Relaxed);
        if let Some(Say::Refused { ballot, .. }) = said {
            self.learn(&ballot);
        }
    }

    /// The mirror has detected that this region is not the owner: it follows.
    async fn settle(&self) {
        let _turning = self.turning.lock().await;
        if self.setup.seat.mode() != Mode::Away {
            return;
        }
        let is_following = self.is_following.load(Ordering::Acquire);
        let is_serving = !self.setup.runtime.serving().is_empty();
        if is_serving || !is_following && !self.is_handing() {
            self.give_way("another region owns the space").await;
        }
    }

    /// As a follower: claims the lease if it is free.
    async fn look(self: &Arc<Self>) {
        let setup = &self.setup;
        let Ok((ballot, left)) = setup.polls.look(&setup.space).await else {
            return;
        };
        self.learn(&ballot);
        let is_whole = setup.follower.is_whole().await.unwrap_or(false);
        let is_catching_up = setup.follower.is_catching_up().await.unwrap_or(true);
        self.is_catching_up.store(is_catching_up, Ordering::Relaxed);
        if self.now() < *self.not_before.lock() {
            return;
        }
        if ballot.epoch == 0 {
            if setup.region == setup.home
                && let Err(why) = self.found().await
            {
                tracing::debug!(event = "region.not_founded", home = setup.home, why);
            }
            return;
        }
        let is_ours = ballot.owner == setup.region;
        let is_promised = left > Duration::ZERO && !is_ours;
        if is_promised || !is_whole {
            return;
        }
        // Without a witness only an operator can tell whether the other region is down.
        let may_claim = setup.has_witness || is_ours && self.is_unchallenged(ballot.epoch).await;
        if !may_claim {
            return;
        }
        if let Err(why) = self.claim(false).await {
            tracing::debug!(event = "region.not_taken", home = setup.home, why);
        }
    }

    /// Whether the other region knows of no later epoch.
    async fn is_unchallenged(&self, epoch: u64) -> bool {
        let seen = self.say(To::Pair, Wish::Look, ANSWER).await;
        let seen = seen.and_then(|seen| Ballot::decode(seen).ok());
        seen.is_some_and(|seen| seen.epoch <= epoch)
    }

    /// Claims a space that never had an owner: all three must agree.
    async fn found(self: &Arc<Self>) -> Result<(), String> {
        let setup = &self.setup;
        let seen = self.say(To::Pair, Wish::Look, ANSWER).await;
        self.reaches[0].store(seen.is_some(), Ordering::Relaxed);
        let seen = seen.ok_or("the other region does not answer")?;
        let seen = Ballot::decode(seen).map_err(|_| "its answer is malformed")?;
        if seen.epoch > 0 {
            return Err(format!("the space is in epoch {} already", seen.epoch));
        }
        setup.follower.found().await.map_err(words)?;
        self.claim_as(1, true, false).await
    }

    /// Claims the lease for this region.
    pub(super) async fn claim(self: &Arc<Self>, accepts_loss: bool) -> Result<(), String> {
        let epoch = self.known.lock().epoch + 1;
        self.claim_as(epoch, false, accepts_loss).await
    }

    async fn claim_as(
        self: &Arc<Self>,
        epoch: u64,
        is_first: bool,
        accepts_loss: bool,
    ) -> Result<(), String> {
        let _turning = self.turning.lock().await;
        let setup = &self.setup;
        if setup.seat.mode() != Mode::Away {
            return Ok(());
        }
        let held = setup.polls.hold(&setup.space, &setup.region).await;
        let held = held.map_err(words)?;
        if held.is_none() {
            return Err("the other region is promised the lease".to_owned());
        }
        let ask = Ask::Claim {
            epoch,
            owner: setup.region.clone(),
            is_first,
            accepts_loss,
        };
        let sent = self.now();
        let granted = match setup.has_witness {
            true => self.ask(To::Witness, ask).await,
            false => Some(Say::Granted),
        };
        let taken = match granted {
            Some(Say::Granted) => Ok(()),
            Some(Say::Refused { ballot, left }) => {
                self.learn(&ballot);
                // A region that claims does not vote: it waits until the owner's
                // promise ends.
                *self.not_before.lock() = self.now() + left;
                Err(refusal(&ballot, left))
            }
            None => Err("the witness does not answer".to_owned()),
        };
        let next = taken.is_ok().then(|| Ballot {
            epoch,
            owner: setup.region.clone(),
            ..Ballot::default()
        });
        let kept = setup.polls.let_go(&setup.space, next.clone()).await;
        taken?;
        kept.map_err(words)?;
        self.learn(&next.unwrap_or_default());
        self.take(epoch, sent + USED).await
    }

    /// Serves the space.
    async fn take(&self, epoch: u64, until: Duration) -> Result<(), String> {
        let setup = &self.setup;
        self.is_following.store(false, Ordering::Release);
        let generation = setup.follower.close(epoch).await;
        setup.mirror.reset(generation).await;
        self.serial.store(0, Ordering::Relaxed);
        *self.synced_since.lock() = None;
        self.is_recorded.store(false, Ordering::Relaxed);
        self.granted[0].store(false, Ordering::Relaxed);
        self.granted[1].store(setup.has_witness, Ordering::Relaxed);
        setup.seat.take(epoch, until);
        setup.hands.work();
        self.takeovers.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            event = "region.taken",
            home = setup.home,
            region = setup.region,
            epoch,
            "this region owns the space",
        );
        setup
            .runtime
            .serve_all()
            .await
            .map_err(|error| error.to_string())
    }

    /// Stops being the owner: follows.
    pub(super) async fn step_down(&self, why: &str) {
        let _turning = self.turning.lock().await;
        self.give_way(why).await;
    }

    /// The same, for a caller that holds the lock of role changes.
    async fn give_way(&self, why: &str) {
        let setup = &self.setup;
        setup.seat.leave();
        // Calls already sent are not undone; their results belong to the next owner.
        setup.hands.stop();
        setup.store.lapse();
        for partition in setup.runtime.serving() {
            setup.runtime.abandon(partition);
        }
        let epoch = self.known.lock().epoch;
        tracing::warn!(
            event = "region.left",
            home = setup.home,
            region = setup.region,
            epoch,
            why,
            "this region follows",
        );
        if let Err(error) = self.open_copy(epoch).await {
            tracing::error!(event = "region.not_followed", home = setup.home, %error);
        }
    }

    /// Follows the owner of the space from now on, unless this region owns it again.
    pub(super) async fn follow(&self, epoch: u64) -> Result<(), steadfast_storage::Error> {
        let _turning = self.turning.lock().await;
        match self.setup.seat.mode() {
            Mode::Away => self.open_copy(epoch).await,
            _ => Ok(()),
        }
    }

    async fn open_copy(&self, epoch: u64) -> Result<(), steadfast_storage::Error> {
        self.setup.follower.open(epoch).await?;
        self.is_following.store(true, Ordering::Release);
        Ok(())
    }

    /// Sends a request about this space.
    pub(super) async fn say(&self, to: To, wish: Wish, limit: Duration) -> Option<Bytes> {
        let space = self.setup.space.clone();
        let word = Word { space, wish };
        self.setup.ways.send(to, &word, limit).await
    }

    /// Requests a vote.
    pub(super) async fn ask(&self, to: To, ask: Ask) -> Option<Say> {
        let said = self.say(to, Wish::Vote(ask), ANSWER).await;
        let index = match to {
            To::Pair => 0,
            To::Witness => 1,
        };
        self.reaches[index].store(said.is_some(), Ordering::Relaxed);
        Say::decode(said?).ok()
    }

    pub(super) fn learn(&self, ballot: &Ballot) {
        let mut known = self.known.lock();
        if ballot.epoch >= known.epoch {
            *known = ballot.clone();
        }
    }

    async fn answer(self: &Arc<Self>, wish: Wish) -> Bytes {
        let setup = &self.setup;
        match wish {
            Wish::Vote(ask) => {
                let said = setup.polls.vote(&setup.space, &ask).await;
                match said.ok().flatten() {
                    Some(say) => say.encode(),
                    None => Bytes::new(),
                }
            }
            Wish::Copy(copy) => {
                let known = self.known.lock().epoch;
                let reply = match setup.seat.mode() {
                    Mode::Away => setup.follower.apply(copy).await,
                    _ if copy.epoch < known => Reply::Deposed(known),
                    // This region will step down as soon as it learns of the new owner.
                    _ => Reply::Failed("this region does not follow yet".to_owned()),
                };
                reply.encode()
            }
            Wish::Look => match setup.polls.look(&setup.space).await {
                Ok((ballot, _)) => ballot.encode(),
                Err(_) => Bytes::new(),
            },
            Wish::Give => outcome(self.hand_over().await),
            Wish::Take(epoch) => outcome(self.take_given(epoch).await),
            Wish::Proxy(_) => Bytes::new(),
        }
    }

    fn standing(&self) -> Standing {
        let setup = &self.setup;
        let known = self.known.lock().clone();
        let is_owner = setup.seat.epoch().is_some();
        let mode = match setup.seat.mode() {
            // Until the witness has recorded it, the other region cannot take over by
            // itself.
            Mode::Synced if self.is_recorded.load(Ordering::Relaxed) => "synced",
            Mode::Synced | Mode::Alone => "degraded",
            Mode::Away if self.is_catching_up.load(Ordering::Relaxed) => "catching-up",
            Mode::Away => "following",
        };
        Standing {
            region: setup.region.clone(),
            pair: setup.pair.clone(),
            home: setup.home.clone(),
            owner: known.owner,
            epoch: known.epoch,
            is_owner,
            mode,
            lag_ms: setup.seat.lag().as_millis() as u64,
            reaches_pair: self.reaches[0].load(Ordering::Relaxed),
            reaches_witness: self.reaches[1].load(Ordering::Relaxed),
            has_witness: setup.has_witness,
            takeovers: self.takeovers.load(Ordering::Relaxed),
            fenced: setup.mirror.fenced(),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
pub(super) fn words(error: steadfast_storage::Error) -> String {
    error.to_string()
}

fn refusal(ballot: &Ballot, left: Duration) -> String {
    let Ballot { owner, epoch, .. } = ballot;
    match left {
        Duration::ZERO => format!(
            "{owner} worked alone in epoch {epoch}, so this region does not have everything"
        ),
        left => format!(
            "{owner} is promised epoch {epoch} for {} ms",
            left.as_millis()
        ),
    }
}

/// Decodes the other region's answer to a request.
pub(super) fn wished(answer: Option<Bytes>) -> Result<(), String> {
    opened(&answer.ok_or("the other region does not answer")?)
}
