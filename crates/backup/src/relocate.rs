//! Moving partitions between databases of a stopped cluster.
//!
//! One partition after the other: it is copied and verified, the source is closed, the
//! map is switched, and what the source still holds is removed. Until the source is
//! closed the partition is where it was; from then on it is in the target, and the
//! next move completes an interrupted one, whatever it moves itself.

use std::sync::Arc;

use steadfast_core::id::{Epoch, Partition};
use steadfast_storage::engine::{AcquireOutcome, Engine};
use steadfast_storage::{Error, ErrorKind, Result};
use steadfast_storage_postgres::shards::ShardedEngine;
use steadfast_storage_postgres::{
    ErrorKind as DatabaseErrorKind, Options as DatabaseOptions, PostgresEngine,
};
use tokio::sync::watch;

use crate::exclusive_access::{ExclusiveAccess, expect_schema};
use crate::progress::{BackupPhase, BackupProgress};

/// What to move, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelocationRequest {
    /// The partitions; all of a shard if there are none.
    pub partitions: Vec<Partition>,
    /// The shard that is emptied if no partitions are named.
    pub from: Option<u16>,
    /// The shard that gets them: the place of its address, from 0 on.
    pub to: u16,
}

/// What was moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelocationReport {
    pub partitions: usize,
    /// Moves of an earlier, interrupted run that were ended.
    pub resumed: usize,
    pub rows: u64,
    pub bytes: u64,
}

/// Moves partitions to another database of the same cluster. No node may run. A new
/// database at the end of the address joins the cluster.
pub async fn relocate(
    options: &DatabaseOptions,
    order: &RelocationRequest,
    progress: &watch::Sender<BackupProgress>,
) -> Result<RelocationReport> {
    expect_schema(options).await?;
    let shards = Arc::new(ShardedEngine::extend(options).await?);
    let hold = ExclusiveAccess::on(Arc::clone(&shards)).await?;
    let done = carry_out(&shards, &hold, order, progress).await;
    let ended = hold.end().await;
    let done = done?;
    ended.map(|()| done)
}

async fn carry_out(
    shards: &ShardedEngine,
    hold: &ExclusiveAccess,
    order: &RelocationRequest,
    progress: &watch::Sender<BackupProgress>,
) -> Result<RelocationReport> {
    let mut done = RelocationReport {
        resumed: end_interrupted(shards).await?,
        ..RelocationReport::default()
    };
    let target = shard(shards, order.to)?;
    let chosen = chosen(shards, order).await?;
    progress.send_modify(|progress| {
        progress.phase = BackupPhase::Writing;
        progress.partitions = chosen.len();
    });
    for partition in chosen {
        let source = shard(shards, shards.shard(partition))?;
        let epoch = take(source, partition, hold).await?;
        let copied = Box::pin(target.receive(source, partition, epoch)).await?;
        // A node that started meanwhile has an old map.
        hold.expect_alone().await?;
        source
            .close_moved(partition, epoch, target.cluster())
            .await?;
        shards.switch(partition, order.to).await?;
        source.remove_moved(partition).await?;
        done.partitions += 1;
        done.rows += copied.rows;
        done.bytes += copied.bytes;
        progress.send_modify(|progress| {
            (progress.done, progress.rows, progress.bytes) =
                (done.partitions, done.rows, done.bytes);
        });
    }
    Ok(done)
}

/// Ends moves whose source is closed already; answers how many were not known yet.
async fn end_interrupted(shards: &ShardedEngine) -> Result<usize> {
    let mut resumed = 0;
    for number in 0..shards.count() as u16 {
        let source = shard(shards, number)?;
        for (partition, identity) in source.moved().await? {
            if shards.shard(partition) == number {
                let Some(target) = shards.place(&identity) else {
                    let what = format!("partition {partition} is in a database that is not named");
                    return Err(Error::new(DatabaseErrorKind::BadMove { what }));
                };
                shards.switch(partition, target).await?;
                resumed += 1;
            }
            source.remove_moved(partition).await?;
        }
    }
    Ok(resumed)
}

fn shard(shards: &ShardedEngine, number: u16) -> Result<&Arc<PostgresEngine>> {
    shards.engine(number).ok_or_else(|| {
        let count = shards.count();
        let what = format!("there is no shard {number}, the address names {count}");
        Error::new(DatabaseErrorKind::BadMove { what })
    })
}

/// The requested partitions that are not in the target yet.
async fn chosen(shards: &ShardedEngine, order: &RelocationRequest) -> Result<Vec<Partition>> {
    let all = shards.partitions().await?;
    let missing = order.partitions.iter().find(|own| !all.contains(own));
    if let Some(missing) = missing {
        let what = format!("there is no partition {missing}");
        return Err(Error::new(DatabaseErrorKind::BadMove { what }));
    }
    let mut chosen = order.partitions.clone();
    if let Some(from) = order.from.filter(|_| chosen.is_empty()) {
        shard(shards, from)?;
        chosen = all;
        chosen.retain(|partition| shards.shard(*partition) == from);
    }
    chosen.sort_unstable();
    chosen.dedup();
    chosen.retain(|partition| shards.shard(*partition) != order.to);
    Ok(chosen)
}

/// Acquires a partition, which fences other owners, and verifies everything in it.
async fn take(
    source: &PostgresEngine,
    partition: Partition,
    hold: &ExclusiveAccess,
) -> Result<Epoch> {
    let owner = hold.owner();
    let mut expect = Epoch(0);
    // The first refusal carries the epoch.
    for _ in 0..4 {
        match source.acquire(partition, owner, expect).await? {
            AcquireOutcome::Granted(tenure) => return Ok(tenure.epoch),
            AcquireOutcome::Refused {
                epoch,
                owner: Some(owner),
            } if epoch == expect => return Err(Error::new(ErrorKind::Held { partition, owner })),
            AcquireOutcome::Refused { epoch, .. } => expect = epoch,
        }
    }
    let epoch = expect;
    Err(Error::new(ErrorKind::Fenced { partition, epoch }))
}
