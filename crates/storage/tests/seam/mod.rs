//! The questions of the seam, the same to every engine.

#![allow(dead_code, reason = "each test file asks its own engines")]

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::clock::{Timestamp, VirtualClock};
use steadfast_core::id::{
    EntryNumber, Epoch, Offset, Owner, Partition, Sequence, StreamId, TableId,
};
use steadfast_storage::ErrorKind;
use steadfast_storage::engine::{
    AcquireOutcome, CasOutcome, Engine, Entry, EventBatch, Flush, FlushedRow, Outcome,
    ReadPosition, Scan, TableRow, Tenure,
};

/// An engine and what keeps it alive.
pub(crate) struct Subject {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) clock: VirtualClock,
    pub(crate) _folder: Option<tempfile::TempDir>,
}

/// Asks each engine each question; an engine is the function that makes it.
macro_rules! suite {
    ($($engine:ident)*) => {
        $( suite!(@engine $engine
            seam_01_acquire_raises_the_epoch
            seam_02_a_stale_epoch_is_fenced
            seam_03_a_wrong_number_is_fenced
            seam_04_a_refused_neighbour_changes_nothing
            seam_05_entries_replay_as_written
            seam_06_replay_comes_in_pages
            seam_07_flush_puts_deletes_and_clears
            seam_08_a_stale_flush_changes_nothing
            seam_09_flushed_entries_leave_the_log
            seam_10_scans_are_ordered_and_bounded
            seam_11_events_are_read_by_sequence
            seam_12_events_are_read_by_offset_and_time
            seam_13_events_survive_a_flush
            seam_14_trimmed_events_go
            seam_15_a_live_lease_holds_others_off
            seam_16_acquire_resolves_an_unknown_outcome
            seam_17_records_change_by_compare_and_swap
            seam_18_watchers_wake
            seam_19_partitions_and_tables_stay_apart
            seam_20_one_owner_wins
            seam_21_large_entries_are_taken
            seam_22_a_takeover_during_a_flush_replays_all
        ); )*
    };
    (@engine $engine:ident $($test:ident)*) => {
        mod $engine {
            $(
                #[tokio::test]
                async fn $test() {
                    $crate::seam::$test(super::$engine().await).await;
                }
            )*
        }
    };
}
pub(crate) use suite;

const P: Partition = Partition(1);
const Q: Partition = Partition(2);
const T: TableId = TableId(1);
const S: StreamId = StreamId(1);
const WE: Owner = Owner {
    node: 1,
    incarnation: 11,
};
const THEY: Owner = Owner {
    node: 2,
    incarnation: 22,
};

async fn acquire(engine: &dyn Engine, partition: Partition, owner: Owner, expect: u64) -> Tenure {
    match engine
        .acquire(partition, owner, Epoch(expect))
        .await
        .unwrap()
    {
        AcquireOutcome::Granted(tenure) => tenure,
        refused => panic!("{refused:?}"),
    }
}

fn entry(partition: Partition, epoch: u64, number: u64, body: &str) -> Entry {
    Entry {
        partition,
        epoch: Epoch(epoch),
        number: EntryNumber(number),
        body: Bytes::copy_from_slice(body.as_bytes()),
        batches: Vec::new(),
    }
}

fn flush(partition: Partition, epoch: u64, up_to: u64, rows: &[(&str, Option<&str>)]) -> Flush {
    Flush {
        partition,
        epoch: Epoch(epoch),
        up_to: EntryNumber(up_to),
        clears: Vec::new(),
        rows: rows
            .iter()
            .map(|(key, value)| change(key, *value))
            .collect(),
        trims: Vec::new(),
        meta: Bytes::from_static(b"meta"),
    }
}

fn change(key: &str, value: Option<&str>) -> FlushedRow {
    FlushedRow {
        table: T,
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: value.map(|value| Bytes::copy_from_slice(value.as_bytes())),
    }
}

