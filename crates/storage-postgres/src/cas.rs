//! Cluster records, changed by compare-and-swap.
//!
//! A lost answer is reported as such: only a read of the record tells whether the
//! swap happened.

use bytes::Bytes;
use steadfast_storage::Result;
use steadfast_storage::engine::{CasOutcome, Record};

use crate::context::PostgresContext;
use crate::session::{Session, within};
use crate::statement_error::StatementError;

/// The one space of records so far.
const SPACE: &str = "cluster";

/// Records about databases that share the partitions begin with this. They are about
/// these very databases, so no backup holds them.
pub(crate) const SHARD_RECORDS: &str = "shard/";

const INSERT: &str = "insert into sf_cas values ($1, $2, 1, $3) on conflict do nothing
    returning version";
const UPDATE: &str = "update sf_cas set version = version + 1, val = $4
    where space = $1 and key = $2 and version = $3 returning version";
const FIND: &str = "select version, val from sf_cas where space = $1 and key = $2";
const LIST: &str = "select key, version, val from sf_cas
    where space = $1 and key >= $2 and starts_with(key, $2) order by key";

/// Writes a record if its version is as expected.
pub(crate) async fn swap(
    shared: &PostgresContext,
    key: &str,
    expect: u64,
    value: &Bytes,
) -> Result<CasOutcome> {
    let doing = "change a cluster record";
    shared.wait_until_safe(shared.options().deadline).await?;
    let lent = shared.keepers.take().await?;
    let notify = format!("notify {}", shared.channel());
    let work = async {
        let expect = i64::try_from(expect).unwrap_or(i64::MAX);
        let written = match expect {
            0 => lent.write(INSERT, &[&SPACE, &key, &&value[..]]).await?,
            _ => {
                let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                    [&SPACE, &key, &expect, &&value[..]];
                lent.write(UPDATE, &values).await?
            }
        };
        match written.first() {
            Some(row) => {
                lent.client.batch_execute(&notify).await?;
                Ok(CasOutcome::Done(row.get::<_, i64>(0) as u64))
            }
            None => conflict(&lent, key).await,
        }
    };
    let done = within(shared.options().deadline, work).await;
    let swap = lent.settle(done).map_err(|fault| fault.into_error(doing))?;
    shared.woken();
    Ok(swap)
}

async fn conflict(session: &Session, key: &str) -> std::result::Result<CasOutcome, StatementError> {
    let rows = session.query(FIND, &[&SPACE, &key]).await?;
    Ok(match rows.first() {
        Some(row) => CasOutcome::Conflict {
            version: row.get::<_, i64>(0) as u64,
            value: Some(Bytes::copy_from_slice(row.get(1))),
        },
        None => CasOutcome::Conflict {
            version: 0,
            value: None,
        },
    })
}

/// Records whose key starts with `prefix`.
pub(crate) async fn list(
    session: &Session,
    prefix: &str,
) -> std::result::Result<Vec<Record>, StatementError> {
    let rows = session.query(LIST, &[&SPACE, &prefix]).await?;
    let record = |row: &tokio_postgres::Row| Record {
        key: row.get(0),
        version: row.get::<_, i64>(1) as u64,
        value: Bytes::copy_from_slice(row.get(2)),
    };
    Ok(rows.iter().map(record).collect())
}
