//! Balances the partitions of a group over processors.
//!
//! A cycle renews the processor's ownerships, lists the group, and claims partitions
//! by the plan. An owned partition is handled by its own task, which ends before the
//! partition is released.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steadfast_core::clock::Timestamp;
use steadfast_core::task::name_task;
use steadfast_ownership::balance::{ConditionalWrite, Kind as For};
use steadfast_ownership::census::Census;
use steadfast_ownership::listing::OwnershipListing;
use steadfast_ownership::member::{GroupMember, OwnershipChange, WriteOutcome};
use steadfast_ownership::record::{OwnerId, PartitionIndex, RecordVersion};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::error::{ErrorKind, Result};
use crate::groups::ClaimOutcome;
use crate::hubs::EventHubs;
use crate::keys::folded;
use crate::local_processors::LocalProcessor;
use crate::processor::handler::{CloseReason, Handler, ProcessorError};
use crate::processor::options::{Guarantee, ProcessorOptions};
use crate::processor::pump;
use crate::processor::shared::ProcessorShared;

/// A running processor: one member of its group. Dropped without [`Processor::stop`]
/// it ends as if killed: others take over when its ownerships expire.
pub struct Processor {
    owner: String,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
    held: Arc<Mutex<Vec<u32>>>,
    /// Abort handles of the partition tasks, for a drop.
    running: Arc<Mutex<BTreeMap<u32, tokio::task::AbortHandle>>>,
}

impl EventHubs {
    /// Starts a processor of a group.
    pub async fn process<H: Handler>(
        &self,
        hub: &str,
        group: &str,
        options: ProcessorOptions,
        handler: Arc<H>,
    ) -> Result<Processor> {
        let known = self.known_group(hub, group).await?;
        if !options.timing.is_steady() {
            let (interval, expiration) = (options.timing.interval, options.timing.expiration);
            tracing::warn!(
                event = "processor.intervals",
                ?interval,
                ?expiration,
                hub,
                group,
                "ownerships expire before two intervals have passed: partitions will change hands"
            );
        }
        let id = OwnerId::new(&options.owner);
        let member = GroupMember::new(id, options.strategy, options.timing);
        let owner = options.owner.clone();
        let is_exact = matches!(options.guarantee, Guarantee::ExactlyOnce(_));
        let follower = (is_exact && !self.inner.router.is_single_node()).then(|| {
            let of = (known.hub.id, folded(group));
            self.inner.followers.join(of, &owner)
        });
        let work = ProcessorShared::new(self.clone(), known, group, options, handler);
        let (stop, stopped) = watch::channel(false);
        let (held, running) = (Arc::default(), Arc::default());
        let balance = PartitionBalancer {
            work: Arc::new(work),
            member,
            pumps: BTreeMap::new(),
            held: Arc::clone(&held),
            running: Arc::clone(&running),
            follower,
        };
        Ok(Processor {
            owner,
            stop,
            task: Some(tokio::spawn(name_task(balance.run(stopped)))),
            held,
            running,
        })
    }
}

impl Processor {
    /// Its member name in the group.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The partitions that it owns now.
    pub fn owned(&self) -> Vec<u32> {
        self.held.lock().clone()
    }

    /// Stops the processor: running handler calls finish, checkpoints are written, close
    /// handlers are called, and the partitions are released for others to claim.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        if let Some(task) = self.task.take() {
            // A panic of the task has been reported already.
            let _ = task.await;
        }
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            // The partitions first: a pump without its balancer would stop in order and
            // write a last checkpoint, and a dropped processor writes nothing more.
            for running in self.running.lock().values() {
                running.abort();
            }
            task.abort();
        }
    }
}

/// The task of one partition.
struct PumpTask {
    end: watch::Sender<Option<CloseReason>>,
    task: JoinHandle<()>,
}

struct PartitionBalancer<H> {
    work: Arc<ProcessorShared<H>>,
    member: GroupMember,
    pumps: BTreeMap<u32, PumpTask>,
    held: Arc<Mutex<Vec<u32>>>,
    running: Arc<Mutex<BTreeMap<u32, tokio::task::AbortHandle>>>,
    /// Set if it handles its node's partitions.
    follower: Option<LocalProcessor>,
}