async fn append(engine: &dyn Engine, entries: &[Entry]) -> Vec<Outcome> {
    engine.append(entries).await.unwrap()
}

async fn keys(engine: &dyn Engine, partition: Partition, range: Scan) -> Vec<String> {
    let rows = engine.scan(partition, T, range.clone()).await.unwrap();
    let alone = engine.scan_keys(partition, T, range).await.unwrap();
    assert!(rows.iter().map(|row| &row.key).eq(&alone), "{alone:?}");
    let key = |row: &TableRow| String::from_utf8(row.key.to_vec()).unwrap();
    rows.iter().map(key).collect()
}

/// Appends one entry per batch; sizes alternate between small and large.
async fn publish(
    engine: &dyn Engine,
    epoch: u64,
    first_entry: u64,
    counts: &[u32],
) -> Vec<EventBatch> {
    let (mut first, mut offset) = (0, 0);
    let mut batches = Vec::new();
    for (index, count) in counts.iter().enumerate() {
        let size = if index % 3 == 1 { 3000 } else { 10 + index };
        let batch = EventBatch::new(
            S,
            Sequence(first),
            Offset(offset),
            *count,
            Timestamp(1000 + 10 * index as i64),
            Bytes::from(vec![index as u8; size]),
        );
        first += u64::from(*count);
        offset = batch.end().0;
        let mut entry = entry(P, epoch, first_entry + index as u64, "events");
        entry.batches.push(batch.clone());
        assert_eq!(append(engine, &[entry]).await, [Outcome::Committed]);
        batches.push(batch);
    }
    batches
}

pub(crate) async fn seam_01_acquire_raises_the_epoch(subject: Subject) {
    let engine = &*subject.engine;
    let tenure = acquire(engine, P, WE, 0).await;
    assert_eq!((tenure.epoch, tenure.last), (Epoch(1), EntryNumber(0)));
    let refused = engine.acquire(P, WE, Epoch(0)).await.unwrap();
    let expected = AcquireOutcome::Refused {
        epoch: Epoch(1),
        owner: Some(WE),
    };
    assert_eq!(refused, expected);
    assert_eq!(acquire(engine, P, WE, 1).await.epoch, Epoch(2));
}

pub(crate) async fn seam_02_a_stale_epoch_is_fenced(subject: Subject) {
    let engine = &*subject.engine;
    acquire(engine, P, WE, 0).await;
    acquire(engine, P, THEY, 1).await;
    assert_eq!(
        append(engine, &[entry(P, 1, 1, "late")]).await,
        [Outcome::Fenced]
    );
    assert_eq!(
        append(engine, &[entry(P, 3, 1, "early")]).await,
        [Outcome::Fenced]
    );
    assert_eq!(
        append(engine, &[entry(Q, 1, 1, "never")]).await,
        [Outcome::Fenced]
    );
    assert_eq!(
        append(engine, &[entry(P, 2, 1, "right")]).await,
        [Outcome::Committed]
    );
    let bodies = engine.replay(P, EntryNumber(1), 1000).await.unwrap();
    assert_eq!(bodies, [entry(P, 2, 1, "right")]);
}

pub(crate) async fn seam_03_a_wrong_number_is_fenced(subject: Subject) {
    let engine = &*subject.engine;
    acquire(engine, P, WE, 0).await;
    assert_eq!(
        append(engine, &[entry(P, 1, 2, "gap")]).await,
        [Outcome::Fenced]
    );
    assert_eq!(
        append(engine, &[entry(P, 1, 1, "one")]).await,
        [Outcome::Committed]
    );
    assert_eq!(
        append(engine, &[entry(P, 1, 1, "again")]).await,
        [Outcome::Fenced]
    );
    assert_eq!(
        append(engine, &[entry(P, 1, 2, "two")]).await,
        [Outcome::Committed]
    );
}

