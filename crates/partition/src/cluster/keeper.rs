//! Keeps a node in its cluster, with its part of it.
//!
//! One task renews the lease and does nothing else. Another writes the node's record,
//! reads those of the others, and takes what the plan says. It looks at once when the engine or the
//! runtime says that something has changed. It decides nothing alone: a partition is
//! taken by the engine's compare-and-swap, and one of a living node is asked for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use steadfast_core::id::{Epoch, Owner, Partition};
use steadfast_core::limits;
use steadfast_storage::engine::Swap;
use steadfast_storage::{Lease, Store};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::exchange::{self, Request};
use super::isolation::{self, Voice};
use super::join::Setup;
use super::member::{Member, PREFIX, State};
use super::network::Peer;
use super::plan::{Living, Scene, Take, plan};
use super::probe::{self, Probes};
use super::roster::Roster;
use super::standing::{self, Standing};
use super::work::{COLLECT, RETRY, Work};
use crate::address::Kind as ServiceKind;
use crate::error::{Error, Kind, Result};
use crate::runtime::Runtime;

/// This node in its cluster.
pub struct Cluster {
    inner: Arc<Inner>,
    tasks: [AbortHandle; 3],
}

struct Inner {
    setup: Setup,
    owner: Owner,
    store: Arc<Store>,
    /// Stores of other spaces, whose partitions go with those of this one.
    beside: Mutex<Vec<Arc<Store>>>,
    runtime: Weak<Runtime>,
    lease: Lease,
    state: Mutex<State>,
    /// The version of our record; 0 while it is not known.
    version: AtomicU64,
    /// Somebody else has our name: nothing is taken any more.
    is_superseded: Mutex<bool>,
    listeners: RwLock<BTreeMap<ServiceKind, Arc<dyn Listener>>>,
    probes: Probes,
    /// Most others do not reach this node.
    is_isolated: AtomicBool,
    bell: Notify,
    counters: Counters,
}

#[derive(Default)]
struct Counters {
    taken: AtomicU64,
    given: AtomicU64,
    lapses: AtomicU64,
    late_beats: AtomicU64,
}

/// What a node has been through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Partitions that it took.
    pub taken: u64,
    /// Partitions that it gave to nodes that asked, or because it was isolated.
    pub given: u64,
    /// How often its lease ended.
    pub lapses: u64,
    /// Renewals of the lease that failed.
    pub late_beats: u64,
}

/// How long a node that leaves tries to end its lease.
const LAST: Duration = Duration::from_secs(1);

/// Of a lease, what is not used: memory is not believed in its last part.
const MARGIN: Duration = Duration::from_secs(2);

impl Cluster {
    /// Begins to take part. The store must have `lease`, and belong to `owner`.
    pub async fn start(
        setup: Setup,
        runtime: &Arc<Runtime>,
        store: Arc<Store>,
        lease: Lease,
    ) -> Result<Self> {
        let owner = store.owner();
        let version = setup.roster.get(&setup.identity.name);
        let inner = Arc::new(Inner {
            owner,
            store,
            beside: Mutex::default(),
            runtime: Arc::downgrade(runtime),
            lease,
            state: Mutex::new(State::Up),
            version: AtomicU64::new(version.map_or(0, |seen| seen.version)),
            is_superseded: Mutex::new(false),
            listeners: RwLock::default(),
            probes: Probes::default(),
            is_isolated: AtomicBool::new(false),
            bell: Notify::new(),
            counters: Counters::default(),
            setup,
        });
        // Nothing is taken before there is a lease. That of an earlier life may not have
        // ended yet, and counts longer after a failover.
        let end = inner.now() + inner.setup.lease * 3;
        while let Err(error) = inner.beat().await {
            if inner.now() >= end {
                return Err(error);
            }
            tokio::time::sleep(inner.setup.lease / 10).await;
        }
        inner.publish().await?;
        // The heart waits for nothing else: a lease must not end because others are slow.
        let heart = Arc::clone(&inner);
        let heart = tokio::spawn(async move { heart.live().await });
        let running = Arc::clone(&inner);
        let running = tokio::spawn(async move { running.run().await });
        let probing = Arc::clone(&inner);
        let probing = tokio::spawn(async move {
            let Inner { setup, owner, .. } = &*probing;
            probe::run(setup, *owner, &probing.probes, &probing.bell).await;
        });
        let tasks = [heart, running, probing].map(|task| task.abort_handle());
        Ok(Self { inner, tasks })
    }

