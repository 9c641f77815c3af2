//! Rows, digests and segments on PostgreSQL.
//!
//! All tests share one server without standbys; each has its own schema.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use steadfast_core::clock::{Timestamp, VirtualClock};
use steadfast_core::id::{EntryNumber, Epoch, Owner, Sequence, TableId};
use steadfast_harness::postgres::PostgresServer;
use steadfast_storage::ErrorKind;
use steadfast_storage::engine::{
    AcquireOutcome, Engine, Entry, EventBatch, Flush, FlushedRow, Outcome, ReadPosition, Scan,
};
use steadfast_storage_postgres::{Options, PostgresEngine};

use crate::pg::{P, Q, S, T, THEY, WE, commit, entry, event, flush, open, single, take, wait};

type Model = BTreeMap<(u32, Vec<u8>), Vec<u8>>;

/// Short keys that collide often, and long ones that differ only at their end.
fn key(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..4) {
        0 => [vec![7; 2_000], vec![rng.u8(..8); rng.usize(..2_000)]].concat(),
        1 => vec![7; rng.usize(1_998..2_003)],
        _ => vec![rng.u8(..4); rng.usize(..3)],
    }
}

fn change(rng: &mut Rng, model: &mut Model, clears: &[TableId]) -> Vec<FlushedRow> {
    model.retain(|(table, _), _| !clears.contains(&TableId(*table)));
    let keys: BTreeSet<(u32, Vec<u8>)> = (0..rng.usize(..30))
        .map(|_| (rng.u32(1..4), key(rng)))
        .collect();
    let mut rows = Vec::new();
    for (table, key) in keys {
        let value = rng.bool().then(|| vec![rng.u8(..); rng.usize(..3_000)]);
        match value.clone() {
            Some(value) => drop(model.insert((table, key.clone()), value)),
            None => drop(model.remove(&(table, key.clone()))),
        }
        rows.push(FlushedRow {
            table: TableId(table),
            key: key.into(),
            value: value.map(Bytes::from),
        });
    }
    rows
}

