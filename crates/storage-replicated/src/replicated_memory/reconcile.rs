//! Reconciles the replica set of a partition.
//!
//! Holders that do not answer are removed from the record, so that no commit waits for
//! them; further nodes get a copy, and are recorded when it is complete.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::id::{EntryNumber, Owner};
use steadfast_storage::engine::CasOutcome;

use super::leader_state::{LeaderState, State};
use super::message::{Message, ReplicationEnvelope};
use super::peers::ReplicationContext;
use super::quorum::{COPIES, rank};
use super::replica_set::ReplicaSet;
use super::stream;

/// Longest time between two checks.
const ROUND: Duration = Duration::from_millis(500);

/// Delay before a failed write of the record is retried.
const AGAIN: Duration = Duration::from_millis(50);

/// Delay before a failed holder is retried.
const PAUSE: Duration = Duration::from_secs(2);

/// Another owner has the partition.
struct DeposedError;

/// Reconciles the holders until another owner takes the partition.
pub(super) async fn run(common: Arc<ReplicationContext>, seat: Arc<LeaderState>) {
    while !seat.is_deposed() {
        if round(&common, &seat).await.is_err() {
            seat.depose();
            return;
        }
        // Either the state has changed, or the next check is due.
        let _ = tokio::time::timeout(ROUND, seat.bell.notified()).await;
    }
}

async fn round(
    common: &Arc<ReplicationContext>,
    seat: &Arc<LeaderState>,
) -> Result<(), DeposedError> {
    if !may_judge(common, seat) {
        return Ok(());
    }
    let staying = common.peers.staying();
    let wanted = {
        let mut state = seat.state.lock();
        // Without writes, a dead holder would go unnoticed.
        for line in &mut state.streams {
            if !line.is_broken && !common.peers.is_living(line.to) {
                line.break_off();
            }
        }
        let wanted = desired_holders(common.me, &state, &staying);
        (wanted != state.replica_set.holders).then_some(wanted)
    };
    if let Some(wanted) = wanted {
        record(common, seat, wanted).await?;
    }
    let now = common.clock.monotonic();
    for node in candidates(common, seat, staying, now) {
        stream::open(common, seat, node, None);
    }
    Ok(())
}

/// Whether this node can tell which nodes live. A node without a lease has had no contact
/// for a while and takes all others for dead.
fn may_judge(common: &ReplicationContext, seat: &LeaderState) -> bool {
    common.has_lease() && common.peers.may_own(seat.partition)
}

/// The desired holders: this node, and those with a complete replica. A current holder
/// stays unless it is leaving and there are enough others.
pub(super) fn desired_holders(me: Owner, state: &State, staying: &[Owner]) -> Vec<Owner> {
    let ready = state.streams.iter().filter(|line| line.is_ready());
    let mut ready: Vec<_> = ready.map(|line| line.to).collect();
    let holders = &state.replica_set.holders;
    ready.sort_by_key(|node| (!staying.contains(node), !holders.contains(node), *node));
    let mut wanted = vec![me];
    wanted.extend(ready.into_iter().take(COPIES - 1));
    wanted.sort_unstable();
    wanted
}

/// Opens streams to further nodes and removes broken ones.
fn candidates(
    common: &ReplicationContext,
    seat: &LeaderState,
    mut staying: Vec<Owner>,
    now: Duration,
) -> Vec<Owner> {
    let mut state = seat.state.lock();
    let State {
        replica_set: charter,
        next,
        streams: lines,
        pauses,
        ..
    } = &mut *state;
    pauses.retain(|(_, until)| *until > now);
    let is_bound = |node: &Owner| {
        let next = next.as_ref().is_some_and(|next| next.contains(node));
        next || charter.holders.contains(node)
    };
    lines.retain(|line| {
        let is_over = line.is_broken && !is_bound(&line.to);
        if is_over {
            pauses.push((line.to, now + PAUSE));
        }
        !is_over
    });
    let kept = lines.iter().filter(|line| staying.contains(&line.to));
    let missing = (COPIES - 1).saturating_sub(kept.count());
    staying.sort_by_key(|node| rank(seat.partition, *node));
    staying.retain(|node| {
        let is_paused = pauses.iter().any(|(other, _)| other == node);
        let is_held = lines.iter().any(|line| line.to == *node);
        *node != common.me && !is_paused && !is_held
    });
    staying.truncate(missing);
    staying
}

