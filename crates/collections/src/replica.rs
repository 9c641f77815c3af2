//! One partition's collections, on one node.
//!
//! On the owner of the partition a replica is the primary: it reads and writes.
//! Elsewhere it is a secondary: it reads flushed state and writes nothing. A
//! transaction can be begun on any replica, and this never fails.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::backoff::Backoff;
use steadfast_core::clock::{Clock, SystemClock};
use steadfast_core::id::{Lsn, Partition};
use steadfast_core::limits;
use steadfast_storage::{Engine, Ledger};

use crate::attempt::{Attempt, Conclusion};
use crate::commit_path::CommitPath;
use crate::error::{ErrorKind, Result, RetryAdvice};
use crate::lock::table::TransactionWait;
use crate::notice::{NoticeSubscription, StateNotice, SubscriptionEvent, TransactionNotice};
use crate::registry::CollectionRegistry;
use crate::replica_inner::ReplicaInner;
use crate::schema::version::WriteVersion;
use crate::source::RowSource;
use crate::state::State;
use crate::transaction::Tx;

/// Options of a replica; every value has a default.
#[derive(Clone)]
pub struct Options {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Memory for resident rows.
    pub resident_bytes: usize,
    /// The schema version that is written.
    pub write_version: WriteVersion,
    /// Whether the state is lost with the process.
    pub is_volatile: bool,
    /// Commits transactions that carry commands, where there is a runtime.
    pub commit_path: Option<Arc<dyn CommitPath>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock::new()),
            resident_bytes: limits::RESIDENT_BYTES,
            write_version: WriteVersion::default(),
            is_volatile: false,
            commit_path: None,
        }
    }
}

/// The role of a replica in its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaRole {
    /// It is closed.
    None,
    /// It is being built.
    IdleSecondary,
    /// It can be read.
    ActiveSecondary,
    /// It can be read and written; there is one at most.
    Primary,
}

/// One partition's collections. Clones are the same replica.
#[derive(Clone)]
pub struct Replica {
    inner: Arc<ReplicaInner>,
}

impl Replica {
    /// The replica of a partition that this node owns: reads its registry.
    pub async fn primary(ledger: Ledger, options: Options) -> Result<Self> {
        let source = RowSource::Primary(ledger);
        let state = source.pin(0).await?;
        let registry = CollectionRegistry::load(&state).await?;
        drop(state);
        Ok(Self::new(source, registry, options))
    }

    /// A replica of a partition that another node owns.
    pub fn secondary(engine: Arc<dyn Engine>, partition: Partition, options: Options) -> Self {
        let source = RowSource::Secondary(engine, partition);
        Self::new(source, CollectionRegistry::default(), options)
    }

    fn new(source: RowSource, registry: CollectionRegistry, options: Options) -> Self {
        let home = ReplicaInner::new(
            source,
            options.clock,
            options.resident_bytes,
            registry,
            options.write_version,
            options.is_volatile,
            options.commit_path,
        );
        Self {
            inner: Arc::new(home),
        }
    }

    /// The partition.
    pub fn partition(&self) -> Partition {
        self.inner.partition()
    }

    /// Whether its state is lost with the process.
    pub fn is_volatile(&self) -> bool {
        self.inner.is_volatile
    }

    /// The ledger underneath, on a primary.
    pub fn ledger(&self) -> Result<&Ledger> {
        self.inner.source.ledger()
    }

    /// The current role of this replica.
    pub fn role(&self) -> ReplicaRole {
        match (self.inner.check_open(), self.inner.may_write()) {
            (Err(_), _) => ReplicaRole::None,
            (Ok(()), true) => ReplicaRole::Primary,
            (Ok(()), false) => ReplicaRole::ActiveSecondary,
        }
    }

    /// The collections that belong to no service.
    pub fn state(&self) -> State {
        self.scope("")
    }

    /// The collections of one scope, for instance a service's partition.
    pub fn scope(&self, scope: &str) -> State {
        State::new(&self.inner, scope)
    }

    /// Begins a transaction. This never fails: on a secondary its reads see a
    /// snapshot, and its first write fails with `NotPrimary`.
    pub fn begin(&self) -> Tx {
        Tx::begin(&self.inner)
    }

    /// Begins another attempt of the transaction `first`, which was a deadlock victim. It
    /// is as old as that one, so only older ones can make it a victim again.
    pub fn begin_again(&self, first: u64) -> Tx {
        Tx::begin_as(&self.inner, Some(first))
    }

    /// Pauses before another attempt of a transaction that was a deadlock victim
    /// `deadlocks` times: with jitter, and longer each time.
    pub async fn yield_to_older(deadlocks: u32) {
        let backoff = Backoff::new(limits::TRANSACT_FIRST_PAUSE, limits::TRANSACT_LONGEST_YIELD);
        let longest = backoff.after(deadlocks.saturating_add(1));
        tokio::time::sleep(longest.mul_f64(fastrand::f64())).await;
    }

