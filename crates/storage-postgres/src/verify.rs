//! Whether the database still holds what it acknowledged.
//!
//! A data file that was cut shows up as fewer rows, without any error. So the log
//! must be dense, each record must carry the hash of the one before, each table
//! must have the rows that its digest counts, and each stream must reach without
//! a gap from where it was trimmed to where it ends. What fails is never skipped.

use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use steadfast_core::clock::Timestamp;
use steadfast_core::id::{EntryNumber, Offset, Partition, Sequence, StreamId, TableId};
use steadfast_storage::engine::{BATCH_HEADER_BYTES, EventBatch};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, RowStream};

use crate::digest::{self, FlushedStreams, TableSums};
use crate::known_partitions::EntryLink;
use crate::record::{self, Record};
use crate::session::{Session, within};
use crate::statement_error::StatementError;

const LOG: &str = "select no, piece, crc, body from sf_log where part = $1 and no > $2
    order by no, piece";
const ROWS: &str = "select tbl, key, rest, val, digest from sf_kv where part = $1
    order by part, tbl, key, tail";
const STREAMS: &str = "select stream, min(first_seq), max(first_seq + n), sum(n)::bigint,
    max(first_off + $2::int + octet_length(body)) from sf_event where part = $1 group by stream";
const BATCHES: &str = "select stream, first_seq, first_off, n, t0, crc, body from sf_event
    where part = $1 order by part, stream, first_seq";

/// How long a server may be silent while it is read, however much there is.
const SILENCE: Duration = Duration::from_secs(30);

/// How long counting a partition's events may take.
const COUNTING: Duration = Duration::from_secs(300);

/// The next row, unless the server has gone silent.
async fn next(rows: &mut Pin<&mut RowStream>) -> Result<Option<Row>, StatementError> {
    within(SILENCE, async { Ok(rows.next().await.transpose()?) }).await
}

/// Checks the log after an entry and answers what it holds.
pub(crate) async fn log(
    session: &Session,
    partition: Partition,
    after: EntryNumber,
    hash: u64,
    last: EntryNumber,
) -> Result<Vec<EntryLink>, StatementError> {
    let statement = session.statement(LOG).await?;
    let values: [&(dyn ToSql + Sync); 2] = [&(partition.0 as i32), &(after.0 as i64)];
    let rows = session.client.query_raw(&statement, values).await?;
    let mut rows = pin!(rows);
    let mut chain = RecordChain {
        partition,
        number: after,
        hash,
        pieces: BytesMut::new(),
        next_piece: 0,
        links: Vec::new(),
    };
    while let Some(row) = next(&mut rows).await? {
        chain.take(&row)?;
    }
    chain.close()?;
    if chain.number != last {
        let what = format!("the log ends at entry {}, not at {last}", chain.number);
        return Err(StatementError::Damaged(what));
    }
    Ok(chain.links)
}

/// Follows the records of a partition.
struct RecordChain {
    partition: Partition,
    /// The last whole record, or the one that is being joined.
    number: EntryNumber,
    hash: u64,
    pieces: BytesMut,
    next_piece: i32,
    links: Vec<EntryLink>,
}

impl RecordChain {
    fn take(&mut self, row: &Row) -> Result<(), StatementError> {
        let number = EntryNumber(row.try_get::<_, i64>(0)? as u64);
        let piece: i32 = row.try_get(1)?;
        if piece == 0 {
            self.close()?;
            if number != self.number.next() {
                let what = format!("entry {} is missing from the log", self.number.next());
                return Err(StatementError::Damaged(what));
            }
            self.number = number;
        } else if number != self.number || piece != self.next_piece {
            let what = format!("a piece of entry {number} is missing from the log");
            return Err(StatementError::Damaged(what));
        }
        let body: &[u8] = row.try_get(3)?;
        if record::checksum(self.partition, number, piece, body) != row.try_get::<_, i32>(2)? {
            let what = format!("piece {piece} of entry {number} fails its checksum");
            return Err(StatementError::Damaged(what));
        }
        self.pieces.extend_from_slice(body);
        self.next_piece = piece + 1;
        Ok(())
    }

    /// Checks the record that has been joined.
    fn close(&mut self) -> Result<(), StatementError> {
        if self.next_piece == 0 {
            return Ok(());
        }
        self.next_piece = 0;
        let number = self.number;
        let bytes = std::mem::take(&mut self.pieces).freeze();
        let record = Record::decode(bytes)
            .map_err(|_| StatementError::Damaged(format!("entry {number} is malformed")))?;
        if record.previous != self.hash {
            let what = format!("entry {number} does not follow the entry before it");
            return Err(StatementError::Damaged(what));
        }
        self.hash = record.hash;
        let ends = record.batches.iter();
        self.links.push(EntryLink {
            number,
            hash: record.hash,
            ends: ends.map(|b| (b.stream, b.next(), b.end())).collect(),
        });
        Ok(())
    }
}

