//! Dropping event segments that are trimmed.
//!
//! A segment goes as a whole, once every stream in it is trimmed behind it: that
//! costs a few kilobytes of log where deleting the rows would log all of them
//! again. The newest segment always stays.

use std::collections::HashMap;

use bytes::Bytes;

use crate::context::PostgresContext;
use crate::digest::{self, FlushedStreams};
use crate::schema::segment_name;
use crate::session::Session;
use crate::statement_error::StatementError;

const SEGMENTS: &str = "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'sf_event'::regclass and not i.inhdetachpending";
const PENDING: &str = "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'sf_event'::regclass and i.inhdetachpending";
const HUBS: &str = "select part, hubs from sf_flush";

/// Segments looked at per flush.
const AT_ONCE: usize = 16;

/// Completes an interrupted drop: only one segment at a time can have a pending detach.
async fn drop_pending(session: &Session) -> Result<(), StatementError> {
    for row in session.query(PENDING, &[]).await? {
        let name: &str = row.try_get(0)?;
        let end = format!("alter table sf_event detach partition {name} finalize");
        session.client.batch_execute(&end).await?;
        session
            .client
            .batch_execute(&format!("drop table {name}"))
            .await?;
    }
    Ok(())
}

/// Drops the oldest segments, as far as they are trimmed.
pub(crate) async fn drop_trimmed(
    shared: &PostgresContext,
    session: &Session,
) -> Result<(), StatementError> {
    drop_pending(session).await?;
    let mut all: Vec<i32> = session
        .query(SEGMENTS, &[])
        .await?
        .iter()
        .filter_map(|row| {
            row.get::<_, &str>(0)
                .strip_prefix("sf_event_")?
                .parse()
                .ok()
        })
        .collect();
    all.sort_unstable();
    all.pop();
    if all.is_empty() {
        return Ok(());
    }
    let mut ends: HashMap<i32, FlushedStreams> = HashMap::new();
    for row in session.query(HUBS, &[]).await? {
        let hubs = Bytes::copy_from_slice(row.try_get(1)?);
        let hubs = digest::decode_hubs(hubs)
            .map_err(|_| StatementError::Damaged("what a flush left is malformed".to_string()))?;
        ends.insert(row.try_get(0)?, hubs);
    }
    for segment in all.into_iter().take(AT_ONCE) {
        if !is_trimmed(session, segment, &ends).await? {
            break;
        }
        let name = segment_name(segment);
        shared.segments.lock().remove(&segment);
        let detach = format!("alter table sf_event detach partition {name} concurrently");
        session.client.batch_execute(&detach).await?;
        let drop = format!("drop table {name}");
        session.client.batch_execute(&drop).await?;
        tracing::info!(
            event = "postgres.segment_dropped",
            segment,
            "a segment of events was dropped"
        );
    }
    Ok(())
}

async fn is_trimmed(
    session: &Session,
    segment: i32,
    ends: &HashMap<i32, FlushedStreams>,
) -> Result<bool, StatementError> {
    let name = segment_name(segment);
    let question =
        format!("select part, stream, max(first_seq + n) from {name} group by part, stream");
    let rows = session.client.query(&question, &[]).await?;
    Ok(rows.iter().all(|row| {
        let stream = steadfast_core::id::StreamId(row.get::<_, i32>(1) as u32);
        let hubs = ends.get(&row.get::<_, i32>(0));
        let first = hubs
            .and_then(|hubs| hubs.get(&stream))
            .map(|ends| ends.first);
        first.is_some_and(|first| row.get::<_, i64>(2) as u64 <= first.0)
    }))
}
