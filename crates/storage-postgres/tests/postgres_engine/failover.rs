//! Commits that run while servers die: T1 to T3.
//!
//! Writers count up, each in its own partition, one row and one event per count.
//! At the end every acknowledged count must be there, each exactly once.
//! `STEADFAST_ROUNDS` says how many rounds, `STEADFAST_SEED` which.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use steadfast_core::clock::{Clock, SystemClock};
use steadfast_core::id::{Partition, Sequence};
use steadfast_harness::postgres::{Manager, PostgresCluster};
use steadfast_storage::engine::{Engine, ReadPosition};
use steadfast_storage::{Ledger, Options as StoreOptions, Store, Visibility, Writes};
use steadfast_storage_postgres::{Options, PostgresEngine};
use tokio::task::JoinHandle;

use crate::pg::{S, T, WE, cluster, quorum, wait};

const WRITERS: u32 = 8;

/// Counters that are counted up until they are stopped.
struct Load {
    store: Arc<Store>,
    stop: Arc<AtomicBool>,
    counts: Vec<Arc<AtomicU64>>,
    writers: Vec<JoinHandle<()>>,
}

impl Load {
    async fn start(options: Options) -> Self {
        Self::on(Arc::new(PostgresEngine::open(options).await.unwrap())).await
    }

    async fn on(engine: Arc<PostgresEngine>) -> Self {
        let mut settings = StoreOptions::new(WE);
        // Small, so that flushes run all the time, and events come from the database.
        settings.log_target = 256 * 1024;
        settings.event_tail = 0;
        let mut load = Self {
            store: Arc::new(Store::start(engine, settings)),
            stop: Arc::default(),
            counts: Vec::new(),
            writers: Vec::new(),
        };
        for index in 0..WRITERS {
            let count: Arc<AtomicU64> = Arc::default();
            let (store, stop) = (Arc::clone(&load.store), Arc::clone(&load.stop));
            load.counts.push(Arc::clone(&count));
            let partition = Partition(index);
            load.writers
                .push(tokio::spawn(write(store, partition, count, stop)));
        }
        load
    }

    /// Acknowledged so far, by all.
    fn total(&self) -> u64 {
        let counts = self.counts.iter();
        counts.map(|count| count.load(Ordering::SeqCst)).sum()
    }

