//! The source of rows: a ledger, or tables.
//!
//! The owner reads its ledger: what is durable. Other nodes read what is flushed. A flush
//! moves whole transactions atomically and changes the stamp, so a reader that finds the
//! same stamp before and after has seen one state. If a flush came between, the read
//! fails with `NotReadable`; retry it.

use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::codec::{ByteReader, DecodeError, put_varint};
use steadfast_core::id::{Lsn, Partition, TableId};
use steadfast_storage::engine::{Scan, TableRow};
use steadfast_storage::{Engine, Ledger, Snapshot, Visibility};

use crate::error::{Error, ErrorKind, Result};
use crate::tables;

/// The source of a replica's reads.
pub(crate) enum RowSource {
    /// This node owns the partition.
    Primary(Ledger),
    /// Another node owns it.
    Secondary(Arc<dyn Engine>, Partition),
}

/// One state of the partition, for as long as it is held.
pub(crate) enum PinnedState {
    Ledger(Snapshot),
    Flushed(FlushedTables),
}

/// The tables between two flushes.
pub(crate) struct FlushedTables {
    engine: Arc<dyn Engine>,
    partition: Partition,
    stamp: FlushStamp,
}

/// The record of the last commit before a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlushStamp {
    /// Everything up to here was durable when the commit was written.
    pub(crate) lsn: Lsn,
    /// Makes it different from every other stamp of the partition.
    pub(crate) transaction: u64,
    pub(crate) epoch: u64,
}

const STAMP_KEY: &[u8] = b"stamp";

impl FlushStamp {
    pub(crate) fn write(self, writes: &mut steadfast_storage::Writes) {
        let mut out = Vec::with_capacity(30);
        put_varint(&mut out, self.lsn.0);
        put_varint(&mut out, self.transaction);
        put_varint(&mut out, self.epoch);
        writes.put(tables::STAMP, STAMP_KEY, &out);
    }

    fn read(bytes: Bytes) -> std::result::Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        Ok(Self {
            lsn: Lsn(reader.varint()?),
            transaction: reader.varint()?,
            epoch: reader.varint()?,
        })
    }
}

impl RowSource {
    pub(crate) fn partition(&self) -> Partition {
        match self {
            Self::Primary(ledger) => ledger.partition(),
            Self::Secondary(_, partition) => *partition,
        }
    }

    /// The ledger, if this node owns the partition.
    pub(crate) fn ledger(&self) -> Result<&Ledger> {
        match self {
            Self::Primary(ledger) => Ok(ledger),
            Self::Secondary(_, partition) => Err(Error::new(ErrorKind::NotPrimary {
                partition: *partition,
                hint: None,
            })),
        }
    }

    /// The durable value of a row that the caller has locked.
    pub(crate) async fn get(&self, table: TableId, key: &[u8], tx: u64) -> Result<Option<Bytes>> {
        let read = self.ledger()?.get(table, key, Visibility::Durable).await;
        read.map_err(|error| Error::storage(error, tx))
    }

    /// Pins the state as it is now.
    pub(crate) async fn pin(&self, tx: u64) -> Result<PinnedState> {
        match self {
            Self::Primary(ledger) => {
                let snapshot = ledger.snapshot();
                let snapshot = snapshot.map_err(|error| Error::storage(error, tx))?;
                Ok(PinnedState::Ledger(snapshot))
            }
            Self::Secondary(engine, partition) => Ok(PinnedState::Flushed(FlushedTables {
                engine: Arc::clone(engine),
                partition: *partition,
                stamp: stamp(engine.as_ref(), *partition, tx).await?,
            })),
        }
    }
}

impl PinnedState {
    /// The last transaction that is in this state for certain.
    pub(crate) fn lsn(&self) -> Lsn {
        match self {
            Self::Ledger(snapshot) => snapshot.lsn(),
            Self::Flushed(flushed) => flushed.stamp.lsn,
        }
    }

    pub(crate) async fn get(&self, table: TableId, key: &[u8], tx: u64) -> Result<Option<Bytes>> {
        let read = match self {
            Self::Ledger(snapshot) => snapshot.get(table, key).await,
            Self::Flushed(flushed) => flushed.engine.get(flushed.partition, table, key).await,
        };
        let value = read.map_err(|error| Error::storage(error, tx))?;
        self.check(tx).await?;
        Ok(value)
    }

    pub(crate) async fn scan(&self, table: TableId, range: Scan, tx: u64) -> Result<Vec<TableRow>> {
        let read = match self {
            Self::Ledger(snapshot) => snapshot.scan(table, range).await,
            Self::Flushed(flushed) => flushed.engine.scan(flushed.partition, table, range).await,
        };
        let rows = read.map_err(|error| Error::storage(error, tx))?;
        self.check(tx).await?;
        Ok(rows)
    }

    /// The keys of those rows; values stay where they are.
    pub(crate) async fn scan_keys(
        &self,
        table: TableId,
        range: Scan,
        tx: u64,
    ) -> Result<Vec<Bytes>> {
        let read = match self {
            Self::Ledger(snapshot) => snapshot.scan_keys(table, range).await,
            Self::Flushed(flushed) => {
                let engine = &flushed.engine;
                engine.scan_keys(flushed.partition, table, range).await
            }
        };
        let keys = read.map_err(|error| Error::storage(error, tx))?;
        self.check(tx).await?;
        Ok(keys)
    }

    /// Refuses to mix two states.
    async fn check(&self, tx: u64) -> Result<()> {
        let Self::Flushed(flushed) = self else {
            return Ok(());
        };
        let now = stamp(flushed.engine.as_ref(), flushed.partition, tx).await?;
        if now == flushed.stamp {
            return Ok(());
        }
        let what = format!("partition {} as it was", flushed.partition);
        Err(Error::new(ErrorKind::NotReadable { what }))
    }
}

async fn stamp(engine: &dyn Engine, partition: Partition, tx: u64) -> Result<FlushStamp> {
    let row = engine.get(partition, tables::STAMP, STAMP_KEY).await;
    let row = row.map_err(|error| Error::storage(error, tx))?;
    let stamp = row.map(FlushStamp::read).transpose();
    let what = || ErrorKind::Malformed {
        what: format!("the stamp of partition {partition}"),
    };
    Ok(stamp
        .map_err(|error| Error::caused(what(), error))?
        .unwrap_or_default())
}