    /// Calls `work` with a transaction that it commits, and calls it again after transient
    /// errors, such as lock time-outs, in a new transaction after a pause.
    ///
    /// `work` returns what [`Attempt::commit`] or [`Attempt::roll_back`] returns; one that
    /// does neither does not compile. It borrows the collections that it uses:
    ///
    /// ```
    /// # use steadfast_collections::{Dictionary, Replica, Result};
    /// # async fn case(bank: &Replica, accounts: &Dictionary<String, i64>) -> Result<()> {
    /// let paid = bank.transact(async |mut tx| {
    ///     let alice = accounts.get(&mut tx, "alice").await?.map_or(0, |found| *found);
    ///     if alice < 10 {
    ///         return Ok(tx.roll_back(false));
    ///     }
    ///     accounts.set(&mut tx, "alice", alice - 10).await?;
    ///     tx.commit(true).await
    /// });
    /// assert!(paid.await?); // all of it is on the disk
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// An error that `work` returns rolls back. All attempts have the age of the first one.
    /// The victim of a deadlock is the youngest transaction, so only older ones can make
    /// this one a victim.
    ///
    /// Attempts may be many, so an async closure can move nothing out of its surroundings
    /// and change nothing there: the compiler says that it is not `FnMut`. The value carries
    /// the result. In `tokio::spawn` the collections move into the spawned block, and the
    /// closure borrows them from it.
    pub async fn transact<T, F, A>(&self, mut work: F) -> Result<T>
    where
        F: FnMut(Attempt) -> A,
        A: Future<Output = Result<Conclusion<T>>>,
    {
        let mut backoff =
            Backoff::new(limits::TRANSACT_FIRST_PAUSE, limits::TRANSACT_LONGEST_PAUSE);
        let (mut attempt, mut deadlocks) = (1, 0);
        let mut rank = None;
        loop {
            let tx = Tx::begin_as(&self.inner, rank);
            rank.get_or_insert(tx.id());
            let error = match work(Attempt::new(tx)).await {
                Ok(conclusion) => return Ok(conclusion.into_value()),
                Err(error) => error,
            };
            if matches!(error.kind(), ErrorKind::Deadlock { .. })
                && deadlocks < limits::TRANSACT_DEADLOCKS
            {
                Self::yield_to_older(deadlocks).await;
                deadlocks += 1;
                continue;
            }
            if attempt >= limits::TRANSACT_ATTEMPTS || error.retry() == RetryAdvice::No {
                return Err(error);
            }
            attempt += 1;
            if error.retry() == RetryAdvice::Later {
                tokio::time::sleep(jittered(backoff.pause())).await;
            }
        }
    }

    /// All current waits for locks.
    pub fn waits(&self) -> Vec<TransactionWait> {
        self.inner.locks.waits(|name| self.inner.show_lock(name))
    }

    /// How many locks are held or waited for.
    pub fn locks(&self) -> usize {
        self.inner.locks.busy()
    }

    /// How many rows are resident.
    pub fn resident_rows(&self) -> usize {
        self.inner.locks.resident()
    }

    /// The last durable transaction.
    pub fn lsn(&self) -> Lsn {
        self.inner.durable_lsn()
    }

    /// The schema version that is written; can be changed at any time.
    pub fn write_version(&self) -> &WriteVersion {
        &self.inner.write_version
    }

    /// Revokes the write status: transactions that are not committed yet cannot commit.
    pub fn demote(&self) {
        self.inner.revoke_write();
    }

    /// Ends the replica: all its operations fail with `Closed` from now on.
    pub fn close(&self) {
        self.inner.close();
    }

    /// Follows creations and removals of collections.
    pub fn state_notices(&self) -> StateNotices {
        StateNotices {
            listener: NoticeSubscription::new(&self.inner.state_feed),
            inner: Arc::clone(&self.inner),
        }
    }

    /// Follows commits.
    pub fn transaction_notices(&self) -> TransactionNotices {
        TransactionNotices {
            listener: NoticeSubscription::new(&self.inner.transaction_feed),
            inner: Arc::clone(&self.inner),
        }
    }
}

/// A subscription to creations and removals, in log order.
pub struct StateNotices {
    listener: NoticeSubscription<StateNotice>,
    inner: Arc<ReplicaInner>,
}

impl StateNotices {
    /// The next notice; `None` when there will be no more.
    pub async fn next(&mut self) -> Option<StateNotice> {
        match self.listener.next().await {
            SubscriptionEvent::Notice(notice) => Some(notice),
            SubscriptionEvent::Rebuild => Some(StateNotice::Rebuild {
                lsn: self.inner.durable_lsn(),
            }),
            SubscriptionEvent::End => None,
        }
    }
}

/// A subscription to commits, in log order.
pub struct TransactionNotices {
    listener: NoticeSubscription<TransactionNotice>,
    inner: Arc<ReplicaInner>,
}

impl TransactionNotices {
    /// The next notice; `None` when there will be no more.
    pub async fn next(&mut self) -> Option<TransactionNotice> {
        match self.listener.next().await {
            SubscriptionEvent::Notice(notice) => Some(notice),
            SubscriptionEvent::Rebuild => Some(TransactionNotice::Rebuild {
                lsn: self.inner.durable_lsn(),
            }),
            SubscriptionEvent::End => None,
        }
    }
}

/// A random time between half and all of a pause, so that rivals do not retry together.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + fastrand::f64() / 2.0)
}