/// Records a new set of holders. While that is under way, an entry needs a majority of
/// both sets.
async fn record(
    common: &ReplicationContext,
    seat: &LeaderState,
    wanted: Vec<Owner>,
) -> Result<(), DeposedError> {
    let (version, charter, floor) = {
        let mut state = seat.state.lock();
        state.next = Some(wanted.clone());
        let charter = ReplicaSet {
            holders: wanted.clone(),
            ..state.replica_set.clone()
        };
        // No entry is written while the state is locked.
        (state.version, charter, common.local.last(seat.partition))
    };
    if !caught_up(common, seat, &wanted, floor).await {
        // Nothing was recorded.
        seat.state.lock().next = None;
        seat.notify_progress();
        return Ok(());
    }
    let (key, value) = (ReplicaSet::key(seat.partition), charter.encode());
    let version = loop {
        match common.durable.cas(&key, version, value.clone()).await {
            Ok(CasOutcome::Done(version)) => break version,
            // The answer to an earlier attempt was lost.
            Ok(CasOutcome::Conflict {
                version,
                value: Some(found),
            }) if found == value => break version,
            Ok(CasOutcome::Conflict { .. }) => return Err(DeposedError),
            // The outcome is unknown; until it is resolved, both sets count.
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
        if seat.is_deposed() || !may_judge(common, seat) {
            return Err(DeposedError);
        }
    };
    let before = settle(seat, charter, version);
    let gone = before.iter().filter(|node| !wanted.contains(node));
    for node in gone.filter(|node| common.peers.is_living(**node)) {
        let letter = ReplicationEnvelope {
            partition: seat.partition,
            epoch: seat.epoch,
            message: Message::Forget {
                session: common.session(),
            },
        };
        // A holder that misses this message keeps an unused copy.
        let _ = common.send(*node, &letter).await;
    }
    Ok(())
}

/// Adopts the recorded set; returns the holders that it replaces.
fn settle(seat: &LeaderState, charter: ReplicaSet, version: u64) -> Vec<Owner> {
    let holders = charter.holders.len();
    tracing::info!(event = "volatile.holders", partition = %seat.partition, holders);
    let mut state = seat.state.lock();
    let before = std::mem::replace(&mut state.replica_set, charter);
    (state.version, state.next) = (version, None);
    let State {
        replica_set: charter,
        streams: lines,
        ..
    } = &mut *state;
    for line in lines.iter_mut() {
        if before.holders.contains(&line.to) && !charter.holders.contains(&line.to) {
            line.break_off();
        }
    }
    drop(state);
    seat.notify_progress();
    before.holders
}

/// Waits until new holders have every entry that was acknowledged without them; false if
/// one has failed.
async fn caught_up(
    common: &ReplicationContext,
    seat: &LeaderState,
    wanted: &[Owner],
    floor: EntryNumber,
) -> bool {
    let mut changes = seat.changes();
    loop {
        changes.mark_unchanged();
        {
            let state = seat.state.lock();
            let all = wanted.iter().filter(|node| **node != common.me);
            let mut lines = all.map(|node| state.streams.iter().find(|line| line.to == *node));
            let mut is_behind = false;
            let is_well = lines.all(|line| {
                is_behind |= line.is_some_and(|line| line.acked < floor);
                line.is_some_and(|line| !line.is_broken)
            });
            if !is_well || state.is_deposed {
                return false;
            }
            if !is_behind {
                return true;
            }
        }
        // A stalled stream breaks by its time-out.
        let _ = changes.changed().await;
    }
}
