//! Takes over a partition from the most advanced replica.
//!
//! 1. The epoch on the record is raised. From now on no other node changes the holders.
//! 2. All holders are asked. A holder that answers refuses earlier epochs from then on,
//!    so an entry of the old owner is in an answer, or is never acknowledged.
//! 3. `quorum` decides. If another node's replica is the most advanced, it is fetched.
//! 4. Living holders get the same content, and the new set is recorded, before
//!    anything is acknowledged in the new epoch.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use steadfast_core::id::{Epoch, Owner, Partition, TableId};
use steadfast_storage::engine::{CasOutcome, Tenure};
use steadfast_storage::replica_content::ReplicaError;
use steadfast_storage::{Error, ErrorKind as StorageKind, Result};

use super::leader_state::LeaderState;
use super::message::{Message, ReplicationEnvelope, Response};
use super::peers::ReplicationContext;
use super::quorum::{ClaimDecision, ReplicaReport, decide};
use super::reconcile::desired_holders;
use super::replica_set::ReplicaSet;
use super::stream;
use crate::error::ErrorKind;

/// Time-out for holders to get the content before the set is recorded without them.
const JOINING: Duration = Duration::from_secs(2);

/// A partition that this node has claimed.
pub(super) struct ClaimedPartition {
    pub(super) leader: Arc<LeaderState>,
    pub(super) tenure: Tenure,
}

/// Raises the epoch on the record; returns its new version and content, or `None` if
/// another node changed it first.
pub(super) async fn raise_epoch(
    common: &ReplicationContext,
    partition: Partition,
    (version, charter): (u64, ReplicaSet),
) -> Result<Option<(u64, ReplicaSet)>> {
    let charter = ReplicaSet {
        epoch: charter.epoch.next(),
        owner: Some(common.me),
        ..charter
    };
    write(common, partition, version, &charter).await
}

async fn write(
    common: &ReplicationContext,
    partition: Partition,
    version: u64,
    charter: &ReplicaSet,
) -> Result<Option<(u64, ReplicaSet)>> {
    let key = ReplicaSet::key(partition);
    let swap = common.durable.cas(&key, version, charter.encode()).await?;
    Ok(match swap {
        CasOutcome::Done(version) => Some((version, charter.clone())),
        CasOutcome::Conflict { .. } => None,
    })
}

/// Claims a partition in the epoch that was raised for it.
pub(super) async fn claim(
    common: &Arc<ReplicationContext>,
    partition: Partition,
    (mut version, mut charter): (u64, ReplicaSet),
) -> Result<ClaimedPartition> {
    let epoch = charter.epoch;
    let fenced = || Error::new(StorageKind::Fenced { partition, epoch });
    let holders = charter.holders.iter();
    let heard = holders
        .map(|holder| async move { (*holder, ask(common, partition, epoch, *holder).await) });
    let heard = join_all(heard).await;
    let base = match decide(common.me, &heard) {
        ClaimDecision::Wait => {
            return Err(Error::new(ErrorKind::ReplicasUnavailable { partition }));
        }
        ClaimDecision::Begin(from, at) => {
            if from != common.me {
                fetch(common, partition, epoch, from).await?;
            }
            Some(at)
        }
        verdict => {
            charter.life += 1;
            // The set is empty until the partition has begun: if the claim stops here, no
            // replica counts, not even the local one, which may miss entries.
            charter.holders.clear();
            // On the record first: an empty copy of this epoch counts as the furthest.
            let written = write(common, partition, version, &charter).await;
            // Logged also if the outcome is unknown: the next claim no longer sees the loss.
            if verdict == ClaimDecision::Lost && !matches!(written, Ok(None)) {
                tracing::error!(
                    event = "volatile.lost",
                    %partition,
                    life = charter.life,
                    "all that is left of a volatile partition may miss what was acknowledged; \
                     it begins anew"
                );
            }
            (version, charter) = written?.ok_or_else(fenced)?;
            common.local.empty(partition, epoch).map_err(|_| fenced())?;
            None
        }
    };
    let tenure = common.local.grant(partition, common.me, epoch);
    let tenure = tenure.map_err(|_| fenced())?;
    let seat = Arc::new(LeaderState::new(partition, charter.clone(), version));
    let mut ending = LeaderStateGuard {
        seat: Arc::clone(&seat),
        is_kept: false,
    };
    for (holder, heard) in &heard {
        if let (ReplicaReport::Has(_), Some(base)) = (heard, base)
            && *holder != common.me
        {
            stream::open(common, &seat, *holder, Some(base));
        }
    }
    joined(&seat).await;
    charter.holders = desired_holders(common.me, &seat.state.lock(), &common.peers.staying());
    let written = write(common, partition, version, &charter).await?;
    let (version, charter) = written.ok_or_else(fenced)?;
    let mut state = seat.state.lock();
    (state.version, state.replica_set) = (version, charter);
    drop(state);
    ending.is_kept = true;
    tracing::debug!(event = "volatile.taken", %partition, epoch = epoch.0);
    Ok(ClaimedPartition {
        leader: seat,
        tenure,
    })
}

