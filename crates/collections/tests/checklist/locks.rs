//! Locks: C21 to C33.

use std::sync::Arc;
use std::time::Duration;

use steadfast_collections::lock::LockStrength::{Exclusive, Shared, Update};
use steadfast_collections::lock::name::{LockName, Subject, write};
use steadfast_collections::lock::owner::{LockOwner, TransactionPhase};
use steadfast_collections::lock::resident::CachedValue;
use steadfast_collections::lock::{LockAttempt, LockStrength, ParkingLatch, WaitOutcome};
use steadfast_collections::{ErrorKind, OperationOptions, Queue, Timeout};
use steadfast_core::clock::VirtualClock;
use steadfast_core::id::TableId;

use crate::site::{Locks, Site, at_once, code, key, timed_out};

const ROW: TableId = TableId(70_000);

/// A lock table and some owners.
struct Bench {
    locks: Arc<Locks>,
    owners: Vec<Arc<LockOwner<ParkingLatch>>>,
}

impl Bench {
    fn new() -> Self {
        let locks = Locks::new(Arc::new(VirtualClock::default()), 1 << 20);
        let owners = (0..8).map(|id| LockOwner::new(id, 0)).collect();
        Self { locks, owners }
    }

    fn request(&self, owner: usize, mode: LockStrength) -> LockAttempt<ParkingLatch> {
        self.request_key(owner, mode, b"k")
    }

    fn request_key(
        &self,
        owner: usize,
        mode: LockStrength,
        key: &[u8],
    ) -> LockAttempt<ParkingLatch> {
        let mut name = Vec::new();
        write(&mut name, Subject::Row, ROW);
        name.extend_from_slice(key);
        let owner = &self.owners[owner];
        self.locks
            .acquire(owner, LockName::new(&name), mode, 0, true)
    }

    fn hold(&self, owner: usize, mode: LockStrength) {
        let attempt = self.request(owner, mode);
        assert!(
            matches!(attempt, LockAttempt::Granted(_)),
            "{owner} {mode:?}"
        );
    }

    /// Waits for a lock, with a time-out: a lock that is never granted must fail a test.
    fn queue(&self, owner: usize, mode: LockStrength) -> impl Future<Output = bool> + use<> {
        let LockAttempt::Busy(waiting) = self.request(owner, mode) else {
            panic!("owner {owner} does not wait for {mode:?}");
        };
        async move {
            let granted = tokio::time::timeout(Duration::from_secs(20), waiting).await;
            granted == Ok(WaitOutcome::Granted)
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

#[test]
fn c21_all_nine_mode_pairs() {
    let joins = [
        (Shared, Shared, true),
        (Shared, Update, false),
        (Shared, Exclusive, false),
        (Update, Shared, true),
        (Update, Update, false),
        (Update, Exclusive, false),
        (Exclusive, Shared, false),
        (Exclusive, Update, false),
        (Exclusive, Exclusive, false),
    ];
    for (request, granted, expected) in joins {
        let bench = Bench::new();
        bench.hold(0, granted);
        let attempt = bench.request(1, request);
        let is_granted = matches!(attempt, LockAttempt::Granted(_));
        assert_eq!(is_granted, expected, "{request:?} against {granted:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn c22_two_readers_that_both_upgrade_do_not_hang() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 1)]).await;
    let (mut a, mut b) = (site.replica.begin(), site.replica.begin());
    words.get(&mut a, &key("k")).await.unwrap();
    words.get(&mut b, &key("k")).await.unwrap();
    let upgrade = async |tx: &mut steadfast_collections::Tx| {
        let set = words.set(tx, key("k"), 2).await;
        if timed_out(&set) {
            tx.roll_back();
        }
        set
    };
    let began = tokio::time::Instant::now();
    let (first, second) = tokio::join!(upgrade(&mut a), upgrade(&mut b));
    let failed = [&first, &second]
        .into_iter()
        .filter(|r| timed_out(r))
        .count();
    assert!(failed >= 1, "one of them must give way");
    assert!(began.elapsed() < Duration::from_secs(9));
    drop((a, b));
    assert_eq!(site.replica.locks(), 0);
}

#[tokio::test(start_paused = true)]
async fn c23_the_second_updater_waits_and_nobody_dead_locks() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 0)]).await;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let (replica, words) = (site.replica.clone(), words.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..25 {
                let mut tx = replica.begin();
                let view = words.with(OperationOptions::default().update());
                let old = *view.get(&mut tx, &key("k")).await.unwrap().unwrap();
                tokio::task::yield_now().await;
                words.set(&mut tx, key("k"), old + 1).await.unwrap();
                tx.commit().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(site.committed(&words, "k").await, Some(100));
}

#[tokio::test]
async fn c24_a_new_reader_waits_behind_an_updater() {
    let bench = Bench::new();
    bench.hold(0, Shared);
    bench.hold(1, Update);
    let reader = bench.queue(2, Shared);
    bench.end(1);
    assert!(reader.await);
}

#[tokio::test]
async fn c25_an_upgrade_overtakes_a_waiting_writer() {
    let bench = Bench::new();
    bench.hold(1, Shared);
    bench.hold(0, Update);
    let writer = bench.queue(2, Exclusive);
    let upgrade = bench.queue(0, Exclusive);
    bench.end(1);
    assert!(upgrade.await, "it came later and goes first");
    bench.end(0);
    assert!(writer.await);
}

#[tokio::test]
async fn c26_a_late_reader_does_not_overtake_a_waiting_writer() {
    let bench = Bench::new();
    bench.hold(0, Shared);
    let writer = bench.queue(1, Exclusive);
    let reader = bench.queue(2, Shared);
    bench.end(0);
    assert!(writer.await);
    tokio::pin!(reader);
    let early = tokio::time::timeout(Duration::from_millis(1), &mut reader).await;
    assert!(early.is_err(), "the writer still has it");
    bench.end(1);
    assert!(reader.await);
}

#[tokio::test(start_paused = true)]
async fn c27_the_default_time_out_is_four_seconds() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 1)]).await;
    let mut holder = site.replica.begin();
    words.set(&mut holder, key("k"), 2).await.unwrap();
    let mut tx = site.replica.begin();
    let began = tokio::time::Instant::now();
    let read = words.get(&mut tx, &key("k")).await;
    let waited = began.elapsed();
    assert!(waited >= Duration::from_millis(3_600), "{waited:?}");
    assert!(waited <= Duration::from_millis(4_400), "{waited:?}");
    let error = read.unwrap_err();
    let ErrorKind::LockTimeout {
        holder: by,
        since,
        lock,
    } = error.kind()
    else {
        panic!("{error}");
    };
    assert_eq!(*by, holder.id(), "it names the holder");
    assert_eq!(since.0, 1_000_000, "and since when");
    assert!(lock.contains('k'), "{lock}");
}

