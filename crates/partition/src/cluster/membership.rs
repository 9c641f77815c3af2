//! The membership agent of a node.
//!
//! One task renews the lease and does nothing else (`lease_renewal`). Another writes
//! the node's record, reads those of the others (`record_sync`), and acquires what the
//! plan assigns (`assignment`), at once when the engine or the runtime signals a
//! change. A third probes the other nodes (`probe`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use steadfast_core::id::{Owner, Partition};
use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_storage::{NodeLease, Store};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::join::ClusterSetup;
use super::member_record::State;
use super::members::Members;
use super::network::ClusterPeer;
use super::pending_moves::{COLLECT, PendingMoves, RETRY};
use super::probe::{self, Probes};
use super::request::{self, Request};
use super::status::{self, ClusterStatus};
use crate::error::{Error, ErrorKind, Result};
use crate::ingress::address::ServiceKind;
use crate::owner::runtime::Runtime;

/// This node's membership in its cluster.
pub struct Cluster {
    inner: Arc<Inner>,
    tasks: [AbortHandle; 3],
}

pub(super) struct Inner {
    pub(super) setup: ClusterSetup,
    pub(super) owner: Owner,
    pub(super) store: Arc<Store>,
    /// Stores of other spaces that share this lease.
    pub(super) other_stores: Mutex<Vec<Arc<Store>>>,
    pub(super) runtime: Weak<Runtime>,
    pub(super) lease: NodeLease,
    pub(super) state: Mutex<State>,
    /// The version of this node's record; 0 while it is unknown.
    pub(super) version: AtomicU64,
    /// Another node has taken this node's name: no partition is acquired any more.
    pub(super) is_superseded: Mutex<bool>,
    pub(super) listeners: RwLock<BTreeMap<ServiceKind, Arc<dyn NodeMessageHandler>>>,
    pub(super) probes: Probes,
    /// Most others do not reach this node.
    pub(super) is_isolated: AtomicBool,
    pub(super) bell: Notify,
    pub(super) counters: ClusterCounters,
}

#[derive(Default)]
pub(super) struct ClusterCounters {
    pub(super) taken: AtomicU64,
    pub(super) given: AtomicU64,
    pub(super) lapses: AtomicU64,
    pub(super) late_beats: AtomicU64,
}

/// Counters of a node's membership.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterCounts {
    /// Partitions that it acquired.
    pub taken: u64,
    /// Partitions that it handed over on request, or because it was isolated.
    pub given: u64,
    /// How often its lease expired.
    pub lapses: u64,
    /// Renewals of the lease that failed.
    pub late_beats: u64,
}

/// How long a leaving node tries to end its lease.
const LAST: Duration = Duration::from_secs(1);

impl Cluster {
    /// Starts the membership. The store must have `lease`, and belong to `owner`.
    pub async fn start(
        setup: ClusterSetup,
        runtime: &Arc<Runtime>,
        store: Arc<Store>,
        lease: NodeLease,
    ) -> Result<Self> {
        let owner = store.owner();
        let version = setup.members.get(&setup.identity.name);
        let inner = Arc::new(Inner {
            owner,
            store,
            other_stores: Mutex::default(),
            runtime: Arc::downgrade(runtime),
            lease,
            state: Mutex::new(State::Up),
            version: AtomicU64::new(version.map_or(0, |seen| seen.version)),
            is_superseded: Mutex::new(false),
            listeners: RwLock::default(),
            probes: Probes::default(),
            is_isolated: AtomicBool::new(false),
            bell: Notify::new(),
            counters: ClusterCounters::default(),
            setup,
        });
        // No partition is acquired before there is a lease. The lease of an earlier
        // life may still run, and counts longer after a failover.
        let end = inner.now() + inner.setup.lease * 3;
        while let Err(error) = inner.renew_lease().await {
            if inner.now() >= end {
                return Err(error);
            }
            tokio::time::sleep(inner.setup.lease / 10).await;
        }
        inner.publish().await?;
        // The renewal waits for nothing else: a lease must not end because another
        // operation is slow.
        let heart = Arc::clone(&inner);
        let heart = tokio::spawn(name_task(async move { heart.keep_lease().await }));
        let running = Arc::clone(&inner);
        let running = tokio::spawn(name_task(async move { running.run().await }));
        let probing = Arc::clone(&inner);
        let probing = tokio::spawn(name_task(async move {
            let Inner { setup, owner, .. } = &*probing;
            probe::run(setup, *owner, &probing.probes, &probing.bell).await;
        }));
        let tasks = [heart, running, probing].map(|task| task.abort_handle());
        Ok(Self { inner, tasks })
    }

    /// The identity of this node.
    pub fn owner(&self) -> Owner {
        self.inner.owner
    }

    /// The name of this node.
    pub fn name(&self) -> &str {
        &self.inner.setup.identity.name
    }

    /// The known members.
    pub fn members(&self) -> &Arc<Members> {
        &self.inner.setup.members
    }

    /// Adds a store of another space that loses its partitions with this lease.
    pub fn add_store(&self, store: Arc<Store>) {
        self.inner.other_stores.lock().push(store);
    }