/// Stops the leader state on drop unless the claim succeeded.
struct LeaderStateGuard {
    seat: Arc<LeaderState>,
    is_kept: bool,
}

impl Drop for LeaderStateGuard {
    fn drop(&mut self) {
        if !self.is_kept {
            self.seat.stop();
        }
    }
}

async fn ask(
    common: &ReplicationContext,
    partition: Partition,
    epoch: Epoch,
    holder: Owner,
) -> ReplicaReport {
    if holder == common.me {
        let here = common.local.fence(partition, epoch);
        return here.map_or(ReplicaReport::Silent, |here| {
            here.map_or(ReplicaReport::Nothing, ReplicaReport::Has)
        });
    }
    let letter = ReplicationEnvelope {
        partition,
        epoch,
        message: Message::Ask,
    };
    if !common.peers.is_living(holder) {
        return ReplicaReport::Dead;
    }
    match common.send(holder, &letter).await {
        Some(Response::Have(Some(position))) => ReplicaReport::Has(position),
        Some(Response::Have(None)) => ReplicaReport::Nothing,
        _ if common.peers.is_living(holder) => ReplicaReport::Silent,
        _ => ReplicaReport::Dead,
    }
}

/// Fetches another node's replica. It no longer changes: it accepts this epoch only.
async fn fetch(
    common: &ReplicationContext,
    partition: Partition,
    epoch: Epoch,
    from: Owner,
) -> Result<()> {
    let silent = || Error::new(ErrorKind::ReplicasUnavailable { partition });
    let refused = |_: ReplicaError| Error::new(StorageKind::Fenced { partition, epoch });
    let session = common.session();
    let local = &common.local;
    local.begin(partition, epoch, session).map_err(refused)?;
    let (mut part, mut after) = (1, None);
    loop {
        let letter = ReplicationEnvelope {
            partition,
            epoch,
            message: Message::Read { after },
        };
        let answer = common.send(from, &letter).await;
        let Some(Response::Page {
            rows,
            number,
            hash,
            meta,
        }) = answer
        else {
            return Err(silent());
        };
        let place = (session, part);
        let Some((table, key, _)) = rows.last() else {
            let done = local.complete(partition, epoch, place, number, hash, meta);
            return done.map_err(refused);
        };
        after = Some((*table, key.clone()));
        let staged = local.stage(partition, epoch, place, &rows);
        staged.map_err(refused)?;
        part += 1;
    }
}

/// Waits, for a bounded time, until every stream has sent the content or failed.
async fn joined(seat: &LeaderState) {
    let mut changes = seat.changes();
    let all = async {
        loop {
            changes.mark_unchanged();
            let is_done = {
                let state = seat.state.lock();
                let mut lines = state.streams.iter();
                lines.all(|line| line.is_broken || line.is_ready())
            };
            if is_done || changes.changed().await.is_err() {
                return;
            }
        }
    };
    // A late holder is recorded when it is ready.
    let _ = tokio::time::timeout(JOINING, all).await;
}

/// A holder's response to a message.
pub(super) fn handle(common: &ReplicationContext, letter: ReplicationEnvelope) -> Response {
    let ReplicationEnvelope {
        partition,
        epoch,
        message: word,
    } = letter;
    let local = &common.local;
    let done = match word {
        Message::Ask => match local.fence(partition, epoch) {
            Ok(position) => return Response::Have(position),
            Err(no) => Err(no),
        },
        Message::Read { after } => match local.fence(partition, epoch) {
            Ok(Some(_)) => return page(common, partition, after),
            Ok(None) => Err(ReplicaError::Strange),
            Err(no) => Err(no),
        },
        Message::Adopt { base } => local.adopt(partition, epoch, base),
        Message::Begin { session } => local.begin(partition, epoch, session),
        Message::Rows {
            session,
            part,
            rows,
        } => local.stage(partition, epoch, (session, part), &rows),
        Message::Whole {
            session,
            part,
            number,
            hash,
            meta,
        } => local.complete(partition, epoch, (session, part), number, hash, meta),
        Message::Append { entries } => local.follow(partition, epoch, &entries),
        Message::Forget { session } => local.forget(partition, epoch, session),
    };
    match done {
        Ok(()) => Response::Done,
        Err(ReplicaError::Deposed(epoch)) => Response::Deposed(epoch),
        Err(ReplicaError::Strange) => Response::Strange,
    }
}

/// Bytes of one page of a replica.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

fn page(
    common: &ReplicationContext,
    partition: Partition,
    after: Option<(TableId, Bytes)>,
) -> Response {
    let base = common.local.base(partition);
    Response::Page {
        rows: common.local.page(partition, after, PAGE_BYTES),
        number: base.number,
        hash: base.hash,
        meta: base.meta,
    }
}
