//! Transactions that wait for one another.

use std::sync::Arc;
use std::time::Duration;

use steadfast_collections::lock::LockStrength::{Exclusive, Shared, Update};
use steadfast_collections::lock::name::{LockName, Subject, write};
use steadfast_collections::lock::owner::{LockOwner, TransactionPhase};
use steadfast_collections::lock::{LockAttempt, LockStrength, LockWait, ParkingLatch, WaitOutcome};
use steadfast_collections::{
    ErrorKind, OperationOptions, Replica, Result, RetryAdvice, Timeout, Tx,
};
use steadfast_core::clock::VirtualClock;
use steadfast_core::id::TableId;

use crate::site::{Locks, Site, Words, key};

/// Sets a key; a transaction that fails gives its locks back.
async fn set(words: &Words, tx: &mut Tx, name: &str) -> Result<()> {
    let set = words.set(tx, key(name), 2).await;
    if set.is_err() {
        tx.roll_back();
    }
    set
}

#[tokio::test(start_paused = true)]
async fn c22_a_cycle_of_waits_ends_at_once_and_the_youngest_gives_way() {
    for closer in ["younger", "older"] {
        let site = Site::new().await;
        let words = site.words_with(&[("x", 1), ("y", 1)]).await;
        let (mut older, mut younger) = (site.replica.begin(), site.replica.begin());
        let elder = older.id();
        set(&words, &mut older, "x").await.unwrap();
        set(&words, &mut younger, "y").await.unwrap();
        let began = tokio::time::Instant::now();
        let (won, lost) = match closer {
            "younger" => tokio::join!(set(&words, &mut older, "y"), set(&words, &mut younger, "x")),
            _ => {
                let both =
                    tokio::join!(set(&words, &mut younger, "x"), set(&words, &mut older, "y"));
                (both.1, both.0)
            }
        };
        assert_eq!(
            began.elapsed(),
            Duration::ZERO,
            "no time-out was waited for"
        );
        won.unwrap();
        let error = lost.unwrap_err();
        let ErrorKind::Deadlock { lock, with } = error.kind() else {
            panic!("{error}");
        };
        assert_eq!((&**lock, &**with), ("key \"x\" of urn:words", &[elder][..]));
        assert_eq!(
            (error.code().0, error.retry()),
            ("STF-3023", RetryAdvice::Later)
        );
        older.commit().await.unwrap();
        drop(younger);
        assert_eq!(site.replica.locks(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn c22_readers_that_both_upgrade_are_told_at_once() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 1)]).await;
    let (mut a, mut b) = (site.replica.begin(), site.replica.begin());
    words.get(&mut a, &key("k")).await.unwrap();
    words.get(&mut b, &key("k")).await.unwrap();
    let began = tokio::time::Instant::now();
    let (first, second) = tokio::join!(set(&words, &mut a, "k"), set(&words, &mut b, "k"));
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert!(first.is_ok() && second.is_err(), "{first:?} {second:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_time_out_a_cycle_ends_all_the_same() {
    let site = Site::new().await;
    let words = site.words_with(&[("x", 1), ("y", 1)]).await;
    let patient = words.with(OperationOptions::default().timeout(Timeout::Never));
    let (mut a, mut b) = (site.replica.begin(), site.replica.begin());
    patient.set(&mut a, key("x"), 2).await.unwrap();
    patient.set(&mut b, key("y"), 2).await.unwrap();
    let second = async {
        let set = patient.set(&mut b, key("x"), 3).await;
        b.roll_back();
        set
    };
    let both = futures_util::future::join(patient.set(&mut a, key("y"), 3), second);
    let both = tokio::time::timeout(Duration::from_secs(10), both).await;
    let (first, second) = both.expect("they wait for one another");
    assert!(first.is_ok() && second.is_err());
}

/// Owners of locks in a table, by their place.
struct Ring {
    locks: Arc<Locks>,
    owners: Vec<Arc<LockOwner<ParkingLatch>>>,
}

impl Ring {
    fn new(owners: Vec<Arc<LockOwner<ParkingLatch>>>) -> Self {
        let locks = Locks::new(Arc::new(VirtualClock::default()), 1 << 20);
        Self { locks, owners }
    }

    fn ask(&self, owner: usize, key: usize, mode: LockStrength) -> Option<LockWait<ParkingLatch>> {
        let mut name = Vec::new();
        write(&mut name, Subject::Row, TableId(70_000));
        name.push(key as u8);
        let owner = &self.owners[owner];
        match self
            .locks
            .acquire(owner, LockName::new(&name), mode, 0, true)
        {
            LockAttempt::Granted(_) => None,
            LockAttempt::Busy(waiting) => Some(waiting),
            LockAttempt::Ended(_) | LockAttempt::Refused(_) => {
                panic!("it neither has it nor waits")
            }
        }
    }

    fn end(&self, owner: usize) {
        let owner = &self.owners[owner];
        assert!(
            self.locks
                .end(owner, TransactionPhase::Active, TransactionPhase::Closed)
        );
    }
}

fn is_waiting(waiting: &mut LockWait<ParkingLatch>) -> bool {
    futures_util::FutureExt::now_or_never(waiting).is_none()
}

#[tokio::test]
async fn in_a_ring_of_many_one_is_given_up_and_all_others_go_on() {
    const MANY: usize = 50;
    let ring = Ring::new((0..MANY as u64).map(|id| LockOwner::new(id, 0)).collect());
    for owner in 0..MANY {
        assert!(ring.ask(owner, owner, Exclusive).is_none());
    }
    // Each waits for the next one. The ring is closed in the middle of it.
    let mut waits: Vec<_> = (0..MANY).map(|_| None).collect();
    for step in 1..=MANY {
        let owner = (MANY / 2 + step) % MANY;
        let mut waiting = ring.ask(owner, (owner + 1) % MANY, Exclusive).unwrap();
        let is_last = step == MANY;
        assert!(is_waiting(&mut waiting), "owner {owner}, step {step}");
        waits[owner] = Some(waiting);
        if !is_last {
            for waiting in waits.iter_mut().flatten() {
                assert!(is_waiting(waiting), "there is no ring yet");
            }
        }
    }
    let given_up = waits[MANY - 1].take().unwrap().await;
    let WaitOutcome::Deadlock(mut others) = given_up else {
        panic!("{given_up:?}");
    };
    others.sort_unstable();
    let expected: Vec<_> = (0..MANY as u64 - 1).collect();
    assert_eq!(others, expected, "all of them are in it");
    for owner in (0..MANY).rev() {
        ring.end(owner);
        if let Some(waiting) = owner.checked_sub(1).and_then(|before| waits[before].take()) {
            assert_eq!(waiting.await, WaitOutcome::Granted);
        }
    }
    assert_eq!(ring.locks.busy(), 0);
}

#[tokio::test]
async fn a_transaction_that_is_tried_again_is_as_old_as_its_first_attempt() {
    // The third one began as the first: it is older than the second.
    let ring = Ring::new(vec![LockOwner::new(2, 0), LockOwner::ranked(3, 1, 0)]);
    assert!(ring.ask(0, 0, Exclusive).is_none());
    assert!(ring.ask(1, 1, Exclusive).is_none());
    let younger = ring.ask(0, 1, Exclusive).unwrap();
    let mut older = ring.ask(1, 0, Exclusive).unwrap();
    assert!(is_waiting(&mut older));
    assert_eq!(younger.await, WaitOutcome::Deadlock(vec![3]));
    ring.end(0);
    assert_eq!(older.await, WaitOutcome::Granted);
}

#[tokio::test]
async fn a_wait_behind_a_waiter_is_a_wait_too() {
    let ring = Ring::new((0..3).map(|id| LockOwner::new(id, 0)).collect());
    assert!(ring.ask(0, 0, Shared).is_none());
    assert!(ring.ask(2, 1, Exclusive).is_none());
    // A reader would fit beside the first, but a writer waits before it.
    let mut writer = ring.ask(1, 0, Exclusive).unwrap();
    let reader = ring.ask(2, 0, Shared).unwrap();
    let mut closing = ring.ask(0, 1, Update).unwrap();
    assert!(is_waiting(&mut writer) && is_waiting(&mut closing));
    assert_eq!(reader.await, WaitOutcome::Deadlock(vec![1, 0]));
    ring.end(2);
    assert_eq!(closing.await, WaitOutcome::Granted);
    ring.end(0);
    assert_eq!(writer.await, WaitOutcome::Granted);
}

/// Moves one from one account to another, and locks them in this order.
async fn transfer(replica: &Replica, words: &Words, from: &str, to: &str) {
    let done = replica.transact(async |mut tx| {
        words
            .update(&mut tx, from, |old| old.wrapping_sub(1))
            .await?;
        // The other one has its first lock by then.
        tokio::task::yield_now().await;
        words.update(&mut tx, to, |old| old.wrapping_add(1)).await?;
        tx.commit(()).await
    });
    done.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transfers_in_opposite_order_go_on() {
    const TRANSFERS: usize = 4_000;
    for tasks in [1, 2, 4] {
        let site = Site::new().await;
        let words = site.words_with(&[("a", 1 << 40), ("b", 1 << 40)]).await;
        let work = (0..tasks).map(|task| {
            let (replica, words) = (site.replica.clone(), words.clone());
            tokio::spawn(async move {
                for _ in 0..TRANSFERS / tasks {
                    match task % 2 {
                        0 => transfer(&replica, &words, "a", "b").await,
                        _ => transfer(&replica, &words, "b", "a").await,
                    }
                }
            })
        });
        let work: Vec<_> = work.collect();
        // Far more than it takes: with time-outs alone there are fewer than a hundred.
        let all = futures_util::future::try_join_all(work);
        let ended = tokio::time::timeout(Duration::from_secs(60), all).await;
        ended.expect("they hold one another up").unwrap();
        let balances = (
            site.committed(&words, "a").await,
            site.committed(&words, "b").await,
        );
        let moved = if tasks == 1 { TRANSFERS as u64 } else { 0 };
        let expected = ((1 << 40) - moved, (1 << 40) + moved);
        assert_eq!(balances, (Some(expected.0), Some(expected.1)));
        assert_eq!(site.replica.locks(), 0);
    }
}