    /// Waits until every writer has gone on.
    async fn progress(&self) {
        let before: Vec<_> = self
            .counts
            .iter()
            .map(|count| count.load(Ordering::SeqCst))
            .collect();
        let clock = SystemClock::new();
        for (count, before) in self.counts.iter().zip(before) {
            while count.load(Ordering::SeqCst) <= before {
                assert!(
                    clock.monotonic() < Duration::from_secs(90),
                    "a writer stands still"
                );
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }

    /// Stops all writers and checks every count.
    async fn finish(self) -> u64 {
        self.stop.store(true, Ordering::SeqCst);
        for writer in self.writers {
            writer.await.unwrap();
        }
        let mut total = 0;
        for (index, count) in self.counts.iter().enumerate() {
            let ledger = self.store.acquire(Partition(index as u32)).await.unwrap();
            let count = count.load(Ordering::SeqCst);
            assert_eq!(stored(&ledger).await, count, "counter {index}");
            assert_eq!(events(&ledger).await, count, "events of {index}");
            total += count;
        }
        total
    }
}

/// Counts up; after a failure it takes the partition again and looks.
async fn write(
    store: Arc<Store>,
    partition: Partition,
    count: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
) {
    let mut ledger = store.acquire(partition).await.unwrap();
    while !stop.load(Ordering::SeqCst) {
        let acknowledged = count.load(Ordering::SeqCst);
        let next = acknowledged + 1;
        let mut writes = Writes::new();
        writes.put(T, b"count", &next.to_be_bytes());
        writes.publish(S, 1, next.to_be_bytes().to_vec().into());
        match ledger.commit(writes).await {
            Ok(_) => count.store(next, Ordering::SeqCst),
            Err(error) => {
                println!("writer {partition}: {error}");
                ledger = loop {
                    match store.acquire(partition).await {
                        Ok(ledger) => break ledger,
                        Err(error) => println!("writer {partition} again: {error}"),
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                };
                let found = stored(&ledger).await;
                let is_right = found == acknowledged || found == next;
                assert!(
                    is_right,
                    "{acknowledged} was acknowledged, {found} is there"
                );
                count.store(found, Ordering::SeqCst);
            }
        }
    }
}

async fn stored(ledger: &Ledger) -> u64 {
    let value = ledger.get(T, b"count", Visibility::Durable).await.unwrap();
    value.map_or(0, |value| u64::from_be_bytes(value[..].try_into().unwrap()))
}

/// How many events there are; each must be one more than the one before.
async fn events(ledger: &Ledger) -> u64 {
    let mut count = 0;
    loop {
        let from = ReadPosition::Sequence(Sequence(count));
        let batches = ledger.read_events(S, from, 1024 * 1024).await.unwrap();
        if batches.is_empty() {
            return count;
        }
        for batch in batches {
            count += 1;
            assert_eq!(batch.bytes[..], count.to_be_bytes());
        }
    }
}

/// Everything back to a primary and two standbys.
fn heal(cluster: &mut PostgresCluster) {
    wait(|| {
        for index in cluster.standbys() {
            if !cluster.server(index).is_running() {
                cluster.rebuild(index)?;
            }
        }
        cluster.wait_for_standbys(2)
    });
}

/// The primary dies, and the better standby takes over.
async fn kill_primary(cluster: &mut PostgresCluster, load: &Load) {
    let primary = cluster.primary();
    wait(|| cluster.server(primary).kill());
    wait(|| cluster.promote_by_rule());
    load.progress().await;
    heal(cluster);
}

/// The primary stands still, is replaced, and comes back believing it still is one.
async fn freeze_primary(cluster: &mut PostgresCluster, load: &Load) {
    let primary = cluster.primary();
    wait(|| cluster.server(primary).freeze());
    wait(|| cluster.promote_by_rule());
    load.progress().await;
    wait(|| cluster.server(primary).thaw());
    load.progress().await;
    wait(|| cluster.server(primary).kill());
    heal(cluster);
}

/// One standby dies; the other one is enough.
async fn kill_standby(cluster: &mut PostgresCluster, load: &Load, which: usize) {
    let standby = cluster.standbys()[which];
    wait(|| cluster.server(standby).kill());
    load.progress().await;
    wait(|| cluster.server(standby).start());
    heal(cluster);
}

/// Commits that wait for both standbys are cancelled.
async fn cancel_waits(cluster: &mut PostgresCluster, load: &Load) {
    let primary = cluster.primary();
    let waiting = "select count(*) > 0 from pg_stat_activity where wait_event = 'SyncRep'";
    let cancel = "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'";
    for index in cluster.standbys() {
        wait(|| cluster.server(index).freeze());
    }
    wait(|| cluster.server(primary).wait_for(waiting, "t"));
    wait(|| cluster.server(primary).sql(cancel));
    for index in cluster.standbys() {
        wait(|| cluster.server(index).thaw());
    }
    load.progress().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t01_a_killed_primary_loses_nothing() {
    let mut cluster = cluster();
    let load = Load::start(quorum(&cluster)).await;
    load.progress().await;
    kill_primary(&mut cluster, &load).await;
    let total = load.finish().await;
    let primary = cluster.primary();
    // The log has as many rows as it must, and ends where the fences say.
    let dense = "select bool_and(p.commit_no - f.flushed_no = (select count(*) from \
        steadfast.sf_log l where l.part = p.part and l.piece = 0)) \
        from steadfast.sf_partition p join steadfast.sf_flush f using (part)";
    assert_eq!(wait(|| cluster.server(primary).sql(dense)), "t");
    println!("{total} commits were acknowledged");
}

#[tokio::test(flavor = "multi_thread")]
async fn t02_a_frozen_primary_that_comes_back_changes_nothing() {
    let mut cluster = cluster();
    let load = Load::start(quorum(&cluster)).await;
    load.progress().await;
    freeze_primary(&mut cluster, &load).await;
    println!("{} commits were acknowledged", load.finish().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn t03_a_killed_standby_makes_no_gap() {
    let mut cluster = cluster();
    let load = Load::start(quorum(&cluster)).await;
    load.progress().await;
    let standby = cluster.standbys()[0];
    wait(|| cluster.server(standby).kill());
    let clock = SystemClock::new();
    load.progress().await;
    let gap = clock.monotonic();
    assert!(
        gap < Duration::from_secs(10),
        "commits stood still for {gap:?}"
    );
    println!("{} commits were acknowledged", load.finish().await);
}

/// How many rounds, and which.
fn rounds(otherwise: u64) -> (u64, fastrand::Rng) {
    let number = |name: &str, otherwise| {
        let text = std::env::var(name).ok();
        text.map_or(otherwise, |text| text.parse().unwrap())
    };
    let rounds = number("STEADFAST_ROUNDS", otherwise);
    let seed = number("STEADFAST_SEED", fastrand::u64(..));
    println!("STEADFAST_SEED={seed}");
    (rounds, fastrand::Rng::with_seed(seed))
}

/// Waits until the manager has everything in order again.
fn healed(manager: &Manager) {
    wait(|| {
        for _ in 0..600 {
            // It needs the cluster itself to do that.
            if manager.cluster().has_standbys(2) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        anyhow::bail!("the cluster is not whole again")
    });
}

/// Waits until the manager has promoted a standby.
async fn promoted(manager: &Manager, before: u32) -> Duration {
    let clock = SystemClock::new();
    while manager.failovers() == before {
        let waited = clock.monotonic();
        assert!(waited < Duration::from_secs(90), "no standby was promoted");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    clock.monotonic()
}

#[tokio::test(flavor = "multi_thread")]
async fn c63_a_standby_that_joins_under_load_is_equal() {
    let mut cluster = cluster();
    let engine = Arc::new(PostgresEngine::open(quorum(&cluster)).await.unwrap());
    let load = Load::on(Arc::clone(&engine)).await;
    load.progress().await;
    let standby = cluster.standbys()[0];
    wait(|| cluster.server(standby).kill());
    load.progress().await;
    // From nothing, while commits and flushes go on.
    wait(|| cluster.rebuild(standby));
    load.progress().await;
    wait(|| cluster.wait_for_standbys(2));
    let total = load.finish().await;
    let (primary, standbys) = (cluster.primary(), cluster.standbys());
    let end = wait(|| cluster.server(primary).sql("select pg_current_wal_lsn()"));
    for index in standbys {
        let reached = format!("select pg_last_wal_replay_lsn() >= '{end}'");
        wait(|| cluster.server(index).wait_for(&reached, "t"));
    }
    // Log, rows and events of every replica, by their digests.
    let replicas = engine.scrub().await;
    assert_eq!(replicas.len(), 3);
    for replica in replicas {
        assert!(replica.findings.is_empty(), "{replica:?}");
    }
    println!("{total} commits were acknowledged");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_leaves_a_frozen_primary_once_another_is_known() {
    let mut cluster = cluster();
    let engine = Arc::new(PostgresEngine::open(quorum(&cluster)).await.unwrap());
    // So that there is a connection to read on.
    engine.list("").await.unwrap();
    let primary = cluster.primary();
    wait(|| cluster.server(primary).freeze());
    let reader = Arc::clone(&engine);
    let reading = tokio::spawn(async move { reader.list("").await });
    wait(|| cluster.promote_by_rule());
    let clock = SystemClock::new();
    while engine.renew(WE, Duration::from_secs(1)).await.is_err() {
        assert!(clock.monotonic() < Duration::from_secs(30), "no lease");
    }
    let known = clock.monotonic();
    reading.await.unwrap().unwrap();
    let waited = clock.monotonic() - known;
    println!("a lease after {known:?}, the read {waited:?} later");
    assert!(waited < Duration::from_secs(5), "{waited:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn automatic_failover_loses_and_doubles_nothing() {
    let (rounds, mut rng) = rounds(1);
    let manager = wait(|| Manager::start(PostgresCluster::start()?));
    let options = quorum(&manager.cluster());
    let load = Load::start(options).await;
    let mut longest = Duration::ZERO;
    for round in 0..rounds {
        let mut faults = [0, 1, 2];
        rng.shuffle(&mut faults);
        for fault in faults {
            load.progress().await;
            healed(&manager);
            let before = manager.failovers();
            let (primary, standbys) = {
                let cluster = manager.cluster();
                (cluster.primary(), cluster.standbys())
            };
            match fault {
                0 => {
                    wait(|| manager.cluster().server(primary).kill());
                    longest = longest.max(promoted(&manager, before).await);
                    load.progress().await;
                }
                1 => {
                    wait(|| manager.cluster().server(primary).freeze());
                    longest = longest.max(promoted(&manager, before).await);
                    load.progress().await;
                    // It comes back believing that it is the primary still.
                    wait(|| manager.cluster().server(primary).thaw());
                    load.progress().await;
                }
                _ => {
                    let standby = standbys[rng.usize(..2)];
                    wait(|| manager.cluster().server(standby).kill());
                    load.progress().await;
                    assert_eq!(manager.failovers(), before, "the primary lives");
                }
            }
            println!(
                "round {round}, fault {fault}: {} acknowledged",
                load.total()
            );
        }
    }
    healed(&manager);
    let failovers = manager.failovers();
    assert_eq!(u64::from(failovers), 2 * rounds);
    let total = load.finish().await;
    println!(
        "{total} commits were acknowledged over {failovers} automatic failovers, 0 lost, \
         0 doubled; the slowest promotion took {longest:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rounds_of_faults_lose_and_double_nothing() {
    let (rounds, mut rng) = rounds(3);
    let mut cluster = cluster();
    let load = Load::start(quorum(&cluster)).await;
    for round in 0..rounds {
        let mut faults = [0, 1, 2, 3];
        rng.shuffle(&mut faults);
        for fault in faults {
            load.progress().await;
            match fault {
                0 => kill_primary(&mut cluster, &load).await,
                1 => freeze_primary(&mut cluster, &load).await,
                2 => kill_standby(&mut cluster, &load, rng.usize(..2)).await,
                _ => cancel_waits(&mut cluster, &load).await,
            }
            println!(
                "round {round}, fault {fault}: {} acknowledged",
                load.total()
            );
        }
    }
    let total = load.finish().await;
    println!("{total} commits were acknowledged in {rounds} rounds, 0 lost, 0 doubled");
}
