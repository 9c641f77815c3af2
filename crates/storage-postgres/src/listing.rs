//! What a database holds, and who uses it.

use bytes::Bytes;
use steadfast_core::id::{Partition, TableId};

use crate::digest;
use crate::session::Session;
use crate::statement_error::StatementError;

const PARTITIONS: &str = "select part from sf_partition where moved is null";
const MOVED: &str = "select part, moved from sf_partition where moved is not null";
const TABLES: &str = "select tables from sf_flush where part = $1";
const NODES: &str = "select node from sf_node where expires > clock_timestamp()";

/// Partitions that have ever had an owner, in order.
pub(crate) async fn partitions(session: &Session) -> Result<Vec<Partition>, StatementError> {
    let rows = session.query(PARTITIONS, &[]).await?;
    let number = |row: &tokio_postgres::Row| row.try_get::<_, i32>(0);
    let found: Result<Vec<i32>, _> = rows.iter().map(number).collect();
    // The column is signed, the number is not.
    let mut found: Vec<_> = found?.into_iter().map(|n| Partition(n as u32)).collect();
    found.sort_unstable();
    Ok(found)
}

/// Partitions that were moved to another database, and its identity.
pub(crate) async fn moved(session: &Session) -> Result<Vec<(Partition, String)>, StatementError> {
    let rows = session.query(MOVED, &[]).await?;
    let mut found = Vec::new();
    for row in &rows {
        found.push((Partition(row.try_get::<_, i32>(0)? as u32), row.try_get(1)?));
    }
    found.sort_unstable();
    Ok(found)
}

/// Tables of a partition that have flushed rows, in order. Their digests say so,
/// because a cut file would hide a table.
pub(crate) async fn tables(
    session: &Session,
    partition: Partition,
) -> Result<Vec<TableId>, StatementError> {
    let rows = session.query(TABLES, &[&(partition.0 as i32)]).await?;
    let Some(row) = rows.first() else {
        return Ok(Vec::new());
    };
    let tables = Bytes::copy_from_slice(row.try_get(0)?);
    let tables = digest::decode_tables(tables).map_err(|_| {
        StatementError::Damaged("what the last flush left is malformed".to_string())
    })?;
    Ok(tables.into_keys().map(TableId).collect())
}

/// Nodes whose lease has not ended, in order.
pub(crate) async fn nodes(session: &Session) -> Result<Vec<u32>, StatementError> {
    let rows = session.query(NODES, &[]).await?;
    let number = |row: &tokio_postgres::Row| row.try_get::<_, i32>(0);
    let found: Result<Vec<i32>, _> = rows.iter().map(number).collect();
    let mut found: Vec<_> = found?.into_iter().map(|node| node as u32).collect();
    found.sort_unstable();
    Ok(found)
}
