//! Acquires, renews and releases ownership of partitions.
//!
//! An acquisition is a replicated write, so its answer is a barrier: what is read
//! after it stays true. It compares the epoch, so an attempt that was lost on its way
//! and arrives late does nothing. A lease is one row per node on the database's
//! clock; one that was renewed before the primary changed counts for one time-to-live
//! more, because that was another clock. A node has one lease at a time: a restarted
//! node gets none before the lease of its former life has ended.
//!
//! An answer is compared with what was acknowledged before its statement was sent:
//! another acquisition of the same process may be newer than the answer.

use std::time::Duration;

use bytes::Bytes;
use steadfast_core::backoff::Backoff;
use steadfast_core::id::{EntryNumber, Epoch, Owner, Partition};
use steadfast_storage::engine::{AcquireOutcome, Tenure};
use steadfast_storage::{Error, ErrorKind as StorageKind, Result};

use crate::context::PostgresContext;
use crate::digest::{self, FlushedStreams, TableSums};
use crate::error::ErrorKind;
use crate::known_partitions::{KnownPartition, advance};
use crate::options::Durability;
use crate::session::{Session, within};
use crate::statement_error::StatementError;
use crate::verify;

const OPEN: &str = "with p as (insert into sf_partition values ($1, 0, null, null, 0)
      on conflict do nothing)
    insert into sf_flush values ($1, 0, 0, 0, '', '', '') on conflict do nothing";

const TAKE: &str = "update sf_partition p
    set epoch = epoch + 1, owner = $2, owner_inc = $3::text::uuid
    where part = $1 and epoch = $4 and moved is null
      and ($5 or current_setting('synchronous_standby_names') <> '')
      and (owner_inc is null or owner_inc = $3::text::uuid or not exists
        (select 1 from sf_node n where n.incarnation = p.owner_inc
          and n.expires + case when n.timeline < $6 then n.ttl else interval '0' end
            > coalesce(to_timestamp($7::float8), clock_timestamp())))
    returning epoch, commit_no";

const FLUSHED: &str = "update sf_flush set epoch = $2 where part = $1
    returning flushed_no, hash, tables, hubs, meta";

const STANDS: &str = "select epoch, owner, owner_inc::text,
    current_setting('synchronous_standby_names'), moved from sf_partition where part = $1";

const BARRIER: &str = "update sf_flush set epoch = epoch where part = $1 and epoch = $2
    returning flushed_no, hash, tables, hubs, meta,
      (select commit_no from sf_partition p where p.part = $1)";

const RENEW: &str = "insert into sf_node
    select $1, $2::text::uuid, '', $3, coalesce(to_timestamp($4::float8), clock_timestamp())
      + make_interval(secs => $5::float8), make_interval(secs => $5::float8), $6, 1
    on conflict (node) do update set incarnation = excluded.incarnation,
      version = excluded.version, expires = excluded.expires, ttl = excluded.ttl,
      timeline = excluded.timeline, state = excluded.state
    where sf_node.incarnation = excluded.incarnation
      or sf_node.expires + case when sf_node.timeline < excluded.timeline
          then sf_node.ttl else interval '0' end
        <= coalesce(to_timestamp($4::float8), clock_timestamp())
    returning node";

const RELEASE: &str = "update sf_partition set owner = null, owner_inc = null
    where part = $1 and epoch = $2 returning epoch";

/// What a flush left, and where the log ends.
struct PartitionStatus {
    epoch: Epoch,
    last: EntryNumber,
    flushed: EntryNumber,
    hash: u64,
    tables: Bytes,
    hubs: Bytes,
    meta: Bytes,
    timeline: u32,
}

