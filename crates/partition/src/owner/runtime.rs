//! Serves partitions of one space on this node.
//!
//! The layer above decides which ones: [`Runtime::serve`] opens a partition,
//! [`Runtime::hand_over`] gives it up. A partition whose ledger fails is opened again,
//! unless another node owns it or the store accepts no more writes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use steadfast_core::backoff::Backoff;
use steadfast_core::clock::Clock;
use steadfast_core::id::Partition;
use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_storage::{Error as StorageError, ErrorKind as StorageKind, Ledger, Store};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use crate::error::{Error, ErrorKind, Result};
use crate::execution::effect::Performer;
use crate::execution::turn::{Service, Services};
use crate::ingress::control::ControlMessage;
use crate::ingress::mailbox::Mailbox;
use crate::ingress::router::{Handle, Router};
use crate::ingress::space::Space;
use crate::metrics::Metrics;
use crate::owner::owner_loop::{LoopEnd, OwnerLoop, OwnerParts};

/// Dependencies of a runtime.
pub struct Options {
    /// The services that run in the partitions.
    pub services: Services,
    /// Performs effects outside the partitions.
    pub performer: Arc<dyn Performer>,
    /// Finds partitions of this space and of others.
    pub router: Arc<Router>,
    /// The source of time.
    pub clock: Arc<dyn Clock>,
}

/// A hook that runs before a partition goes to its next owner.
pub type HandOverHook = Box<dyn Fn(Partition) -> HandOverFuture + Send + Sync>;

/// The future of a hand-over hook.
pub type HandOverFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

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
    served: Mutex<BTreeMap<Partition, ServedPartition>>,
    /// Hand-overs, one at a time for each partition.
    giving: Vec<tokio::sync::Mutex<()>>,
    /// The node is leaving: it opens no more partitions.
    is_offline: AtomicBool,
    changes: watch::Sender<u64>,
    parting: OnceLock<HandOverHook>,
}

/// A partition that is served, and its task.
struct ServedPartition {
    task: AbortHandle,
    /// The partition is being handed over; if it is lost, it is not opened again.
    is_leaving: bool,
    /// Becomes `true` when the task has ended.
    ended: watch::Receiver<bool>,
}

/// Outcome of the commands that were in progress when a partition was handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandOverReport {
    /// Completed before the partition was handed over.
    pub completed: u64,
    /// Cut off at the limit; their callers got an error.
    pub cut_off: u64,
}

impl Runtime {
    /// Creates a runtime that serves nothing yet.
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

    /// Changes when a partition was opened, handed over or lost.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    /// Sets the hook that runs before a partition is handed over, once it accepts no
    /// more requests. Only the first call has an effect.
    pub fn on_hand_over(&self, parting: HandOverHook) {
        let _ = self.inner.parting.set(parting);
    }

    /// Opens a partition and serves it. Does nothing if it is served or being opened
    /// already.
    pub async fn serve(&self, partition: Partition) -> Result<()> {
        match self.inner.start(partition)? {
            Some(taken) => taken.await.unwrap_or_else(|_| {
                let not_ours = Error::new(ErrorKind::NotOwner { partition });
                Err(not_ours)
            }),
            None => Ok(()),
        }
    }

