//! The group commit under many schedules.
//!
//! Shuttle runs writers and committer one step at a time in random orders; partition
//! and queue use its lock, so it can switch wherever two threads could interact. A
//! writer without an answer is a deadlock, which it reports. The engine is in memory
//! and injects the faults that each test sets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::RandomScheduler;
use shuttle::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use shuttle::{future, thread};
use steadfast_core::clock::{Timestamp, VirtualClock};
use steadfast_core::id::{EntryNumber, Epoch, Lsn, Owner, Partition, TableId};

use super::run;
use crate::background::BackgroundThread;
use crate::body::{EntryBody, Writes};
use crate::budget::Budget;
use crate::cache::RowCache;
use crate::engine::{AcquireOutcome, Engine};
use crate::error::{Error, ErrorKind, Result};
use crate::hostile::{EngineFaults, HostileEngine};
use crate::lock_shim::{LockFamily, SharedLock};
use crate::memory::MemoryEngine;
use crate::node_context::NodeContext;
use crate::partition_state::PartitionState;
use crate::queue::NotifyQueue;
use crate::state::State;
use crate::streams::{EventStreams, TailBudget};

const SCHEDULES: usize = 1_000;
const PARTITIONS: u32 = 2;
const WRITERS: u64 = 4;
const COMMITS: u64 = 2;
const OWNER: Owner = Owner {
    node: 1,
    incarnation: 1,
};

/// The checker's lock.
struct ShuttleLocks;

struct ShuttleLock<T>(RwLock<T>);

impl LockFamily for ShuttleLocks {
    type LockOf<T: Send + Sync + 'static> = ShuttleLock<T>;
}

impl<T: Send + Sync + 'static> SharedLock<T> for ShuttleLock<T> {
    type SharedGuard<'a> = RwLockReadGuard<'a, T>;
    type ExclusiveGuard<'a> = RwLockWriteGuard<'a, T>;

    fn new(value: T) -> Self {
        Self(RwLock::new(value))
    }

    fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap()
    }

    fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap()
    }

    fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap()
    }
}

/// Partitions with a committer, and the engine below the fault injection.
struct CommitHarness {
    memory: Arc<MemoryEngine>,
    ledgers: Vec<Arc<PartitionState<ShuttleLocks>>>,
    committer: future::JoinHandle<()>,
}

impl CommitHarness {
    fn new(faults: EngineFaults) -> Self {
        let memory = Arc::new(MemoryEngine::new());
        let hostile = HostileEngine::new(Arc::clone(&memory) as _, faults, thread_rng().r#gen());
        let node = Arc::new(NodeContext {
            engine: Arc::new(hostile),
            clock: Arc::new(VirtualClock::default()),
            owner: OWNER,
            lease: None,
            budget: Budget::new(u64::MAX, u64::MAX),
            cache: Arc::new(RowCache::new(1024)),
            tails: Arc::new(TailBudget::new(1024)),
            behind: BackgroundThread::start(false),
            fenced: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            groups: AtomicU64::new(0),
            backing_up: AtomicBool::new(false),
        });
        let ready = Arc::new(NotifyQueue::new());
        let ledger = |index| {
            let (node, ready) = (Arc::clone(&node), Arc::clone(&ready));
            let state = acquire(&memory, Partition(index), &node);
            Arc::new(PartitionState::new(Partition(index), node, ready, state))
        };
        Self {
            ledgers: (0..PARTITIONS).map(ledger).collect(),
            committer: future::spawn(run(node, ready)),
            memory,
        }
    }

    fn ledger(&self, writer: u64) -> Arc<PartitionState<ShuttleLocks>> {
        Arc::clone(&self.ledgers[(writer % u64::from(PARTITIONS)) as usize])
    }

    /// How often each transaction is in a partition's log.
    fn logged(&self, ledger: &PartitionState<ShuttleLocks>) -> BTreeMap<u64, usize> {
        logged(&self.memory, ledger.partition)
    }
}

fn acquire(memory: &MemoryEngine, partition: Partition, node: &NodeContext) -> State {
    let acquired = future::block_on(memory.acquire(partition, OWNER, Epoch(0)));
    let AcquireOutcome::Granted(tenure) = acquired.unwrap() else {
        panic!("no other owner holds the partition");
    };
    let streams = EventStreams::new(BTreeMap::new(), Arc::clone(&node.tails));
    let (first, time) = (Lsn(1), Timestamp(0));
    State::new(tenure.epoch, tenure.last, first, time, streams, 0)
}

fn logged(memory: &MemoryEngine, partition: Partition) -> BTreeMap<u64, usize> {
    let entries = memory.replay(partition, EntryNumber(1), usize::MAX);
    let mut found = BTreeMap::new();
    for entry in future::block_on(entries).unwrap() {
        for transaction in EntryBody::decode(entry.body).unwrap().transactions {
            *found.entry(transaction.id).or_default() += 1;
        }
    }
    found
}

fn writes(id: u64) -> Writes {
    let mut writes = Writes::new().with_id(id);
    writes.put(TableId(1), b"key", &id.to_be_bytes());
    writes
}

/// Commits one after the other, half of them in two steps.
fn commit_all(
    ledger: &Arc<PartitionState<ShuttleLocks>>,
    memory: &MemoryEngine,
    writer: u64,
) -> Vec<(u64, Result<()>)> {
    let mut answers = Vec::new();
    for number in 0..COMMITS {
        let id = writer * COMMITS + number + 1;
        let answer = future::block_on(async {
            if number == 0 {
                return ledger.commit(writes(id)).await.map(drop);
            }
            let staged = {
                let writes = writes(id);
                let mut state = ledger.begin(&writes)?;
                ledger.stage(&mut state, writes)
            };
            // A late waiter must get the same answer.
            for _ in 0..thread_rng().gen_range(0..10) {
                thread::yield_now();
            }
            ledger.wait(staged.lsn).await
        });
        if answer.is_ok() {
            let found = logged(memory, ledger.partition);
            assert_eq!(
                found.get(&id),
                Some(&1),
                "acknowledged before it was durable"
            );
        }
        answers.push((id, answer));
    }
    answers
}

/// Runs writers until all are answered; returns their answers.
fn play(
    stage: &CommitHarness,
    beside: impl FnOnce(),
) -> Vec<(Arc<PartitionState<ShuttleLocks>>, u64, Result<()>)> {
    let threads: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (ledger, memory) = (stage.ledger(writer), Arc::clone(&stage.memory));
            thread::spawn(move || commit_all(&ledger, &memory, writer))
        })
        .collect();
    beside();
    let mut all = Vec::new();
    for (writer, thread) in threads.into_iter().enumerate() {
        let ledger = stage.ledger(writer as u64);
        let answers = thread.join().unwrap();
        all.extend(
            answers
                .into_iter()
                .map(|(id, answer)| (Arc::clone(&ledger), id, answer)),
        );
    }
    stage.committer.abort();
    all
}