    /// Who this node is.
    pub fn owner(&self) -> Owner {
        self.inner.owner
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.inner.setup.identity.name
    }

    /// What is known of the others.
    pub fn roster(&self) -> &Arc<Roster> {
        &self.inner.setup.roster
    }

    /// Has the lease end for another store, too.
    pub fn lapse_with(&self, store: Arc<Store>) {
        self.inner.beside.lock().push(store);
    }

    /// Has somebody hear what other nodes tell of a kind.
    pub fn listen(&self, kind: ServiceKind, listener: Arc<dyn Listener>) {
        self.inner.listeners.write().insert(kind, listener);
    }

    /// Tells another node something.
    pub async fn tell(&self, peer: &Peer, kind: ServiceKind, body: Bytes) -> Result<Bytes> {
        let limit = limits::FORWARD_READ;
        self.tell_within(peer, kind, body, limit).await
    }

    /// The same, in a time.
    pub async fn tell_within(
        &self,
        peer: &Peer,
        kind: ServiceKind,
        body: Bytes,
        limit: Duration,
    ) -> Result<Bytes> {
        self.send(peer, &Request::Tell(kind, body), limit).await
    }

    async fn send(&self, peer: &Peer, request: &Request, limit: Duration) -> Result<Bytes> {
        let request = request.encode();
        let network = &self.inner.setup.network;
        let sent = network.send(peer, request, limit).await;
        let nowhere = Partition::new(u16::MAX, u16::MAX);
        let unreachable = |_| Error::new(Kind::Unreachable { partition: nowhere });
        exchange::open(sent.map_err(unreachable)?)
    }

    /// Answers a request of another node, that has proven who it is.
    pub async fn answer(&self, request: Bytes) -> Bytes {
        exchange::reply(self.inner.answer(request).await)
    }

    /// Waits until every partition has an owner; answers whether that came about.
    pub async fn settled(&self, limit: Duration) -> bool {
        let Some(runtime) = self.inner.runtime.upgrade() else {
            return false;
        };
        let (mut own, mut others) = (runtime.changes(), self.roster().changes());
        let settled = async {
            while !self.inner.idle(&runtime).is_empty() {
                // Records also change silently, when a node is taken for dead.
                tokio::select! {
                    _ = own.changed() => {}
                    _ = others.changed() => {}
                    () = tokio::time::sleep(RETRY) => {}
                }
            }
        };
        tokio::time::timeout(limit, settled).await.is_ok()
    }

    /// Takes nothing any more, and lets others take what is given up.
    pub async fn leave(&self) {
        *self.inner.state.lock() = State::Leaving;
        self.inner.tell().await;
    }

    /// Has given everything up.
    pub async fn gone(&self) {
        *self.inner.state.lock() = State::Gone;
        self.inner.tell().await;
        self.tasks.iter().for_each(AbortHandle::abort);
        // Whoever comes next under this name need not wait for its end.
        let engine = &self.inner.setup.engine;
        let ending = engine.renew(self.inner.owner, Duration::ZERO);
        match tokio::time::timeout(LAST, ending).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(event = "cluster.lease_kept", %error),
            Err(error) => tracing::debug!(event = "cluster.lease_kept", %error),
        }
    }

    /// Asks for a partition that another node has, or for one that nobody has.
    pub async fn take(&self, index: u16) -> Result<()> {
        let partition = Partition::new(self.inner.space(), index);
        let owner = self.roster().owner(partition);
        let take = match owner.filter(|(peer, _)| peer.owner != self.inner.owner) {
            Some((peer, epoch)) => Take::From(index, peer.owner, epoch),
            None => Take::Free(index),
        };
        self.inner.take(take).await
    }

    /// Has a node take a partition: this one, or another by asking it.
    pub async fn move_to(&self, index: u16, node: &str) -> Result<()> {
        if node == self.inner.setup.identity.name {
            return self.take(index).await;
        }
        let partition = Partition::new(self.inner.space(), index);
        let seen = self.roster().get(node);
        let Some(seen) = seen.filter(|seen| !self.roster().is_dead(seen)) else {
            return Err(Error::new(Kind::Unreachable { partition }));
        };
        let (peer, request) = (seen.member.peer(), Request::Take(partition));
        let sent = self.send(&peer, &request, limits::FORWARD_READ).await;
        sent.map(drop)
    }

    /// How the cluster stands, as this node sees it.
    pub fn standing(&self) -> Standing {
        let idle = self.inner.runtime.upgrade();
        let idle = idle.map(|runtime| self.inner.idle(&runtime));
        Standing {
            cluster: self.inner.setup.identity.cluster.clone(),
            node: self.inner.setup.identity.name.clone(),
            nodes: standing::nodes(self.roster(), self.inner.now(), self.inner.owner, || {
                self.inner.serves()
            }),
            idle: idle.unwrap_or_default(),
        }
    }

    /// What this node has been through.
    pub fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.inner.counters;
        Counts {
            taken: read(&counters.taken),
            given: read(&counters.given),
            lapses: read(&counters.lapses),
            late_beats: read(&counters.late_beats),
        }
    }

    /// How many other nodes this one does not reach.
    pub fn missed(&self) -> usize {
        self.inner.probes.missed().len()
    }

    /// Whether the node's lease holds.
    pub fn has_lease(&self) -> bool {
        self.inner.lease.holds()
    }
}

