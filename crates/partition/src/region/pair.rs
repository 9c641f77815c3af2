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
use steadfast_core::task::name_task;
use steadfast_storage::{Engine, Ledger, Store};
use steadfast_storage_replicated::mirror::{
    Ballot, CopyResponse, LeaderLease, LeaderMode, Mirror, MirrorFollower, RENEWAL, USED,
    VoteRequest, VoteResponse,
};
use tokio::task::AbortHandle;

use super::interfaces::{ExternalWork, RegionPeer, RegionTransport};
use super::messages::{RegionAction, RegionRequest, decode_outcome, encode_outcome};
use super::status::PairStatus;
use super::vote_store::VoteStore;
use crate::owner::runtime::Runtime;

/// Dependencies of a region in its pair.
pub struct PairSetup {
    /// This region, the other one, and the one that should own the space.
    pub region: String,
    pub pair: String,
    pub home: String,
    /// The name of the space: `jobs@West US`.
    pub space: String,
    pub has_witness: bool,
    /// The engine under the mirror.
    pub engine: Arc<dyn Engine>,
    pub lease: Arc<LeaderLease>,
    pub mirror: Arc<Mirror>,
    /// The store above the mirror.
    pub store: Arc<Store>,
    pub runtime: Arc<Runtime>,
    pub follower: Arc<MirrorFollower>,
    pub votes: Arc<VoteStore>,
    pub transport: Arc<dyn RegionTransport>,
    pub external_work: Arc<dyn ExternalWork>,
}

/// One region in its pair. It ends when it is dropped.
pub struct RegionPair {
    pub(super) inner: Arc<Inner>,
    task: AbortHandle,
}

pub(super) struct Inner {
    pub(super) setup: PairSetup,
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

impl RegionPair {
    /// Starts the state machine.
    pub async fn start(setup: PairSetup) -> Result<Self, steadfast_storage::Error> {
        let (ballot, _) = setup.votes.look(&setup.space).await?;
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
        let task = tokio::spawn(name_task(async move { running.run().await })).abort_handle();
        Ok(Self { inner, task })
    }

    /// The epoch in which this region may answer and send right now.
    pub fn epoch(&self) -> Option<u64> {
        self.inner.setup.lease.epoch()
    }

    /// This region's copy of a partition that it does not own: it may be stale.
    pub fn stale(&self, partition: steadfast_core::id::Partition) -> Option<Ledger> {
        self.inner.setup.follower.ledger(partition)
    }

    /// The status of the pair.
    pub fn status(&self) -> PairStatus {
        self.inner.status()
    }

    /// Answers the other region, which is authenticated and means this space. Requests
    /// for the service are not answered here. A change runs to its end even if the
    /// caller stops waiting.
    pub async fn answer(&self, wish: RegionAction) -> Bytes {
        let inner = Arc::clone(&self.inner);
        let answering = tokio::spawn(name_task(async move { inner.answer(wish).await }));
        answering.await.unwrap_or_default()
    }

    /// Makes this region, or the other one, the owner of the space. Runs to its end
    /// even if the caller stops waiting.
    pub async fn transfer(&self, to: &str, accepts_loss: bool) -> Result<(), String> {
        let (inner, to) = (Arc::clone(&self.inner), to.to_owned());
        let moving = tokio::spawn(name_task(
            async move { inner.transfer(&to, accepts_loss).await },
        ));
        let moved = moving.await;
        moved.unwrap_or_else(|_| Err("the transfer was aborted".to_owned()))
    }

    /// Sends a request to the owner; `None` if the outcome is unknown.
    pub async fn ask_owner(&self, request: Bytes, limit: Duration) -> Option<Bytes> {
        let wish = RegionAction::Proxy(request);
        self.inner.send_request(RegionPeer::Pair, wish, limit).await
    }

