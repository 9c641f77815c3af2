//! Serves partitions of one space on this node.
//!
//! Which ones is decided above: [`Runtime::serve`] takes one, [`Runtime::hand_over`]
//! gives one up. A partition whose ledger fails is taken again, unless another
//! node has it or the store takes nothing any more.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use steadfast_core::clock::Clock;
use steadfast_core::id::Partition;
use steadfast_core::limits;
use steadfast_core::task::named;
use steadfast_storage::{Error as StorageError, Kind as StorageKind, Ledger, Store};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use crate::door::Door;
use crate::effect::Performer;
use crate::error::{Error, Kind, Result};
use crate::handle::Handle;
use crate::metrics::Metrics;
use crate::owner::{End, Owner, Parts};
use crate::post::Post;
use crate::router::Router;
use crate::service::{Service, Services};
use crate::space::Space;

/// What a runtime needs.
pub struct Options {
    /// What runs in the partitions.
    pub services: Services,
    /// Does what must be done outside.
    pub performer: Arc<dyn Performer>,
    /// Finds partitions, of this space and of others.
    pub router: Arc<Router>,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
}

/// What is done before a partition goes to its next owner.
pub type Parting = Box<dyn Fn(Partition) -> Parted + Send + Sync>;

/// The end of that.
pub type Parted = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves partitions of one space.
pub struct Runtime {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<Store>,
    space: Arc<Space>,
    services: Arc<Services>,
    performer: Arc<dyn Performer>,
    router: Arc<Router>,
    clock: Arc<dyn Clock>,
    served: Mutex<BTreeMap<Partition, Served>>,
    /// Hand-overs, one at a time for each partition.
    giving: Vec<tokio::sync::Mutex<()>>,
    /// No partition is taken any more: the node is leaving.
    is_offline: AtomicBool,
    changes: watch::Sender<u64>,
    parting: OnceLock<Parting>,
}

/// A partition that is served, by the task that keeps it.
struct Served {
    task: AbortHandle,
    /// It is being handed over: if it is lost, it is not taken again.
    is_leaving: bool,
    /// Rings when the task has ended.
    ended: watch::Receiver<bool>,
}

/// What became of the commands that were under way when a partition was given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandedOver {
    /// Completed before the partition went.
    pub completed: u64,
    /// Cut off at the limit; their callers were told.
    pub cut_off: u64,
}

