//! Backup and restore of a database that no node uses.
//!
//! A backup takes all partitions, under a lease of its own, and gives them up when
//! it is done: had anybody else taken one meanwhile, that is refused, and the
//! backup is thrown away. A restore is built in a schema of its own and takes its
//! place in one step, after it was compared.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use steadfast_core::id::{Epoch, Owner, Partition};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::offline::{Policy, verified};
use super::progress::Progress;
use super::restore::{Restored, restore};
use super::take::{Order, Taken, take};
use crate::engine::Engine;
use crate::error::{Error, Kind, Result};
use crate::postgres::{Options as DatabaseOptions, Postgres, Replacement, has_schema};
use crate::store::{Options, Store};

/// The number under which a command takes partitions; no node has it.
const COMMAND: u32 = u32::MAX;

/// How long a command that was killed keeps its partitions.
const LEASE: Duration = Duration::from_secs(30);
const RENEW_EVERY: Duration = Duration::from_secs(5);

/// Backs up a database that no node uses.
pub async fn take_database(
    options: &DatabaseOptions,
    order: &Order,
    progress: &watch::Sender<Progress>,
) -> Result<Taken> {
    if !has_schema(options).await? {
        let what = format!("it has no schema {}", options.schema);
        return Err(Error::new(Kind::BadAddress { what }));
    }
    let engine = Arc::new(Postgres::open(options.clone()).await?);
    expect_unused(&engine, None).await?;
    let lease = Lease::begin(&engine).await?;
    let done = copy(&engine, lease.owner, order, progress).await;
    lease.end().await?;
    done
}

/// Restores a database. The chain is verified before anything is written.
pub async fn restore_database(
    from: &Path,
    options: &DatabaseOptions,
    policy: Policy,
    progress: &watch::Sender<Progress>,
) -> Result<Restored> {
    let chain = verified(from.to_path_buf(), progress.clone()).await?;
    let replacement = Replacement::begin(options, policy == Policy::Force).await?;
    let engine = Postgres::open(replacement.options()).await?;
    let restored = restore(&engine, owner(), &chain, progress).await?;
    drop(engine);
    replacement.finish().await?;
    Ok(restored)
}

/// Refuses a database that somebody uses.
async fn expect_unused(engine: &Postgres, but: Option<u32>) -> Result<()> {
    let nodes = engine.nodes().await?;
    match nodes.into_iter().find(|node| Some(*node) != but) {
        Some(node) => Err(Error::new(Kind::DatabaseInUse { node })),
        None => Ok(()),
    }
}

/// Backs up all partitions; what somebody else has used meanwhile is no backup.
async fn copy(
    engine: &Arc<Postgres>,
    owner: Owner,
    order: &Order,
    progress: &watch::Sender<Progress>,
) -> Result<Taken> {
    let mut options = Options::new(owner);
    // Nothing is written, so nothing need be flushed, and the tables stand still.
    options.log_target = u64::MAX;
    let store = Store::start(Arc::clone(engine) as _, options);
    let mut held = Vec::new();
    let done = async {
        for partition in engine.partitions().await? {
            let ledger = store.acquire(partition).await?;
            held.push((partition, ledger.epoch()));
            ledger.set_tables(engine.tables(partition).await?);
        }
        take(&store, order, progress).await
    };
    let done = done.await;
    store.close().await;
    let released = release(engine, &held).await;
    let taken = done?;
    let unused = match released {
        Ok(()) => expect_unused(engine, Some(COMMAND)).await,
        Err(error) => Err(error),
    };
    if let Err(error) = unused {
        let folder = &taken.folder;
        fs::remove_dir_all(folder).map_err(|e| Error::io(folder, "remove", e))?;
        return Err(error);
    }
    Ok(taken)
}

/// Gives all partitions up, also after one was refused.
async fn release(engine: &Postgres, held: &[(Partition, Epoch)]) -> Result<()> {
    let mut done = Ok(());
    for (partition, epoch) in held {
        done = done.and(engine.release(*partition, *epoch).await);
    }
    done
}

/// A lease that is kept while a command works.
struct Lease {
    engine: Arc<Postgres>,
    owner: Owner,
    renewing: JoinHandle<()>,
}

impl Lease {
    async fn begin(engine: &Arc<Postgres>) -> Result<Self> {
        let owner = owner();
        engine.renew(owner, LEASE).await?;
        let renewed = Arc::clone(engine);
        let renewing = tokio::spawn(async move {
            loop {
                tokio::time::sleep(RENEW_EVERY).await;
                // A lease that ends does no harm: giving the partitions up shows it.
                if let Err(error) = renewed.renew(owner, LEASE).await {
                    tracing::warn!(
                        event = "backup.lease_not_renewed",
                        %error,
                        "a lease was not renewed",
                    );
                }
            }
        });
        Ok(Self {
            engine: Arc::clone(engine),
            owner,
            renewing,
        })
    }

    /// Ends it now, so that nobody waits for it.
    async fn end(self) -> Result<()> {
        self.renewing.abort();
        self.engine.renew(self.owner, Duration::ZERO).await
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

fn owner() -> Owner {
    Owner {
        node: COMMAND,
        incarnation: fastrand::u128(..),
    }
}
