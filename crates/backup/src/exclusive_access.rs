//! Exclusive access of a command to a database.
//!
//! The command acquires all partitions under its own lease and releases them at the
//! end. A database that a node uses is refused. If another owner took a partition
//! meanwhile, the release is refused and what was read must be discarded.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::id::{Epoch, Owner, Partition};
use steadfast_core::task::name_task;
use steadfast_storage::engine::Engine;
use steadfast_storage::{Error, Ledger, Options, Result, Store};
use steadfast_storage_postgres::shards::ShardedEngine;
use steadfast_storage_postgres::{
    ErrorKind as DatabaseErrorKind, Options as DatabaseOptions, expect_reachable, has_schema,
};
use tokio::task::JoinHandle;

/// The number under which a command takes partitions; no node has it.
const COMMAND: u32 = u32::MAX;

/// How long the lease of a killed command keeps others out.
const LEASE: Duration = Duration::from_secs(30);
const RENEW_EVERY: Duration = Duration::from_secs(5);

/// A database and the partitions that the command has acquired.
pub struct ExclusiveAccess {
    pub(crate) engine: Arc<ShardedEngine>,
    pub(crate) store: Store,
    held: Vec<(Partition, Epoch)>,
    lease: CommandLease,
}

impl ExclusiveAccess {
    /// Opens a database that no node uses.
    pub async fn begin(options: &DatabaseOptions) -> Result<Self> {
        expect_schema(options).await?;
        Self::on(Arc::new(ShardedEngine::open(options).await?)).await
    }

    /// Takes a lease on databases that no node uses.
    pub(crate) async fn on(engine: Arc<ShardedEngine>) -> Result<Self> {
        expect_unused(&engine, None).await?;
        let lease = CommandLease::begin(&engine).await?;
        let mut settings = Options::new(lease.owner);
        // Nothing is written, so nothing need be flushed, and the tables stand still.
        settings.log_target = u64::MAX;
        Ok(Self {
            store: Store::start(Arc::clone(&engine) as _, settings),
            engine,
            held: Vec::new(),
            lease,
        })
    }

    /// The partitions that the database has.
    pub async fn partitions(&self) -> Result<Vec<Partition>> {
        self.engine.partitions().await
    }

    /// Acquires a partition.
    pub async fn acquire(&mut self, partition: Partition) -> Result<Ledger> {
        let ledger = self.store.acquire(partition).await?;
        self.held.push((partition, ledger.epoch()));
        Ok(ledger)
    }

    /// The life in which the command takes partitions.
    pub(crate) fn owner(&self) -> Owner {
        self.lease.owner
    }

    /// Refuses to go on if a node uses the databases by now.
    pub(crate) async fn expect_alone(&self) -> Result<()> {
        expect_unused(&self.engine, Some(COMMAND)).await
    }

    /// Releases everything; an error means that another owner took a partition meanwhile.
    pub async fn end(self) -> Result<()> {
        self.store.close().await;
        let released = release(&self.engine, &self.held).await;
        let unused = match released {
            Ok(()) => expect_unused(&self.engine, Some(COMMAND)).await,
            Err(error) => Err(error),
        };
        self.lease.end().await?;
        unused
    }
}

/// Refuses databases that do not answer, and a first one without a Steadfast schema.
pub(crate) async fn expect_schema(options: &DatabaseOptions) -> Result<()> {
    expect_reachable(options).await?;
    for one in options.each().iter().take(1) {
        if !has_schema(one).await? {
            let what = format!("it has no schema {}", options.schema);
            return Err(Error::new(DatabaseErrorKind::BadAddress { what }));
        }
    }
    Ok(())
}

/// Refuses a database that a node or command uses.
async fn expect_unused(engine: &ShardedEngine, but: Option<u32>) -> Result<()> {
    let nodes = engine.nodes().await?;
    match nodes.into_iter().find(|node| Some(*node) != but) {
        Some(node) => Err(Error::new(DatabaseErrorKind::DatabaseInUse { node })),
        None => Ok(()),
    }
}

/// Releases all partitions, also after one was refused.
async fn release(engine: &ShardedEngine, held: &[(Partition, Epoch)]) -> Result<()> {
    let mut done = Ok(());
    for (partition, epoch) in held {
        done = done.and(engine.release(*partition, *epoch).await);
    }
    done
}

/// A lease that is renewed while a command works.
struct CommandLease {
    engine: Arc<ShardedEngine>,
    owner: Owner,
    renewing: JoinHandle<()>,
}

impl CommandLease {
    async fn begin(engine: &Arc<ShardedEngine>) -> Result<Self> {
        let owner = owner();
        engine.renew(owner, LEASE).await?;
        let renewed = Arc::clone(engine);
        let renewing = tokio::spawn(name_task(async move {
            loop {
                tokio::time::sleep(RENEW_EVERY).await;
                // A lease that ends does no harm: the release of the partitions detects it.
                if let Err(error) = renewed.renew(owner, LEASE).await {
                    tracing::warn!(
                        event = "backup.lease_not_renewed",
                        %error,
                        "a lease was not renewed",
                    );
                }
            }
        }));
        Ok(Self {
            engine: Arc::clone(engine),
            owner,
            renewing,
        })
    }

    /// Ends the lease now, so that the next owner need not wait for it.
    async fn end(self) -> Result<()> {
        self.renewing.abort();
        self.engine.renew(self.owner, Duration::ZERO).await
    }
}

impl Drop for CommandLease {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

/// A life that no owner had before.
pub(crate) fn owner() -> Owner {
    Owner {
        node: COMMAND,
        incarnation: fastrand::u128(..),
    }
}