impl<H: Handler> PartitionBalancer<H> {
    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        let mut changes = self.work.hubs.inner.changes.clone();
        while !*stopped.borrow() {
            let begun = self.work.options.clock.monotonic();
            changes.mark_unchanged();
            let pause = if self.follower.is_some() {
                self.follow().await
            } else {
                self.cycle().await
            };
            let Some(pause) = pause else {
                break;
            };
            let taken = self.work.options.clock.monotonic().saturating_sub(begun);
            tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => break,
                // A change of the node's partitions starts a cycle at once.
                // A stopped node reports no more changes.
                Ok(()) = changes.changed(), if self.follower.is_some() => {}
                () = tokio::time::sleep(pause.saturating_sub(taken)) => {}
            }
        }
        self.leave().await;
    }

    /// One cycle of a processor that handles its node's partitions: it releases all
    /// others, and claims missing ones from their owners, which cannot commit any more.
    async fn follow(&mut self) -> Option<Duration> {
        let now = self.now();
        for lapsed in self.member.expire(now) {
            self.end(lapsed.0, CloseReason::OwnershipLost);
        }
        let strange: Vec<_> = self
            .member
            .held()
            .filter(|own| !self.is_ours(own.0))
            .collect();
        let mut writes = Vec::new();
        for partition in strange {
            self.end(partition.0, CloseReason::OwnershipLost);
            writes.extend(self.member.give_up(partition, now));
        }
        writes.extend(self.member.renewals(now));
        self.write(writes).await;
        let interval = self.work.options.timing.interval;
        let listing = match self.list().await {
            Ok(listing) => listing,
            Err(error) => {
                self.report("list ownerships", error.to_string()).await;
                let is_gone = matches!(
                    error.kind(),
                    ErrorKind::HubNotFound | ErrorKind::GroupNotFound
                );
                return (!is_gone).then_some(interval / 8);
            }
        };
        let now = self.now();
        let all = (0..self.work.known.hub.partitions).filter(|own| self.is_ours(*own));
        let all: Vec<_> = all.map(PartitionIndex).collect();
        let missing = all.iter().filter_map(|partition| {
            let version = listing.version(*partition);
            self.member.take_over(*partition, version, now)
        });
        let missing: Vec<_> = missing.collect();
        self.write(missing).await;
        let held: Vec<_> = self.member.held().collect();
        Some(if held == all { interval } else { interval / 8 })
    }

    /// Whether this node owns a partition, and this processor handles it.
    fn is_ours(&self, partition: u32) -> bool {
        let place = self.work.place(partition);
        let is_here = self.work.hubs.inner.router.mailbox(place).is_some();
        let is_for = |own: &LocalProcessor| own.is_for(partition);
        is_here && self.follower.as_ref().is_some_and(is_for)
    }

    /// One cycle; returns the time from its start to the next one, or `None` if the event
    /// hub or group was deleted.
    async fn cycle(&mut self) -> Option<Duration> {
        for lapsed in self.member.expire(self.now()) {
            self.end(lapsed.0, CloseReason::OwnershipLost);
        }
        let renewals = self.member.renewals(self.now());
        self.write(renewals).await;
        let asked = self.now();
        let listing = match self.list().await {
            Ok(listing) => listing,
            Err(error) => {
                // Owned partitions continue; the next cycle retries.
                self.report("list ownerships", error.to_string()).await;
                let is_gone = matches!(
                    error.kind(),
                    ErrorKind::HubNotFound | ErrorKind::GroupNotFound
                );
                return (!is_gone).then_some(self.work.options.timing.interval / 2);
            }
        };
        let census = Census::take(listing, asked, &self.work.options.timing);
        let mut random = |bound| fastrand::u32(..bound);
        let mut plan = self.member.plan(&census, self.now(), &mut random);
        for lost in std::mem::take(&mut plan.lost) {
            self.end(lost.0, CloseReason::OwnershipLost);
        }
        let is_moot = plan.actions.is_empty();
        let actions = std::mem::take(&mut plan.actions);
        let has_won = self.write(actions).await;
        let pause = self.member.wait(&plan, &mut random);
        Some(match (pause.is_zero() && !has_won, is_moot) {
            (false, _) => pause,
            // Another processor won each claim: let it finish.
            (true, false) => Duration::from_millis(u64::from(fastrand::u8(1..20))),
            // No partition to claim yet: other processors are claiming.
            (true, true) => self.work.options.timing.interval / 8,
        })
    }

    async fn list(&self) -> Result<OwnershipListing> {
        let work = &self.work;
        work.check().await?;
        let found = work
            .hubs
            .ownerships(&work.known.hub.name, &work.group)
            .await?;
        let mut listing = OwnershipListing::new(work.known.hub.partitions);
        for ownership in found {
            listing.put(
                PartitionIndex(ownership.partition),
                &OwnerId::new(&ownership.owner),
                RecordVersion(ownership.version),
                ownership.modified,
            );
        }
        Ok(listing)
    }

    /// Writes ownerships concurrently; returns whether any write succeeded.
    async fn write(&mut self, actions: Vec<ConditionalWrite>) -> bool {
        let work = Arc::clone(&self.work);
        let me = self.member.id().as_str().to_owned();
        let writes = actions.into_iter().map(|action| {
            let (work, me) = (&work, &me);
            async move {
                let owner = match &action.kind {
                    For::Release => "",
                    For::Give { to } => to.as_str(),
                    _ => me,
                };
                let (hub, group) = (&work.known.hub.name, &work.group);
                let (partition, expected) = (action.partition.0, action.expected.0);
                let claimed = work.hubs.claim(hub, group, partition, expected, owner);
                (action.partition, claimed.await)
            }
        });
        let written = futures_util::future::join_all(writes).await;
        let mut has_won = false;
        for (partition, claimed) in written {
            let answer = match claimed {
                Ok(ClaimOutcome::Written(ownership)) => {
                    WriteOutcome::Written(RecordVersion(ownership.version))
                }
                Ok(ClaimOutcome::Conflict(_)) => WriteOutcome::Conflict,
                Err(error) => {
                    self.report("write an ownership", error.to_string()).await;
                    WriteOutcome::Unknown
                }
            };
            has_won |= matches!(answer, WriteOutcome::Written(_));
            match self.member.record_outcome(partition, answer) {
                OwnershipChange::Started => self.begin(partition.0),
                OwnershipChange::Lost => self.end(partition.0, CloseReason::OwnershipLost),
                OwnershipChange::Released | OwnershipChange::Late | OwnershipChange::None => {}
            }
        }
        self.show();
        has_won
    }

    fn begin(&mut self, partition: u32) {
        let before = self.pumps.remove(&partition);
        let (end, ended) = watch::channel(None);
        let work = Arc::clone(&self.work);
        let task = tokio::spawn(name_task(async move {
            if let Some(before) = before {
                // It was lost and claimed again: one task at a time.
                before.end.send_if_modified(|why| {
                    why.get_or_insert(CloseReason::OwnershipLost);
                    true
                });
                let _ = before.task.await;
            }
            pump::run(work, partition, ended).await;
        }));
        self.running.lock().insert(partition, task.abort_handle());
        self.pumps.insert(partition, PumpTask { end, task });
    }

    /// Stops the task of a partition, which may still be in its handler.
    fn end(&mut self, partition: u32, why: CloseReason) {
        if let Some(pump) = self.pumps.get(&partition) {
            pump.end.send_replace(Some(why));
        }
        self.show();
    }

    /// Stops all tasks, and releases the owned partitions.
    async fn leave(&mut self) {
        for pump in self.pumps.values() {
            pump.end.send_if_modified(|why| {
                why.get_or_insert(CloseReason::Shutdown);
                true
            });
        }
        for (_, pump) in std::mem::take(&mut self.pumps) {
            let _ = pump.task.await;
        }
        let releases = self.member.release(self.now());
        self.write(releases).await;
    }

    fn show(&self) {
        *self.held.lock() = self.member.held().map(|partition| partition.0).collect();
    }

    fn now(&self) -> Timestamp {
        self.work.options.clock.now()
    }

    async fn report(&self, operation: &'static str, message: String) {
        let trouble = ProcessorError {
            partition: None,
            operation,
            message,
            attempts: 0,
        };
        self.work.tell(&trouble).await;
    }
}