pub(crate) async fn seam_04_a_refused_neighbour_changes_nothing(subject: Subject) {
    let engine = &*subject.engine;
    acquire(engine, P, WE, 0).await;
    acquire(engine, Q, WE, 0).await;
    acquire(engine, Q, THEY, 1).await;
    let third = Partition(3);
    acquire(engine, third, WE, 0).await;
    let group = [
        entry(P, 1, 1, "p"),
        entry(Q, 1, 1, "q"),
        entry(third, 1, 1, "r"),
    ];
    let expected = [Outcome::Committed, Outcome::Fenced, Outcome::Committed];
    assert_eq!(append(engine, &group).await, expected);
    assert_eq!(
        engine.replay(P, EntryNumber(1), 1000).await.unwrap().len(),
        1
    );
    assert!(
        engine
            .replay(Q, EntryNumber(1), 1000)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        engine
            .replay(third, EntryNumber(1), 1000)
            .await
            .unwrap()
            .len(),
        1
    );
}

pub(crate) async fn seam_05_entries_replay_as_written(subject: Subject) {
    let engine = &*subject.engine;
    acquire(engine, P, WE, 0).await;
    let batches = publish(engine, 1, 1, &[1, 5, 2, 1]).await;
    let found = engine.replay(P, EntryNumber(2), usize::MAX).await.unwrap();
    assert_eq!(found.len(), 3);
    for (entry, batch) in found.iter().zip(&batches[1..]) {
        assert_eq!(
            (&entry.body[..], &entry.batches[..]),
            (&b"events"[..], &[batch.clone()][..])
        );
    }
}

pub(crate) async fn seam_06_replay_comes_in_pages(subject: Subject) {
    let engine = &*subject.engine;
    acquire(engine, P, WE, 0).await;
    for number in 1..=20 {
        append(engine, &[entry(P, 1, number, &"x".repeat(500))]).await;
    }
    let mut next = EntryNumber(1);
    let mut pages = 0;
    loop {
        let page = engine.replay(P, next, 1600).await.unwrap();
        let Some(last) = page.last() else {
            break;
        };
        assert!(page.len() <= 3);
        assert_eq!(page[0].number, next);
        next = last.number.next();
        pages += 1;
    }
    assert_eq!(next, EntryNumber(21));
    assert!(pages >= 7);
}

pub(crate) async fn seam_07_flush_puts_deletes_and_clears(subject: Subject) {
    let engine = &*subject.engine;
    acquire(engine, P, WE, 0).await;
    for number in 1..=3 {
        append(engine, &[entry(P, 1, number, "b")]).await;
    }
    engine
        .flush(flush(P, 1, 1, &[("a", Some("1")), ("b", Some("2"))]))
        .await
        .unwrap();
    assert_eq!(
        engine.get(P, T, b"a").await.unwrap(),
        Some(Bytes::from_static(b"1"))
    );
    engine
        .flush(flush(P, 1, 2, &[("a", None), ("c", Some("3"))]))
        .await
        .unwrap();
    assert_eq!(engine.get(P, T, b"a").await.unwrap(), None);
    assert_eq!(keys(engine, P, Scan::all(10)).await, ["b", "c"]);
    let mut cleared = flush(P, 1, 3, &[("d", Some("4"))]);
    cleared.clears.push(T);
    engine.flush(cleared).await.unwrap();
    assert_eq!(keys(engine, P, Scan::all(10)).await, ["d"]);
}

