//! The commit statement alone, on one connection.
//!
//! The plain client sends the same statement on the same tables with the same bytes
//! repeatedly: the upper bound of any engine on PostgreSQL.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::{Client, Config, NoTls};

use super::settings::{BARE, OURS, PARTITIONS, ROW_BYTES, Settings};
use crate::stopwatch::Stopwatch;

const TABLES: &str = "
create table sf_partition(part int primary key, epoch bigint, owner int, owner_inc uuid,
    commit_no bigint) with (fillfactor = 10);
create table sf_log(part int, no bigint, piece int, epoch bigint, crc int, body bytea,
    primary key (part, no, piece));
alter table sf_log alter body set storage external;
insert into sf_partition select part, 1, null, null, 0 from generate_series(0, 1000) part;";

const COMMIT: &str = "with f as (update sf_partition p set commit_no = g.no
    from unnest($1::int[], $2::bigint[], $3::bigint[]) g(part, epoch, no)
    where p.part = g.part and p.epoch = g.epoch and p.commit_no = g.no - 1
      and ($4 or current_setting('synchronous_standby_names') <> '')
    returning p.part, g.no, g.epoch),
  l as (insert into sf_log(part, no, piece, epoch, crc, body)
    select f.part, f.no, x.piece, f.epoch, x.crc, x.body
    from unnest($5::int[], $6::int[], $7::int[], $8::bytea[]) x(part, piece, crc, body)
    join f on f.part = x.part)
  select part from f";

/// The approximate overhead of a transaction in the log, beside its row.
const OVERHEAD: usize = 24;

/// Drops the schemas of this and earlier runs.
pub(crate) async fn clean(settings: &Settings) -> Result<()> {
    let client = connect(settings).await?;
    for schema in [OURS, BARE] {
        let drop = format!("drop schema if exists {schema} cascade");
        client.batch_execute(&drop).await?;
    }
    Ok(())
}

/// The bytes that the database has written to its log so far.
pub(super) async fn log_bytes(settings: &Settings) -> Result<f64> {
    let client = connect(settings).await?;
    let position = "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8";
    Ok(client.query_one(position, &[]).await?.get(0))
}

/// Commits groups of this size for a while; returns logical commits per second.
pub(super) async fn commit_for(settings: &Settings, group: f64) -> Result<f64> {
    commit_by(settings, group, 1).await
}

/// Like [`commit_for`], on several connections, each with its own partitions.
pub(crate) async fn commit_by(settings: &Settings, group: f64, connections: i32) -> Result<f64> {
    let client = connect(settings).await?;
    client
        .batch_execute(&format!(
            "drop schema if exists {BARE} cascade; create schema {BARE}; \
             set search_path = {BARE}; {TABLES}"
        ))
        .await?;
    let group = (group.round() as usize).max(1);
    let run = Stopwatch::start();
    let commit = |place| commit_on(settings, group, place, &run);
    let done = (0..connections).map(commit);
    let statements = futures_util::future::try_join_all(done).await?;
    let statements: i64 = statements.iter().sum();
    Ok(statements as f64 * group as f64 / run.seconds())
}

/// Sends statement after statement on one connection; returns their number.
async fn commit_on(settings: &Settings, group: usize, place: i32, run: &Stopwatch) -> Result<i64> {
    let client = connect(settings).await?;
    client
        .batch_execute(&format!(
            "set search_path = {BARE}; set plan_cache_mode = force_generic_plan"
        ))
        .await?;
    let rows = group.min(PARTITIONS as usize);
    let body = vec![7; group * (ROW_BYTES + OVERHEAD) / rows];
    let first = place * PARTITIONS as i32;
    let parts: Vec<i32> = (first..first + rows as i32).collect();
    let (ones, zeros) = (vec![1i64; rows], vec![0i32; rows]);
    let bodies: Vec<&[u8]> = vec![&body; rows];
    let statement = client.prepare(COMMIT).await?;
    let mut statements = 0i64;
    while run.elapsed() < settings.duration {
        statements += 1;
        let numbers = vec![statements; rows];
        let single = settings.single;
        let answer = client
            .query(
                &statement,
                &[
                    &parts, &ones, &numbers, &single, &parts, &zeros, &zeros, &bodies,
                ],
            )
            .await?;
        anyhow::ensure!(answer.len() == rows, "the bare statement was refused");
    }
    Ok(statements)
}

async fn connect(settings: &Settings) -> Result<Client> {
    let mut config: Config = settings.url.parse().context("read the address")?;
    config
        .target_session_attrs(TargetSessionAttrs::ReadWrite)
        .connect_timeout(Duration::from_secs(5));
    anyhow::ensure!(
        config
            .get_hosts()
            .iter()
            .all(|host| matches!(host, Host::Tcp(_) | Host::Unix(_))),
        "the address names no host"
    );
    let (client, connection) = config.connect(NoTls).await.context("connect")?;
    tokio::spawn(connection);
    Ok(client)
}
