//! The schema and its numbered migrations.
//!
//! Migrations go forward only, one transaction each, under a lock that all nodes
//! share. `schema` says which the newest applied is, `reader` which version of
//! the code can still work with it. A migration only ever adds; what it replaces
//! goes a release later.

use std::time::Duration;

use steadfast_core::clock::Timestamp;
use steadfast_storage::{Error, Result};
use tokio_postgres::Transaction;

use crate::error::ErrorKind;
use crate::servers::Servers;
use crate::session::Session;
use crate::statement_error::StatementError;

/// The newest schema that this code knows.
pub(crate) const KNOWN: u32 = MIGRATIONS.len() as u32;

/// Advisory locks for migrations and for making segments: "stf" and the purpose.
pub(crate) const MIGRATION_LOCK: i64 = 0x0073_7466_0001;

const MIGRATIONS: [&str; 2] = [FIRST, SECOND];

/// Keys are cut at 2,000 bytes, because an index row holds 2,704 at most; `tail`
/// is the digest of the rest, so that long keys stay unique.
const FIRST: &str = "
create table sf_node(
    node int primary key, incarnation uuid not null, addr text not null, version text not null,
    expires timestamptz not null, ttl interval not null, timeline bigint not null,
    state int not null);
create table sf_partition(
    part int primary key, epoch bigint not null, owner int, owner_inc uuid,
    commit_no bigint not null) with (fillfactor = 10);
create table sf_flush(
    part int primary key, epoch bigint not null, flushed_no bigint not null,
    hash bigint not null, tables bytea not null, hubs bytea not null, meta bytea not null);
create table sf_log(
    part int, no bigint, piece int, epoch bigint not null, crc int not null, body bytea not null,
    primary key (part, no, piece))
    with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
alter table sf_log alter body set storage external;
create table sf_kv(
    part int, tbl int, key bytea, tail bytea, rest bytea, val bytea not null,
    digest bytea not null, primary key (part, tbl, key, tail)) with (fillfactor = 80);
alter table sf_kv alter val set storage external;
create table sf_event(
    seg int, stream int, part int, first_seq bigint, first_off bigint not null, n int not null,
    t0 bigint not null, t1 bigint not null, crc int not null, body bytea not null,
    primary key (part, stream, first_seq, seg)) partition by range (seg);
alter table sf_event alter body set storage external;
create index sf_event_offset on sf_event(part, stream, first_off);
create table sf_cas(
    space text collate \"C\", key text collate \"C\", version bigint not null, val bytea not null,
    primary key (space, key));
";

/// Partitions may have moved to another database; which one, by its identity.
const SECOND: &str = "alter table sf_partition add column moved text;";

/// The first version of the code that knows several databases.
pub(crate) const SHARDED: &str = "2";

/// Brings the schema up to date and returns the cluster's identity.
pub(crate) async fn migrate(session: &mut Session, servers: &Servers) -> Result<String> {
    let doing = "bring its schema up to date";
    let cluster = servers.cluster();
    let schema = servers.options.schema.clone();
    session.forget_warnings();
    let done = steps(session, &schema, cluster).await;
    let found = done.map_err(|fault| fault.into_error(doing))?;
    session
        .expect_no_warning()
        .map_err(|fault| fault.into_error(doing))?;
    servers.expect_cluster(&found);
    Ok(found)
}

async fn steps(
    session: &mut Session,
    schema: &str,
    cluster: Option<String>,
) -> std::result::Result<String, StatementError> {
    let work = session.client.transaction().await?;
    work.batch_execute("set local lock_timeout = '10s'").await?;
    work.execute("select pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK])
        .await?;
    let exists = "select count(*) from pg_namespace where nspname = $1";
    if work.query_one(exists, &[&schema]).await?.get::<_, i64>(0) == 0 {
        work.batch_execute(&format!("create schema {schema}"))
            .await?;
    }
    let meta = "select to_regclass('sf_meta') is not null";
    if !work.query_one(meta, &[]).await?.get::<_, bool>(0) {
        let identity = cluster.unwrap_or_else(|| format!("{:032x}", fastrand::u128(..)));
        work.batch_execute("create table sf_meta(k text primary key, v text not null)")
            .await?;
        let values = "insert into sf_meta values ('schema', '0'), ('reader', '1'), ('cluster', $1)";
        work.execute(values, &[&identity]).await?;
    }
    let (current, reader) = (
        number(&work, "schema").await?,
        number(&work, "reader").await?,
    );
    if reader > KNOWN {
        let (found, known) = (reader, KNOWN);
        return Err(Error::new(ErrorKind::NewerSchema { found, known }).into());
    }
    for (index, migration) in MIGRATIONS.iter().enumerate().skip(current as usize) {
        work.batch_execute(migration).await?;
        let number = (index + 1).to_string();
        work.execute("update sf_meta set v = $1 where k = 'schema'", &[&number])
            .await?;
    }
    let identity = work
        .query_one("select v from sf_meta where k = 'cluster'", &[])
        .await?
        .get(0);
    work.commit().await?;
    Ok(identity)
}

async fn number(work: &Transaction<'_>, key: &str) -> std::result::Result<u32, StatementError> {
    let row = work
        .query_one("select v from sf_meta where k = $1", &[&key])
        .await?;
    let text: String = row.get(0);
    text.parse()
        .map_err(|_| StatementError::Damaged(format!("sf_meta holds {text:?} as {key}")))
}

/// Makes the segments that a group needs. Attaching takes a weaker lock than making a
/// partition in place, so no statement waits for it.
pub(crate) async fn add_segments(
    session: &mut Session,
    schema: &str,
    segments: &[i32],
) -> std::result::Result<(), StatementError> {
    session.forget_warnings();
    for segment in segments {
        let work = session.client.transaction().await?;
        work.execute("select pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK])
            .await?;
        let name = segment_name(*segment);
        let exists = "select to_regclass($1) is not null";
        let whole = format!("{schema}.{name}");
        if work.query_one(exists, &[&whole]).await?.get(0) {
            continue;
        }
        let next = i64::from(*segment) + 1;
        work.batch_execute(&format!(
            "create table {name} (like sf_event including all); \
             alter table sf_event attach partition {name} for values from ({segment}) to ({next})"
        ))
        .await?;
        work.commit().await?;
    }
    session.expect_no_warning()
}

/// The table of a segment.
pub(crate) fn segment_name(segment: i32) -> String {
    format!("sf_event_{segment}")
}

/// The segment that holds events of a time.
pub(crate) fn segment_of(time: Timestamp, length: Duration) -> i32 {
    let length = i64::try_from(length.as_millis()).unwrap_or(i64::MAX).max(1);
    i32::try_from(time.0.max(0) / length).unwrap_or(i32::MAX)
}
