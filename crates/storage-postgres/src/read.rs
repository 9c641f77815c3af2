//! Reading log, rows and events.
//!
//! Everything is read from the primary and checked on the way. An interrupted read
//! is retried.

use std::ops::Bound;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use steadfast_core::id::{EntryNumber, Epoch, Partition, StreamId, TableId};
use steadfast_storage::engine::{Entry, EventBatch, ReadPosition, Scan, TableRow};
use tokio_postgres::types::ToSql;

use crate::digest;
use crate::record::{self, BatchLocation, Record};
use crate::session::Session;
use crate::statement_error::StatementError;
use crate::verify::{checked_batch, checked_row, row_key};

/// How long a read may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Entries and batches looked at per page.
const PAGE: i64 = 1_000;

const SIZES: &str = "select no, sum(octet_length(body))::bigint from sf_log
    where part = $1 and no >= $2 group by no order by no limit $3";
const LOG: &str = "select no, piece, epoch, crc, body from sf_log
    where part = $1 and no between $2 and $3 order by no, piece";
const BATCHES: &str = "select e.stream, e.first_seq, e.first_off, e.n, e.t0, e.crc, e.body
    from unnest($2::int[], $3::bigint[]) x(stream, first_seq)
    join sf_event e on e.part = $1 and e.stream = x.stream and e.first_seq = x.first_seq";
const GET: &str = "select key, rest, val, digest from sf_kv
    where part = $1 and tbl = $2 and key = $3 and tail = $4";
const SCAN: &str = "select key, rest, val, digest from sf_kv
    where part = $1 and tbl = $2 and key >= $3 and (not $4 or key <= $5)
      and (key, coalesce(rest, '')) >= ($3, $7::bytea)
    order by key, coalesce(rest, '') limit $6";
const SCAN_KEYS: &str = "select key, rest from sf_kv
    where part = $1 and tbl = $2 and key >= $3 and (not $4 or key <= $5)
      and (key, coalesce(rest, '')) >= ($3, $7::bytea)
    order by key, coalesce(rest, '') limit $6";
const AT_SEQUENCE: &str = "select max(first_seq) from sf_event
    where part = $1 and stream = $2 and first_seq <= $3";
const AT_OFFSET: &str = "select first_seq from sf_event
    where part = $1 and stream = $2 and first_off <= $3 order by first_off desc limit 1";
const AT_TIME: &str = "select first_seq from sf_event
    where part = $1 and stream = $2 and seg >= $4 and t0 >= $3 order by first_seq limit 1";
const EVENTS: &str = "select stream, first_seq, first_off, n, t0, crc, body from
    (select *, row_number() over w as place, sum($5::int + octet_length(body)) over w as total
     from (select * from sf_event where part = $1 and stream = $2 and first_seq >= $3
           order by first_seq limit $6) page window w as (order by first_seq)) counted
    where place = 1 or total <= $4 order by first_seq";

/// Entries of a partition from one on.
pub(crate) async fn replay(
    session: &Session,
    partition: Partition,
    from: EntryNumber,
    max_bytes: usize,
) -> Result<Vec<Entry>, StatementError> {
    let part = partition.0 as i32;
    let sizes = session
        .query(SIZES, &[&part, &(from.0 as i64), &PAGE])
        .await?;
    let (mut upper, mut bytes) = (None, 0);
    for row in &sizes {
        if upper.is_some() && bytes + row.get::<_, i64>(1) as usize > max_bytes {
            break;
        }
        bytes += row.get::<_, i64>(1) as usize;
        upper = Some(row.get::<_, i64>(0));
    }
    let Some(upper) = upper else {
        return Ok(Vec::new());
    };
    let rows = session
        .query(LOG, &[&part, &(from.0 as i64), &upper])
        .await?;
    let mut records = join(partition, &rows)?;
    let mut total = 0;
    let fits = records.iter().take_while(|(_, _, record)| {
        let fits = total == 0 || total + record.weight() <= max_bytes;
        total += record.weight().max(1);
        fits
    });
    let fits = fits.count();
    records.truncate(fits);
    fill(session, partition, records).await
}

type NumberedRecord = (EntryNumber, Epoch, Record);