fn check(work: impl Fn() + Send + Sync + 'static) {
    let mut config = shuttle::Config::new();
    config.stack_size = 512 * 1024;
    shuttle::Runner::new(RandomScheduler::new(SCHEDULES), config).run(work);
}

#[test]
fn everybody_is_answered_once_it_is_durable() {
    check(|| {
        let stage = CommitHarness::new(EngineFaults {
            delay: 40,
            ..EngineFaults::default()
        });
        for (ledger, id, answer) in play(&stage, || {}) {
            answer.unwrap();
            assert_eq!(stage.logged(&ledger).get(&id), Some(&1));
            assert!(ledger.read().waiters.is_empty());
        }
        for ledger in &stage.ledgers {
            let state = ledger.read();
            let expected = u64::from(WRITERS as u32 / PARTITIONS) * COMMITS;
            assert_eq!(state.durable_lsn, Lsn(expected));
            assert!(state.pending.is_empty() && state.pending_bytes == 0);
        }
    });
}

#[test]
fn a_refused_group_is_taken_back_whole_and_told_to_all() {
    check(|| {
        let stage = CommitHarness::new(EngineFaults {
            delay: 40,
            refused: 40,
            ..EngineFaults::default()
        });
        for (ledger, id, answer) in play(&stage, || {}) {
            let expected = usize::from(answer.is_ok());
            let found = stage.logged(&ledger).get(&id).copied().unwrap_or(0);
            assert_eq!(found, expected, "{id}: {answer:?}");
        }
    });
}

#[test]
fn an_unknown_outcome_takes_effect_once_or_stays_unknown() {
    check(|| {
        let stage = CommitHarness::new(EngineFaults {
            delay: 40,
            unknown_applied: 25,
            unknown_dropped: 25,
            ..EngineFaults::default()
        });
        for (ledger, id, answer) in play(&stage, || {}) {
            let found = stage.logged(&ledger).get(&id).copied().unwrap_or(0);
            match answer {
                Ok(()) => assert_eq!(found, 1, "{id}"),
                // The outcome stayed unknown: it may be in the log, but not twice.
                Err(_) => assert!(found <= 1, "{id}"),
            }
        }
    });
}

#[test]
fn whoever_commits_while_the_partition_is_given_up_is_answered() {
    check(|| {
        let stage = CommitHarness::new(EngineFaults {
            delay: 40,
            ..EngineFaults::default()
        });
        let given_up = Arc::clone(&stage.ledgers[0]);
        let answers = play(&stage, || {
            // Most of the time when an entry is on its way.
            for _ in 0..thread_rng().gen_range(0..100) {
                if given_up.read().in_flight.is_some() {
                    break;
                }
                thread::yield_now();
            }
            given_up.abandon(&Error::new(ErrorKind::Closed));
        });
        for (ledger, id, answer) in answers {
            let found = stage.logged(&ledger).get(&id).copied().unwrap_or(0);
            match answer {
                Ok(()) => assert_eq!(found, 1, "{id}"),
                Err(error) => {
                    assert_eq!(ledger.partition, given_up.partition, "{error}");
                    let is_unknown = matches!(error.kind(), ErrorKind::OutcomeUnknown { .. });
                    assert!(is_unknown || found == 0, "{id} is there: {error}");
                }
            }
        }
        assert!(given_up.read().waiters.is_empty());
    });
}

#[test]
fn a_commit_that_nobody_waits_for_goes_on() {
    check(|| {
        let stage = CommitHarness::new(EngineFaults {
            delay: 40,
            ..EngineFaults::default()
        });
        let dropped = stage.ledger(0);
        drop(dropped.commit(writes(1_000)));
        for (_, _, answer) in play(&stage, || {}) {
            answer.unwrap();
        }
        assert_eq!(stage.logged(&dropped).get(&1_000), Some(&1));
    });
}
