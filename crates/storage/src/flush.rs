//! The flusher: folds what is committed into the tables.
//!
//! It sleeps until the log is over its target, then flushes the partitions with
//! the oldest entries, several at once, until half the target is left. So an idle
//! node does no work, and a busy one never keeps more log than its budget.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use parking_lot::Mutex;
use steadfast_core::id::{Epoch, Partition, TableId};

use crate::engine::{Flush, FlushedRow};
use crate::error::{Error, ErrorKind, Result};
use crate::ledger::Ledger;
use crate::meta;
use crate::node_context::NodeContext;
use crate::overlay::Generation;
use crate::partition_state::PartitionState;
use crate::snapshot;
use crate::state::State;

/// The partitions that a node owns, with or without open handles: until they are
/// released or fenced they have to be flushed, or they hold up the log.
pub(crate) type OwnedPartitions = Mutex<BTreeMap<Partition, Arc<PartitionState>>>;

/// How long the flusher waits before it looks again at what it could not flush.
const PAUSE: Duration = Duration::from_millis(200);

impl Ledger {
    /// Brings everything that is durable now into the tables.
    pub async fn flush(&self) -> Result<()> {
        flush_all(&self.shared).await
    }
}

/// Flushes whenever the budget asks for it, until the task is aborted.
pub(crate) async fn run(node: Arc<NodeContext>, owned: Arc<OwnedPartitions>) {
    loop {
        node.budget.pressure.notified().await;
        while node.budget.unflushed() > node.budget.target {
            if !flush_oldest(&node, &owned).await {
                // Held up by a snapshot or a full disk: a released snapshot wakes
                // us at once, anything else after a while.
                let woken = node.budget.pressure.notified();
                let _ = tokio::time::timeout(PAUSE, woken).await;
            }
        }
    }
}