    /// Registers the handler for messages of other nodes of a kind.
    pub fn register_handler(&self, kind: ServiceKind, listener: Arc<dyn NodeMessageHandler>) {
        self.inner.listeners.write().insert(kind, listener);
    }

    /// Sends a message to the handler of a kind at another node.
    pub async fn request(
        &self,
        peer: &ClusterPeer,
        kind: ServiceKind,
        body: Bytes,
    ) -> Result<Bytes> {
        let limit = limits::FORWARD_READ;
        self.request_within(peer, kind, body, limit).await
    }

    /// The same, with a time limit.
    pub async fn request_within(
        &self,
        peer: &ClusterPeer,
        kind: ServiceKind,
        body: Bytes,
        limit: Duration,
    ) -> Result<Bytes> {
        self.send(peer, &Request::NodeMessage(kind, body), limit)
            .await
    }

    async fn send(&self, peer: &ClusterPeer, request: &Request, limit: Duration) -> Result<Bytes> {
        let request = request.encode();
        let network = &self.inner.setup.network;
        let sent = network.send(peer, request, limit).await;
        let nowhere = Partition::new(u16::MAX, u16::MAX);
        let unreachable = |_| Error::new(ErrorKind::Unreachable { partition: nowhere });
        request::decode_answer(sent.map_err(unreachable)?)
    }

    /// Answers a request of another node, which is authenticated.
    pub async fn answer(&self, request: Bytes) -> Bytes {
        request::encode_answer(self.inner.answer(request).await)
    }

    /// Waits until every partition has an owner; answers whether that happened in time.
    pub async fn settled(&self, limit: Duration) -> bool {
        let Some(runtime) = self.inner.runtime.upgrade() else {
            return false;
        };
        let (mut own, mut others) = (runtime.changes(), self.members().changes());
        let settled = async {
            while !self.inner.idle(&runtime).is_empty() {
                // A node is also considered dead without a change of its record.
                tokio::select! {
                    _ = own.changed() => {}
                    _ = others.changed() => {}
                    () = tokio::time::sleep(RETRY) => {}
                }
            }
        };
        tokio::time::timeout(limit, settled).await.is_ok()
    }

    /// Stops acquiring partitions, and lets other nodes acquire what is handed over.
    pub async fn leave(&self) {
        *self.inner.state.lock() = State::Leaving;
        self.inner.tell().await;
    }

    /// Ends the membership after everything was handed over.
    pub async fn finish_leaving(&self) {
        *self.inner.state.lock() = State::Gone;
        self.inner.tell().await;
        self.tasks.iter().for_each(AbortHandle::abort);
        // So that a node that restarts under this name need not wait for the lease to
        // expire.
        let engine = &self.inner.setup.engine;
        let ending = engine.renew(self.inner.owner, Duration::ZERO);
        match tokio::time::timeout(LAST, ending).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(event = "cluster.lease_kept", %error),
            Err(error) => tracing::debug!(event = "cluster.lease_kept", %error),
        }
    }

    /// Acquires a partition: requests it from its owner, if there is one.
    pub async fn take(&self, index: u16) -> Result<()> {
        let partition = Partition::new(self.inner.space(), index);
        self.inner.take_now(partition).await
    }

    /// Moves a partition to a node: this one, or another one by a request.
    pub async fn move_to(&self, index: u16, node: &str) -> Result<()> {
        if node == self.inner.setup.identity.name {
            return self.take(index).await;
        }
        let partition = Partition::new(self.inner.space(), index);
        let seen = self.members().get(node);
        let Some(seen) = seen.filter(|seen| !self.members().is_dead(seen)) else {
            return Err(Error::new(ErrorKind::Unreachable { partition }));
        };
        let (peer, request) = (seen.member.peer(), Request::Take(partition));
        let sent = self.send(&peer, &request, limits::FORWARD_READ).await;
        sent.map(drop)
    }

    /// The status of the cluster, as this node sees it.
    pub fn status(&self) -> ClusterStatus {
        let idle = self.inner.runtime.upgrade();
        let idle = idle.map(|runtime| self.inner.idle(&runtime));
        ClusterStatus {
            cluster: self.inner.setup.identity.cluster.clone(),
            node: self.inner.setup.identity.name.clone(),
            nodes: status::nodes(self.members(), self.inner.now(), self.inner.owner, || {
                self.inner.serves()
            }),
            idle: idle.unwrap_or_default(),
        }
    }

    /// The counters of this node's membership.
    pub fn counts(&self) -> ClusterCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.inner.counters;
        ClusterCounts {
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

/// Handles messages of other nodes.
#[async_trait]
pub trait NodeMessageHandler: Send + Sync + 'static {
    /// Handles a message of a node and answers it.
    async fn handle(&self, message: Bytes) -> Result<Bytes>;
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
        let mut work = PendingMoves::default();
        let round = self.setup.lease / 4;
        let mut next_round = self.now() + round;
        let mut is_told = true;
        loop {
            let pause = if is_told {
                next_round
                    .saturating_sub(self.now())
                    .min(work.pause(self.now()))
            } else {
                RETRY
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
            // Changes that arrive together are handled together.
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
