//! Folding committed changes into the tables.
//!
//! One transaction, which first locks the partition's flush row in its epoch: a
//! stale owner changes nothing. It never touches the fence row, so that no commit
//! waits for a flush. Rows, digests, stream ends and the cut log go together.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::id::{EntryNumber, Epoch, Partition};
use steadfast_storage::engine::{Flush, FlushedRow};
use steadfast_storage::{Error, ErrorKind, Result};
use tokio_postgres::Transaction;

use crate::context::PostgresContext;
use crate::digest::{self, FlushedStreams, SplitKey, TableSums};
use crate::known_partitions::{EntryLink, advance};
use crate::segments;
use crate::session::{Session, within};
use crate::statement_error::StatementError;

/// How long a flush may take.
const DEADLINE: Duration = Duration::from_secs(120);

/// Rows and bytes of one statement.
const ROWS: usize = 2_000;
const BYTES: usize = 1024 * 1024;

const LOCK: &str = "select flushed_no, hash, tables, hubs from sf_flush
    where part = $1 and epoch = $2 for update";
const EPOCH: &str = "select epoch from sf_flush where part = $1";
const CLEAR: &str = "delete from sf_kv where part = $1 and tbl = any($2)";
const OLD: &str = "select x.tbl, k.digest
    from unnest($2::int[], $3::bytea[], $4::bytea[]) x(tbl, key, tail)
    join sf_kv k on k.part = $1 and k.tbl = x.tbl and k.key = x.key and k.tail = x.tail";
const PUT: &str = "insert into sf_kv(part, tbl, key, tail, rest, val, digest)
    select $1, x.* from unnest($2::int[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bytea[],
      $7::bytea[]) x
    on conflict (part, tbl, key, tail) do update
      set val = excluded.val, digest = excluded.digest";
const DELETE: &str = "delete from sf_kv k
    using unnest($2::int[], $3::bytea[], $4::bytea[]) x(tbl, key, tail)
    where k.part = $1 and k.tbl = x.tbl and k.key = x.key and k.tail = x.tail";
const DONE: &str = "update sf_flush set flushed_no = $2, hash = $3, tables = $4, hubs = $5,
    meta = $6 where part = $1";
const CUT: &str = "delete from sf_log where part = $1 and no <= $2";

/// Flushes one partition.
pub(crate) async fn flush(shared: &PostgresContext, flush: &Flush) -> Result<()> {
    let doing = "flush";
    let partition = flush.partition;
    shared.wait_for_standbys().await;
    let links = links(shared, flush)?;
    let mut lent = shared.flushers.take().await?;
    // A frozen primary would hold the partition for all of that time.
    let (servers, timeline) = (&shared.servers, lent.timeline);
    let work = within(DEADLINE, fold(&mut lent, flush, &links));
    let done = servers.while_newest(timeline, work).await;
    let done = match done {
        Ok(None) => {
            let mut holdings = shared.holdings.lock();
            if let Some(held) = holdings.get_mut(&partition) {
                held.flushed(flush.up_to, &flush.trims);
            }
            Ok(None)
        }
        other => other,
    };
    if matches!(done, Ok(None)) && !flush.trims.is_empty() {
        // The flush is done; what cannot be dropped now is dropped the next time.
        if let Err(fault) = within(DEADLINE, segments::drop_trimmed(shared, &lent)).await {
            tracing::warn!(
                event = "postgres.trim_failed",
                ?fault,
                "trimmed segments were not dropped"
            );
        }
    }
    match lent.settle(done) {
        Ok(None) => Ok(()),
        Ok(Some(epoch)) => Err(Error::new(ErrorKind::Fenced { partition, epoch })),
        Err(fault) => Err(fault.of(partition, doing)),
    }
}

/// The entries that the flush covers, as far as they are not flushed yet.
fn links(shared: &PostgresContext, flush: &Flush) -> Result<Vec<EntryLink>> {
    let holdings = shared.holdings.lock();
    let (partition, up_to) = (flush.partition, flush.up_to);
    let held = holdings.get(&partition);
    let held = held.filter(|held| held.epoch == flush.epoch);
    let Some(held) = held else {
        let epoch = holdings.get(&partition).map_or(Epoch(0), |held| held.epoch);
        return Err(Error::new(ErrorKind::Fenced { partition, epoch }));
    };
    if up_to > held.last {
        let what = format!("a flush reaches {up_to}, the log ends at {}", held.last);
        return Err(Error::new(ErrorKind::Lost { partition, what }));
    }
    let covered = held.links.iter().filter(|link| link.number <= up_to);
    Ok(covered.cloned().collect())
}

/// Writes everything; answers the epoch that fenced it, if one did.
async fn fold(
    session: &mut Session,
    flush: &Flush,
    links: &[EntryLink],
) -> std::result::Result<Option<Epoch>, StatementError> {
    let part = flush.partition.0 as i32;
    let malformed =
        |_| StatementError::Damaged("what the last flush left is malformed".to_string());
    session.forget_warnings();
    let work = session.client.transaction().await?;
    let row = work
        .query_opt(LOCK, &[&part, &(flush.epoch.0 as i64)])
        .await?;
    let Some(row) = row else {
        let row = work.query_opt(EPOCH, &[&part]).await?;
        work.rollback().await?;
        let epoch = row.map_or(0, |row| row.get::<_, i64>(0));
        return Ok(Some(Epoch(epoch as u64)));
    };
    let flushed = EntryNumber(row.try_get::<_, i64>(0)? as u64);
    let mut tables = digest::decode_tables(bytes(&row, 2)?).map_err(malformed)?;
    let mut hubs = digest::decode_hubs(bytes(&row, 3)?).map_err(malformed)?;
    clear(&work, flush, &mut tables).await?;
    for rows in batches(&flush.rows) {
        put(&work, flush.partition, rows, &mut tables).await?;
    }
    advance(&mut hubs, links.iter());
    trim(&mut hubs, flush);
    let hash = match links.last() {
        Some(link) if link.number > flushed => link.hash as i64,
        _ => row.try_get(1)?,
    };
    let up_to = flush.up_to.max(flushed).0 as i64;
    let (tables, hubs) = (digest::encode_tables(&tables), digest::encode_hubs(&hubs));
    work.execute(
        DONE,
        &[&part, &up_to, &hash, &tables, &hubs, &&flush.meta[..]],
    )
    .await?;
    work.execute(CUT, &[&part, &up_to]).await?;
    work.commit().await?;
    session.expect_no_warning()?;
    Ok(None)
}

fn bytes(row: &tokio_postgres::Row, index: usize) -> std::result::Result<Bytes, StatementError> {
    Ok(Bytes::copy_from_slice(row.try_get(index)?))
}

fn trim(hubs: &mut FlushedStreams, flush: &Flush) {
    for (stream, first) in &flush.trims {
        let ends = hubs.entry(*stream).or_default();
        ends.first = ends.first.max(*first);
        // A restored stream may begin behind events that were never here.
        ends.next = ends.next.max(ends.first);
    }
}

async fn clear(
    work: &Transaction<'_>,
    flush: &Flush,
    tables: &mut TableSums,
) -> std::result::Result<(), StatementError> {
    if flush.clears.is_empty() {
        return Ok(());
    }
    let numbers: BTreeSet<u32> = flush.clears.iter().map(|table| table.0).collect();
    let cleared: Vec<i32> = numbers.iter().map(|table| *table as i32).collect();
    work.execute(CLEAR, &[&(flush.partition.0 as i32), &cleared])
        .await?;
    tables.retain(|table, _| !numbers.contains(table));
    Ok(())
}

/// Cuts rows into what one statement takes.
fn batches(rows: &[FlushedRow]) -> Vec<&[FlushedRow]> {
    let mut all = Vec::new();
    let (mut start, mut size) = (0, 0);
    for (index, row) in rows.iter().enumerate() {
        let weight = row.key.len() + row.value.as_ref().map_or(0, Bytes::len);
        if index > start && (index - start >= ROWS || size + weight > BYTES) {
            all.push(&rows[start..index]);
            (start, size) = (index, 0);
        }
        size += weight;
    }
    if start < rows.len() {
        all.push(&rows[start..]);
    }
    all
}

/// Rows column by column.
#[derive(Default)]
struct RowColumns<'a> {
    tables: Vec<i32>,
    keys: Vec<&'a [u8]>,
    tails: Vec<Vec<u8>>,
    rests: Vec<Option<&'a [u8]>>,
}

