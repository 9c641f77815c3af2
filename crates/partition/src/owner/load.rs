//! Reads what a partition needs from its tables.
//!
//! Reads may wait for the engine, so they run outside the loop. A read that fails is
//! repeated: the loop cannot continue without its result, and a ledger that has failed
//! for good ends the loop anyway.

use std::ops::Bound;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::backoff::Backoff;
use steadfast_core::id::{Lsn, Partition, TableId};
use steadfast_core::limits;
use steadfast_storage::engine::{Scan, TableRow};
use steadfast_storage::{Ledger, Result, Snapshot, Visibility};

use crate::execution::effect::Effect;
use crate::execution::pending_effects::Timer;
use crate::execution::pinned_rows::RowAddress;
use crate::execution::tables::{OUTBOX, RECEIVED, SENT, TIMERS, WORK};
use crate::ingress::address::Envelope;
use crate::ingress::transport::PartitionLink;
use crate::links::inbox;
use crate::links::outbox;

/// State that is loaded before the first command runs.
pub(crate) struct InitialState {
    /// The last number assigned per destination.
    pub(crate) sent: Vec<(Partition, u64)>,
    /// The last number handled per link.
    pub(crate) received: Vec<(PartitionLink, u64)>,
    /// Open work.
    pub(crate) work: Vec<Effect>,
}

/// Reads the links and the open work. Idle instances cost nothing.
pub(crate) async fn initial_state(ledger: &Ledger) -> Result<InitialState> {
    let mut opening = InitialState {
        sent: Vec::new(),
        received: Vec::new(),
        work: Vec::new(),
    };
    all(ledger, SENT, |row| {
        if let (Some(to), Some(last)) = (row.key.first_chunk(), number(&row.value)) {
            opening
                .sent
                .push((Partition(u32::from_be_bytes(*to)), last));
        }
    })
    .await?;
    all(ledger, RECEIVED, |row| {
        if let (Some(link), Some(handled)) = (inbox::split_row_key(&row.key), number(&row.value)) {
            opening.received.push((link, handled));
        }
    })
    .await?;
    all(ledger, WORK, |row| {
        if let Ok(envelope) = Envelope::decode(row.value)
            && row.key.len() > 2
        {
            opening.work.push(Effect {
                partition: ledger.partition(),
                epoch: ledger.tenure(),
                from: envelope.to,
                work: Some(row.key.slice(2..)),
                body: envelope.body,
            });
        }
    })
    .await?;
    Ok(opening)
}

/// Reads rows for a command that waits.
pub(crate) async fn rows(
    ledger: Ledger,
    rows: Vec<RowAddress>,
) -> Vec<(RowAddress, Option<Bytes>)> {
    let read = rows.into_iter().map(|row| {
        let ledger = &ledger;
        async move {
            let (table, key) = row;
            let value = persist(|| ledger.get(table, &key, Visibility::Staged)).await;
            ((table, key), value)
        }
    });
    futures_util::future::join_all(read).await
}

/// Reads up to `limit` timers from `from` on, once `after` is durable, and the key of
/// the next one.
pub(crate) async fn timers(
    ledger: Ledger,
    from: Bytes,
    limit: usize,
    after: Lsn,
) -> (Vec<Timer>, Option<Bytes>) {
    // If it never becomes durable, the partition is loaded again and this result is
    // dropped.
    let _ = ledger.wait(after).await;
    let range = |from: Bytes| Scan {
        from: Bound::Included(from),
        to: Bound::Unbounded,
        limit: limit + 1,
    };
    let mut rows = persist(|| scan(&ledger, TIMERS, range(from.clone()))).await;
    let next = (rows.len() > limit).then(|| rows.pop()).flatten();
    let timers = rows.into_iter().map(|row| Timer {
        key: row.key,
        body: row.value,
    });
    (timers.collect(), next.map(|row| row.key))
}

/// Reads messages to a destination from number `from` on, and whether these are
/// the last.
pub(crate) async fn messages(
    ledger: Ledger,
    to: Partition,
    from: u64,
) -> (Vec<(u64, Bytes)>, bool) {
    let limit = limits::LINK_QUEUE / 2;
    let range = || Scan {
        from: Bound::Included(outbox::row_key(to, from)),
        to: Bound::Included(outbox::row_key(to, u64::MAX)),
        limit,
    };
    let rows = persist(|| scan(&ledger, OUTBOX, range())).await;
    let is_last = rows.len() < limit;
    let message = |row: TableRow| {
        let (_, number) = outbox::split_row_key(&row.key)?;
        Some((number, row.value))
    };
    (rows.into_iter().filter_map(message).collect(), is_last)
}

/// Calls `each` for every row of a table, page by page.
async fn all(ledger: &Ledger, table: TableId, mut each: impl FnMut(TableRow)) -> Result<()> {
    let snapshot = ledger.snapshot()?;
    let mut from = Bound::Unbounded;
    loop {
        let range = Scan {
            from,
            to: Bound::Unbounded,
            limit: limits::SCAN_ROWS,
        };
        let rows = snapshot.scan(table, range).await?;
        let Some(last) = rows.last() else {
            return Ok(());
        };
        from = Bound::Excluded(last.key.clone());
        rows.into_iter().for_each(&mut each);
    }
}

async fn scan(ledger: &Ledger, table: TableId, range: Scan) -> Result<Vec<TableRow>> {
    let snapshot: Snapshot = ledger.snapshot()?;
    snapshot.scan(table, range).await
}

/// Repeats a read until it succeeds. The owner drops this when the ledger fails.
async fn persist<T, F: Future<Output = Result<T>>>(read: impl Fn() -> F) -> T {
    let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_secs(1));
    loop {
        match read().await {
            Ok(value) => return value,
            Err(error) => {
                tracing::warn!(
                    event = "partition.read_retried",
                    %error,
                    "a read of a partition's tables failed and is repeated",
                );
                tokio::time::sleep(backoff.pause()).await;
            }
        }
    }
}

fn number(value: &[u8]) -> Option<u64> {
    value.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}