/// Acquires a partition if its epoch is still `expect`; retries what certainly did
/// nothing or is safe to repeat, until a primary answers.
pub(crate) async fn acquire(
    shared: &PostgresContext,
    partition: Partition,
    owner: Owner,
    expect: Epoch,
) -> Result<AcquireOutcome> {
    let doing = "hand over a partition";
    let patience = shared.options().patience;
    shared.wait_until_safe(patience).await?;
    let end = tokio::time::Instant::now() + patience;
    let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
    loop {
        let mut lent = shared.keepers.take().await?;
        let deadline = shared.options().deadline;
        let before = shared.holdings.lock().get(&partition).cloned();
        let taken = within(deadline, take(shared, &mut lent, partition, owner, expect)).await;
        let taken = match taken {
            Ok(Ok(found)) => accept(shared, &lent, partition, expect, before, found).await,
            Ok(Err(refused)) => {
                stands(partition, before.as_ref(), refused).map_err(StatementError::Ours)
            }
            Err(fault) => Err(fault),
        };
        match lent.settle(taken) {
            Ok(acquired) => {
                shared.woken();
                return Ok(acquired);
            }
            Err(fault) if fault.is_transient() && tokio::time::Instant::now() < end => {}
            Err(fault) => return Err(fault.of(partition, doing)),
        }
        tokio::time::sleep(backoff.pause()).await;
    }
}

async fn take(
    shared: &PostgresContext,
    session: &mut Session,
    partition: Partition,
    owner: Owner,
    expect: Epoch,
) -> std::result::Result<std::result::Result<PartitionStatus, AcquireOutcome>, StatementError> {
    let part = partition.0 as i32;
    let names = shared.options().durability != Durability::Quorum;
    let incarnation = uuid(owner.incarnation);
    let timeline = i64::from(session.timeline);
    let now = lease_time(shared);
    let (take, flushed) = (
        session.statement(TAKE).await?,
        session.statement(FLUSHED).await?,
    );
    let notify = format!("notify {}", shared.channel());
    let found_on = session.timeline;
    session.forget_warnings();
    let work = session.client.transaction().await?;
    let (node, epoch) = (owner.node as i32, expect.0 as i64);
    let taken = work
        .query_opt(
            &take,
            &[&part, &node, &incarnation, &epoch, &names, &timeline, &now],
        )
        .await?;
    let Some(taken) = taken else {
        work.rollback().await?;
        return refusal(session, partition, names).await.map(Err);
    };
    let epoch: i64 = taken.try_get(0)?;
    let left = work.query_one(&flushed, &[&part, &epoch]).await?;
    work.batch_execute(&notify).await?;
    work.commit().await?;
    session.expect_no_warning()?;
    PartitionStatus::read(&left, Epoch(epoch as u64), taken.try_get(1)?, found_on).map(Ok)
}

impl PartitionStatus {
    /// Reads a row of flushed number, hash, tables, hubs and meta.
    fn read(
        row: &tokio_postgres::Row,
        epoch: Epoch,
        last: i64,
        timeline: u32,
    ) -> std::result::Result<Self, StatementError> {
        let bytes = |index| row.try_get::<_, &[u8]>(index).map(Bytes::copy_from_slice);
        Ok(Self {
            epoch,
            last: EntryNumber(last as u64),
            flushed: EntryNumber(row.try_get::<_, i64>(0)? as u64),
            hash: row.try_get::<_, i64>(1)? as u64,
            tables: bytes(2)?,
            hubs: bytes(3)?,
            meta: bytes(4)?,
            timeline,
        })
    }
}

/// The state of a partition whose acquisition was refused; creates one without an owner.
async fn refusal(
    session: &Session,
    partition: Partition,
    is_free: bool,
) -> std::result::Result<AcquireOutcome, StatementError> {
    let part = partition.0 as i32;
    let rows = session.query(STANDS, &[&part]).await?;
    let Some(row) = rows.first() else {
        session.write(OPEN, &[&part]).await?;
        // Once more, now that there is a row.
        return Err(StatementError::again("the partition was opened just now"));
    };
    if row.try_get::<_, Option<String>>(4)?.is_some() {
        return Err(Error::new(ErrorKind::PartitionMoved { partition }).into());
    }
    if !is_free && row.try_get::<_, String>(3)?.trim().is_empty() {
        let what = "synchronous_standby_names is empty".to_string();
        return Err(Error::new(ErrorKind::UnsafeStorage { what }).into());
    }
    let incarnation: Option<String> = row.try_get(2)?;
    let node: Option<i32> = row.try_get(1)?;
    let owner = incarnation.zip(node).and_then(|(incarnation, node)| {
        Some(Owner {
            node: node as u32,
            incarnation: u128::from_str_radix(&incarnation.replace('-', ""), 16).ok()?,
        })
    });
    let epoch = Epoch(row.try_get::<_, i64>(0)? as u64);
    Ok(AcquireOutcome::Refused { epoch, owner })
}

