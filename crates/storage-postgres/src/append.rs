//! The commit: one fenced statement for many partitions.
//!
//! The statement moves the fence rows and inserts log pieces and event batches of
//! those partitions whose fence moved, and of no other. A partition that is not in
//! the answer was refused and wrote nothing. An answer that is missing, late, or
//! came with a warning leaves everything in the statement unknown.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use steadfast_core::id::Partition;
use steadfast_storage::engine::{Entry, Outcome};
use steadfast_storage::{Error, ErrorKind as StorageKind, Result};

use crate::context::PostgresContext;
use crate::error::ErrorKind;
use crate::known_partitions::{KnownPartition, KnownPartitions};
use crate::options::Durability;
use crate::pool::PooledSession;
use crate::record::{self, PIECE_BYTES};
use crate::schema::{self, segment_of};
use crate::session::{Session, within};
use crate::statement_error::{DUPLICATE, NO_SEGMENT, StatementError};

/// Bytes of one statement, about.
const STATEMENT_BYTES: usize = 1024 * 1024;

/// How often a statement is repeated that certainly did nothing.
const REPEATS: u32 = 5;

const ROWS: &str = "with f as (update sf_partition p set commit_no = g.no
    from unnest($1::int[], $2::bigint[], $3::bigint[]) g(part, epoch, no)
    where p.part = g.part and p.epoch = g.epoch and p.commit_no = g.no - 1
      and ($4 or current_setting('synchronous_standby_names') <> '')
    returning p.part, g.no, g.epoch),
  l as (insert into sf_log(part, no, piece, epoch, crc, body)
    select f.part, f.no, x.piece, f.epoch, x.crc, x.body
    from unnest($5::int[], $6::int[], $7::int[], $8::bytea[]) x(part, piece, crc, body)
    join f on f.part = x.part)
  select part from f";

const ROWS_AND_EVENTS: &str = "with f as (update sf_partition p set commit_no = g.no
    from unnest($1::int[], $2::bigint[], $3::bigint[]) g(part, epoch, no)
    where p.part = g.part and p.epoch = g.epoch and p.commit_no = g.no - 1
      and ($4 or current_setting('synchronous_standby_names') <> '')
    returning p.part, g.no, g.epoch),
  l as (insert into sf_log(part, no, piece, epoch, crc, body)
    select f.part, f.no, x.piece, f.epoch, x.crc, x.body
    from unnest($5::int[], $6::int[], $7::int[], $8::bytea[]) x(part, piece, crc, body)
    join f on f.part = x.part),
  e as (insert into sf_event(seg, stream, part, first_seq, first_off, n, t0, t1, crc, body)
    select x.seg, x.stream, f.part, x.first_seq, x.first_off, x.n, x.t, x.t, x.crc, x.body
    from unnest($9::int[], $10::int[], $11::int[], $12::bigint[], $13::bigint[], $14::int[],
                $15::bigint[], $16::int[], $17::bytea[])
         x(part, seg, stream, first_seq, first_off, n, t, crc, body)
    join f on f.part = x.part)
  select part from f";

const FENCES: &str = "select part, epoch, commit_no, current_setting('synchronous_standby_names')
    from sf_partition where part = any($1)";

/// One entry in flight.
struct PendingAppend<'a> {
    /// Its index in the group.
    index: usize,
    entry: &'a Entry,
    hash: u64,
    record: Vec<u8>,
}

impl PendingAppend<'_> {
    fn bytes(&self) -> usize {
        let events = self.entry.batches.iter().map(|b| b.bytes.len());
        self.record.len() + events.sum::<usize>()
    }
}

/// Commits a group, one statement per megabyte.
pub(crate) async fn append(shared: &PostgresContext, group: &[Entry]) -> Result<Vec<Outcome>> {
    shared.wait_until_safe(shared.options().deadline).await?;
    let mut outcomes: Vec<Option<Outcome>> = vec![None; group.len()];
    let mut refusal = None;
    let mut wrote = false;
    // Normally one wave: a partition has one entry in a group.
    while outcomes.iter().any(Option::is_none) {
        let wave = next_wave(shared, group, &mut outcomes);
        let statements = chunks(wave);
        let answers = join_all(statements.iter().map(|chunk| send(shared, chunk))).await;
        for (chunk, answer) in statements.iter().zip(answers) {
            match answer {
                Ok(found) => {
                    wrote = true;
                    let found = chunk.iter().zip(found);
                    found.for_each(|(share, outcome)| outcomes[share.index] = Some(outcome));
                }
                Err(error) => {
                    // Nothing of this chunk was written; other chunks may have been.
                    let lost = chunk.iter().map(|share| share.index);
                    lost.for_each(|index| outcomes[index] = Some(Outcome::Unknown));
                    refusal = Some(error);
                }
            }
        }
    }
    match refusal {
        Some(error) if !wrote => Err(error),
        _ => Ok(outcomes
            .into_iter()
            .map(|outcome| outcome.unwrap_or(Outcome::Unknown))
            .collect()),
    }
}