    /// Hands the space over to the other region if that follows, because this
    /// server leaves.
    pub async fn leave(&self) {
        if self.epoch().is_some() && self.inner.setup.lease.mode() == LeaderMode::Synced {
            let _ = self.inner.hand_over().await;
        }
        self.task.abort();
    }
}

impl Drop for RegionPair {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Inner {
    async fn run(self: Arc<Self>) {
        let mut changes = self.setup.lease.changes();
        let mut next_greeting = Duration::ZERO;
        loop {
            if self.setup.lease.mode() == LeaderMode::Away && self.now() >= next_greeting {
                next_greeting = self.now() + RENEWAL;
                let own = Arc::clone(&self);
                tokio::spawn(name_task(async move { own.probe_others().await }));
            }
            let pause = match self.setup.lease.mode() {
                LeaderMode::Away => LOOK,
                _ if self.setup.lease.epoch().is_none() => {
                    self.step_down("the lease has ended").await;
                    continue;
                }
                _ => RENEWAL,
            };
            match self.setup.lease.mode() {
                LeaderMode::Away => {
                    self.settle().await;
                    self.try_claim().await;
                }
                _ => self.renew_lease().await,
            }
            changes.mark_unchanged();
            let is_urgent = self.setup.lease.is_alone_requested();
            let pause = if is_urgent { LOOK } else { pause };
            let _ = tokio::time::timeout(pause, changes.changed()).await;
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.setup.lease.now()
    }

    /// As a follower: checks whether the other region and the witness answer, and
    /// learns their epochs.
    async fn probe_others(&self) {
        let setup = &self.setup;
        let seen = self.send_request(RegionPeer::Pair, RegionAction::Status, ANSWER);
        // Epoch 0 never had an owner: the request is refused, and the refusal holds the
        // current epoch.
        let nothing = VoteRequest::Release {
            epoch: 0,
            owner: setup.region.clone(),
        };
        let at_witness = async {
            if setup.has_witness {
                self.request_vote(RegionPeer::Witness, nothing).await
            } else {
                None
            }
        };
        let (seen, said) = join(seen, at_witness).await;
        self.reaches[0].store(seen.is_some(), Ordering::Relaxed);
        if let Some(VoteResponse::Refused { ballot, .. }) = said {
            self.learn(&ballot);
        }
    }

    /// The mirror has detected that this region is not the owner: it follows.
    async fn settle(&self) {
        let _turning = self.turning.lock().await;
        if self.setup.lease.mode() != LeaderMode::Away {
            return;
        }
        let is_following = self.is_following.load(Ordering::Acquire);
        let is_serving = !self.setup.runtime.serving().is_empty();
        if is_serving || !is_following && !self.is_handing() {
            self.become_follower("another region owns the space").await;
        }
    }

    /// As a follower: claims the lease if it is free.
    async fn try_claim(self: &Arc<Self>) {
        let setup = &self.setup;
        let Ok((ballot, left)) = setup.votes.look(&setup.space).await else {
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
        let seen = self
            .send_request(RegionPeer::Pair, RegionAction::Status, ANSWER)
            .await;
        let seen = seen.and_then(|seen| Ballot::decode(seen).ok());
        seen.is_some_and(|seen| seen.epoch <= epoch)
    }

    /// Claims a space that never had an owner: all three must agree.
    async fn found(self: &Arc<Self>) -> Result<(), String> {
        let setup = &self.setup;
        let seen = self
            .send_request(RegionPeer::Pair, RegionAction::Status, ANSWER)
            .await;
        self.reaches[0].store(seen.is_some(), Ordering::Relaxed);
        let seen = seen.ok_or("the other region does not answer")?;
        let seen = Ballot::decode(seen).map_err(|_| "its answer is malformed")?;
        if seen.epoch > 0 {
            return Err(format!("the space is in epoch {} already", seen.epoch));
        }
        setup.follower.initialize().await.map_err(error_text)?;
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
        if setup.lease.mode() != LeaderMode::Away {
            return Ok(());
        }
        let held = setup.votes.hold(&setup.space, &setup.region).await;
        let held = held.map_err(error_text)?;
        if held.is_none() {
            return Err("the other region is promised the lease".to_owned());
        }
        let ask = VoteRequest::Claim {
            epoch,
            owner: setup.region.clone(),
            is_first,
            accepts_loss,
        };
        let sent = self.now();
        let granted = if setup.has_witness {
            self.request_vote(RegionPeer::Witness, ask).await
        } else {
            Some(VoteResponse::Granted)
        };
        let taken = match granted {
            Some(VoteResponse::Granted) => Ok(()),
            Some(VoteResponse::Refused { ballot, left }) => {
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
        let kept = setup.votes.let_go(&setup.space, next.clone()).await;
        taken?;
        kept.map_err(error_text)?;
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
        setup.lease.acquire(epoch, until);
        setup.external_work.start();
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
        self.become_follower(why).await;
    }

    /// The same, for a caller that holds the lock of role changes.
    async fn become_follower(&self, why: &str) {
        let setup = &self.setup;
        setup.lease.release();
        // Calls already sent are not undone; their results belong to the next owner.
        setup.external_work.stop();
        setup.store.abandon_all();
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
        match self.setup.lease.mode() {
            LeaderMode::Away => self.open_copy(epoch).await,
            _ => Ok(()),
        }
    }

    async fn open_copy(&self, epoch: u64) -> Result<(), steadfast_storage::Error> {
        self.setup.follower.open(epoch).await?;
        self.is_following.store(true, Ordering::Release);
        Ok(())
    }

    /// Sends a request about this space.
    pub(super) async fn send_request(
        &self,
        to: RegionPeer,
        wish: RegionAction,
        limit: Duration,
    ) -> Option<Bytes> {
        let space = self.setup.space.clone();
        let word = RegionRequest {
            space,
            action: wish,
        };
        self.setup.transport.send(to, &word, limit).await
    }

    /// Requests a vote.
    pub(super) async fn request_vote(
        &self,
        to: RegionPeer,
        ask: VoteRequest,
    ) -> Option<VoteResponse> {
        let said = self.send_request(to, RegionAction::Vote(ask), ANSWER).await;
        let index = match to {
            RegionPeer::Pair => 0,
            RegionPeer::Witness => 1,
        };
        self.reaches[index].store(said.is_some(), Ordering::Relaxed);
        VoteResponse::decode(said?).ok()
    }

    pub(super) fn learn(&self, ballot: &Ballot) {
        let mut known = self.known.lock();
        if ballot.epoch >= known.epoch {
            *known = ballot.clone();
        }
    }

    async fn answer(self: &Arc<Self>, wish: RegionAction) -> Bytes {
        let setup = &self.setup;
        match wish {
            RegionAction::Vote(ask) => {
                let said = setup.votes.vote(&setup.space, &ask).await;
                match said.ok().flatten() {
                    Some(say) => say.encode(),
                    None => Bytes::new(),
                }
            }
            RegionAction::Copy(copy) => {
                let known = self.known.lock().epoch;
                let reply = match setup.lease.mode() {
                    LeaderMode::Away => setup.follower.apply(copy).await,
                    _ if copy.epoch < known => CopyResponse::Deposed(known),
                    // This region will step down as soon as it learns of the new owner.
                    _ => CopyResponse::Failed("this region does not follow yet".to_owned()),
                };
                reply.encode()
            }
            RegionAction::Status => match setup.votes.look(&setup.space).await {
                Ok((ballot, _)) => ballot.encode(),
                Err(_) => Bytes::new(),
            },
            RegionAction::HandOver => encode_outcome(self.hand_over().await),
            RegionAction::Take(epoch) => encode_outcome(self.take_given(epoch).await),
            RegionAction::Proxy(_) => Bytes::new(),
        }
    }

    fn status(&self) -> PairStatus {
        let setup = &self.setup;
        let known = self.known.lock().clone();
        let is_owner = setup.lease.epoch().is_some();
        let mode = match setup.lease.mode() {
            // Until the witness has recorded it, the other region cannot take over by
            // itself.
            LeaderMode::Synced if self.is_recorded.load(Ordering::Relaxed) => "synced",
            LeaderMode::Synced | LeaderMode::Alone => "degraded",
            LeaderMode::Away if self.is_catching_up.load(Ordering::Relaxed) => "catching-up",
            LeaderMode::Away => "following",
        };
        PairStatus {
            region: setup.region.clone(),
            pair: setup.pair.clone(),
            home: setup.home.clone(),
            owner: known.owner,
            epoch: known.epoch,
            is_owner,
            mode,
            lag_ms: setup.lease.lag().as_millis() as u64,
            reaches_pair: self.reaches[0].load(Ordering::Relaxed),
            reaches_witness: self.reaches[1].load(Ordering::Relaxed),
            has_witness: setup.has_witness,
            takeovers: self.takeovers.load(Ordering::Relaxed),
            fenced: setup.mirror.fenced(),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
pub(super) fn error_text(error: steadfast_storage::Error) -> String {
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
pub(super) fn decode_answer(answer: Option<Bytes>) -> Result<(), String> {
    decode_outcome(&answer.ok_or("the other region does not answer")?)
}