#[tokio::test(start_paused = true)]
async fn c27_all_waits_of_an_operation_count_together() {
    let site = Site::new().await;
    let queue: Queue<u64> = site.state().get_or_add("q").await.unwrap();
    let (mut enqueuer, mut reader) = (site.replica.begin(), site.replica.begin());
    queue.enqueue(&mut enqueuer, 1).await.unwrap();
    let peek = queue.with(at_once()).try_peek(&mut reader).await;
    assert!(timed_out(&peek), "but it keeps its lock on the head");
    let waiter = async {
        let mut tx = site.replica.begin();
        let began = tokio::time::Instant::now();
        let dequeued = queue.try_dequeue(&mut tx).await;
        (dequeued, began.elapsed())
    };
    let others = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        drop(reader);
    };
    // Three seconds for the head, then one for the row that is being enqueued.
    let ((dequeued, waited), ()) = tokio::join!(waiter, others);
    assert!(timed_out(&dequeued));
    assert!(waited >= Duration::from_millis(3_900), "{waited:?}");
    assert!(waited <= Duration::from_millis(4_400), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn c28_zero_tries_once() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 1)]).await;
    let mut holder = site.replica.begin();
    words.set(&mut holder, key("k"), 2).await.unwrap();
    let mut tx = site.replica.begin();
    let began = tokio::time::Instant::now();
    let read = words.with(at_once()).get(&mut tx, &key("k")).await;
    assert!(timed_out(&read));
    assert_eq!(began.elapsed(), Duration::ZERO);
    let other = words.with(at_once()).get(&mut tx, &key("free")).await;
    assert!(other.is_ok(), "what is free is granted");
}

#[test]
fn c29_a_negative_time_out_is_refused() {
    for millis in [-2, -1_000, i64::MIN] {
        assert_eq!(code(Timeout::from_millis(millis)), "STF-3009");
    }
    assert_eq!(Timeout::from_millis(-1).unwrap(), Timeout::Never);
    let zero = Timeout::After(Duration::ZERO);
    assert_eq!(Timeout::from_millis(0).unwrap(), zero);
}