impl Runtime {
    /// Serves nothing yet.
    pub fn new(store: Arc<Store>, space: Space, options: Options) -> Self {
        let inner = Inner {
            store,
            giving: (0..space.partitions).map(|_| Default::default()).collect(),
            space: Arc::new(space),
            services: Arc::new(options.services),
            performer: options.performer,
            router: options.router,
            clock: options.clock,
            served: Mutex::new(BTreeMap::new()),
            is_offline: AtomicBool::new(false),
            changes: watch::channel(0).0,
            parting: OnceLock::new(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The space whose partitions these are.
    pub fn space(&self) -> &Space {
        &self.inner.space
    }

    /// The partitions of this space and of others on this node.
    pub fn router(&self) -> &Arc<Router> {
        &self.inner.router
    }

    /// Calls instances of a service.
    pub fn handle<S: Service>(&self) -> Handle<S> {
        Handle::new(
            Arc::clone(&self.inner.space),
            Arc::clone(&self.inner.router),
        )
    }

    /// The partitions that are served now.
    pub fn serving(&self) -> Vec<Partition> {
        self.inner.served.lock().keys().copied().collect()
    }

    /// Rings when a partition was taken, given up or lost.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    /// Has something done before a partition is given up, when it serves nobody any
    /// more. The first one stays.
    pub fn on_parting(&self, parting: Parting) {
        let _ = self.inner.parting.set(parting);
    }

    /// Takes a partition and serves it. One that is served or being taken already
    /// is left alone.
    pub async fn serve(&self, partition: Partition) -> Result<()> {
        match self.inner.start(partition)? {
            Some(taken) => taken.await.unwrap_or_else(|_| {
                let not_ours = Error::new(Kind::NotOwner { partition });
                Err(not_ours)
            }),
            None => Ok(()),
        }
    }

    /// Takes no partition any more. Those that it is just taking are served soon.
    pub(crate) fn go_offline(&self) {
        let _served = self.inner.served.lock();
        self.inner.is_offline.store(true, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Duration {
        self.inner.clock.monotonic()
    }

    /// Takes and serves all partitions of the space.
    pub async fn serve_all(&self) -> Result<()> {
        let all = self.inner.space.all();
        let all = all.map(|partition| self.serve(partition));
        futures_util::future::try_join_all(all).await.map(drop)
    }

    /// Gives a partition up: callers are turned away, what is under way is
    /// completed, and after `limit` cut off. Then the next owner may take it. One that
    /// is being taken is given up as soon as it is.
    pub async fn hand_over(&self, partition: Partition, limit: Duration) -> Result<HandedOver> {
        self.inner.hand_over(partition, limit).await
    }

    /// The same for somebody who may break off: a partition that is half given up would
    /// serve nobody.
    pub async fn hand_over_whole(
        &self,
        partition: Partition,
        limit: Duration,
    ) -> Result<HandedOver> {
        let inner = Arc::clone(&self.inner);
        let giving = tokio::spawn(named(
            async move { inner.hand_over(partition, limit).await },
        ));
        let broken_off = |_| Err(Error::unknown(partition, None));
        giving.await.unwrap_or_else(broken_off)
    }

    /// Stops serving a partition that belongs to somebody else by now. Whoever
    /// waits for an answer is told that nobody knows.
    pub fn abandon(&self, partition: Partition) {
        self.inner.router.close(partition);
        let mut served = self.inner.served.lock();
        if let Some(own) = served.remove(&partition) {
            own.task.abort();
            // Nobody takes it again meanwhile.
            self.inner.performer.parted(partition);
        }
        drop(served);
        self.inner.changed();
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        for (partition, served) in &*self.inner.served.lock() {
            served.task.abort();
            self.inner.router.close(*partition);
        }
    }
}

impl Inner {
    async fn hand_over(&self, partition: Partition, limit: Duration) -> Result<HandedOver> {
        let not_ours = || Error::new(Kind::NotOwner { partition });
        let late = |_| Error::new(Kind::Unreachable { partition });
        let end = tokio::time::Instant::now() + limit;
        let giving = self.giving.get(usize::from(partition.index()));
        let giving = giving.ok_or_else(not_ours)?.lock();
        let _giving = tokio::time::timeout_at(end, giving).await.map_err(late)?;
        let mut ended = self.leave(partition, true).ok_or_else(not_ours)?;
        let opened = self.opened(partition, &ended);
        let opened = tokio::time::timeout_at(end, opened).await;
        if opened.is_err() {
            self.leave(partition, false);
        }
        let door = opened.map_err(late)?.ok_or_else(not_ours)?;
        self.router.close(partition);
        let before = door.metrics().counts();
        door.tell(Post::Drain);
        let all_done = ended.wait_for(|ended| *ended);
        let is_late = tokio::time::timeout_at(end, all_done).await.is_err();
        let mut commands = HandedOver::default();
        if is_late {
            let counts = door.metrics().counts();
            commands.cut_off = counts.waiting + counts.gated;
            door.tell(Post::Stop);
            let _ = ended.wait_for(|ended| *ended).await;
        }
        commands.completed = door.metrics().counts().commands - before.commands;
        if let Some(parting) = self.parting.get() {
            parting(partition).await;
        }
        self.store.release(door.ledger()).await?;
        Ok(commands)
    }

    /// Starts the task that keeps a partition, unless there is one; answers where
    /// it tells whether it has taken the partition.
    fn start(
        self: &Arc<Self>,
        partition: Partition,
    ) -> Result<Option<oneshot::Receiver<Result<()>>>> {
        let mut served = self.served.lock();
        if self.is_offline.load(Ordering::Relaxed) {
            return Err(Error::new(Kind::Draining { partition }));
        }
        let Entry::Vacant(vacant) = served.entry(partition) else {
            return Ok(None);
        };
        let (tell, taken) = oneshot::channel();
        let (end, ended) = watch::channel(false);
        let (inner, own) = (Arc::clone(self), ended.clone());
        let task = tokio::spawn(named(async move {
            match inner.take(partition).await {
                Ok(owner) => {
                    inner.changed();
                    let _ = tell.send(Ok(()));
                    inner.keep(partition, owner).await;
                }
                Err(error) => drop(tell.send(Err(error))),
            }
            inner.ended(partition, &own);
            end.send_replace(true);
        }));
        vacant.insert(Served {
            task: task.abort_handle(),
            is_leaving: false,
            ended,
        });
        Ok(Some(taken))
    }

    /// The task that rings `own` serves a partition no more. Another one may by now.
    fn ended(&self, partition: Partition, own: &watch::Receiver<bool>) {
        let mut served = self.served.lock();
        let found = served.get(&partition);
        if found.is_some_and(|found| found.ended.same_channel(own)) {
            // Nobody takes it again meanwhile.
            self.performer.parted(partition);
            served.remove(&partition);
        }
        drop(served);
        self.changed();
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    async fn take(&self, partition: Partition) -> Result<Owner> {
        let ledger = self.store.acquire(partition).await?;
        self.open(ledger).await
    }

    /// Loads a partition and opens its door.
    async fn open(&self, ledger: Ledger) -> Result<Owner> {
        let (calls, calls_in) = mpsc::channel(limits::MAILBOX);
        let (posts, posts_in) = mpsc::unbounded_channel();
        let metrics = Arc::new(Metrics::default());
        let door = Door::new(ledger.clone(), calls, posts.clone(), Arc::clone(&metrics));
        let parts = Parts {
            ledger,
            space: Arc::clone(&self.space),
            services: Arc::clone(&self.services),
            performer: Arc::clone(&self.performer),
            router: Arc::clone(&self.router),
            posts,
            clock: Arc::clone(&self.clock),
            metrics,
        };
        let owner = Owner::load(parts, calls_in, posts_in).await?;
        self.router.open(door);
        Ok(owner)
    }

    /// Serves a partition until it is given up or lost for good.
    async fn keep(&self, partition: Partition, mut owner: Owner) {
        loop {
            let error = match owner.run().await {
                End::Drained | End::Stopped => return,
                End::Failed(error) => error,
            };
            self.router.close(partition);
            tracing::warn!(event = "partition.lost", %partition, %error, "a partition was lost");
            if self.is_leaving(partition) {
                return;
            }
            match self.retake(partition).await {
                Ok(next) => {
                    owner = next;
                    self.changed();
                }
                Err(error) => {
                    tracing::warn!(
                        event = "partition.not_taken",
                        %partition,
                        %error,
                        "a partition was not taken again",
                    );
                    return;
                }
            }
        }
    }

    /// Notes whether a partition is being handed over; answers what rings at its end.
    fn leave(&self, partition: Partition, is_leaving: bool) -> Option<watch::Receiver<bool>> {
        let mut served = self.served.lock();
        let served = served.get_mut(&partition)?;
        served.is_leaving = is_leaving;
        Some(served.ended.clone())
    }

    /// The door of a partition, as soon as the task that ends with `ended` has taken it;
    /// nothing if it does not.
    async fn opened(&self, partition: Partition, ended: &watch::Receiver<bool>) -> Option<Door> {
        let mut changes = self.changes.subscribe();
        let is_kept = |served: &Served| served.ended.same_channel(ended);
        loop {
            changes.mark_unchanged();
            if !self.served.lock().get(&partition).is_some_and(is_kept) {
                return None;
            }
            if let Some(door) = self.router.door(partition) {
                return Some(door);
            }
            changes.changed().await.ok()?;
        }
    }

    fn is_leaving(&self, partition: Partition) -> bool {
        let served = self.served.lock();
        served
            .get(&partition)
            .is_none_or(|served| served.is_leaving)
    }

    /// Takes a lost partition again, however long that takes.
    async fn retake(&self, partition: Partition) -> Result<Owner> {
        let mut pause = Duration::from_millis(10);
        loop {
            match self.take(partition).await {
                Err(error) if error.storage().is_none_or(is_final) => return Err(error),
                Err(error) if self.is_leaving(partition) => return Err(error),
                Err(error) => {
                    tracing::debug!(event = "partition.take_retried", %partition, %error, "tried again")
                }
                Ok(owner) => return Ok(owner),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }
}

/// Whether trying again cannot help.
fn is_final(error: &StorageError) -> bool {
    matches!(
        error.kind(),
        StorageKind::Held { .. }
            | StorageKind::Closed
            | StorageKind::LogStopped { .. }
            | StorageKind::Corrupt { .. }
            | StorageKind::Lost { .. }
    )
}