/// Flushes everything that a partition holds by now.
pub(crate) async fn flush_all(ledger: &Arc<PartitionState>) -> Result<()> {
    let last = ledger.read().last;
    while ledger
        .read()
        .overlay
        .oldest_entry()
        .is_some_and(|oldest| oldest <= last)
    {
        snapshot::expire(ledger);
        if !flush(ledger).await? {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}

/// Flushes the partitions with the oldest entries until half the target is left;
/// answers whether anything was flushed.
async fn flush_oldest(node: &NodeContext, owned: &OwnedPartitions) -> bool {
    let mut ledgers: Vec<_> = {
        let mut owned = owned.lock();
        owned.retain(|_, ledger| ledger.read_checked().is_ok());
        owned.values().cloned().collect()
    };
    ledgers.sort_by_cached_key(|ledger| ledger.read().overlay.oldest_group());
    let mut surplus = node
        .budget
        .unflushed()
        .saturating_sub(node.budget.target / 2);
    let mut chosen = Vec::new();
    for ledger in ledgers {
        snapshot::expire(&ledger);
        let bytes = ledger.read().overlay.bytes();
        if bytes > 0 && surplus > 0 {
            surplus = surplus.saturating_sub(bytes);
            chosen.push(ledger);
        }
    }
    let done = join_all(chosen.iter().map(flush)).await;
    let mut progress = false;
    for (ledger, result) in chosen.iter().zip(done) {
        match result {
            Ok(flushed) => progress |= flushed,
            Err(error) => give_up(ledger, &error),
        }
    }
    progress
}

/// A flush that failed may be tried again, unless the partition is lost.
fn give_up(ledger: &PartitionState, error: &Error) {
    let partition = ledger.partition;
    tracing::warn!(event = "storage.flush_failed", %partition, %error, "flush failed");
    if matches!(
        error.kind(),
        ErrorKind::Fenced { .. } | ErrorKind::Closed | ErrorKind::LogStopped { .. }
    ) {
        ledger.abandon(error);
    }
}

/// Flushes the oldest generation of a partition; `false` if there is none that
/// may go now.
async fn flush(ledger: &Arc<PartitionState>) -> Result<bool> {
    let _one_at_a_time = ledger.flushing.lock().await;
    ledger.request_seal();
    let Some(generation) = next_generation(ledger).await? else {
        return Ok(false);
    };
    let partition = ledger.partition;
    let folded = Arc::clone(&generation);
    let fold = ledger.node.behind.run(move || {
        let (clears, rows, trims) = folded.fold();
        let tables = tables_of(&rows);
        (clears, rows, trims, tables)
    });
    let (clears, rows, trims, tables) = fold.await?;
    let (epoch, meta) = {
        let mut state = ledger.write();
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        if let Some(known) = &mut state.tables {
            known.retain(|table| !clears.contains(table));
            known.extend(tables);
        }
        (state.epoch, encode_meta(&state))
    };
    let flush = Flush {
        partition,
        epoch,
        up_to: generation.up_to,
        clears,
        rows,
        trims,
        meta,
    };
    match ledger.node.engine.flush(flush).await {
        Ok(()) => {}
        // The committer acquires anew to resolve a doubt: again in that epoch.
        Err(error) if is_fenced(&error) && has_moved_on(ledger, epoch)? => return Ok(false),
        Err(error) => return Err(error),
    }
    retire(ledger, generation).await?;
    Ok(true)
}

fn is_fenced(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Fenced { .. })
}

/// Whether this owner itself has raised the epoch, or may be doing so.
fn has_moved_on(ledger: &PartitionState, epoch: Epoch) -> Result<bool> {
    let state = ledger.read_checked()?;
    Ok(state.resolving || state.epoch != epoch)
}

/// The oldest sealed generation, once it is durable.
async fn next_generation(ledger: &PartitionState) -> Result<Option<Arc<Generation>>> {
    let mut durable = ledger.durable();
    loop {
        {
            let state = ledger.read_checked()?;
            match state.overlay.oldest_sealed() {
                Some(generation) if generation.last_lsn <= state.durable_lsn => {
                    let oldest_pin = state.pins.keys().next();
                    let is_free = oldest_pin.is_none_or(|lsn| *lsn >= generation.last_lsn);
                    return Ok(is_free.then(|| Arc::clone(generation)));
                }
                Some(_) => {}
                None if state.seal_requested => {}
                None => return Ok(None),
            }
        }
        durable
            .changed()
            .await
            .map_err(|_| Error::new(ErrorKind::Closed))?;
    }
}

/// Brings the cache up to a flushed generation and forgets the generation.
async fn retire(ledger: &Arc<PartitionState>, generation: Arc<Generation>) -> Result<()> {
    let cache = Arc::clone(&ledger.node.cache);
    let version = if generation.has_clears() {
        cache.new_version()
    } else {
        ledger.read().cache_version
    };
    let rows = Arc::clone(&generation);
    // The overlay still hides the cache, so no reader sees this half done.
    let refreshed = ledger.node.behind.run(move || {
        for (row, value) in rows.rows() {
            cache.refresh(version, row, value);
        }
    });
    refreshed.await?;
    {
        let mut state = ledger.write();
        if state.overlay.oldest_sealed().is_some() {
            state.cache_version = version;
            state.overlay.drop_oldest();
            ledger.node.budget.free(generation.bytes);
        }
    }
    // Freeing a million rows takes a while: not here, and not under the lock.
    ledger.node.behind.run(move || drop(generation)).await
}

/// The tables of rows that a flush brings.
fn tables_of(rows: &[FlushedRow]) -> BTreeSet<TableId> {
    let live = rows.iter().filter(|change| change.value.is_some());
    live.map(|change| change.table).collect()
}

fn encode_meta(state: &State) -> Bytes {
    let tables = state.tables.as_ref();
    meta::encode(state.durable_lsn, state.time, state.streams.heads(), tables)
}
