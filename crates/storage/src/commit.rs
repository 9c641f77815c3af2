//! Group commit: one append under way, the next collecting.
//!
//! There is no timer: a lone transaction is sent at once, and whatever arrives
//! meanwhile shares the next append. An entry whose outcome is unknown is resolved
//! before anything else is sent, by acquiring with the old epoch.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join;
use steadfast_core::id::{EntryNumber, Epoch};
use steadfast_core::limits;

use crate::engine::{AcquireOutcome, Entry, Outcome, Tenure};
use crate::error::{Error, ErrorKind};
use crate::lock_shim::LockFamily;
use crate::node_context::NodeContext;
use crate::partition_state::{ClosedEntry, PartitionState};
use crate::queue::NotifyQueue;

/// Attempts to resolve an unknown outcome before the partition is abandoned.
const RESOLVE_ATTEMPTS: u32 = 8;

/// Sends group after group until the task is aborted. A group's waiters are answered
/// while the next group is already being written.
pub(crate) async fn run<L: LockFamily>(
    node: Arc<NodeContext>,
    ready: Arc<NotifyQueue<Arc<PartitionState<L>>, L>>,
) {
    let mut done: Vec<(ClosedEntry<L>, Outcome)> = Vec::new();
    loop {
        if done
            .iter()
            .any(|(_, outcome)| *outcome != Outcome::Committed)
        {
            // Later groups depend on how the unknown outcome is resolved.
            settle_all(&node, std::mem::take(&mut done)).await;
        }
        let group = node.groups.load(Ordering::Relaxed);
        let closed = collect(&ready, group);
        if closed.is_empty() {
            settle_all(&node, std::mem::take(&mut done)).await;
            ready.wait().await;
            continue;
        }
        node.groups.fetch_add(1, Ordering::Relaxed);
        let entries: Vec<Entry> = closed.iter().map(|c| c.entry.clone()).collect();
        let writing = node.engine.append(&entries);
        let showing = settle_all(&node, std::mem::take(&mut done));
        let (answer, ()) = join(writing, showing).await;
        match answer {
            Ok(outcomes) => done = closed.into_iter().zip(outcomes).collect(),
            Err(error) => closed.iter().for_each(|closed| refuse(closed, &error)),
        }
    }
}

/// Closes the entries of the next group, until it is large enough.
fn collect<L: LockFamily>(
    ready: &NotifyQueue<Arc<PartitionState<L>>, L>,
    group: u64,
) -> Vec<ClosedEntry<L>> {
    let mut entries: Vec<ClosedEntry<L>> = Vec::new();
    let (mut bytes, mut is_large) = (0, false);
    let mut again = Vec::new();
    while bytes < limits::GROUP_BYTES {
        let Some(ledger) = ready.pop() else {
            break;
        };
        let is_next_large = ledger.pending_bytes() > limits::LARGE_ENTRY_BYTES;
        if !entries.is_empty() && is_next_large != is_large {
            // It is the first of the next group.
            ready.put_back(ledger);
            break;
        }
        is_large = is_next_large;
        if let Some(closed) = ledger.close_entry(group, limits::GROUP_BYTES) {
            bytes += closed.entry.weight();
            if closed.more {
                again.push(ledger);
            }
            entries.push(closed);
        }
    }
    for ledger in again {
        ready.push(ledger);
    }
    entries
}

async fn settle_all<L: LockFamily>(node: &NodeContext, done: Vec<(ClosedEntry<L>, Outcome)>) {
    for (closed, outcome) in done {
        settle(node, closed, outcome).await;
    }
}

async fn settle<L: LockFamily>(node: &NodeContext, closed: ClosedEntry<L>, outcome: Outcome) {
    let ledger = Arc::clone(&closed.ledger);
    let (partition, epoch) = (closed.entry.partition, closed.entry.epoch);
    match outcome {
        Outcome::Committed => ledger.committed(closed, epoch),
        Outcome::Fenced => {
            node.fenced.fetch_add(1, Ordering::Relaxed);
            ledger.fail(&Error::new(ErrorKind::Fenced { partition, epoch }));
        }
        Outcome::Unknown => {
            node.unknown.fetch_add(1, Ordering::Relaxed);
            ledger.write().resolving = true;
            match resolve(node, &closed).await {
                Ok(epoch) => ledger.committed(closed, epoch),
                Err(error) => ledger.fail(&error),
            }
        }
    }
}

/// Answers the callers of an entry that was not written, and goes on unless the
/// engine will never accept a write again.
fn refuse<L: LockFamily>(closed: &ClosedEntry<L>, error: &Error) {
    match error.kind() {
        ErrorKind::LogStopped { .. } | ErrorKind::Closed | ErrorKind::Damaged { .. } => {
            closed.ledger.fail(error)
        }
        _ => closed.ledger.roll_back(closed.entry.number, error),
    }
}

/// Finds out whether an entry was committed, and commits it if it was not.
async fn resolve<L: LockFamily>(
    node: &NodeContext,
    closed: &ClosedEntry<L>,
) -> Result<Epoch, Error> {
    let mut entry = closed.entry.clone();
    let partition = entry.partition;
    let unknown = |cause: Error| Error::caused(ErrorKind::OutcomeUnknown { partition }, cause);
    let mut expect = entry.epoch;
    let mut pause = Duration::from_millis(10);
    let mut last_cause = Error::new(ErrorKind::Closed);
    for _ in 0..RESOLVE_ATTEMPTS {
        match node.engine.acquire(partition, node.owner, expect).await {
            Ok(AcquireOutcome::Granted(tenure)) if holds(&tenure, &entry) => {
                return Ok(tenure.epoch);
            }
            Ok(AcquireOutcome::Granted(tenure)) if tenure.last.next() == entry.number => {
                // It did not happen: send the same bytes in the new epoch.
                expect = tenure.epoch;
                entry.epoch = tenure.epoch;
                match node.engine.append(std::slice::from_ref(&entry)).await {
                    Ok(outcomes) if outcomes == [Outcome::Committed] => return Ok(expect),
                    Ok(_) => continue,
                    Err(cause) => last_cause = cause,
                }
            }
            Ok(AcquireOutcome::Granted(tenure)) => return Err(lost(&entry, tenure.last)),
            // Our own attempt that timed out has bumped the epoch: go on from it.
            Ok(AcquireOutcome::Refused { epoch, owner })
                if owner == Some(node.owner) && epoch > expect =>
            {
                expect = epoch;
                continue;
            }
            Ok(AcquireOutcome::Refused { epoch, .. }) => {
                return Err(unknown(Error::new(ErrorKind::Fenced { partition, epoch })));
            }
            Err(cause) => last_cause = cause,
        }
        if matches!(
            last_cause.kind(),
            ErrorKind::LogStopped { .. } | ErrorKind::Closed
        ) {
            break;
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    Err(unknown(last_cause))
}

fn holds(tenure: &Tenure, entry: &Entry) -> bool {
    tenure.last == entry.number && tenure.last_hash == entry.hash()
}

fn lost(entry: &Entry, found: EntryNumber) -> Error {
    Error::new(ErrorKind::Lost {
        partition: entry.partition,
        what: format!(
            "entry {} was pending, the log ends at {found}",
            entry.number
        ),
    })
}

#[cfg(test)]
mod tests;