/// Hears what other nodes tell this one.
#[async_trait]
pub trait Listener: Send + Sync + 'static {
    /// Takes in what a node says, and answers it.
    async fn hear(&self, message: Bytes) -> Result<Bytes>;
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Inner {
    fn now(&self) -> Duration {
        self.setup.clock.monotonic()
    }

    fn space(&self) -> u16 {
        let runtime = self.runtime.upgrade();
        runtime.map_or(0, |runtime| runtime.space().number)
    }

    /// Renews the lease, again and again.
    async fn live(&self) {
        let beat = self.setup.lease / 4;
        let mut pause = beat;
        loop {
            tokio::time::sleep(pause).await;
            pause = if self.beat().await.is_ok() {
                beat
            } else {
                RETRY
            };
        }
    }

    async fn run(self: Arc<Self>) {
        let Some(runtime) = self.runtime.upgrade() else {
            return;
        };
        let (mut engine, mut own) = (self.setup.engine.watch(), runtime.changes());
        drop(runtime);
        let mut work = Work::default();
        let round = self.setup.lease / 4;
        let mut next_round = self.now() + round;
        let mut is_told = true;
        loop {
            let pause = match is_told {
                true => next_round
                    .saturating_sub(self.now())
                    .min(work.pause(self.now())),
                false => RETRY,
            };
            let has_changed = tokio::select! {
                () = tokio::time::sleep(pause) => false,
                _ = engine.changed() => false,
                _ = own.changed() => true,
                () = self.bell.notified() => true,
                Some(done) = work.moves.join_next() => {
                    work.ended(done.ok(), self.now());
                    false
                }
            };
            // What comes together is looked at together.
            tokio::time::sleep(COLLECT).await;
            engine.mark_unchanged();
            let has_changed = has_changed | own.has_changed().unwrap_or(false);
            own.mark_unchanged();
            if self.now() >= next_round {
                next_round = self.now() + round;
                is_told = false;
            }
            if has_changed || !is_told {
                is_told = self.publish().await.is_ok();
            }
            let _ = self.look().await;
            let Some(runtime) = self.runtime.upgrade() else {
                return;
            };
            self.act(&runtime, &mut work);
        }
    }

    /// Renews the lease. One that has ended is begun anew, with nothing in hand.
    async fn beat(&self) -> Result<()> {
        if *self.is_superseded.lock() {
            return Ok(());
        }
        let sent = self.now();
        let lease = self.setup.lease;
        let limit = match self.lease.left() {
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
                left_ms = self.lease.left().as_millis() as u64
            );
            if !self.lease.holds() {
                self.lapse();
            }
            return Err(Error::new(Kind::Unreachable {
                partition: Partition::new(self.space(), 0),
            }));
        }
        self.lapse();
        self.lease.begin(until);
        Ok(())
    }

    /// Others may have what this node had.
    fn lapse(&self) {
        let had = self.lose_all();
        if had > 0 {
            self.counters.lapses.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                event = "cluster.lease_ended",
                had,
                "the lease has ended; all partitions were given up"
            );
        }
    }

    /// Gives up what all stores have; answers how much this space had.
    fn lose_all(&self) -> usize {
        for beside in &*self.beside.lock() {
            beside.lapse();
        }
        self.store.lapse()
    }

    /// Writes this node's record.
    async fn publish(&self) -> Result<()> {
        if *self.is_superseded.lock() {
            return Ok(());
        }
        let member = Member {
            identity: self.setup.identity.clone(),
            owner: self.owner,
            state: *self.state.lock(),
            serves: self.serves(),
            missed: self.probes.missed(),
            is_isolated: self.is_isolated.load(Ordering::Relaxed),
        };
        let key = Member::key(&member.identity.name);
        for _ in 0..3 {
            let version = self.version.load(Ordering::Acquire);
            match self
                .setup
                .engine
                .cas(&key, version, member.encode())
                .await?
            {
                Swap::Done(version) => {
                    self.version.store(version, Ordering::Release);
                    return Ok(());
                }
                Swap::Conflict { version, value } => {
                    let found = value.and_then(|value| Member::decode(value).ok());
                    self.version.store(version, Ordering::Release);
                    // The answer to our last write was lost.
                    if found.is_none_or(|found| found.owner == self.owner) {
                        continue;
                    }
                    self.supersede();
                    return Ok(());
                }
            }
        }
        Err(Error::new(Kind::Unreachable {
            partition: Partition::new(self.space(), 0),
        }))
    }

    /// A node that took our name is this node from now on.
    fn supersede(&self) {
        *self.is_superseded.lock() = true;
        self.lose_all();
        tracing::error!(
            event = "cluster.superseded",
            name = self.setup.identity.name,
            "another node has this node's name; it serves nothing any more",
        );
    }

    /// What this node serves, with epochs.
    fn serves(&self) -> Vec<(u16, Epoch)> {
        let Some(runtime) = self.runtime.upgrade() else {
            return Vec::new();
        };
        let space = runtime.space().number;
        let doors = runtime.router().doors();
        let own = doors
            .iter()
            .filter(|door| door.partition().space() == space);
        own.map(|door| (door.partition().index(), door.ledger().epoch()))
            .collect()
    }

    async fn tell(&self) {
        if self.publish().await.is_err() {
            self.bell.notify_one();
        }
    }

    async fn look(&self) -> Result<()> {
        let asked = self.now();
        let records = self.setup.engine.list(PREFIX).await?;
        self.setup.roster.learn(&records, asked);
        Ok(())
    }

    /// Partitions that nobody serves.
    fn idle(&self, runtime: &Runtime) -> Vec<u16> {
        let roster = &self.setup.roster;
        let all = runtime.space().all();
        let idle = all.filter(|partition| {
            runtime.router().door(*partition).is_none()
                && roster
                    .owner(*partition)
                    .is_none_or(|(peer, _)| peer.owner == self.owner)
        });
        idle.map(Partition::index).collect()
    }

    /// Begins what the plan says.
    fn act(self: &Arc<Self>, runtime: &Arc<Runtime>, work: &mut Work) {
        let idle = self.idle(runtime);
        let now = self.now();
        work.note_idle(&idle, now);
        if *self.state.lock() != State::Up || *self.is_superseded.lock() || !self.lease.holds() {
            return;
        }
        if self.is_isolated() {
            self.give_up(runtime, work, now);
            return;
        }
        let living = self.living();
        let scene = Scene {
            me: self.owner,
            living: &living,
            partitions: runtime.space().partitions,
            taking: &work.taking,
            idle: &work.idle,
            now,
            lease: self.setup.lease,
        };
        let takes = plan(&scene, &mut |bound| fastrand::u32(..bound));
        for take in takes {
            let (Take::Free(index) | Take::From(index, ..)) = take;
            if work.moves.len() >= limits::NODE_MOVES {
                break;
            }
            if !work.may_try(index, now) {
                continue;
            }
            work.taking.insert(index);
            let me = Arc::clone(self);
            work.moves
                .spawn(async move { (index, me.take(take).await) });
        }
    }

    /// Whether most others do not reach this node.
    fn is_isolated(&self) -> bool {
        let was_so = self.is_isolated.load(Ordering::Relaxed);
        let mut living = self.setup.roster.voices(self.owner);
        living.push(Voice {
            owner: self.owner,
            is_isolated: was_so,
            missed: self.probes.missed(),
        });
        let is_so = isolation::is_isolated(self.owner, &living);
        self.is_isolated.store(is_so, Ordering::Relaxed);
        if is_so != was_so {
            self.bell.notify_one();
        }
        match (was_so, is_so) {
            (false, true) => tracing::error!(
                event = "cluster.isolated",
                "most other nodes do not reach this one; it gives up what it has"
            ),
            (true, false) => tracing::info!(event = "cluster.reached_again"),
            _ => {}
        }
        is_so
    }

    /// Hands over everything, for whoever is reached to take it.
    fn give_up(self: &Arc<Self>, runtime: &Arc<Runtime>, work: &mut Work, now: Duration) {
        for (index, _) in self.serves() {
            if work.moves.len() >= limits::NODE_MOVES {
                break;
            }
            if !work.may_try(index, now) {
                continue;
            }
            work.taking.insert(index);
            let (me, runtime) = (Arc::clone(self), Arc::clone(runtime));
            let partition = Partition::new(runtime.space().number, index);
            work.moves.spawn(async move {
                let given = runtime.hand_over(partition, limits::GIVE_TIME).await;
                match &given {
                    Ok(_) => drop(me.counters.given.fetch_add(1, Ordering::Relaxed)),
                    // The engine still names this node: it is opened again, and given up.
                    Err(error) if error.storage().is_some() => {
                        drop(runtime.serve(partition).await);
                    }
                    Err(_) => {}
                }
                (index, given.map(drop))
            });
        }
    }

    /// All living nodes; this one as it is, not as its record says.
    fn living(&self) -> Vec<Living> {
        let roster = &self.setup.roster;
        let all = roster.all().into_iter();
        let others = all.filter(|seen| !roster.is_dead(seen) && seen.member.owner != self.owner);
        let mut living: Vec<_> = others
            .filter(|seen| seen.member.identity.name != self.setup.identity.name)
            .map(|seen| Living {
                owner: seen.member.owner,
                is_leaving: seen.member.state == State::Leaving || seen.member.is_isolated,
                serves: seen.member.serves,
            })
            .collect();
        living.push(Living {
            owner: self.owner,
            is_leaving: *self.state.lock() == State::Leaving,
            serves: self.serves(),
        });
        living
    }

    async fn take(&self, take: Take) -> Result<()> {
        let runtime = self.runtime.upgrade();
        let runtime = runtime.ok_or_else(exchange::malformed)?;
        let (Take::Free(index) | Take::From(index, ..)) = take;
        let partition = Partition::new(runtime.space().number, index);
        if self.is_isolated.load(Ordering::Relaxed) {
            return Err(Error::new(Kind::Draining { partition }));
        }
        if let Take::From(_, from, epoch) = take {
            let peer = self.setup.roster.peer(from);
            let peer = peer.ok_or_else(|| Error::new(Kind::Unreachable { partition }))?;
            let request = Request::Give(partition, epoch, self.owner).encode();
            let limit = limits::GIVE_TIME * 2;
            let sent = self.setup.network.send(&peer, request, limit).await;
            let unreachable = |_| Error::new(Kind::Unreachable { partition });
            exchange::open(sent.map_err(unreachable)?)?;
        }
        let taken = runtime.serve(partition).await;
        match &taken {
            Ok(()) => {
                self.counters.taken.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(event = "cluster.taken", %partition);
            }
            Err(error) => tracing::debug!(event = "cluster.not_taken", %partition, %error),
        }
        taken
    }

    async fn answer(&self, request: Bytes) -> Result<Bytes> {
        let runtime = self.runtime.upgrade();
        let runtime = runtime.ok_or_else(exchange::malformed)?;
        match Request::decode(request).map_err(|_| exchange::malformed())? {
            Request::Give(partition, epoch, to) => {
                self.give(&runtime, partition, epoch, to).await?;
                Ok(Bytes::new())
            }
            Request::Take(partition) => {
                let index = partition.index();
                let owner = self.setup.roster.owner(partition);
                let take = match owner.filter(|(peer, _)| peer.owner != self.owner) {
                    Some((peer, epoch)) => Take::From(index, peer.owner, epoch),
                    None => Take::Free(index),
                };
                self.take(take).await?;
                Ok(Bytes::new())
            }
            Request::Probe => Ok(Bytes::new()),
            Request::Tell(kind, body) => {
                let listener = self.listeners.read().get(&kind).cloned();
                let listener = listener.ok_or_else(|| Error::new(Kind::NoService { kind }))?;
                listener.hear(body).await
            }
            request => exchange::serve(runtime.router(), request).await,
        }
    }

    /// Hands a partition over to a node that asks for it, if that has seen it as it is.
    async fn give(
        &self,
        runtime: &Runtime,
        partition: Partition,
        epoch: Epoch,
        to: Owner,
    ) -> Result<()> {
        let not_ours = || Error::new(Kind::NotOwner { partition });
        let door = runtime.router().door(partition).ok_or_else(not_ours)?;
        if door.ledger().epoch() != epoch || self.setup.roster.peer(to).is_none() {
            return Err(not_ours());
        }
        runtime.hand_over(partition, limits::GIVE_TIME).await?;
        self.counters.given.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(event = "cluster.given", %partition, to = to.node);
        Ok(())
    }
}