    /// Stops opening partitions. Those that are just being opened are served soon.
    pub(crate) fn go_offline(&self) {
        let _served = self.inner.served.lock();
        self.inner.is_offline.store(true, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Duration {
        self.inner.clock.monotonic()
    }

    /// Opens and serves all partitions of the space.
    pub async fn serve_all(&self) -> Result<()> {
        let all = self.inner.space.all();
        let all = all.map(|partition| self.serve(partition));
        futures_util::future::try_join_all(all).await.map(drop)
    }

    /// Hands a partition over: rejects new callers, completes what is in progress, and
    /// cuts off the rest after `limit`. Then the next owner may acquire it. A partition
    /// that is being opened is handed over as soon as it is open.
    pub async fn hand_over(&self, partition: Partition, limit: Duration) -> Result<HandOverReport> {
        self.inner.hand_over(partition, limit).await
    }

    /// The same for a caller that may be cancelled: the hand-over runs to its end in a
    /// task, because a partition that is half handed over would be served by no node.
    pub async fn hand_over_detached(
        &self,
        partition: Partition,
        limit: Duration,
    ) -> Result<HandOverReport> {
        let inner = Arc::clone(&self.inner);
        let giving = tokio::spawn(name_task(
            async move { inner.hand_over(partition, limit).await },
        ));
        let broken_off = |_| Err(Error::unknown(partition, None));
        giving.await.unwrap_or_else(broken_off)
    }

    /// Stops serving all partitions at once and opens none again, as the end of the
    /// process would.
    pub fn abandon_all(&self) {
        self.go_offline();
        for partition in self.serving() {
            self.abandon(partition);
        }
    }

    /// Stops serving a partition that belongs to another node by now. Callers that wait
    /// for an answer get an error: the outcome is unknown.
    pub fn abandon(&self, partition: Partition) {
        self.inner.router.close(partition);
        let mut served = self.inner.served.lock();
        if let Some(own) = served.remove(&partition) {
            own.task.abort();
            // Under the lock, so that it is not opened again before this.
            self.inner.performer.partition_closed(partition);
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
    async fn hand_over(&self, partition: Partition, limit: Duration) -> Result<HandOverReport> {
        let not_ours = || Error::new(ErrorKind::NotOwner { partition });
        let late = |_| Error::new(ErrorKind::Unreachable { partition });
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
        door.send_control(ControlMessage::Drain);
        let all_done = ended.wait_for(|ended| *ended);
        let is_late = tokio::time::timeout_at(end, all_done).await.is_err();
        let mut commands = HandOverReport::default();
        if is_late {
            let counts = door.metrics().counts();
            commands.cut_off = counts.waiting + counts.gated;
            door.send_control(ControlMessage::Stop);
            let _ = ended.wait_for(|ended| *ended).await;
        }
        commands.completed = door.metrics().counts().commands - before.commands;
        if let Some(parting) = self.parting.get() {
            parting(partition).await;
        }
        self.store.release(door.ledger()).await?;
        Ok(commands)
    }

    /// Starts the task that serves a partition, unless there is one; the receiver gets
    /// the result of opening it.
    fn start(
        self: &Arc<Self>,
        partition: Partition,
    ) -> Result<Option<oneshot::Receiver<Result<()>>>> {
        let mut served = self.served.lock();
        if self.is_offline.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Draining { partition }));
        }
        let Entry::Vacant(vacant) = served.entry(partition) else {
            return Ok(None);
        };
        let (tell, taken) = oneshot::channel();
        let (end, ended) = watch::channel(false);
        let (inner, own) = (Arc::clone(self), ended.clone());
        let task = tokio::spawn(name_task(async move {
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
        vacant.insert(ServedPartition {
            task: task.abort_handle(),
            is_leaving: false,
            ended,
        });
        Ok(Some(taken))
    }

    /// The task that signals `own` has stopped serving its partition. Another task may
    /// serve it by now.
    fn ended(&self, partition: Partition, own: &watch::Receiver<bool>) {
        let mut served = self.served.lock();
        let found = served.get(&partition);
        if found.is_some_and(|found| found.ended.same_channel(own)) {
            // Under the lock, so that it is not opened again before this.
            self.performer.partition_closed(partition);
            served.remove(&partition);
        }
        drop(served);
        self.changed();
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    async fn take(&self, partition: Partition) -> Result<OwnerLoop> {
        let ledger = self.store.acquire(partition).await?;
        self.open(ledger).await
    }

    /// Loads a partition and opens its mailbox.
    async fn open(&self, ledger: Ledger) -> Result<OwnerLoop> {
        let (calls, calls_in) = mpsc::channel(limits::MAILBOX);
        let (posts, posts_in) = mpsc::unbounded_channel();
        let metrics = Arc::new(Metrics::default());
        let door = Mailbox::new(ledger.clone(), calls, posts.clone(), Arc::clone(&metrics));
        let parts = OwnerParts {
            ledger,
            space: Arc::clone(&self.space),
            services: Arc::clone(&self.services),
            performer: Arc::clone(&self.performer),
            router: Arc::clone(&self.router),
            control: posts,
            clock: Arc::clone(&self.clock),
            metrics,
        };
        let owner = OwnerLoop::load(parts, calls_in, posts_in).await?;
        self.router.open(door);
        Ok(owner)
    }

    /// Serves a partition until it is handed over or lost for good.
    async fn keep(&self, partition: Partition, mut owner: OwnerLoop) {
        loop {
            let error = match owner.run().await {
                LoopEnd::Drained | LoopEnd::Stopped => return,
                LoopEnd::Failed(error) => error,
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
                        "a lost partition was not opened again",
                    );
                    return;
                }
            }
        }
    }

    /// Notes whether a partition is being handed over; answers the signal of its end.
    fn leave(&self, partition: Partition, is_leaving: bool) -> Option<watch::Receiver<bool>> {
        let mut served = self.served.lock();
        let served = served.get_mut(&partition)?;
        served.is_leaving = is_leaving;
        Some(served.ended.clone())
    }

    /// The mailbox of a partition, as soon as the task that ends with `ended` has
    /// opened it; `None` if it does not.
    async fn opened(&self, partition: Partition, ended: &watch::Receiver<bool>) -> Option<Mailbox> {
        let mut changes = self.changes.subscribe();
        let is_kept = |served: &ServedPartition| served.ended.same_channel(ended);
        loop {
            changes.mark_unchanged();
            if !self.served.lock().get(&partition).is_some_and(is_kept) {
                return None;
            }
            if let Some(door) = self.router.mailbox(partition) {
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

    /// Opens a lost partition again, retrying until that succeeds or cannot help.
    async fn retake(&self, partition: Partition) -> Result<OwnerLoop> {
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(1));
        loop {
            match self.take(partition).await {
                Err(error) if error.storage().is_none_or(is_final) => return Err(error),
                Err(error) if self.is_leaving(partition) => return Err(error),
                Err(error) => {
                    tracing::debug!(event = "partition.take_retried", %partition, %error, "tried again")
                }
                Ok(owner) => return Ok(owner),
            }
            tokio::time::sleep(backoff.pause()).await;
        }
    }
}

/// Whether a retry cannot help.
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
