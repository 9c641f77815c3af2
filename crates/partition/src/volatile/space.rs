//! Opens volatile partitions next to the main ones.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::id::Partition;
use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_storage::{Error as StorageError, ErrorKind as StorageKind, Ledger, Store};
use steadfast_storage_replicated::ErrorKind as ReplicaErrorKind;
use steadfast_storage_replicated::replicated_memory::{ReplicaSet, ReplicatedMemory};
use tokio::sync::Mutex;
use tokio::task::{AbortHandle, JoinSet};

use crate::error::{Error, ErrorKind, Result};
use crate::ingress::router::Router;
use crate::owner::runtime::Runtime;

/// The number of the volatile space.
pub const SPACE: u16 = 2;

/// How soon opening a partition is retried.
const RETRY: Duration = Duration::from_millis(100);

/// How often open partitions are checked.
const ROUND: Duration = Duration::from_secs(1);

/// How long work in progress may take when a partition is handed over.
const PARTING: Duration = Duration::from_secs(2);

/// The volatile partitions of a node.
pub struct VolatileSpace {
    inner: Arc<Inner>,
    task: Option<AbortHandle>,
}

struct Inner {
    store: Arc<Store>,
    /// In a cluster: the engine that replicates to other nodes.
    copies: Option<Arc<ReplicatedMemory>>,
    router: Arc<Router>,
    main: u16,
    /// Locked while a partition is opened or closed.
    open: Vec<Mutex<Option<Ledger>>>,
}

impl VolatileSpace {
    /// Starts on a store in memory; `replicated_memory` replicates it to other nodes.
    pub fn start(
        runtime: &Arc<Runtime>,
        store: Arc<Store>,
        copies: Option<Arc<ReplicatedMemory>>,
    ) -> Self {
        let space = runtime.space();
        let inner = Arc::new(Inner {
            store,
            copies,
            router: Arc::clone(runtime.router()),
            main: space.number,
            open: (0..space.partitions).map(|_| Mutex::default()).collect(),
        });
        let task = inner.copies.is_some().then(|| {
            let parting = Arc::clone(&inner);
            runtime.on_hand_over(Box::new(move |partition| {
                let inner = Arc::clone(&parting);
                Box::pin(async move { inner.part(partition.index()).await })
            }));
            let (inner, mut changes) = (Arc::clone(&inner), runtime.changes());
            let following = tokio::spawn(name_task(async move {
                let mut has_changed = true;
                loop {
                    has_changed = inner.round(has_changed).await;
                    let pause = if has_changed { RETRY } else { ROUND };
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        changed = changes.changed() => match changed {
                            Ok(()) => has_changed = true,
                            Err(_) => return,
                        },
                    }
                }
            }));
            following.abort_handle()
        });
        Self { inner, task }
    }

    /// The store underneath.
    pub fn store(&self) -> &Arc<Store> {
        &self.inner.store
    }

    /// A partition whose counterpart in the main space is served here; opens it if
    /// needed.
    pub async fn ledger(&self, index: u16) -> Result<Ledger> {
        let opening = self.inner.open(index);
        let partition = at(index);
        let silent = || StorageError::new(ReplicaErrorKind::ReplicasUnavailable { partition });
        let opened = tokio::time::timeout(limits::FORWARD_TIME, opening).await;
        opened.unwrap_or_else(|_| Err(silent().into()))
    }

    /// The replica set of a partition that is open here, in a cluster.
    pub fn replica_set(&self, index: u16) -> Option<ReplicaSet> {
        self.inner.copies.as_ref()?.replica_set(at(index))
    }
}

impl Drop for VolatileSpace {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

fn at(index: u16) -> Partition {
    Partition::new(SPACE, index)
}

impl Inner {
    /// Whether this node serves the partition of the main space.
    fn is_ours(&self, index: u16) -> bool {
        let door = self.router.mailbox(Partition::new(self.main, index));
        door.is_some_and(|door| door.ledger().failure().is_none())
    }

    async fn open(&self, index: u16) -> Result<Ledger> {
        loop {
            if let Some(ledger) = self.try_open(index).await? {
                return Ok(ledger);
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Opens a partition, if that is possible now.
    async fn try_open(&self, index: u16) -> Result<Option<Ledger>> {
        let partition = Partition::new(self.main, index);
        let not_ours = || Error::new(ErrorKind::NotOwner { partition });
        let slot = self.open.get(usize::from(index)).ok_or_else(not_ours)?;
        let mut slot = slot.lock().await;
        if !self.is_ours(index) {
            return Err(not_ours());
        }
        if let Some(ledger) = &*slot
            && ledger.failure().is_none()
        {
            return Ok(Some(ledger.clone()));
        }
        match self.store.acquire(at(index)).await {
            Ok(ledger) => Ok(Some(slot.insert(ledger).clone())),
            // A retry asks the other nodes again, or another node has acquired it.
            Err(error) if may_pass(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens partitions that were in use and belong here, and closes those that moved;
    /// answers whether there is still something to do.
    async fn round(self: &Arc<Self>, has_changed: bool) -> bool {
        let mut missing = false;
        for index in 0..self.open.len() as u16 {
            let slot = self.open[usize::from(index)].try_lock();
            let Ok(mut slot) = slot else {
                continue;
            };
            match &*slot {
                Some(_) if !self.is_ours(index) => {
                    *slot = None;
                    self.leave(index);
                }
                Some(ledger) => missing |= ledger.failure().is_some(),
                None => {}
            }
        }
        if !has_changed && !missing {
            return false;
        }
        let Some(copies) = &self.copies else {
            return false;
        };
        let Ok(known) = copies.known_partitions(SPACE).await else {
            return true;
        };
        let mut opening = JoinSet::new();
        for index in known.into_iter().filter(|index| self.is_ours(*index)) {
            let me = Arc::clone(self);
            opening.spawn(async move {
                let is_open = matches!(me.try_open(index).await, Ok(Some(_)));
                !is_open && me.is_ours(index)
            });
        }
        opening.join_all().await.contains(&true)
    }

    /// Completes work in progress before the next owner takes over.
    async fn part(&self, index: u16) {
        let Some(slot) = self.open.get(usize::from(index)) else {
            return;
        };
        let parting = async {
            let Some(ledger) = slot.lock().await.take() else {
                return true;
            };
            if let Some(copies) = &self.copies {
                copies.wait_for_replica(at(index)).await;
            }
            self.store.release(&ledger).await.is_ok()
        };
        if !matches!(tokio::time::timeout(PARTING, parting).await, Ok(true)) {
            self.leave(index);
        }
    }

    fn leave(&self, index: u16) {
        self.store.abandon(at(index));
        if let Some(copies) = &self.copies {
            copies.resign(at(index));
        }
    }
}

/// Whether the error may be transient.
fn may_pass(error: &StorageError) -> bool {
    let is_silent = matches!(
        error.specific(),
        Some(ReplicaErrorKind::ReplicasUnavailable { .. })
    );
    is_silent
        || matches!(
            error.kind(),
            StorageKind::Fenced { .. }
                | StorageKind::Held { .. }
                | StorageKind::Unreachable { .. }
                | StorageKind::Interrupted { .. }
        )
}