#[tokio::test]
async fn c30_an_exclusive_lock_stays_after_a_failed_write() {
    let site = Site::new().await;
    let words = site.words_with(&[("a", 1), ("b", 2)]).await;
    let mut tx = site.replica.begin();
    assert_eq!(code(words.add(&mut tx, key("a"), 9).await), "STF-3006");
    assert!(!words.try_update(&mut tx, &key("b"), 9, &7).await.unwrap());
    assert!(
        words
            .try_remove(&mut tx, &key("c"))
            .await
            .unwrap()
            .is_none()
    );
    let mut other = site.replica.begin();
    for locked in ["a", "b", "c"] {
        let read = words.with(at_once()).get(&mut other, &key(locked)).await;
        assert!(timed_out(&read), "{locked}");
    }
    drop(tx);
    for free in ["a", "b", "c"] {
        let read = words.with(at_once()).get(&mut other, &key(free)).await;
        assert!(read.is_ok(), "{free}");
    }
}

#[tokio::test(start_paused = true)]
async fn c31_a_cancelled_waiter_leaves_nothing_behind() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 1)]).await;
    let mut holder = site.replica.begin();
    words.get(&mut holder, &key("k")).await.unwrap();
    let mut writer = site.replica.begin();
    {
        let set = words.set(&mut writer, key("k"), 2);
        let cancelled = tokio::time::timeout(Duration::from_millis(5), set).await;
        assert!(cancelled.is_err());
    }
    assert!(site.replica.waits().is_empty());
    // Its place in the queue is gone: a reader gets in.
    let mut reader = site.replica.begin();
    let read = words.with(at_once()).get(&mut reader, &key("k")).await;
    assert_eq!(*read.unwrap().unwrap(), 1);
    drop((holder, reader));
    writer.commit().await.unwrap();
    assert_eq!(
        site.committed(&words, "k").await,
        Some(1),
        "nothing was set"
    );
    assert_eq!(site.replica.locks(), 0);
}

#[tokio::test]
async fn c31_a_lock_granted_in_the_same_instant_stays() {
    let bench = Bench::new();
    bench.hold(0, Exclusive);
    let waiting = bench.queue(1, Exclusive);
    bench.end(0);
    // Granted, but not polled yet.
    drop(waiting);
    assert_eq!(bench.owners[1].held(), 1);
    let third = bench.request(2, Shared);
    assert!(matches!(third, LockAttempt::Busy(_)));
    drop(third);
    bench.end(1);
    assert_eq!(bench.locks.busy(), 0);
}

#[tokio::test]
async fn c32_different_keys_never_conflict() {
    let bench = Bench::new();
    for n in 0u32..20_000 {
        let owner = n as usize % 2;
        let attempt = bench.request_key(owner, Exclusive, &n.to_le_bytes());
        assert!(matches!(attempt, LockAttempt::Granted(_)), "{n}");
    }
    assert_eq!(bench.locks.busy(), 20_000);
    bench.end(0);
    bench.end(1);
    assert_eq!(bench.locks.busy(), 0);
}

#[tokio::test]
async fn c33_no_lock_is_released_before_the_append_is_durable() {
    let site = Site::new().await;
    let words = site.words_with(&[("k", 1)]).await;
    let mut tx = site.replica.begin();
    words.set(&mut tx, key("k"), 2).await.unwrap();
    let mut sealed = tx.prepare().unwrap();
    let staged = site.ledger.stage(sealed.take_writes().unwrap()).unwrap();
    let mut other = site.replica.begin();
    let early = words.with(at_once()).get(&mut other, &key("k")).await;
    assert!(timed_out(&early), "ordered, but not durable");
    site.ledger.wait(staged.lsn).await.unwrap();
    let early = words.with(at_once()).get(&mut other, &key("k")).await;
    assert!(timed_out(&early), "durable, but not shown");
    sealed.finish(Ok(staged.lsn)).unwrap();
    let read = words.with(at_once()).get(&mut other, &key("k")).await;
    assert_eq!(*read.unwrap().unwrap(), 2);
}

#[test]
fn a_reader_that_was_ended_leaves_no_old_value() {
    let bench = Bench::new();
    let mut name = Vec::new();
    write(&mut name, Subject::Row, ROW);
    name.extend_from_slice(b"k");
    let name = LockName::new(&name);
    let value = || CachedValue::Present(Arc::new(1u64));
    bench.hold(0, Shared);
    bench.hold(1, Shared);
    bench.locks.remember(&bench.owners[0], name, 0, value(), 8);
    assert!(matches!(bench.locks.peek(name, 0), CachedValue::Present(_)));
    bench
        .locks
        .remember(&bench.owners[0], name, 0, CachedValue::Unknown, 8);
    // It reads from the disk; meanwhile it is too old and loses its lock.
    assert!(bench.locks.end(
        &bench.owners[0],
        TransactionPhase::Active,
        TransactionPhase::Faulted("old")
    ));
    bench.locks.remember(&bench.owners[0], name, 0, value(), 8);
    assert!(matches!(bench.locks.peek(name, 0), CachedValue::Unknown));
}
