//! A partition's rows on their way to another database.
//!
//! Rows are copied as they are, with their checksums and digests, in one transaction
//! of the target, and everything is verified there. Only then the source is closed:
//! from then on no node can acquire the partition there, even with an old map. The rows
//! of the source are removed last. Each step can be repeated.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use steadfast_core::id::{Epoch, Partition};
use steadfast_storage::{Error, ErrorKind as StorageKind, Result};
use tokio_postgres::CopyInSink;

use crate::engine::PostgresEngine;
use crate::error::ErrorKind;
use crate::schema::{self, SHARDED};
use crate::scrub;
use crate::session::{Session, within};
use crate::statement_error::StatementError;

/// How long a server may be silent while a partition is copied.
const SILENCE: Duration = Duration::from_secs(60);

/// How long a statement over all rows of a partition may take.
const REMOVAL: Duration = Duration::from_secs(600);

/// Tables and their columns, all with `part`.
const TABLES: [(&str, &str); 4] = [
    (
        "sf_flush",
        "part, epoch, flushed_no, hash, tables, hubs, meta",
    ),
    ("sf_log", "part, no, piece, epoch, crc, body"),
    ("sf_kv", "part, tbl, key, tail, rest, val, digest"),
    (
        "sf_event",
        "seg, stream, part, first_seq, first_off, n, t0, t1, crc, body",
    ),
];

const STANDS: &str = "select epoch, commit_no, moved from sf_partition where part = $1";
const SEGMENTS: &str = "select distinct seg from sf_event where part = $1";
const PLACE: &str = "insert into sf_partition(part, epoch, commit_no) values ($1, $2, $3)";
const CLOSE: &str = "update sf_partition
    set epoch = epoch + 1, owner = null, owner_inc = null, moved = $3
    where part = $1 and epoch = $2 and moved is null returning epoch";
const READER: &str = "update sf_meta set v = $1::text
    where k = 'reader' and v::int < ($1::text)::int";
/// What a flush left and where the log ends: the same on both sides, or nothing is.
const SUMMARY: &str = "select p.commit_no, f.flushed_no, f.hash, f.tables, f.hubs, f.meta,
      (select count(*) from sf_log l where l.part = p.part),
      (select count(*) from sf_kv k where k.part = p.part),
      (select count(*) from sf_event e where e.part = p.part)
    from sf_partition p join sf_flush f on f.part = p.part where p.part = $1";

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferReport {
    /// Rows of log, tables and events.
    pub rows: u64,
    /// Bytes that went over the wire.
    pub bytes: u64,
}

impl PostgresEngine {
    /// From now on versions that know nothing of several databases are refused.
    pub(crate) async fn expect_sharding(&self) -> Result<()> {
        let lent = self.shared().keepers.take().await?;
        let done = within(SILENCE, lent.write(READER, &[&SHARDED])).await;
        let done = lent.settle(done);
        done.map(drop)
            .map_err(|fault| fault.into_error("mark its schema"))
    }

    /// Copies a partition that is held in `epoch` from another database, over whatever
    /// an earlier attempt left here, and verifies it.
    pub async fn receive(
        &self,
        from: &PostgresEngine,
        partition: Partition,
        epoch: Epoch,
    ) -> Result<TransferReport> {
        let doing = "copy a partition";
        let source = from.shared().keepers.take().await?;
        let mut target = self.shared().keepers.take().await?;
        let schema = self.shared().options().schema.clone();
        let copied = copy(&source, &mut target, &schema, partition, epoch).await;
        let copied = match copied {
            Ok(copied) => verify(&source, &target, partition).await.map(|()| copied),
            Err(fault) => Err(fault),
        };
        // A copy that was interrupted leaves both connections in the middle of it.
        match copied {
            Ok(copied) => {
                let (_, _) = (source.settle(Ok(())), target.settle(Ok(())));
                Ok(copied)
            }
            Err(fault) => Err(fault.of(partition, doing)),
        }
    }

    /// Closes a partition that is held in `epoch`: it is in another database now.
    pub async fn close_moved(
        &self,
        partition: Partition,
        epoch: Epoch,
        target: &str,
    ) -> Result<()> {
        let mut lent = self.shared().keepers.take().await?;
        let done = within(SILENCE, close(&mut lent, partition, epoch, target)).await;
        let done = lent.settle(done);
        done.map_err(|fault| fault.of(partition, "close a partition"))
    }

    /// Removes the rows of a partition that was moved away.
    pub async fn remove_moved(&self, partition: Partition) -> Result<()> {
        let mut lent = self.shared().keepers.take().await?;
        let done = within(REMOVAL, remove(&mut lent, partition)).await;
        let done = lent.settle(done);
        done.map_err(|fault| fault.of(partition, "remove a partition that was moved"))
    }
}