/// Joins pieces to records and checks them.
fn join(
    partition: Partition,
    rows: &[tokio_postgres::Row],
) -> Result<Vec<NumberedRecord>, StatementError> {
    let mut records: Vec<(EntryNumber, Epoch, BytesMut)> = Vec::new();
    for row in rows {
        let number = EntryNumber(row.try_get::<_, i64>(0)? as u64);
        let piece: i32 = row.try_get(1)?;
        let body: &[u8] = row.try_get(4)?;
        if record::checksum(partition, number, piece, body) != row.try_get::<_, i32>(3)? {
            let what = format!("piece {piece} of entry {number} fails its checksum");
            return Err(StatementError::Damaged(what));
        }
        if piece == 0 {
            let epoch = Epoch(row.try_get::<_, i64>(2)? as u64);
            records.push((number, epoch, BytesMut::new()));
        }
        if let Some((_, _, bytes)) = records.last_mut() {
            bytes.extend_from_slice(body);
        }
    }
    let decoded = records.into_iter().map(|(number, epoch, bytes)| {
        let record = Record::decode(bytes.freeze())
            .map_err(|_| StatementError::Damaged(format!("entry {number} is malformed")))?;
        Ok((number, epoch, record))
    });
    decoded.collect()
}

/// Brings the event batches back to their entries.
async fn fill(
    session: &Session,
    partition: Partition,
    records: Vec<NumberedRecord>,
) -> Result<Vec<Entry>, StatementError> {
    let places = || records.iter().flat_map(|(_, _, record)| &record.batches);
    let streams: Vec<i32> = places().map(|place| place.stream.0 as i32).collect();
    let firsts: Vec<i64> = places().map(|place| place.first.0 as i64).collect();
    let mut batches = Vec::new();
    if !streams.is_empty() {
        let values: [&(dyn ToSql + Sync); 3] = [&(partition.0 as i32), &streams, &firsts];
        for row in session.query(BATCHES, &values).await? {
            batches.push(checked_batch(&row)?);
        }
    }
    batches.sort_by_key(|batch| (batch.stream, batch.first));
    let find = |place: &BatchLocation| {
        let found = batches.binary_search_by_key(&(place.stream, place.first), |batch| {
            (batch.stream, batch.first)
        });
        let found = found.ok().map(|index| batches[index].clone());
        let found = found.filter(|batch| BatchLocation::of(batch) == *place);
        found.ok_or_else(|| {
            let (stream, first) = (place.stream.0, place.first);
            StatementError::Damaged(format!("events {first} of stream {stream} are missing"))
        })
    };
    let entries = records.iter().map(|(number, epoch, record)| {
        let batches: Result<Vec<EventBatch>, StatementError> =
            record.batches.iter().map(find).collect();
        let entry = Entry {
            partition,
            epoch: *epoch,
            number: *number,
            body: record.body.clone(),
            batches: batches?,
        };
        if entry.hash() == record.hash {
            Ok(entry)
        } else {
            Err(StatementError::Damaged(format!(
                "entry {number} fails its hash"
            )))
        }
    });
    entries.collect()
}

/// One row of the tables.
pub(crate) async fn get(
    session: &Session,
    partition: Partition,
    table: TableId,
    key: &[u8],
) -> Result<Option<Bytes>, StatementError> {
    let cut = digest::split(key);
    let (part, tbl) = (partition.0 as i32, table.0 as i32);
    let values: [&(dyn ToSql + Sync); 4] = [&part, &tbl, &cut.head, &cut.tail];
    let rows = session.query(GET, &values).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let (_, value, _) = checked_row(partition, table, row, 0)?;
    Ok(Some(value))
}

/// Rows of a range, in key order.
pub(crate) async fn scan(
    session: &Session,
    partition: Partition,
    table: TableId,
    range: &Scan,
) -> Result<Vec<TableRow>, StatementError> {
    let read = |row: &tokio_postgres::Row| {
        let (key, value, _) = checked_row(partition, table, row, 0)?;
        Ok(TableRow { key, value })
    };
    select(session, SCAN, partition, table, range, read).await
}

/// The keys of those rows; without its value a row's digest cannot be checked.
pub(crate) async fn scan_keys(
    session: &Session,
    partition: Partition,
    table: TableId,
    range: &Scan,
) -> Result<Vec<Bytes>, StatementError> {
    let read = |row: &tokio_postgres::Row| {
        let (key, value) = (row_key(row, 0)?, Bytes::new());
        Ok(TableRow { key, value })
    };
    let rows = select(session, SCAN_KEYS, partition, table, range, read).await?;
    Ok(rows.into_iter().map(|row| row.key).collect())
}