async fn compare(rng: &mut Rng, engine: &PostgresEngine, model: &Model) {
    for table in 1..4 {
        let bound = |rng: &mut Rng| match rng.u8(..3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(Bytes::from(key(rng))),
            _ => Bound::Excluded(Bytes::from(key(rng))),
        };
        let (from, to) = (bound(rng), bound(rng));
        let limit = rng.usize(1..20);
        let inside = |key: &[u8]| {
            let after = match &from {
                Bound::Included(from) => key >= &from[..],
                Bound::Excluded(from) => key > &from[..],
                Bound::Unbounded => true,
            };
            let before = match &to {
                Bound::Included(to) => key <= &to[..],
                Bound::Excluded(to) => key < &to[..],
                Bound::Unbounded => true,
            };
            after && before
        };
        let expected = model
            .iter()
            .filter(|((t, key), _)| *t == table && inside(key));
        let expected: Vec<_> = expected
            .map(|((_, k), v)| (&k[..], &v[..]))
            .take(limit)
            .collect();
        let (from, to) = (from.clone(), to.clone());
        let found = engine
            .scan(P, TableId(table), Scan { from, to, limit })
            .await;
        let found = found.unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|row| (&row.key[..], &row.value[..]))
            .collect();
        assert_eq!(found, expected);
        let wanted = key(rng);
        let row = engine.get(P, TableId(table), &wanted).await.unwrap();
        let expected = model.get(&(table, wanted)).map(Vec::as_slice);
        assert_eq!(row.as_deref(), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_flushes_equal_a_model() {
    let seed = std::env::var("STEADFAST_SEED").ok();
    let seed = seed.map_or_else(|| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("STEADFAST_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let options = single();
    let mut engine = open(options.clone()).await;
    let mut tenure = take(&engine, P, WE, 0).await;
    let mut model = Model::new();
    for round in 1..=60 {
        commit(&engine, entry(P, tenure.epoch.0, round, b"b")).await;
        let clears: Vec<TableId> = (1..4).filter(|_| rng.u8(..12) == 0).map(TableId).collect();
        let rows = change(&mut rng, &mut model, &clears);
        let order = Flush {
            clears,
            rows,
            ..flush(P, tenure.epoch.0, round, 0)
        };
        engine.flush(order).await.unwrap();
        compare(&mut rng, &engine, &model).await;
        if rng.u8(..10) == 0 {
            // Another process takes over, and verifies every digest.
            engine = open(options.clone()).await;
            tenure = take(&engine, P, WE, tenure.epoch.0).await;
            assert_eq!(tenure.flushed, EntryNumber(round));
        }
    }
}

/// Makes a partition with rows, log and events, then changes it behind our back; answers what
/// the next owner is told.
async fn tamper(statement: &str) -> String {
    let options = single();
    let engine = open(options.clone()).await;
    take(&engine, P, WE, 0).await;
    take(&engine, Q, WE, 0).await;
    for number in 1..=6 {
        commit(&engine, event(P, 1, number, b"some events")).await;
    }
    engine.flush(flush(P, 1, 3, 10)).await.unwrap();
    let statement = format!("set search_path = {}; {statement}", options.schema);
    wait(|| PostgresServer::shared().sql(&statement));
    let next = open(options).await;
    // A neighbour is not affected.
    take(&next, Q, THEY, 1).await;
    let error = next.acquire(P, THEY, Epoch(1)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Damaged { .. }), "{error}");
    assert_eq!(error.code().to_string(), "STF-2035");
    let findings = &next.scrub().await[0].findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    error.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn c65_a_hole_or_a_change_in_what_is_stored_is_refused() {
    for (statement, expected) in [
        ("delete from sf_log where no = 5", "entry 5 is missing"),
        ("delete from sf_log where no = 6", "ends at entry 5"),
        ("delete from sf_log where no = 4", "entry 4 is missing"),
        (
            "update sf_log set body = set_byte(body, 3, 9) where no = 5",
            "entry 5 fails its checksum",
        ),
        (
            "update sf_log a set body = b.body, crc = b.crc from sf_log b where a.no = 5 and b.no = 6",
            "entry 5 fails its checksum",
        ),
        (
            "delete from sf_kv where key = '\\x00000003'",
            "10 rows and has 9",
        ),
        (
            "update sf_kv set val = set_byte(val, 0, 99) where key = '\\x00000003'",
            "a row of table 1 fails its digest",
        ),
        (
            "delete from sf_event where first_seq = 2",
            "events are missing",
        ),
        (
            "delete from sf_event where first_seq = 5",
            "does not reach event 6",
        ),
        (
            "delete from sf_event where first_seq < 2",
            "does not reach event 6",
        ),
        (
            "update sf_flush set hash = hash + 1 where part = 1",
            "does not follow",
        ),
    ] {
        let told = tamper(statement).await;
        assert!(told.contains(expected), "{statement}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_row_is_never_read() {
    let options = single();
    let engine = open(options.clone()).await;
    take(&engine, P, WE, 0).await;
    commit(&engine, event(P, 1, 1, b"events")).await;
    engine.flush(flush(P, 1, 1, 3)).await.unwrap();
    let change = format!(
        "set search_path = {}; update sf_kv set val = 'x'; update sf_event set body = 'x'",
        options.schema
    );
    wait(|| PostgresServer::shared().sql(&change));
    let damaged = |kind: &ErrorKind| matches!(kind, ErrorKind::Damaged { .. });
    let error = engine.get(P, T, &1u32.to_be_bytes()).await.unwrap_err();
    assert!(damaged(error.kind()), "{error}");
    let error = engine.scan(P, T, Scan::all(9)).await.unwrap_err();
    assert!(damaged(error.kind()), "{error}");
    let from = ReadPosition::Sequence(Sequence(0));
    let error = engine.read_events(P, S, from, 1).await.unwrap_err();
    assert!(damaged(error.kind()), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_owner_in_another_process_cannot_flush_or_release() {
    let options = single();
    let (ours, theirs) = (open(options.clone()).await, open(options).await);
    take(&ours, P, WE, 0).await;
    commit(&ours, entry(P, 1, 1, b"one")).await;
    let tenure = take(&theirs, P, THEY, 1).await;
    assert_eq!(tenure.last, EntryNumber(1));
    let error = ours.flush(flush(P, 1, 1, 5)).await.unwrap_err();
    let is_fenced = |kind: &ErrorKind| {
        matches!(
            kind,
            ErrorKind::Fenced {
                epoch: Epoch(2),
                ..
            }
        )
    };
    assert!(is_fenced(error.kind()), "{error}");
    let error = ours.release(P, Epoch(1)).await.unwrap_err();
    assert!(is_fenced(error.kind()), "{error}");
    assert!(theirs.scan(P, T, Scan::all(9)).await.unwrap().is_empty());
    assert_eq!(
        theirs.replay(P, EntryNumber(1), 1000).await.unwrap().len(),
        1
    );
    theirs.flush(flush(P, 2, 1, 5)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_on_the_databases_clock_holds_others_off() {
    let options = single();
    let (ours, theirs) = (open(options.clone()).await, open(options).await);
    ours.renew(WE, Duration::from_secs(1)).await.unwrap();
    take(&ours, P, WE, 0).await;
    let refused = theirs.acquire(P, THEY, Epoch(1)).await.unwrap();
    let owner = Some(WE);
    let epoch = Epoch(1);
    assert_eq!(refused, AcquireOutcome::Refused { epoch, owner });
    // The lease ends by itself, without a message.
    let tenure = loop {
        match theirs.acquire(P, THEY, Epoch(1)).await.unwrap() {
            AcquireOutcome::Granted(tenure) => break tenure,
            AcquireOutcome::Refused { .. } => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    assert_eq!(tenure.epoch, Epoch(2));
}

/// Two processes under one number: the later one gets a lease when that of the earlier
/// one has ended, and then the earlier one gets none.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_has_one_lease_at_a_time() {
    let clock = VirtualClock::default();
    let options = Options {
        lease_clock: Some(Arc::new(clock.clone())),
        ..single()
    };
    let engine = open(options).await;
    let ttl = Duration::from_secs(10);
    let again = Owner {
        incarnation: WE.incarnation + 1,
        ..WE
    };
    let renew = async |owner, ttl| {
        let renewed = engine.renew(owner, ttl).await;
        renewed.map_err(|error| error.code().0)
    };
    assert_eq!(renew(WE, ttl).await, Ok(()));
    assert_eq!(renew(again, ttl).await, Err("STF-2022"));
    assert_eq!(renew(WE, ttl).await, Ok(()));
    clock.advance(ttl);
    assert_eq!(renew(again, ttl).await, Ok(()));
    // It went on after a long sleep.
    assert_eq!(renew(WE, ttl).await, Err("STF-2022"));
    // One that leaves in order is not waited for.
    assert_eq!(renew(again, Duration::ZERO).await, Ok(()));
    assert_eq!(renew(WE, ttl).await, Ok(()));
}

/// The same entry with its events so many milliseconds later.
fn later(mut entry: Entry, by: i64) -> Entry {
    let batch = entry.batches.remove(0);
    let time = Timestamp(batch.time.0 + by);
    let (stream, first, offset) = (batch.stream, batch.first, batch.offset);
    let batch = EventBatch::new(stream, first, offset, batch.count, time, batch.bytes);
    entry.batches.push(batch);
    entry
}

#[tokio::test(flavor = "multi_thread")]
async fn trimmed_segments_are_dropped() {
    let options = Options {
        segment: Duration::from_secs(60),
        ..single()
    };
    let engine = open(options.clone()).await;
    take(&engine, P, WE, 0).await;
    for number in 1..=10u64 {
        let entry = later(event(P, 1, number, b"e"), 60_000 * number as i64);
        commit(&engine, entry).await;
    }
    let count = format!(
        "select count(*) from pg_inherits where inhparent = '{}.sf_event'::regclass",
        options.schema
    );
    let segments = || wait(|| PostgresServer::shared().sql(&count));
    assert_eq!(segments(), "10");
    let mut order = flush(P, 1, 10, 0);
    order.trims.push((S, Sequence(7)));
    engine.flush(order).await.unwrap();
    assert_eq!(segments(), "3");
    // What is left is whole, for this owner and the next.
    let next = open(options).await;
    take(&next, P, THEY, 1).await;
    let from = ReadPosition::Sequence(Sequence(0));
    let rest = next.read_events(P, S, from, usize::MAX).await.unwrap();
    assert_eq!(
        rest.iter().map(|b| b.first.0).collect::<Vec<_>>(),
        [7, 8, 9]
    );
    // A late batch of an old time makes its segment again.
    let late = later(event(P, 2, 11, b"e"), 60_000);
    assert_eq!(next.append(&[late]).await.unwrap(), [Outcome::Committed]);
}
