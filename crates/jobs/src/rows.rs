//! The rows of jobs, and their keys.
//!
//! A job's key is its collection's, a zero byte, and its name, all in lower case.
//! Rows are records; the documents inside them are JSON.

use bytes::Bytes;
use steadfast_collections::schema::{Record, WriteVersion, decode_value, encode_value};
use steadfast_core::id::TableId;
use steadfast_partition::{Address, Turn, TurnError, service_table};

use crate::id::KIND;

/// Key of a collection to the collection.
pub(crate) const COLLECTIONS: TableId = service_table(KIND, 0);
/// Key of a job to its definition.
pub(crate) const JOBS: TableId = service_table(KIND, 1);
/// Key of a job to its status.
pub(crate) const STATUS: TableId = service_table(KIND, 2);
/// Key of a job and number to a history item.
pub(crate) const HISTORY: TableId = service_table(KIND, 3);
/// Key of a job to the recent requests to run it.
pub(crate) const REQUESTS: TableId = service_table(KIND, 4);
/// Numbers of the whole partition.
pub(crate) const COUNTS: TableId = service_table(KIND, 5);

const JOB_COUNT: &[u8] = b"jobs";

/// The key of a job's rows.
pub(crate) fn job_key(address: &Address) -> Vec<u8> {
    let mut key = address.name.to_vec();
    key.push(0);
    key.extend_from_slice(&address.key);
    key
}

/// The key of a history item: newest first.
pub(crate) fn history_key(job: &[u8], number: u64) -> Vec<u8> {
    let mut key = job.to_vec();
    key.push(0);
    key.extend_from_slice(&(u64::MAX - number).to_be_bytes());
    key
}

/// Encodes a row or message into exactly sized memory: rows stay in memory.
pub(crate) fn encode<T: Record>(value: &T) -> Bytes {
    let bytes = encode_value(value, WriteVersion::LATEST);
    // Documents are bounded far below the limits of a value.
    Bytes::copy_from_slice(&bytes.expect("within the limits of a value"))
}

/// Decodes a row or message; `None` if the bytes are invalid.
pub(crate) fn decode<T: Record>(bytes: &[u8]) -> Option<T> {
    decode_value(bytes).ok()
}

/// Reads a row as a value.
pub(crate) fn read<T: Record>(
    turn: &mut Turn<'_>,
    table: TableId,
    key: &[u8],
) -> Result<Option<T>, TurnError> {
    let row = turn.get(table, key)?;
    Ok(row.and_then(|row| decode(&row)))
}

/// The number of jobs in the partition.
pub(crate) fn job_count(turn: &mut Turn<'_>) -> Result<u64, TurnError> {
    Ok(number(turn, COUNTS, JOB_COUNT)?.unwrap_or(0))
}

pub(crate) fn put_job_count(turn: &mut Turn<'_>, count: u64) {
    put_number(turn, COUNTS, JOB_COUNT, count);
}

/// A row that is a number.
pub(crate) fn number(
    turn: &mut Turn<'_>,
    table: TableId,
    key: &[u8],
) -> Result<Option<u64>, TurnError> {
    let row = turn.get(table, key)?;
    Ok(row.and_then(|row| row[..].try_into().ok().map(u64::from_be_bytes)))
}

pub(crate) fn put_number(turn: &mut Turn<'_>, table: TableId, key: &[u8], number: u64) {
    turn.put(table, key, number.to_be_bytes().to_vec());
}