/// Checks every row of a partition and the digests of its tables.
pub(crate) async fn tables(
    session: &Session,
    partition: Partition,
    expected: &TableSums,
) -> Result<(), StatementError> {
    let statement = session.statement(ROWS).await?;
    let values: [&(dyn ToSql + Sync); 1] = [&(partition.0 as i32)];
    let rows = session.client.query_raw(&statement, values).await?;
    let mut rows = pin!(rows);
    let mut found = TableSums::new();
    while let Some(row) = next(&mut rows).await? {
        let table = TableId(row.try_get::<_, i32>(0)? as u32);
        let digest = checked_row(partition, table, &row, 1)?.2;
        found.entry(table.0).or_default().add(digest);
    }
    if found == *expected {
        return Ok(());
    }
    let tables = expected.keys().chain(found.keys());
    let differs = |table: &&u32| found.get(table) != expected.get(table);
    let table = tables.copied().find(|table| differs(&table)).unwrap_or(0);
    let rows = |all: &TableSums| all.get(&table).copied().unwrap_or_default().rows;
    Err(StatementError::Damaged(format!(
        "table {table} should have {} rows and has {}, or their digest differs",
        rows(expected),
        rows(&found)
    )))
}

/// The key of a row, whose indexed part and rest stand at `at`.
pub(crate) fn row_key(row: &Row, at: usize) -> Result<Bytes, StatementError> {
    let head: &[u8] = row.try_get(at)?;
    Ok(match row.try_get::<_, Option<&[u8]>>(at + 1)? {
        Some(rest) => Bytes::from([head, rest].concat()),
        None => Bytes::copy_from_slice(head),
    })
}

/// Key, value and digest of a row whose columns start at `at`: key, rest, value,
/// digest.
pub(crate) fn checked_row(
    partition: Partition,
    table: TableId,
    row: &Row,
    at: usize,
) -> Result<(Bytes, Bytes, u128), StatementError> {
    let key = row_key(row, at)?;
    let value: &[u8] = row.try_get(at + 2)?;
    let digest = digest::row(partition, table, &key, value);
    if digest::from_column(row.try_get(at + 3)?) != Some(digest) {
        let what = format!("a row of table {} fails its digest", table.0);
        return Err(StatementError::Damaged(what));
    }
    Ok((key, Bytes::copy_from_slice(value), digest))
}

/// Checks that streams are dense from where they were trimmed to where they end.
pub(crate) async fn streams(
    session: &Session,
    partition: Partition,
    expected: &FlushedStreams,
) -> Result<(), StatementError> {
    let header = BATCH_HEADER_BYTES as i32;
    let part = partition.0 as i32;
    let rows = within(COUNTING, session.query(STREAMS, &[&part, &header])).await?;
    let mut found = FlushedStreams::new();
    for row in rows {
        let stream = StreamId(row.try_get::<_, i32>(0)? as u32);
        let (first, next): (i64, i64) = (row.try_get(1)?, row.try_get(2)?);
        if row.try_get::<_, i64>(3)? != next - first {
            let what = format!("events are missing from stream {}", stream.0);
            return Err(StatementError::Damaged(what));
        }
        let ends = digest::FlushedEnds {
            first: Sequence(first as u64),
            next: Sequence(next as u64),
            end: Offset(row.try_get::<_, i64>(4)? as u64),
        };
        found.insert(stream, ends);
    }
    for (stream, ends) in expected {
        let is_right = match found.get(stream) {
            Some(found) => {
                (found.next, found.end) == (ends.next, ends.end)
                    && (found.first <= ends.first || ends.first == ends.next)
            }
            // Everything was trimmed.
            None => ends.first == ends.next,
        };
        if !is_right {
            let what = format!("stream {} does not reach event {}", stream.0, ends.next);
            return Err(StatementError::Damaged(what));
        }
    }
    Ok(())
}

/// Checks the bytes of every event batch.
pub(crate) async fn batches(
    session: &Session,
    partition: Partition,
) -> Result<u64, StatementError> {
    let statement = session.statement(BATCHES).await?;
    let values: [&(dyn ToSql + Sync); 1] = [&(partition.0 as i32)];
    let rows = session.client.query_raw(&statement, values).await?;
    let mut rows = pin!(rows);
    let mut count = 0;
    while let Some(row) = next(&mut rows).await? {
        checked_batch(&row)?;
        count += 1;
    }
    Ok(count)
}

/// A batch whose columns are stream, first, offset, count, time, checksum, bytes.
pub(crate) fn checked_batch(row: &Row) -> Result<EventBatch, StatementError> {
    let batch = EventBatch::new(
        StreamId(row.try_get::<_, i32>(0)? as u32),
        Sequence(row.try_get::<_, i64>(1)? as u64),
        Offset(row.try_get::<_, i64>(2)? as u64),
        row.try_get::<_, i32>(3)? as u32,
        Timestamp(row.try_get(4)?),
        Bytes::copy_from_slice(row.try_get(6)?),
    );
    if batch.checksum() as i32 == row.try_get::<_, i32>(5)? {
        return Ok(batch);
    }
    let (stream, first) = (batch.stream.0, batch.first);
    let what = format!("events from {first} on of stream {stream} fail their checksum");
    Err(StatementError::Damaged(what))
}
