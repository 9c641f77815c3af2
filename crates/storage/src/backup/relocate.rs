//! Moving partitions between databases of a stopped cluster.
//!
//! One partition after the other: it is copied and verified, the source is closed, the
//! map is switched, and what the source still holds is removed. Until the source is
//! closed the partition is where it was; from then on it is in the target, and an
//! interrupted move is ended by the next one, whatever that is asked to move.

use std::sync::Arc;

use steadfast_core::id::{Epoch, Partition};
use tokio::sync::watch;

use super::hold::{Hold, expect_schema};
use super::progress::{Phase, Progress};
use crate::engine::{Acquired, Engine};
use crate::error::{Error, Kind, Result};
use crate::postgres::{Options as DatabaseOptions, Postgres};
use crate::shards::Shards;

/// What to move, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// The partitions; all of a shard if there are none.
    pub partitions: Vec<Partition>,
    /// The shard that is emptied if no partitions are named.
    pub from: Option<u16>,
    /// The shard that gets them: the place of its address, from 0 on.
    pub to: u16,
}

/// What was moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relocated {
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
    order: &Relocation,
    progress: &watch::Sender<Progress>,
) -> Result<Relocated> {
    expect_schema(options).await?;
    let shards = Arc::new(Shards::extend(options).await?);
    let hold = Hold::on(Arc::clone(&shards)).await?;
    let done = carry_out(&shards, &hold, order, progress).await;
    let ended = hold.end().await;
    let done = done?;
    ended.map(|()| done)
}

async fn carry_out(
    shards: &Shards,
    hold: &Hold,
    order: &Relocation,
    progress: &watch::Sender<Progress>,
) -> Result<Relocated> {
    let mut done = Relocated {
        resumed: end_interrupted(shards).await?,
        ..Relocated::default()
    };
    let target = shard(shards, order.to)?;
    let chosen = chosen(shards, order).await?;
    progress.send_modify(|progress| {
        progress.phase = Phase::Writing;
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
async fn end_interrupted(shards: &Shards) -> Result<usize> {
    let mut resumed = 0;
    for number in 0..shards.count() as u16 {
        let source = shard(shards, number)?;
        for (partition, identity) in source.moved().await? {
            if shards.shard(partition) == number {
                let Some(target) = shards.place(&identity) else {
                    let what = format!("partition {partition} is in a database that is not named");
                    return Err(Error::new(Kind::BadMove { what }));
                };
                shards.switch(partition, target).await?;
                resumed += 1;
            }
            source.remove_moved(partition).await?;
        }
    }
    Ok(resumed)
}

fn shard(shards: &Shards, number: u16) -> Result<&Arc<Postgres>> {
    shards.engine(number).ok_or_else(|| {
        let count = shards.count();
        let what = format!("there is no shard {number}, the address names {count}");
        Error::new(Kind::BadMove { what })
    })
}

/// The partitions that are not there yet.
async fn chosen(shards: &Shards, order: &Relocation) -> Result<Vec<Partition>> {
    let all = shards.partitions().await?;
    let missing = order.partitions.iter().find(|own| !all.contains(own));
    if let Some(missing) = missing {
        let what = format!("there is no partition {missing}");
        return Err(Error::new(Kind::BadMove { what }));
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
async fn take(source: &Postgres, partition: Partition, hold: &Hold) -> Result<Epoch> {
    let owner = hold.owner();
    let mut expect = Epoch(0);
    // The first refusal carries the epoch.
    for _ in 0..4 {
        match source.acquire(partition, owner, expect).await? {
            Acquired::Granted(tenure) => return Ok(tenure.epoch),
            Acquired::Refused {
                epoch,
                owner: Some(owner),
            } if epoch == expect => return Err(Error::new(Kind::Held { partition, owner })),
            Acquired::Refused { epoch, .. } => expect = epoch,
        }
    }
    let epoch = expect;
    Err(Error::new(Kind::Fenced { partition, epoch }))
}
