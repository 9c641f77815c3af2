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
use steadfast_core::id::{EntryNumber, Epoch, Lsn, Owner, Partition, Table};

use super::run;
use crate::behind::Behind;
use crate::body::{Body, Writes};
use crate::budget::Budget;
use crate::cache::RowCache;
use crate::engine::{Acquired, Engine};
use crate::error::{Error, Kind, Result};
use crate::hostile::{Faults, Hostile};
use crate::latch::{Guarded, Latch};
use crate::memory::Memory;
use crate::node::Node;
use crate::queue::Queue;
use crate::shared::Shared;
use crate::state::State;
use crate::streams::{Streams, TailBudget};

const SCHEDULES: usize = 1_000;
const PARTITIONS: u32 = 2;
const WRITERS: u64 = 4;
const COMMITS: u64 = 2;
const OWNER: Owner = Owner {
    node: 1,
    incarnation: 1,
};

/// The checker's lock.
struct Checked;

struct CheckedLock<T>(RwLock<T>);

impl Latch for Checked {
    type Of<T: Send + Sync + 'static> = CheckedLock<T>;
}

impl<T: Send + Sync + 'static> Guarded<T> for CheckedLock<T> {
    type Reading<'a> = RwLockReadGuard<'a, T>;
    type Writing<'a> = RwLockWriteGuard<'a, T>;

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
struct Stage {
    memory: Arc<Memory>,
    ledgers: Vec<Arc<Shared<Checked>>>,
    committer: future::JoinHandle<()>,
}

impl Stage {
    fn new(faults: Faults) -> Self {
        let memory = Arc::new(Memory::new());
        let hostile = Hostile::new(Arc::clone(&memory) as _, faults, thread_rng().r#gen());
        let node = Arc::new(Node {
            engine: Arc::new(hostile),
            clock: Arc::new(VirtualClock::default()),
            owner: OWNER,
            lease: None,
            budget: Budget::new(u64::MAX, u64::MAX),
            cache: Arc::new(RowCache::new(1024)),
            tails: Arc::new(TailBudget::new(1024)),
            behind: Behind::start(false),
            fenced: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            groups: AtomicU64::new(0),
            backing_up: AtomicBool::new(false),
        });
        let ready = Arc::new(Queue::new());
        let ledger = |index| {
            let (node, ready) = (Arc::clone(&node), Arc::clone(&ready));
            let state = acquire(&memory, Partition(index), &node);
            Arc::new(Shared::new(Partition(index), node, ready, state))
        };
        Self {
            ledgers: (0..PARTITIONS).map(ledger).collect(),
            committer: future::spawn(run(node, ready)),
            memory,
        }
    }

    fn ledger(&self, writer: u64) -> Arc<Shared<Checked>> {
        Arc::clone(&self.ledgers[(writer % u64::from(PARTITIONS)) as usize])
    }

    /// How often each transaction is in a partition's log.
    fn logged(&self, ledger: &Shared<Checked>) -> BTreeMap<u64, usize> {
        logged(&self.memory, ledger.partition)
    }
}

fn acquire(memory: &Memory, partition: Partition, node: &Node) -> State {
    let acquired = future::block_on(memory.acquire(partition, OWNER, Epoch(0)));
    let Acquired::Granted(tenure) = acquired.unwrap() else {
        panic!("no other owner holds the partition");
    };
    let streams = Streams::new(BTreeMap::new(), Arc::clone(&node.tails));
    let (first, time) = (Lsn(1), Timestamp(0));
    State::new(tenure.epoch, tenure.last, first, time, streams, 0)
}

fn logged(memory: &Memory, partition: Partition) -> BTreeMap<u64, usize> {
    let entries = memory.replay(partition, EntryNumber(1), usize::MAX);
    let mut found = BTreeMap::new();
    for entry in future::block_on(entries).unwrap() {
        for transaction in Body::decode(entry.body).unwrap().transactions {
            *found.entry(transaction.id).or_default() += 1;
        }
    }
    found
}

fn writes(id: u64) -> Writes {
    let mut writes = Writes::new().with_id(id);
    writes.put(Table(1), b"key", &id.to_be_bytes());
    writes
}

/// Commits one after the other, half of them in two steps.
fn commit_all(
    ledger: &Arc<Shared<Checked>>,
    memory: &Memory,
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
fn play(stage: &Stage, beside: impl FnOnce()) -> Vec<(Arc<Shared<Checked>>, u64, Result<()>)> {
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
        let stage = Stage::new(Faults {
            delay: 40,
            ..Faults::default()
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
        let stage = Stage::new(Faults {
            delay: 40,
            refused: 40,
            ..Faults::default()
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
        let stage = Stage::new(Faults {
            delay: 40,
            unknown_applied: 25,
            unknown_dropped: 25,
            ..Faults::default()
        });
        for (ledger, id, answer) in play(&stage, || {}) {
            let found = stage.logged(&ledger).get(&id).copied().unwrap_or(0);
            match answer {
                Ok(()) => assert_eq!(found, 1, "{id}"),
                // Asked too often: it may be there, but not twice.
                Err(_) => assert!(found <= 1, "{id}"),
            }
        }
    });
}

#[test]
fn whoever_commits_while_the_partition_is_given_up_is_answered() {
    check(|| {
        let stage = Stage::new(Faults {
            delay: 40,
            ..Faults::default()
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
            given_up.abandon(&Error::new(Kind::Closed));
        });
        for (ledger, id, answer) in answers {
            let found = stage.logged(&ledger).get(&id).copied().unwrap_or(0);
            match answer {
                Ok(()) => assert_eq!(found, 1, "{id}"),
                Err(error) => {
                    assert_eq!(ledger.partition, given_up.partition, "{error}");
                    let is_unknown = matches!(error.kind(), Kind::OutcomeUnknown { .. });
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
        let stage = Stage::new(Faults {
            delay: 40,
            ..Faults::default()
        });
        let dropped = stage.ledger(0);
        drop(dropped.commit(writes(1_000)));
        for (_, _, answer) in play(&stage, || {}) {
            answer.unwrap();
        }
        assert_eq!(stage.logged(&dropped).get(&1_000), Some(&1));
    });
}
