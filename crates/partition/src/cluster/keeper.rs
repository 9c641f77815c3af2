//! Keeps a node in its cluster, with its part of it.
//!
//! One task renews the lease and does nothing else (`heart`). Another writes the node's
//! record, reads those of the others (`record`), and takes what the plan says (`share`).
//! It looks at once when the engine or the runtime says that something has changed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use steadfast_core::id::{Owner, Partition};
use steadfast_core::limits;
use steadfast_core::task::named;
use steadfast_storage::{Lease, Store};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::exchange::{self, Request};
use super::join::Setup;
use super::member::State;
use super::network::Peer;
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

pub(super) struct Inner {
    pub(super) setup: Setup,
    pub(super) owner: Owner,
    pub(super) store: Arc<Store>,
    /// Stores of other spaces, whose partitions go with those of this one.
    pub(super) beside: Mutex<Vec<Arc<Store>>>,
    pub(super) runtime: Weak<Runtime>,
    pub(super) lease: Lease,
    pub(super) state: Mutex<State>,
    /// The version of our record; 0 while it is not known.
    pub(super) version: AtomicU64,
    /// Somebody else has our name: nothing is taken any more.
    pub(super) is_superseded: Mutex<bool>,
    pub(super) listeners: RwLock<BTreeMap<ServiceKind, Arc<dyn Listener>>>,
    pub(super) probes: Probes,
    /// Most others do not reach this node.
    pub(super) is_isolated: AtomicBool,
    pub(super) bell: Notify,
    pub(super) counters: Counters,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) taken: AtomicU64,
    pub(super) given: AtomicU64,
    pub(super) lapses: AtomicU64,
    pub(super) late_beats: AtomicU64,
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
        let heart = tokio::spawn(named(async move { heart.live().await }));
        let running = Arc::clone(&inner);
        let running = tokio::spawn(named(async move { running.run().await }));
        let probing = Arc::clone(&inner);
        let probing = tokio::spawn(named(async move {
            let Inner { setup, owner, .. } = &*probing;
            probe::run(setup, *owner, &probing.probes, &probing.bell).await;
        }));
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
        self.inner.take_now(partition).await
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
    pub(super) fn now(&self) -> Duration {
        self.setup.clock.monotonic()
    }

    pub(super) fn space(&self) -> u16 {
        let runtime = self.runtime.upgrade();
        runtime.map_or(0, |runtime| runtime.space().number)
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
}