pub(crate) async fn seam_08_a_stale_flush_changes_nothing(subject: Subject) {
    let engine = &*subject.engine;
    acquire(engine, P, WE, 0).await;
    append(engine, &[entry(P, 1, 1, "b")]).await;
    acquire(engine, P, THEY, 1).await;
    let error = engine
        .flush(flush(P, 1, 1, &[("a", Some("1"))]))
        .await
        .unwrap_err();
    assert!(
        matches!(
            error.kind(),
            ErrorKind::Fenced {
                epoch: Epoch(2),
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(engine.get(P, T, b"a").await.unwrap(), None);
    assert_eq!(
        engine.replay(P, EntryNumber(1), 1000).await.unwrap().len(),
        1
    );
}

pub(crate) async fn seam_09_flushed_entries_leave_the_log(subject: Subject) {
    let engine = &*subject.engine;
    acquire(engine, P, WE, 0).await;
    for number in 1..=3 {
        append(engine, &[entry(P, 1, number, "b")]).await;
    }
    engine.flush(flush(P, 1, 2, &[])).await.unwrap();
    let tenure = acquire(engine, P, THEY, 1).await;
    assert_eq!(
        (tenure.last, tenure.flushed),
        (EntryNumber(3), EntryNumber(2))
    );
    assert_eq!(tenure.meta, Bytes::from_static(b"meta"));
    let rest = engine.replay(P, tenure.flushed.next(), 1000).await.unwrap();
    assert_eq!(rest.iter().map(|e| e.number.0).collect::<Vec<_>>(), [3]);
}

pub(crate) async fn seam_10_scans_are_ordered_and_bounded(subject: Subject) {
    let engine = &*subject.engine;
    acquire(engine, P, WE, 0).await;
    append(engine, &[entry(P, 1, 1, "b")]).await;
    let rows = [
        ("a", Some("1")),
        ("b", Some("2")),
        ("ba", Some("3")),
        ("c", Some("4")),
    ];
    engine.flush(flush(P, 1, 1, &rows)).await.unwrap();
    let range = |from, to, limit| Scan { from, to, limit };
    let key = |key: &'static str| Bytes::from_static(key.as_bytes());
    assert_eq!(keys(engine, P, Scan::all(3)).await, ["a", "b", "ba"]);
    let middle = range(Bound::Included(key("b")), Bound::Excluded(key("c")), 10);
    assert_eq!(keys(engine, P, middle).await, ["b", "ba"]);
    let after = range(Bound::Excluded(key("b")), Bound::Included(key("c")), 10);
    assert_eq!(keys(engine, P, after).await, ["ba", "c"]);
    let none = range(Bound::Included(key("d")), Bound::Unbounded, 10);
    assert!(keys(engine, P, none).await.is_empty());
}

async fn read(engine: &dyn Engine, from: ReadPosition, max_bytes: usize) -> Vec<u64> {
    let batches = engine.read_events(P, S, from, max_bytes).await.unwrap();
    batches.iter().map(|batch| batch.first.0).collect()
}

pub(crate) async fn seam_11_events_are_read_by_sequence(subject: Subject) {
    let engine = &*subject.engine;
    acquire(engine, P, WE, 0).await;
    assert!(
        read(engine, ReadPosition::Sequence(Sequence(0)), 1000)
            .await
            .is_empty()
    );
    let batches = publish(engine, 1, 1, &[2, 3, 1, 4]).await;
    let all = engine
        .read_events(P, S, ReadPosition::Sequence(Sequence(0)), usize::MAX)
        .await
        .unwrap();
    assert_eq!(all, batches);
    assert_eq!(
        read(engine, ReadPosition::Sequence(Sequence(1)), usize::MAX).await,
        [0, 2, 5, 6]
    );
    assert_eq!(
        read(engine, ReadPosition::Sequence(Sequence(2)), usize::MAX).await,
        [2, 5, 6]
    );
    assert_eq!(
        read(engine, ReadPosition::Sequence(Sequence(4)), 1).await,
        [2]
    );
    assert_eq!(
        read(engine, ReadPosition::Sequence(Sequence(9)), usize::MAX).await,
        [6]
    );
    assert!(
        read(engine, ReadPosition::Sequence(Sequence(10)), usize::MAX)
            .await
            .is_empty()
    );
}

pub(crate) async fn seam_12_events_are_read_by_offset_and_time(subject: Subject) {
    let engine = &*subject.engine;
    acquire(engine, P, WE, 0).await;
    let batches = publish(engine, 1, 1, &[2, 3, 1, 4, 1, 1]).await;
    for is_flushed in [false, true] {
        for (index, batch) in batches.iter().enumerate() {
            let rest: Vec<u64> = batches[index..].iter().map(|b| b.first.0).collect();
            let inside = Offset(batch.end().0 - 1);
            assert_eq!(
                read(engine, ReadPosition::Offset(batch.offset), usize::MAX).await,
                rest
            );
            assert_eq!(
                read(engine, ReadPosition::Offset(inside), usize::MAX).await,
                rest
            );
            let before = Timestamp(batch.time.0 - 5);
            assert_eq!(
                read(engine, ReadPosition::Time(batch.time), usize::MAX).await,
                rest
            );
            assert_eq!(
                read(engine, ReadPosition::Time(before), usize::MAX).await,
                rest
            );
        }
        assert!(
            read(engine, ReadPosition::Time(Timestamp(9999)), usize::MAX)
                .await
                .is_empty()
        );
        if !is_flushed {
            engine.flush(flush(P, 1, 6, &[])).await.unwrap();
        }
    }
}

pub(crate) async fn seam_13_events_survive_a_flush(subject: Subject) {
    let engine = &*subject.engine;
    acquire(engine, P, WE, 0).await;
    let counts: Vec<u32> = (1..=30).collect();
    let batches = publish(engine, 1, 1, &counts).await;
    for up_to in [1, 2, 7, 8, 20, 30] {
        engine.flush(flush(P, 1, up_to, &[])).await.unwrap();
        let all = engine
            .read_events(P, S, ReadPosition::Sequence(Sequence(0)), usize::MAX)
            .await
            .unwrap();
        assert_eq!(all, batches, "after a flush up to {up_to}");
        let mut next = Sequence(0);
        let mut found = Vec::new();
        while let Some(batch) = engine
            .read_events(P, S, ReadPosition::Sequence(next), 1)
            .await
            .unwrap()
            .pop()
        {
            next = batch.next();
            found.push(batch);
        }
        assert_eq!(found, batches, "one by one after a flush up to {up_to}");
    }
}

pub(crate) async fn seam_14_trimmed_events_go(subject: Subject) {
    let engine = &*subject.engine;
    acquire(engine, P, WE, 0).await;
    let batches = publish(engine, 1, 1, &[1; 30]).await;
    let mut trim = flush(P, 1, 30, &[]);
    trim.trims.push((S, Sequence(20)));
    engine.flush(trim).await.unwrap();
    let rest = engine
        .read_events(P, S, ReadPosition::Sequence(Sequence(20)), usize::MAX)
        .await
        .unwrap();
    assert_eq!(rest, batches[20..]);
    let whole = engine
        .read_events(P, S, ReadPosition::Sequence(Sequence(0)), usize::MAX)
        .await
        .unwrap();
    assert!(whole.len() < 25, "{} batches are left", whole.len());
}

pub(crate) async fn seam_15_a_live_lease_holds_others_off(subject: Subject) {
    let engine = &*subject.engine;
    let ttl = Duration::from_secs(10);
    engine.renew(WE, ttl).await.unwrap();
    acquire(engine, P, WE, 0).await;
    let refused = engine.acquire(P, THEY, Epoch(1)).await.unwrap();
    assert!(matches!(
        refused,
        AcquireOutcome::Refused {
            owner: Some(WE),
            ..
        }
    ));
    subject.clock.advance(ttl + Duration::from_millis(1));
    assert_eq!(acquire(engine, P, THEY, 1).await.epoch, Epoch(2));
    engine.renew(THEY, ttl).await.unwrap();
    engine.release(P, Epoch(2)).await.unwrap();
    assert_eq!(acquire(engine, P, WE, 2).await.epoch, Epoch(3));
    let error = engine.release(P, Epoch(2)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Fenced { .. }), "{error}");
}

pub(crate) async fn seam_16_acquire_resolves_an_unknown_outcome(subject: Subject) {
    let engine = &*subject.engine;
    acquire(engine, P, WE, 0).await;
    let sent = entry(P, 1, 1, "sent");
    append(engine, std::slice::from_ref(&sent)).await;
    let tenure = acquire(engine, P, WE, 1).await;
    assert_eq!((tenure.last, tenure.last_hash), (sent.number, sent.hash()));
    let again = entry(P, 2, 1, "sent");
    assert_eq!(
        again.hash(),
        sent.hash(),
        "the epoch is not part of the hash"
    );
    assert_ne!(entry(P, 2, 1, "other").hash(), sent.hash());
    assert_eq!(append(engine, &[again]).await, [Outcome::Fenced]);
}

pub(crate) async fn seam_17_records_change_by_compare_and_swap(subject: Subject) {
    let engine = &*subject.engine;
    let value = |text: &'static str| Bytes::from_static(text.as_bytes());
    assert_eq!(
        engine.cas("nodes/1", 0, value("a")).await.unwrap(),
        CasOutcome::Done(1)
    );
    let conflict = CasOutcome::Conflict {
        version: 1,
        value: Some(value("a")),
    };
    assert_eq!(
        engine.cas("nodes/1", 0, value("b")).await.unwrap(),
        conflict
    );
    assert_eq!(
        engine.cas("nodes/1", 1, value("c")).await.unwrap(),
        CasOutcome::Done(2)
    );
    assert_eq!(
        engine.cas("nodes/0", 0, value("d")).await.unwrap(),
        CasOutcome::Done(1)
    );
    assert_eq!(
        engine.cas("other", 0, value("e")).await.unwrap(),
        CasOutcome::Done(1)
    );
    let missing = CasOutcome::Conflict {
        version: 0,
        value: None,
    };
    assert_eq!(engine.cas("none", 3, value("f")).await.unwrap(), missing);
    let listed = engine.list("nodes/").await.unwrap();
    let found: Vec<_> = listed.iter().map(|r| (r.key.as_str(), r.version)).collect();
    assert_eq!(found, [("nodes/0", 1), ("nodes/1", 2)]);
}

pub(crate) async fn seam_18_watchers_wake(subject: Subject) {
    let engine = &*subject.engine;
    let mut watch = engine.watch();
    engine.cas("nodes/1", 0, Bytes::new()).await.unwrap();
    watch.changed().await.unwrap();
    watch.mark_unchanged();
    acquire(engine, P, WE, 0).await;
    watch.changed().await.unwrap();
}

pub(crate) async fn seam_19_partitions_and_tables_stay_apart(subject: Subject) {
    let engine = &*subject.engine;
    for partition in [P, Q] {
        acquire(engine, partition, WE, 0).await;
        append(engine, &[entry(partition, 1, 1, "b")]).await;
    }
    engine
        .flush(flush(P, 1, 1, &[("k", Some("p"))]))
        .await
        .unwrap();
    let mut other = flush(Q, 1, 1, &[("k", Some("q"))]);
    other.rows[0].table = TableId(2);
    other.clears.push(T);
    engine.flush(other).await.unwrap();
    assert_eq!(
        engine.get(P, T, b"k").await.unwrap(),
        Some(Bytes::from_static(b"p"))
    );
    assert_eq!(engine.get(Q, T, b"k").await.unwrap(), None);
    assert_eq!(
        engine.get(Q, TableId(2), b"k").await.unwrap(),
        Some(Bytes::from_static(b"q"))
    );
    assert!(keys(engine, Q, Scan::all(10)).await.is_empty());
}

pub(crate) async fn seam_20_one_owner_wins(subject: Subject) {
    let engine = &subject.engine;
    let mut tasks = tokio::task::JoinSet::new();
    for node in 1..=8 {
        let engine = Arc::clone(engine);
        tasks.spawn(async move {
            let owner = Owner {
                node,
                incarnation: 1,
            };
            let mut won = Vec::new();
            for epoch in 0..20 {
                if let AcquireOutcome::Granted(tenure) =
                    engine.acquire(P, owner, Epoch(epoch)).await.unwrap()
                {
                    let next = tenure.last.next();
                    let sent = entry(P, tenure.epoch.0, next.0, &format!("{node}"));
                    let outcome = engine.append(&[sent]).await.unwrap()[0];
                    won.push((tenure.epoch, next, outcome));
                }
            }
            won
        });
    }
    let won: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    let mut epochs: Vec<_> = won.iter().map(|(epoch, ..)| *epoch).collect();
    epochs.sort_unstable();
    epochs.dedup();
    assert_eq!(epochs.len(), won.len(), "an epoch was given twice");
    let committed = won
        .iter()
        .filter(|(.., outcome)| *outcome == Outcome::Committed);
    let mut numbers: Vec<_> = committed.map(|(_, number, _)| number.0).collect();
    numbers.sort_unstable();
    let log = engine.replay(P, EntryNumber(1), usize::MAX).await.unwrap();
    assert_eq!(numbers, log.iter().map(|e| e.number.0).collect::<Vec<_>>());
}

pub(crate) async fn seam_21_large_entries_are_taken(subject: Subject) {
    let engine = &*subject.engine;
    acquire(engine, P, WE, 0).await;
    let large = entry(P, 1, 1, &"x".repeat(1024 * 1024));
    assert_eq!(
        append(engine, std::slice::from_ref(&large)).await,
        [Outcome::Committed]
    );
    assert_eq!(
        append(engine, &[entry(P, 1, 2, "small")]).await,
        [Outcome::Committed]
    );
    let found = engine.replay(P, EntryNumber(1), usize::MAX).await.unwrap();
    assert_eq!(found[0], large);
}

pub(crate) async fn seam_22_a_takeover_during_a_flush_replays_all(subject: Subject) {
    let engine = &subject.engine;
    let mut tenure = acquire(&**engine, P, WE, 0).await;
    for round in 0..50 {
        for _ in 0..3 {
            let number = tenure.last.next();
            let mut sent = entry(P, tenure.epoch.0, number.0, "b");
            let first = Sequence(number.0 - 1);
            sent.batches.push(EventBatch::new(
                S,
                first,
                Offset(first.0 * 2040),
                1,
                Timestamp(1),
                vec![round; 2000].into(),
            ));
            assert_eq!(append(&**engine, &[sent]).await, [Outcome::Committed]);
            tenure.last = number;
        }
        let mut order = flush(P, tenure.epoch.0, tenure.last.0, &[("k", Some("v"))]);
        order.trims.push((S, Sequence(tenure.last.0)));
        let flushing = tokio::spawn({
            let engine = Arc::clone(engine);
            async move { engine.flush(order).await }
        });
        for _ in 0..round % 7 {
            tokio::task::yield_now().await;
        }
        tenure = acquire(&**engine, P, WE, tenure.epoch.0).await;
        let rest = engine
            .replay(P, tenure.flushed.next(), usize::MAX)
            .await
            .unwrap();
        let numbers: Vec<_> = rest.iter().map(|entry| entry.number.0).collect();
        let expected: Vec<_> = (tenure.flushed.0 + 1..=tenure.last.0).collect();
        assert_eq!(numbers, expected, "round {round}");
        // It came before the takeover, or it is fenced.
        match flushing.await.unwrap() {
            Ok(()) => assert_eq!(tenure.flushed, tenure.last, "round {round}"),
            Err(error) => assert!(matches!(error.kind(), ErrorKind::Fenced { .. }), "{error}"),
        }
    }
}
