//! The lock table under many schedules.
//!
//! Shuttle runs the tasks one step at a time in random orders; its mutex stands
//! under the table, so it can switch wherever two threads could meet.

use std::sync::Arc;

use shuttle::sync::Mutex;
use shuttle::{future, thread};
use steadfast_collections::lock::latch::{Latch, LatchCell};
use steadfast_collections::lock::name::{LockName, Subject, write};
use steadfast_collections::lock::owner::{LockOwner, TransactionPhase};
use steadfast_collections::lock::{LockAttempt, LockStrength, LockTable, WaitOutcome};
use steadfast_core::clock::VirtualClock;
use steadfast_core::id;

const SCHEDULES: usize = 2_000;

/// The checker's mutex.
struct Checked;

struct CheckedMutex<T>(Mutex<T>);

impl Latch for Checked {
    type Of<T: Send + 'static> = CheckedMutex<T>;
}

impl<T: Send + 'static> LatchCell<T> for CheckedMutex<T> {
    fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut self.0.lock().unwrap())
    }
}

type Locks = Arc<LockTable<Checked>>;

fn locks() -> Locks {
    LockTable::new(Arc::new(VirtualClock::default()), 1 << 20)
}

fn name(key: u8) -> Vec<u8> {
    let mut name = Vec::new();
    write(&mut name, Subject::Row, id::TableId(70_000));
    name.push(key);
    name
}

async fn lock(locks: &Locks, owner: &Arc<LockOwner<Checked>>, key: u8, mode: LockStrength) -> bool {
    match locks.acquire(owner, LockName::new(&name(key)), mode, 0, true) {
        LockAttempt::Granted(_) => true,
        LockAttempt::Busy(waiting) => waiting.await == WaitOutcome::Granted,
        LockAttempt::Ended(_) | LockAttempt::Refused(_) => false,
    }
}

/// Who is inside, by mode.
#[derive(Default)]
struct Inside {
    readers: usize,
    writers: usize,
}

#[test]
fn an_exclusive_lock_is_held_alone_and_everybody_gets_in() {
    shuttle::check_random(
        || {
            let locks = locks();
            let inside = Arc::new(Mutex::new(Inside::default()));
            let mut threads = Vec::new();
            for task in 0..4u64 {
                let (locks, inside) = (Arc::clone(&locks), Arc::clone(&inside));
                threads.push(thread::spawn(move || {
                    future::block_on(visit(&locks, &inside, task));
                }));
            }
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(locks.busy(), 0, "a lock is left");
        },
        SCHEDULES,
    );
}

async fn visit(locks: &Locks, inside: &Mutex<Inside>, task: u64) {
    let owner = LockOwner::new(task, 0);
    let writes = task.is_multiple_of(2);
    // An updater upgrades; two of them must not block each other.
    let first = if writes {
        LockStrength::Update
    } else {
        LockStrength::Shared
    };
    assert!(lock(locks, &owner, 0, first).await);
    if writes {
        assert!(lock(locks, &owner, 0, LockStrength::Exclusive).await);
    }
    {
        let mut inside = inside.lock().unwrap();
        assert_eq!(inside.writers, 0, "beside a writer");
        assert!(!writes || inside.readers == 0, "a writer beside readers");
        *if writes {
            &mut inside.writers
        } else {
            &mut inside.readers
        } += 1;
    }
    thread::yield_now();
    {
        let mut inside = inside.lock().unwrap();
        *if writes {
            &mut inside.writers
        } else {
            &mut inside.readers
        } -= 1;
    }
    assert!(locks.end(&owner, TransactionPhase::Active, TransactionPhase::Closed));
}

/// Locks keys in an order, again after a deadlock; answers how often it was given up.
async fn lock_all(locks: &Locks, rank: u64, keys: &[u8]) -> usize {
    for given_up in 0.. {
        let owner = LockOwner::ranked(rank + 10 * given_up as u64, rank, 0);
        let mut has_all = true;
        for key in keys {
            let attempt = locks.acquire(
                &owner,
                LockName::new(&name(*key)),
                LockStrength::Exclusive,
                0,
                true,
            );
            let woken = match attempt {
                LockAttempt::Granted(_) => WaitOutcome::Granted,
                LockAttempt::Busy(waiting) => waiting.await,
                LockAttempt::Ended(_) | LockAttempt::Refused(_) => WaitOutcome::Ended,
            };
            if let WaitOutcome::Deadlock(with) = woken {
                assert!(with.iter().all(|other| other % 10 < rank), "{with:?}");
                has_all = false;
                break;
            }
            assert_eq!(woken, WaitOutcome::Granted);
        }
        assert!(locks.end(&owner, TransactionPhase::Active, TransactionPhase::Closed));
        if has_all {
            return given_up;
        }
    }
    unreachable!("the loop has no end")
}

#[test]
fn whatever_the_order_of_locks_all_get_them_and_the_oldest_is_never_given_up() {
    shuttle::check_random(
        || {
            let locks = locks();
            let orders = [[0, 1, 2], [1, 2, 0], [2, 1, 0]];
            let threads: Vec<_> = (0..orders.len())
                .map(|task| {
                    let locks = Arc::clone(&locks);
                    thread::spawn(move || {
                        future::block_on(lock_all(&locks, task as u64, &orders[task]))
                    })
                })
                .collect();
            let given_up = threads.into_iter().map(|thread| thread.join().unwrap());
            let given_up: Vec<_> = given_up.collect();
            assert_eq!(given_up[0], 0);
            assert_eq!(locks.busy(), 0, "a lock is left");
        },
        SCHEDULES,
    );
}

#[test]
fn cancelled_waiters_and_faulted_holders_leave_nothing() {
    shuttle::check_random(
        || {
            let locks = locks();
            let holder = LockOwner::new(1, 0);
            future::block_on(lock(&locks, &holder, 0, LockStrength::Exclusive));
            let canceller = {
                let locks = Arc::clone(&locks);
                thread::spawn(move || {
                    let owner = LockOwner::new(2, 0);
                    let attempt = locks.acquire(
                        &owner,
                        LockName::new(&name(0)),
                        LockStrength::Exclusive,
                        0,
                        true,
                    );
                    thread::yield_now();
                    drop(attempt);
                    locks.end(&owner, TransactionPhase::Active, TransactionPhase::Closed);
                })
            };
            let waiter = {
                let locks = Arc::clone(&locks);
                thread::spawn(move || {
                    let owner = LockOwner::new(3, 0);
                    let granted = future::block_on(lock(&locks, &owner, 0, LockStrength::Shared));
                    assert!(granted, "the wake-up was lost");
                    locks.end(&owner, TransactionPhase::Active, TransactionPhase::Closed);
                })
            };
            let faulter = {
                let (locks, holder) = (Arc::clone(&locks), Arc::clone(&holder));
                thread::spawn(move || {
                    locks.end(
                        &holder,
                        TransactionPhase::Active,
                        TransactionPhase::Faulted("old"),
                    )
                })
            };
            // The holder goes on meanwhile: either it is ended or it gets the lock.
            future::block_on(lock(&locks, &holder, 1, LockStrength::Exclusive));
            for thread in [canceller, waiter] {
                thread.join().unwrap();
            }
            assert!(faulter.join().unwrap());
            assert_eq!(locks.busy(), 0, "a lock is left");
            assert_eq!(holder.held(), 0);
        },
        SCHEDULES,
    );
}