impl<'a> RowColumns<'a> {
    fn push(&mut self, row: &'a FlushedRow) {
        let SplitKey { head, tail, rest } = digest::split(&row.key);
        self.tables.push(row.table.0 as i32);
        self.keys.push(head);
        self.tails.push(tail);
        self.rests.push(rest);
    }
}

async fn put(
    work: &Transaction<'_>,
    partition: Partition,
    rows: &[FlushedRow],
    tables: &mut TableSums,
) -> std::result::Result<(), StatementError> {
    let part = partition.0 as i32;
    let (mut all, mut puts, mut gone) = (
        RowColumns::default(),
        RowColumns::default(),
        RowColumns::default(),
    );
    let (mut values, mut digests): (Vec<&[u8]>, Vec<Vec<u8>>) = (Vec::new(), Vec::new());
    for row in rows {
        all.push(row);
        let Some(value) = &row.value else {
            gone.push(row);
            continue;
        };
        let digest = digest::row(partition, row.table, &row.key, value);
        tables.entry(row.table.0).or_default().add(digest);
        puts.push(row);
        values.push(value);
        digests.push(digest.to_le_bytes().to_vec());
    }
    let old = work
        .query(OLD, &[&part, &all.tables, &all.keys, &all.tails])
        .await?;
    for row in old {
        let table = row.try_get::<_, i32>(0)? as u32;
        let digest = digest::from_column(row.try_get(1)?).ok_or_else(|| {
            StatementError::Damaged(format!("a digest in table {table} is malformed"))
        })?;
        tables.entry(table).or_default().remove(digest);
    }
    if !puts.tables.is_empty() {
        let c = &puts;
        work.execute(
            PUT,
            &[
                &part, &c.tables, &c.keys, &c.tails, &c.rests, &values, &digests,
            ],
        )
        .await?;
    }
    if !gone.tables.is_empty() {
        work.execute(DELETE, &[&part, &gone.tables, &gone.keys, &gone.tails])
            .await?;
    }
    Ok(())
}