/// Prepares the first open entry of each partition; what cannot be sent is
/// answered at once.
fn next_wave<'a>(
    shared: &PostgresContext,
    group: &'a [Entry],
    outcomes: &mut [Option<Outcome>],
) -> Vec<PendingAppend<'a>> {
    let holdings = shared.holdings.lock();
    let mut seen = HashSet::new();
    let mut wave = Vec::new();
    for (index, entry) in group.iter().enumerate() {
        if outcomes[index].is_some() || !seen.insert(entry.partition) {
            continue;
        }
        match holdings.get(&entry.partition) {
            Some(held) if held.in_doubt && held.epoch == entry.epoch => {
                outcomes[index] = Some(Outcome::Unknown);
            }
            Some(held) if held.takes(entry) => {
                let hash = entry.hash();
                wave.push(PendingAppend {
                    index,
                    entry,
                    hash,
                    record: record::encode(entry, hash, held.hash),
                });
            }
            _ => outcomes[index] = Some(Outcome::Fenced),
        }
    }
    wave
}

fn chunks(wave: Vec<PendingAppend<'_>>) -> Vec<Vec<PendingAppend<'_>>> {
    let mut chunks: Vec<Vec<PendingAppend>> = Vec::new();
    let mut bytes = usize::MAX;
    for share in wave {
        let weight = share.bytes();
        if bytes.saturating_add(weight) > STATEMENT_BYTES {
            chunks.push(Vec::new());
            bytes = 0;
        }
        bytes += weight;
        if let Some(chunk) = chunks.last_mut() {
            chunk.push(share);
        }
    }
    chunks
}

/// Sends one statement until it is answered; an error means that it did nothing.
async fn send(shared: &PostgresContext, chunk: &[PendingAppend<'_>]) -> Result<Vec<Outcome>> {
    let doing = "commit";
    let mut pause = Duration::from_millis(5);
    let mut last = None;
    for _ in 0..REPEATS {
        let mut lent = shared.committers.take().await?;
        if is_stale(shared, chunk, lent.timeline) {
            // After a change of primary every entry is checked again.
            return Ok(doubt(shared, chunk));
        }
        let deadline = deadline(shared, chunk);
        if let Err(fault) = within(deadline, prepare(shared, &mut lent, chunk)).await {
            // Nothing of the chunk has been sent.
            last = lent.settle(Err::<(), _>(fault)).err();
            tokio::time::sleep(pause).await;
            continue;
        }
        shared.statements.fetch_add(1, Ordering::Relaxed);
        let done = within(deadline, commit(shared, &lent, chunk)).await;
        match done {
            Ok(committed) => return conclude(shared, lent, chunk, &committed).await,
            Err(StatementError::Unknown(cause)) => {
                tracing::warn!(
                    event = "postgres.commit_unknown",
                    %cause,
                    "a commit has an unknown outcome",
                );
                return Ok(doubt(shared, chunk));
            }
            Err(StatementError::Damaged(what)) => {
                tracing::error!(event = "postgres.damaged", %what, "the database reports damage");
                return Ok(doubt(shared, chunk));
            }
            Err(StatementError::Refused(cause)) if cause.state == NO_SEGMENT => {
                shared.segments.lock().clear();
                last = lent
                    .settle(Err::<(), _>(StatementError::Refused(cause)))
                    .err();
            }
            Err(StatementError::Refused(cause)) if cause.state == DUPLICATE => {
                let partition = chunk[0].entry.partition;
                let what = format!("a log row is there before its commit ({cause})");
                return Err(Error::new(StorageKind::Damaged { partition, what }));
            }
            Err(fault @ StatementError::Repeat(_)) => last = lent.settle(Err::<(), _>(fault)).err(),
            Err(fault) => {
                let fault = lent.settle(Err::<(), _>(fault)).err();
                return Err(given_up(fault, doing));
            }
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    Err(given_up(last, doing))
}

/// Large statements may take longer: a quarter of a second per megabyte.
fn deadline(shared: &PostgresContext, chunk: &[PendingAppend<'_>]) -> Duration {
    let bytes: usize = chunk.iter().map(PendingAppend::bytes).sum();
    shared.options().deadline + Duration::from_millis(bytes as u64 / 4096)
}

fn given_up(fault: Option<StatementError>, doing: &'static str) -> Error {
    match fault {
        Some(fault) => fault.into_error(doing),
        None => Error::new(ErrorKind::Database { doing }),
    }
}

/// Whether an entry is based on the state of another primary.
fn is_stale(shared: &PostgresContext, chunk: &[PendingAppend<'_>], timeline: u32) -> bool {
    let holdings = shared.holdings.lock();
    chunk.iter().any(|share| {
        let held = holdings.get(&share.entry.partition);
        held.is_none_or(|held| held.timeline != timeline)
    })
}

/// Makes segments for the chunk's events.
async fn prepare(
    shared: &PostgresContext,
    session: &mut Session,
    chunk: &[PendingAppend<'_>],
) -> std::result::Result<(), StatementError> {
    let length = shared.options().segment;
    let missing: Vec<i32> = {
        let known = shared.segments.lock();
        let batches = chunk.iter().flat_map(|share| &share.entry.batches);
        let needed: BTreeSet<i32> = batches.map(|b| segment_of(b.time, length)).collect();
        needed.difference(&known).copied().collect()
    };
    if missing.is_empty() {
        return Ok(());
    }
    let schema = shared.options().schema.clone();
    schema::add_segments(session, &schema, &missing).await?;
    shared.segments.lock().extend(missing);
    Ok(())
}

/// Sends the statement and answers which partitions it committed.
async fn commit(
    shared: &PostgresContext,
    session: &Session,
    chunk: &[PendingAppend<'_>],
) -> std::result::Result<HashSet<Partition>, StatementError> {
    let parts: Vec<i32> = chunk.iter().map(|s| s.entry.partition.0 as i32).collect();
    let epochs: Vec<i64> = chunk.iter().map(|s| s.entry.epoch.0 as i64).collect();
    let numbers: Vec<i64> = chunk.iter().map(|s| s.entry.number.0 as i64).collect();
    let is_free = shared.options().durability != Durability::Quorum;
    let pieces = PieceColumns::of(chunk);
    let events = EventColumns::of(chunk, shared.options().segment);
    let rows = if events.parts.is_empty() {
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 8] = [
            &parts,
            &epochs,
            &numbers,
            &is_free,
            &pieces.parts,
            &pieces.numbers,
            &pieces.checksums,
            &pieces.bodies,
        ];
        session.write(ROWS, &values).await?
    } else {
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 17] = [
            &parts,
            &epochs,
            &numbers,
            &is_free,
            &pieces.parts,
            &pieces.numbers,
            &pieces.checksums,
            &pieces.bodies,
            &events.parts,
            &events.segments,
            &events.streams,
            &events.firsts,
            &events.offsets,
            &events.counts,
            &events.times,
            &events.checksums,
            &events.bodies,
        ];
        session.write(ROWS_AND_EVENTS, &values).await?
    };
    let parts = rows.iter().map(|row| row.get::<_, i32>(0));
    Ok(parts.map(|part| Partition(part as u32)).collect())
}

/// The records of a chunk, column by column.
#[derive(Default)]
struct PieceColumns<'a> {
    parts: Vec<i32>,
    numbers: Vec<i32>,
    checksums: Vec<i32>,
    bodies: Vec<&'a [u8]>,
}

impl<'a> PieceColumns<'a> {
    fn of(chunk: &'a [PendingAppend<'_>]) -> Self {
        let mut all = Self::default();
        for share in chunk {
            let (partition, number) = (share.entry.partition, share.entry.number);
            for (piece, body) in (0i32..).zip(share.record.chunks(PIECE_BYTES)) {
                all.parts.push(partition.0 as i32);
                all.numbers.push(piece);
                all.checksums
                    .push(record::checksum(partition, number, piece, body));
                all.bodies.push(body);
            }
        }
        all
    }
}

/// The event batches of a chunk, column by column.
#[derive(Default)]
struct EventColumns<'a> {
    parts: Vec<i32>,
    segments: Vec<i32>,
    streams: Vec<i32>,
    firsts: Vec<i64>,
    offsets: Vec<i64>,
    counts: Vec<i32>,
    times: Vec<i64>,
    checksums: Vec<i32>,
    bodies: Vec<&'a [u8]>,
}

impl<'a> EventColumns<'a> {
    fn of(chunk: &'a [PendingAppend<'_>], length: Duration) -> Self {
        let mut all = Self::default();
        for share in chunk {
            for batch in &share.entry.batches {
                all.parts.push(share.entry.partition.0 as i32);
                all.segments.push(segment_of(batch.time, length));
                all.streams.push(batch.stream.0 as i32);
                all.firsts.push(batch.first.0 as i64);
                all.offsets.push(batch.offset.0 as i64);
                all.counts.push(batch.count as i32);
                all.times.push(batch.time.0);
                all.checksums.push(batch.checksum() as i32);
                all.bodies.push(&batch.bytes);
            }
        }
        all
    }
}

/// Notes what was committed and finds out why the rest was not.
async fn conclude(
    shared: &PostgresContext,
    lent: PooledSession<'_>,
    chunk: &[PendingAppend<'_>],
    committed: &HashSet<Partition>,
) -> Result<Vec<Outcome>> {
    let is_whole = committed.len() == chunk.len();
    let fences = if is_whole {
        Ok(Vec::new())
    } else {
        let parts: Vec<i32> = chunk.iter().map(|s| s.entry.partition.0 as i32).collect();
        within(shared.options().deadline, lent.query(FENCES, &[&parts])).await
    };
    let fences = lent.settle(fences);
    if committed.is_empty() && is_alone(shared, fences.as_deref().unwrap_or_default()) {
        let what = "synchronous_standby_names is empty".to_string();
        return Err(Error::new(ErrorKind::UnsafeStorage { what }));
    }
    let mut holdings = shared.holdings.lock();
    let mut outcomes = Vec::new();
    for share in chunk {
        let held = holding_of(&mut holdings, share.entry);
        if committed.contains(&share.entry.partition) {
            if let Some(held) = held {
                held.committed(share.entry, share.hash);
            }
            outcomes.push(Outcome::Committed);
            continue;
        }
        let fence = fences.as_ref().ok().and_then(|rows| {
            let part = share.entry.partition.0 as i32;
            rows.iter().find(|row| row.get::<_, i32>(0) == part)
        });
        outcomes.push(refused(held, share.entry, fence));
    }
    Ok(outcomes)
}

/// Whether the primary is configured to work without standbys.
fn is_alone(shared: &PostgresContext, fences: &[tokio_postgres::Row]) -> bool {
    let is_quorum = shared.options().durability == Durability::Quorum;
    let names = fences.first().map(|row| row.get::<_, String>(3));
    is_quorum && names.is_some_and(|names| names.trim().is_empty())
}

/// The holding in which an entry was sent; none after a later acquisition of this process,
/// which has read from the log whether the entry is there.
fn holding_of<'a>(
    holdings: &'a mut KnownPartitions,
    entry: &Entry,
) -> Option<&'a mut KnownPartition> {
    let held = holdings.get_mut(&entry.partition);
    held.filter(|held| held.epoch == entry.epoch)
}

/// A refused entry has a newer owner, unless the database knows less than it
/// acknowledged: then `acquire` detects it.
fn refused(
    held: Option<&mut KnownPartition>,
    entry: &Entry,
    fence: Option<&tokio_postgres::Row>,
) -> Outcome {
    let epoch = fence.map(|fence| fence.get::<_, i64>(1) as u64);
    if epoch.is_some_and(|epoch| epoch > entry.epoch.0) {
        return Outcome::Fenced;
    }
    if let Some(held) = held {
        held.in_doubt = true;
    }
    Outcome::Unknown
}

fn doubt(shared: &PostgresContext, chunk: &[PendingAppend<'_>]) -> Vec<Outcome> {
    let mut holdings = shared.holdings.lock();
    for share in chunk {
        if let Some(held) = holding_of(&mut holdings, share.entry) {
            held.in_doubt = true;
        }
    }
    vec![Outcome::Unknown; chunk.len()]
}