async fn copy(
    source: &Session,
    target: &mut Session,
    schema: &str,
    partition: Partition,
    epoch: Epoch,
) -> std::result::Result<TransferReport, StatementError> {
    let part = partition.0 as i32;
    let rows = source.query(STANDS, &[&part]).await?;
    let held = rows
        .first()
        .filter(|row| row.get::<_, i64>(0) as u64 == epoch.0);
    let Some(held) = held else {
        return Err(Error::new(StorageKind::Fenced { partition, epoch }).into());
    };
    let last: i64 = held.try_get(1)?;
    let segments = source.query(SEGMENTS, &[&part]).await?;
    let segments: Vec<i32> = segments.iter().map(|row| row.get(0)).collect();
    schema::add_segments(target, schema, &segments).await?;
    target.forget_warnings();
    let work = target.client.transaction().await?;
    clear(&work, part).await?;
    work.execute("delete from sf_partition where part = $1", &[&part])
        .await?;
    let mut copied = TransferReport::default();
    for (table, columns) in TABLES {
        let out = format!(
            "copy (select {columns} from {table} where part = {part}) to stdout (format binary)"
        );
        let rows = source.client.copy_out(&out).await?;
        let into = format!("copy {table} ({columns}) from stdin (format binary)");
        let sink: CopyInSink<Bytes> = work.copy_in(&into).await?;
        let (mut rows, mut sink) = (pin!(rows), pin!(sink));
        while let Some(piece) = within(SILENCE, async { Ok(rows.next().await) }).await? {
            let piece = piece?;
            copied.bytes += piece.len() as u64;
            within(SILENCE, async { Ok(sink.send(piece).await?) }).await?;
        }
        copied.rows += within(REMOVAL, async { Ok(sink.as_mut().finish().await?) }).await?;
    }
    // The source is closed one epoch higher, and the next owner is one above that.
    work.execute(PLACE, &[&part, &(epoch.next().0 as i64), &last])
        .await?;
    within(REMOVAL, async { Ok(work.commit().await?) }).await?;
    target.expect_no_warning()?;
    Ok(copied)
}

/// Checks every row and event of the copy, and that it is the whole of the source.
async fn verify(
    source: &Session,
    target: &Session,
    partition: Partition,
) -> std::result::Result<(), StatementError> {
    scrub::whole(target, partition).await?;
    if summary(source, partition).await? == summary(target, partition).await? {
        return Ok(());
    }
    let what = "the copy differs from what was copied".to_string();
    Err(StatementError::Damaged(what))
}

type PartitionSummary = (Vec<i64>, Vec<Vec<u8>>);

async fn summary(
    session: &Session,
    partition: Partition,
) -> std::result::Result<PartitionSummary, StatementError> {
    let rows = session.query(SUMMARY, &[&(partition.0 as i32)]).await?;
    let Some(row) = rows.first() else {
        return Err(StatementError::Damaged("it is not there".to_string()));
    };
    let numbers = [0, 1, 2, 6, 7, 8].map(|index| row.get::<_, i64>(index));
    let bytes = [3, 4, 5].map(|index| row.get::<_, Vec<u8>>(index));
    Ok((numbers.to_vec(), bytes.to_vec()))
}

async fn clear(
    work: &tokio_postgres::Transaction<'_>,
    part: i32,
) -> std::result::Result<(), StatementError> {
    for (table, _) in TABLES {
        let delete = format!("delete from {table} where part = $1");
        work.execute(&delete, &[&part]).await?;
    }
    Ok(())
}

async fn close(
    session: &mut Session,
    partition: Partition,
    epoch: Epoch,
    target: &str,
) -> std::result::Result<(), StatementError> {
    session.forget_warnings();
    let work = session.client.transaction().await?;
    work.execute(READER, &[&SHARDED]).await?;
    let (part, number) = (partition.0 as i32, epoch.0 as i64);
    let closed = work.query_opt(CLOSE, &[&part, &number, &target]).await?;
    if closed.is_none() {
        let epoch = epoch.next();
        return Err(Error::new(StorageKind::Fenced { partition, epoch }).into());
    }
    work.commit().await?;
    session.expect_no_warning()
}

async fn remove(
    session: &mut Session,
    partition: Partition,
) -> std::result::Result<(), StatementError> {
    let part = partition.0 as i32;
    session.forget_warnings();
    let work = session.client.transaction().await?;
    let rows = work.query(STANDS, &[&part]).await?;
    let is_moved = rows.first().is_some_and(|row| {
        let moved: Option<String> = row.get(2);
        moved.is_some()
    });
    if !is_moved {
        let what = format!("partition {partition} is still in the database that it should leave");
        return Err(Error::new(ErrorKind::BadMove { what }).into());
    }
    clear(&work, part).await?;
    work.commit().await?;
    session.expect_no_warning()
}