/// A refusal that shows an older epoch than was acknowledged before is a loss.
fn stands(
    partition: Partition,
    before: Option<&KnownPartition>,
    refused: AcquireOutcome,
) -> Result<AcquireOutcome> {
    match (&refused, before.map(|held| held.epoch)) {
        (AcquireOutcome::Refused { epoch, .. }, Some(known)) if *epoch < known => {
            let what = format!("the database is in epoch {epoch}, we held it in {known}");
            Err(Error::new(StorageKind::Lost { partition, what }))
        }
        _ => Ok(refused),
    }
}

/// Verifies an acquired partition and starts to hold it, unless a later acquisition of
/// this process already does.
async fn accept(
    shared: &PostgresContext,
    session: &Session,
    partition: Partition,
    expect: Epoch,
    before: Option<KnownPartition>,
    found: PartitionStatus,
) -> std::result::Result<AcquireOutcome, StatementError> {
    if let Some(before) = &before {
        expect_no_loss(partition, before, &found)?;
    }
    // No other owner in between, on the same primary: only the log's end is new.
    let ours = before.clone().filter(|held| {
        held.epoch == expect && held.timeline == found.timeline && held.flushed == found.flushed
    });
    let held = match check(session, partition, &found, ours).await {
        // A newer owner may have appended to the log meanwhile.
        Err(StatementError::Damaged(_)) if is_followed(session, partition, found.epoch).await? => {
            let is_free = shared.options().durability != Durability::Quorum;
            let refused = refusal(session, partition, is_free).await?;
            return stands(partition, before.as_ref(), refused).map_err(StatementError::Ours);
        }
        checked => checked?,
    };
    let tenure = Tenure {
        epoch: found.epoch,
        last: found.last,
        last_hash: held.hash,
        flushed: found.flushed,
        meta: found.meta,
    };
    shared.note_acquired(partition, held);
    Ok(AcquireOutcome::Granted(tenure))
}

/// Verifies a partition that was acquired on another primary: the new one is
/// trusted only after it has accepted a write.
pub(crate) async fn revisit(
    shared: &PostgresContext,
    session: &Session,
    partition: Partition,
) -> std::result::Result<(), StatementError> {
    let held = shared.holdings.lock().get(&partition).cloned();
    let Some(held) = held.filter(|held| held.timeline != session.timeline && !held.in_doubt) else {
        return Ok(());
    };
    let (part, epoch) = (partition.0 as i32, held.epoch.0 as i64);
    let deadline = shared.options().deadline;
    let rows = within(deadline, session.write(BARRIER, &[&part, &epoch])).await?;
    let Some(row) = rows.first() else {
        let epoch = held.epoch.next();
        return Err(Error::new(StorageKind::Fenced { partition, epoch }).into());
    };
    let found = PartitionStatus::read(row, held.epoch, row.try_get(5)?, session.timeline)?;
    expect_no_loss(partition, &held, &found)?;
    let mut fresh = match check(session, partition, &found, None).await {
        Err(StatementError::Damaged(_)) if is_followed(session, partition, held.epoch).await? => {
            let epoch = held.epoch.next();
            return Err(Error::new(StorageKind::Fenced { partition, epoch }).into());
        }
        checked => checked?,
    };
    let mut holdings = shared.holdings.lock();
    if let Some(now) = holdings.get_mut(&partition)
        && (now.epoch, now.last, now.timeline) == (held.epoch, held.last, held.timeline)
        && !now.in_doubt
    {
        fresh.epoch = held.epoch;
        *now = fresh;
    }
    Ok(())
}

/// Whether a partition was acquired again since `epoch`.
async fn is_followed(
    session: &Session,
    partition: Partition,
    epoch: Epoch,
) -> std::result::Result<bool, StatementError> {
    let rows = session.query(STANDS, &[&(partition.0 as i32)]).await?;
    let now: Option<i64> = rows.first().map(|row| row.try_get(0)).transpose()?;
    Ok(now.is_some_and(|now| now as u64 > epoch.0))
}

fn expect_no_loss(
    partition: Partition,
    before: &KnownPartition,
    found: &PartitionStatus,
) -> Result<()> {
    if found.last >= before.last && found.flushed >= before.flushed && found.epoch >= before.epoch {
        return Ok(());
    }
    let what = format!(
        "entry {} and a flush up to {} were acknowledged, the database ends at {} and {}",
        before.last, before.flushed, found.last, found.flushed
    );
    Err(Error::new(StorageKind::Lost { partition, what }))
}