async fn select(
    session: &Session,
    statement: &'static str,
    partition: Partition,
    table: TableId,
    range: &Scan,
    read: impl Fn(&tokio_postgres::Row) -> Result<TableRow, StatementError> + Send,
) -> Result<Vec<TableRow>, StatementError> {
    let (part, tbl) = (partition.0 as i32, table.0 as i32);
    let mut from: Bound<Bytes> = range.from.clone();
    let mut rows = Vec::new();
    // The database compares only the indexed part of a key; the rest is compared here.
    while rows.len() < range.limit {
        let want = (range.limit - rows.len()).min(PAGE as usize) + 1;
        let (lower, rest) = match &from {
            Bound::Included(key) | Bound::Excluded(key) => {
                let cut = digest::split(key);
                (cut.head, cut.rest.unwrap_or_default())
            }
            Bound::Unbounded => (&[][..], &[][..]),
        };
        let upper = match &range.to {
            Bound::Included(key) | Bound::Excluded(key) => Some(digest::split(key).head),
            Bound::Unbounded => None,
        };
        let (is_bounded, upper) = (upper.is_some(), upper.unwrap_or_default());
        let limit = want as i64;
        let values: [&(dyn ToSql + Sync); 7] =
            [&part, &tbl, &lower, &is_bounded, &upper, &limit, &rest];
        let found = session.query(statement, &values).await?;
        let is_last = found.len() < want;
        let mut last = None;
        for row in &found {
            let row = read(row)?;
            last = Some(row.key.clone());
            let is_inside = is_after(&from, &row.key) && is_before(&range.to, &row.key);
            if is_inside && rows.len() < range.limit {
                rows.push(row);
            }
        }
        match last {
            Some(key) if !is_last => from = Bound::Excluded(key),
            _ => break,
        }
    }
    Ok(rows)
}

fn is_after(from: &Bound<Bytes>, key: &Bytes) -> bool {
    match from {
        Bound::Included(from) => key >= from,
        Bound::Excluded(from) => key > from,
        Bound::Unbounded => true,
    }
}

fn is_before(to: &Bound<Bytes>, key: &Bytes) -> bool {
    match to {
        Bound::Included(to) => key <= to,
        Bound::Excluded(to) => key < to,
        Bound::Unbounded => true,
    }
}

/// Batches of a stream from a place on.
pub(crate) async fn events(
    session: &Session,
    partition: Partition,
    stream: StreamId,
    from: ReadPosition,
    segment: i32,
    max_bytes: usize,
) -> Result<Vec<EventBatch>, StatementError> {
    let (part, number) = (partition.0 as i32, stream.0 as i32);
    let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let first = match from {
        ReadPosition::Sequence(sequence) => {
            let at = signed(sequence.0);
            let rows = session.query(AT_SEQUENCE, &[&part, &number, &at]).await?;
            let before = rows.first().and_then(|row| row.get::<_, Option<i64>>(0));
            before.unwrap_or(0)
        }
        ReadPosition::Offset(offset) => {
            let at = signed(offset.0);
            let rows = session.query(AT_OFFSET, &[&part, &number, &at]).await?;
            rows.first().map_or(0, |row| row.get::<_, i64>(0))
        }
        ReadPosition::Time(time) => {
            let rows = session
                .query(AT_TIME, &[&part, &number, &time.0, &segment])
                .await?;
            let Some(row) = rows.first() else {
                return Ok(Vec::new());
            };
            row.get(0)
        }
    };
    let header = steadfast_storage::engine::BATCH_HEADER_BYTES as i32;
    let limit = signed(max_bytes as u64);
    let values: [&(dyn ToSql + Sync); 6] = [&part, &number, &first, &limit, &header, &PAGE];
    let rows = session.query(EVENTS, &values).await?;
    let batches: Result<Vec<EventBatch>, StatementError> = rows.iter().map(checked_batch).collect();
    let mut batches = batches?;
    batches.retain(|batch| !from.is_past(batch));
    Ok(batches)
}
