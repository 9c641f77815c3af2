//! What PostgreSQL may do to us: T2, T4 to T11, T13, T15.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::{Clock, SystemClock, VirtualClock};
use steadfast_core::id::{EntryNumber, Epoch};
use steadfast_harness::postgres::{PostgresCluster, PostgresServer, cut_in_half, flip_byte};
use steadfast_storage::engine::{AcquireOutcome, Engine, Outcome};
use steadfast_storage::{ErrorKind, Options as StoreOptions, Store, Writes};
use steadfast_storage_postgres::{ErrorKind as DatabaseErrorKind, Options, PostgresEngine};

use crate::pg::{
    P, Q, R, T, THEY, WE, cluster, commit, entry, event, flush, open, patient, quorum, single,
    take, wait,
};

const WAITING: &str = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'";

async fn numbers(engine: &PostgresEngine) -> Vec<u64> {
    let entries = engine.replay(P, EntryNumber(1), usize::MAX).await.unwrap();
    entries.iter().map(|entry| entry.number.0).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn t02_an_old_primary_is_never_gone_back_to() {
    let mut cluster = cluster();
    let options = Options {
        patience: Duration::from_secs(5),
        ..quorum(&cluster)
    };
    let engine = open(options).await;
    take(&engine, P, WE, 0).await;
    commit(&engine, entry(P, 1, 1, b"one")).await;
    let old = cluster.primary();
    wait(|| cluster.server(old).freeze());
    let new = wait(|| cluster.promote_by_rule());
    let outcome = engine.append(&[entry(P, 1, 2, b"two")]).await.unwrap();
    assert_eq!(outcome, [Outcome::Unknown]);
    assert_eq!(take(&engine, P, WE, 1).await.last, EntryNumber(1));
    // Now only the old one is left, and it believes that it still is the primary.
    wait(|| cluster.server(new).kill());
    wait(|| cluster.server(old).thaw());
    wait(|| {
        cluster
            .server(old)
            .wait_for("select pg_is_in_recovery()", "f")
    });
    let error = engine.acquire(P, WE, Epoch(2)).await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Unreachable { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("old primary"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn t04_without_standbys_nothing_is_acknowledged() {
    let mut cluster = cluster();
    let engine = open(quorum(&cluster)).await;
    take(&engine, P, WE, 0).await;
    commit(&engine, entry(P, 1, 1, b"one")).await;
    for index in cluster.standbys() {
        wait(|| cluster.server(index).kill());
    }
    let outcome = engine.append(&[entry(P, 1, 2, b"two")]).await.unwrap();
    assert_eq!(outcome, [Outcome::Unknown]);
    for index in cluster.standbys() {
        wait(|| cluster.server(index).start());
    }
    // Whether it happened, taking the partition tells.
    let tenure = take(&engine, P, WE, 1).await;
    let found = entry(P, 1, 2, b"two").hash();
    assert_eq!((tenure.last, tenure.last_hash), (EntryNumber(2), found));
    assert_eq!(numbers(&engine).await, [1, 2]);
    commit(&engine, entry(P, 2, 3, b"three")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t05_a_cancelled_wait_is_no_acknowledgement() {
    let mut cluster = cluster();
    let options = Options {
        deadline: Duration::from_secs(20),
        ..quorum(&cluster)
    };
    let engine = Arc::new(open(options).await);
    take(&engine, P, WE, 0).await;
    commit(&engine, entry(P, 1, 1, b"one")).await;
    for index in cluster.standbys() {
        wait(|| cluster.server(index).freeze());
    }
    let sent = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { engine.append(&[entry(P, 1, 2, b"two")]).await.unwrap() }
    });
    let primary = cluster.primary();
    wait(|| cluster.server(primary).wait_for(WAITING, "1"));
    let cancel = "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'";
    wait(|| cluster.server(primary).sql(cancel));
    // The server reports success, with a warning.
    assert_eq!(sent.await.unwrap(), [Outcome::Unknown]);
    for index in cluster.standbys() {
        wait(|| cluster.server(index).thaw());
    }
    let tenure = take(&engine, P, WE, 1).await;
    assert_eq!(tenure.last, EntryNumber(2));
    assert_eq!(numbers(&engine).await, [1, 2]);
}

/// What only a dead primary had does not count as progress.
mod c64_false_progress {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn t06_an_unreplicated_commit_is_never_shown() {
        let mut cluster = cluster();
        let options = Options {
            patience: Duration::from_secs(30),
            ..quorum(&cluster)
        };
        let engine = Arc::new(open(options).await);
        take(&engine, P, WE, 0).await;
        commit(&engine, entry(P, 1, 1, b"one")).await;
        for index in cluster.standbys() {
            wait(|| cluster.stop_reception(index));
        }
        let outcome = engine.append(&[entry(P, 1, 2, b"two")]).await.unwrap();
        assert_eq!(outcome, [Outcome::Unknown]);
        let primary = cluster.primary();
        wait(|| cluster.server(primary).kill());
        wait(|| cluster.server(primary).start());
        let shown = "select commit_no from steadfast.sf_partition where part = 1";
        wait(|| cluster.server(primary).wait_for(shown, "2"));
        // The restarted primary shows it, but no node may act on that.
        let taking = tokio::spawn({
            let engine = Arc::clone(&engine);
            async move { engine.acquire(P, WE, Epoch(1)).await }
        });
        wait(|| {
            cluster.server(primary).wait_for(
                "select count(*) > 0 from pg_stat_activity where wait_event = 'SyncRep'",
                "t",
            )
        });
        assert!(!taking.is_finished());
        wait(|| cluster.server(primary).kill());
        wait(|| cluster.promote_by_rule());
        let AcquireOutcome::Granted(tenure) = taking.await.unwrap().unwrap() else {
            panic!("no other owner has the partition");
        };
        assert_eq!((tenure.epoch, tenure.last), (Epoch(2), EntryNumber(1)));
        assert_eq!(numbers(&engine).await, [1]);
        commit(&engine, entry(P, 2, 2, b"two")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t07_a_wrong_promotion_is_detected() {
    let mut cluster = cluster();
    let engine = Arc::new(open(quorum(&cluster)).await);
    let store = Store::start(engine.clone(), StoreOptions::new(WE));
    let ledger = store.acquire(P).await.unwrap();
    let put = |value: u8| {
        let mut writes = Writes::new();
        writes.put(T, b"key", &[value]);
        writes
    };
    ledger.commit(put(1)).await.unwrap();
    let [_, behind] = cluster.standbys();
    wait(|| cluster.stop_reception(behind));
    ledger.commit(put(2)).await.unwrap();
    let primary = cluster.primary();
    wait(|| cluster.server(primary).kill());
    // Against the rule: the other one has received more.
    wait(|| cluster.promote(behind));
    let [_, other] = cluster.standbys();
    wait(|| cluster.rebuild(other));
    let error = ledger.commit(put(3)).await.unwrap_err();
    assert!(error.to_string().contains("STF-2016"), "{error}");
    let error = store.acquire(P).await.err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::Lost { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn t08_replication_that_is_switched_off_refuses_writes() {
    let mut cluster = cluster();
    // So rarely looked at that only the statement itself can notice.
    let options = Options {
        check_every: Duration::from_secs(600),
        patience: Duration::from_secs(2),
        ..quorum(&cluster)
    };
    let engine = open(options).await;
    let watching = open(quorum(&cluster)).await;
    take(&engine, P, WE, 0).await;
    commit(&engine, entry(P, 1, 1, b"one")).await;
    let primary = cluster.primary();
    let server = cluster.server(primary);
    wait(|| server.set("synchronous_standby_names", ""));
    wait(|| server.wait_for("show synchronous_standby_names", ""));
    let error = engine.append(&[entry(P, 1, 2, b"two")]).await.unwrap_err();
    assert!(
        matches!(
            error.specific(),
            Some(DatabaseErrorKind::UnsafeStorage { .. })
        ),
        "{error}"
    );
    let error = engine.acquire(Q, WE, Epoch(0)).await.unwrap_err();
    assert!(
        matches!(
            error.specific(),
            Some(DatabaseErrorKind::UnsafeStorage { .. })
        ),
        "{error}"
    );
    // One that looks often knows it by itself.
    while watching.health().is_ok() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    wait(|| server.sql("alter system reset synchronous_standby_names"));
    wait(|| server.sql("select pg_reload_conf()"));
    wait(|| server.wait_for("show synchronous_standby_names", "ANY 1 (a,b,c)"));
    commit(&engine, entry(P, 1, 2, b"two")).await;
    assert_eq!(numbers(&engine).await, [1, 2]);
    while watching.health().is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t09_a_stale_epoch_is_refused_inside_a_shared_statement() {
    let options = single();
    let (ours, theirs) = (open(options.clone()).await, open(options.clone()).await);
    for partition in [P, Q, R] {
        take(&ours, partition, WE, 0).await;
    }
    take(&theirs, Q, THEY, 1).await;
    let group = [
        event(P, 1, 1, b"p"),
        event(Q, 1, 1, b"q"),
        event(R, 1, 1, b"r"),
    ];
    let outcomes = ours.append(&group).await.unwrap();
    let expected = [Outcome::Committed, Outcome::Fenced, Outcome::Committed];
    assert_eq!(outcomes, expected);
    let count = |table: &str| {
        let question = format!(
            "select string_agg(part::text, ',' order by part) from {}.{table}",
            options.schema
        );
        wait(|| PostgresServer::shared().sql(&question))
    };
    assert_eq!(count("sf_log"), "1,3");
    assert_eq!(count("sf_event"), "1,3");
    commit(&theirs, event(Q, 2, 1, b"q")).await;
}

/// A partition with a long log, many rows and events, all of it on every server's disk.
async fn fill(cluster: &mut PostgresCluster, engine: &PostgresEngine) {
    take(engine, P, WE, 0).await;
    for number in 1..=150 {
        commit(engine, event(P, 1, number, &[number as u8; 1000])).await;
    }
    engine.flush(flush(P, 1, 20, 2_000)).await.unwrap();
    let primary = cluster.primary();
    // The first reader of a row leaves hints on its page, which are replicated as whole
    // pages and would repair the damage: so read everything before.
    for table in ["sf_log", "sf_kv", "sf_event"] {
        let read = format!("select count(*) from steadfast.{table} where part >= 0");
        wait(|| cluster.server(primary).sql(&read));
    }
    wait(|| cluster.server(primary).sql("checkpoint"));
    let end = wait(|| {
        cluster
            .server(primary)
            .sql("select pg_current_wal_flush_lsn()")
    });
    for index in cluster.standbys() {
        let reached = format!("select pg_last_wal_replay_lsn() >= '{end}'");
        wait(|| cluster.server(index).wait_for(&reached, "t"));
    }
}

/// Damages a table's file on a stopped standby, writes one more entry, scrubs, and promotes
/// the standby; answers why it is refused then.
async fn promote_damaged(table: &str, damage: fn(&Path) -> anyhow::Result<()>) -> String {
    let mut cluster = cluster();
    let engine = open(patient(&cluster)).await;
    fill(&mut cluster, &engine).await;
    let [bad, _] = cluster.standbys();
    let table = match table {
        "sf_event" => wait(|| {
            let segment = "select inhrelid::regclass from pg_inherits where inhparent::regclass::text = 'steadfast.sf_event'";
            cluster.server(bad).sql(segment)
        }),
        table => format!("steadfast.{table}"),
    };
    let file = wait(|| cluster.server(bad).file_of(&table));
    wait(|| cluster.server(bad).stop());
    damage(&file).unwrap();
    wait(|| cluster.server(bad).start());
    commit(&engine, event(P, 1, 151, &[151; 1000])).await;
    wait(|| cluster.wait_for_standbys(2));
    let end = wait(|| {
        let primary = cluster.primary();
        cluster
            .server(primary)
            .sql("select pg_current_wal_flush_lsn()")
    });
    let reached = format!("select pg_last_wal_replay_lsn() >= '{end}'");
    wait(|| cluster.server(bad).wait_for(&reached, "t"));
    for (index, replica) in engine.scrub().await.iter().enumerate() {
        assert_eq!(replica.partitions, 1, "{replica:?}");
        assert_eq!(replica.findings.is_empty(), index != bad, "{replica:?}");
    }
    let primary = cluster.primary();
    wait(|| cluster.server(primary).kill());
    wait(|| cluster.promote(bad));
    let [_, other] = cluster.standbys();
    wait(|| cluster.point(other, bad));
    wait(|| cluster.wait_for_standbys(1));
    let fresh = open(quorum(&cluster)).await;
    let refused = fresh.acquire(P, THEY, Epoch(1)).await.unwrap_err();
    assert!(
        matches!(refused.kind(), ErrorKind::Damaged { .. }),
        "{refused}"
    );
    // The owner that has it since before must not believe the new primary either.
    let error = engine.get(P, T, b"none").await.unwrap_err();
    let is_stopped = matches!(
        error.kind(),
        ErrorKind::Damaged { .. } | ErrorKind::Fenced { .. }
    );
    assert!(is_stopped, "{error}");
    refused.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn t10_a_cut_log_is_refused() {
    let refused = promote_damaged("sf_log", cut_in_half).await;
    assert!(
        refused.contains("the log") || refused.contains("XX00"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn t10_a_cut_table_is_refused() {
    let refused = promote_damaged("sf_kv", cut_in_half).await;
    assert!(
        refused.contains("rows") || refused.contains("XX00"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn t10_a_cut_stream_is_refused() {
    let refused = promote_damaged("sf_event", cut_in_half).await;
    assert!(
        refused.contains("stream") || refused.contains("XX00"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn t11_a_flipped_byte_is_refused() {
    let refused = promote_damaged("sf_kv", |path| flip_byte(path, 3 * 8192 + 5000)).await;
    assert!(refused.contains("XX001"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn t13_a_slow_flush_throttles() {
    let options = single();
    let engine = Arc::new(open(options.clone()).await);
    let mut settings = StoreOptions::new(WE);
    settings.log_target = 32 * 1024;
    settings.log_limit = 128 * 1024;
    let store = Store::start(engine, settings);
    let ledger = store.acquire(P).await.unwrap();
    let (url, schema) = (options.url, options.schema);
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let lock = format!("begin; select * from {schema}.sf_flush for update");
    client.batch_execute(&lock).await.unwrap();
    let write = |number: u32| {
        let mut writes = Writes::new();
        writes.put(T, &number.to_be_bytes(), &[7; 1000]);
        ledger.commit(writes)
    };
    let mut done = 0;
    let error = loop {
        match write(done).await {
            Ok(_) => done += 1,
            Err(error) => break error,
        }
        assert!(done < 1000, "writes are not throttled");
    };
    assert!(
        matches!(error.kind(), ErrorKind::Throttled { .. }),
        "{error}"
    );
    client.batch_execute("rollback").await.unwrap();
    // Nothing else is wrong: once the flush gets through, so do writers.
    while write(done).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t13_a_standby_that_replays_too_slowly_puts_flushes_off() {
    /// How long a flush takes that was put off, at least.
    const PUT_OFF: Duration = Duration::from_secs(4);
    let mut cluster = cluster();
    let engine = Arc::new(open(patient(&cluster)).await);
    take(&engine, P, WE, 0).await;
    // Records change all the time, as those of nodes do, and wake all listeners.
    let busy = Arc::clone(&engine);
    let busy = tokio::spawn(async move {
        for version in 0.. {
            busy.cas("busy", version, "x".into()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let clock = SystemClock::new();
    let timed = async |number, up_to| {
        let before = clock.monotonic();
        engine.flush(flush(P, 1, up_to, number)).await.unwrap();
        clock.monotonic() - before
    };
    commit(&engine, entry(P, 1, 1, b"one")).await;
    assert!(timed(1, 1).await < PUT_OFF, "no standby is behind");
    let standby = cluster.standbys()[0];
    wait(|| cluster.server(standby).sql("select pg_wal_replay_pause()"));
    // It goes on receiving: commits are acknowledged as before.
    let primary = cluster.primary();
    let behind = "select max(extract(epoch from replay_lag)) > 6 from pg_stat_replication";
    let mut number = 1;
    while wait(|| cluster.server(primary).sql(behind)) != "t" {
        number += 1;
        commit(&engine, entry(P, 1, number, b"more")).await;
    }
    // Until the engine has looked, too.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let slow = timed(2, number).await;
    assert!(slow > PUT_OFF, "it took {slow:?}");
    wait(|| cluster.server(standby).sql("select pg_wal_replay_resume()"));
    let caught_up = "select coalesce(max(extract(epoch from replay_lag)), 0) < 1 \
        from pg_stat_replication";
    wait(|| cluster.server(primary).wait_for(caught_up, "t"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    commit(&engine, entry(P, 1, number + 1, b"last")).await;
    assert!(timed(3, number + 1).await < PUT_OFF);
    assert!(!busy.is_finished());
    busy.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn t15_a_lost_acquisition_of_our_own_does_not_fence_us() {
    let options = Options {
        deadline: Duration::from_secs(2),
        ..single()
    };
    let engine = Arc::new(open(options.clone()).await);
    take(&engine, P, WE, 0).await;
    commit(&engine, entry(P, 1, 1, b"one")).await;
    let (client, connection) = tokio_postgres::connect(&options.url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let lock = format!(
        "begin; select * from {}.sf_partition for update",
        options.schema
    );
    client.batch_execute(&lock).await.unwrap();
    let taking = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { engine.acquire(P, WE, Epoch(1)).await.unwrap() }
    });
    // Attempts that timed out live on in the server's queue for the row.
    let waiting = format!(
        "select count(*) > 1 from pg_stat_activity where wait_event_type = 'Lock' \
         and query like '%sf_partition p%' and pid in (select pid from pg_locks \
         where relation = '{}.sf_partition'::regclass)",
        options.schema
    );
    wait(|| PostgresServer::shared().wait_for(&waiting, "t"));
    client.batch_execute("rollback").await.unwrap();
    let tenure = match taking.await.unwrap() {
        AcquireOutcome::Granted(tenure) => tenure,
        // One of the lost attempts has taken it, for us.
        AcquireOutcome::Refused { epoch, owner } => {
            assert_eq!((epoch, owner), (Epoch(2), Some(WE)));
            take(&engine, P, WE, epoch.0).await
        }
    };
    commit(&engine, entry(P, tenure.epoch.0, 2, b"two")).await;
    let gone = waiting.replace("> 1", "= 0");
    wait(|| PostgresServer::shared().wait_for(&gone, "t"));
    commit(&engine, entry(P, tenure.epoch.0, 3, b"three")).await;
    assert_eq!(numbers(&engine).await, [1, 2, 3]);
}

/// A lease that was renewed at another primary was renewed by another clock.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_before_a_failover_counts_for_one_time_more() {
    let mut cluster = cluster();
    let clock = VirtualClock::default();
    let options = Options {
        lease_clock: Some(Arc::new(clock.clone())),
        ..quorum(&cluster)
    };
    let (ours, theirs) = (open(options.clone()).await, open(options).await);
    let ttl = Duration::from_secs(10);
    let second = Duration::from_secs(1);
    for partition in [P, Q] {
        ours.renew(WE, ttl).await.unwrap();
        let tenure = take(&ours, partition, WE, 0).await;
        assert_eq!(tenure.epoch, Epoch(1));
    }
    let is_taken = async |partition| {
        let answer = theirs.acquire(partition, THEY, Epoch(1)).await.unwrap();
        matches!(answer, AcquireOutcome::Granted(_))
    };
    // The same primary: when it ends, it ends.
    clock.advance(ttl - second);
    assert!(!is_taken(P).await);
    clock.advance(second);
    assert!(is_taken(P).await);
    // Another one: once more as long.
    ours.renew(WE, ttl).await.unwrap();
    let old = cluster.primary();
    wait(|| cluster.server(old).kill());
    wait(|| cluster.promote_by_rule());
    clock.advance(ttl);
    assert!(!is_taken(Q).await);
    clock.advance(ttl - second);
    assert!(!is_taken(Q).await);
    clock.advance(second);
    assert!(is_taken(Q).await);
}