async fn check(
    session: &Session,
    partition: Partition,
    found: &PartitionStatus,
    ours: Option<KnownPartition>,
) -> std::result::Result<KnownPartition, StatementError> {
    let malformed =
        |_| StatementError::Damaged("what the last flush left is malformed".to_string());
    let hubs = digest::decode_hubs(found.hubs.clone()).map_err(malformed)?;
    let tables = digest::decode_tables(found.tables.clone()).map_err(malformed)?;
    let is_known = ours.is_some();
    let mut held = ours.unwrap_or_else(|| start(found, &hubs));
    let links = verify::log(session, partition, held.last, held.hash, found.last).await?;
    if let Some(link) = links.last() {
        (held.last, held.hash) = (link.number, link.hash);
    }
    held.links.extend(links);
    if !is_known {
        whole(session, partition, &held, &tables, hubs).await?;
    }
    held.epoch = found.epoch;
    held.in_doubt = false;
    Ok(held)
}

/// A partition as its last flush left it.
fn start(found: &PartitionStatus, hubs: &FlushedStreams) -> KnownPartition {
    let trimmed = hubs.iter().map(|(stream, ends)| (*stream, ends.first));
    KnownPartition {
        last: found.flushed,
        hash: found.hash,
        flushed: found.flushed,
        timeline: found.timeline,
        trimmed: trimmed.collect(),
        ..KnownPartition::default()
    }
}

async fn whole(
    session: &Session,
    partition: Partition,
    held: &KnownPartition,
    tables: &TableSums,
    mut hubs: FlushedStreams,
) -> std::result::Result<(), StatementError> {
    verify::tables(session, partition, tables).await?;
    advance(&mut hubs, held.links.iter());
    verify::streams(session, partition, &hubs).await
}

/// Renews the lease of a node.
pub(crate) async fn renew(shared: &PostgresContext, owner: Owner, ttl: Duration) -> Result<()> {
    let lent = shared.leases.take().await?;
    let incarnation = uuid(owner.incarnation);
    let now = lease_time(shared);
    let (node, timeline) = (owner.node as i32, i64::from(lent.timeline));
    let (version, ttl) = (env!("CARGO_PKG_VERSION"), ttl.as_secs_f64());
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
        [&node, &incarnation, &version, &now, &ttl, &timeline];
    let done = within(shared.options().deadline, lent.write(RENEW, &values)).await;
    let done = lent.settle(done);
    match done {
        Ok(rows) if rows.is_empty() => Err(Error::new(StorageKind::LeaseHeld { node: owner.node })),
        Ok(_) => Ok(()),
        Err(fault) => Err(fault.into_error("renew a lease")),
    }
}

/// Releases a partition.
pub(crate) async fn release(
    shared: &PostgresContext,
    partition: Partition,
    epoch: Epoch,
) -> Result<()> {
    let doing = "release a partition";
    let (part, number) = (partition.0 as i32, epoch.0 as i64);
    let lent = shared.keepers.take().await?;
    let done = within(shared.options().deadline, async {
        if !lent.write(RELEASE, &[&part, &number]).await?.is_empty() {
            let notify = format!("notify {}", shared.channel());
            lent.client.batch_execute(&notify).await?;
            return Ok(None);
        }
        let rows = lent.query(STANDS, &[&part]).await?;
        let epoch = rows.first().map_or(0, |row| row.get::<_, i64>(0));
        Ok(Some(Epoch(epoch as u64)))
    })
    .await;
    match lent.settle(done) {
        Ok(None) => {
            shared.woken();
            Ok(())
        }
        Ok(Some(epoch)) => Err(Error::new(StorageKind::Fenced { partition, epoch })),
        Err(fault) => Err(fault.of(partition, doing)),
    }
}

/// The time by which leases end, if it is not the database's.
fn lease_time(shared: &PostgresContext) -> Option<f64> {
    let clock = shared.options().lease_clock.as_ref();
    clock.map(|clock| clock.monotonic().as_secs_f64())
}

fn uuid(incarnation: u128) -> String {
    format!("{incarnation:032x}")
}
