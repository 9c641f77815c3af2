//! The scrubber: every replica, standbys included.
//!
//! It reads each partition on each server in one snapshot and checks log, tables
//! and events. A standby that fails must not be promoted: configure its manager
//! accordingly. Nothing is repaired.

use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::id::{EntryNumber, Partition};

use crate::context::PostgresContext;
use crate::digest;
use crate::known_partitions::advance;
use crate::session::Session;
use crate::statement_error::StatementError;
use crate::verify;

const PARTITIONS: &str = "select p.part, p.commit_no, f.flushed_no, f.hash, f.tables, f.hubs
    from sf_partition p join sf_flush f on f.part = p.part where p.moved is null
    order by p.part";
const PARTITION: &str = "select p.part, p.commit_no, f.flushed_no, f.hash, f.tables, f.hubs
    from sf_partition p join sf_flush f on f.part = p.part where p.part = $1";
const FAILURES: &str = "select coalesce(sum(checksum_failures), 0)::bigint from pg_stat_database";

/// What was found on one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubReport {
    /// The server's address.
    pub server: String,
    /// Whether it is the primary.
    pub is_primary: bool,
    /// Partitions that were checked.
    pub partitions: usize,
    /// Pages whose checksum the server itself found wrong so far.
    pub checksum_failures: u64,
    /// What is wrong; empty if the server is fit to be promoted.
    pub findings: Vec<String>,
}

/// Checks all servers, one after the other.
pub(crate) async fn scrub(shared: &PostgresContext) -> Vec<ScrubReport> {
    let mut replicas = Vec::new();
    for host in 0..shared.servers.targets.len() {
        let mut replica = ScrubReport {
            server: shared.servers.targets[host].name.clone(),
            is_primary: false,
            partitions: 0,
            checksum_failures: 0,
            findings: Vec::new(),
        };
        if let Err(fault) = server(shared, host, &mut replica).await {
            let error = fault.into_error("be scrubbed");
            replica.findings.push(error.to_string());
        }
        for finding in &replica.findings {
            tracing::error!(
                event = "postgres.do_not_promote",
                server = %replica.server,
                finding,
                "do not promote this server",
            );
        }
        replicas.push(replica);
    }
    replicas
}

/// Scrubs again and again.
pub(crate) async fn run(shared: Arc<PostgresContext>) {
    loop {
        tokio::time::sleep(shared.options().scrub_every).await;
        scrub(&shared).await;
    }
}

async fn server(
    shared: &PostgresContext,
    host: usize,
    replica: &mut ScrubReport,
) -> Result<(), StatementError> {
    let session = shared.servers.open(host).await?;
    replica.is_primary = session.is_writable;
    let snapshot = "begin isolation level repeatable read read only";
    session.client.batch_execute(snapshot).await?;
    for row in session.query(PARTITIONS, &[]).await? {
        let number = Partition(row.try_get::<_, i32>(0)? as u32);
        replica.partitions += 1;
        match partition(&session, number, &row).await {
            Ok(()) => {}
            Err(StatementError::Damaged(what)) => {
                replica.findings.push(format!("partition {number}: {what}"));
                // A failed read has ended the transaction.
                session.client.batch_execute("rollback").await?;
                session.client.batch_execute(snapshot).await?;
            }
            Err(fault) => return Err(fault),
        }
    }
    let failures = session.query(FAILURES, &[]).await?;
    replica.checksum_failures = failures
        .first()
        .map_or(0, |row| row.get::<_, i64>(0) as u64);
    session.client.batch_execute("commit").await?;
    Ok(())
}

/// Checks everything of one partition.
pub(crate) async fn whole(session: &Session, number: Partition) -> Result<(), StatementError> {
    let rows = session.query(PARTITION, &[&(number.0 as i32)]).await?;
    let Some(row) = rows.first() else {
        return Err(StatementError::Damaged("it is not there".to_string()));
    };
    partition(session, number, row).await
}

async fn partition(
    session: &Session,
    partition: Partition,
    row: &tokio_postgres::Row,
) -> Result<(), StatementError> {
    let malformed =
        |_| StatementError::Damaged("what the last flush left is malformed".to_string());
    let bytes = |index| row.try_get::<_, &[u8]>(index).map(Bytes::copy_from_slice);
    let number = |index| {
        row.try_get::<_, i64>(index)
            .map(|number| EntryNumber(number as u64))
    };
    let hash = row.try_get::<_, i64>(3)? as u64;
    let links = verify::log(session, partition, number(2)?, hash, number(1)?).await?;
    let tables = digest::decode_tables(bytes(4)?).map_err(malformed)?;
    verify::tables(session, partition, &tables).await?;
    let mut hubs = digest::decode_hubs(bytes(5)?).map_err(malformed)?;
    advance(&mut hubs, links.iter());
    verify::streams(session, partition, &hubs).await?;
    verify::batches(session, partition).await.map(drop)
}
