//! Ownerships and checkpoints of consumer groups.

use std::ops::Bound;

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::limits;

use crate::checkpoint::{Checkpoint, Condition};
use crate::claim::{ClaimCommand, ClaimReply, Ownership};
use crate::error::{Error, Kind, Result};
use crate::hubs::{EventHubs, Known};
use crate::live::Spot;
use crate::parked::Parked;
use crate::place::{self, PARKED, folded};
use crate::position::Position;
use crate::slot_command::{Advance, SlotCommand, SlotReply};
use crate::slot_group::parked_prefix;

/// The outcome of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The record is written.
    Written(Ownership),
    /// Another write came first; the current version of the record.
    Conflict(u64),
}

/// Ownership, checkpoint and backlog of a group in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    pub partition: u32,
    pub ownership: Option<Ownership>,
    pub checkpoint: Option<Checkpoint>,
    pub last_sequence: i64,
    /// Stored events after the group's checkpoint.
    pub lag: i64,
}

impl EventHubs {
    /// Ownership, checkpoint and backlog of a group, by partition.
    pub async fn standings(&self, hub: &str, group: &str) -> Result<Vec<Standing>> {
        let ownerships = self.ownerships(hub, group).await?;
        let checkpoints = self.checkpoints(hub, group).await?;
        let mut standings = Vec::with_capacity(checkpoints.len());
        for (partition, checkpoint) in (0..).zip(checkpoints) {
            let now = self.partition(hub, partition).await?;
            let done = checkpoint.map_or(-1, |checkpoint| checkpoint.sequence);
            let ownership = ownerships.iter().find(|one| one.partition == partition);
            standings.push(Standing {
                partition,
                ownership: ownership.cloned(),
                checkpoint,
                last_sequence: now.last_sequence,
                lag: (now.last_sequence - done.max(now.first_sequence - 1)).max(0),
            });
        }
        Ok(standings)
    }

    /// Writes who owns a partition of a group, if its record has version `expected`
    /// (0: there is none). A change of owner disconnects the group's reader of the
    /// partition before this returns.
    pub async fn claim(
        &self,
        hub: &str,
        group: &str,
        partition: u32,
        expected: u64,
        owner: &str,
    ) -> Result<Claimed> {
        let known = self.known_group(hub, group).await?;
        known.check(partition)?;
        let command = ClaimCommand::Claim {
            partition,
            version: expected,
            owner: owner.to_owned(),
        };
        let to = place::claims(known.hub.id, &folded(group));
        match self.inner.claims.call(to, command).await? {
            ClaimReply::Claimed { ownership, before } => {
                if before != ownership.owner {
                    let claim = (Some(ownership.version), owner);
                    self.owner_changed(&known, group, partition, claim).await;
                }
                Ok(Claimed::Written(ownership))
            }
            ClaimReply::Conflict(version) => Ok(Claimed::Conflict(version)),
            ClaimReply::Listed(_) => Err(Error::damaged("a reply")),
        }
    }

    /// The owners of a group's partitions; those without a record are left out.
    pub async fn ownerships(&self, hub: &str, group: &str) -> Result<Vec<Ownership>> {
        let known = self.known_group(hub, group).await?;
        let to = place::claims(known.hub.id, &folded(group));
        let command = ClaimCommand::List(known.hub.partitions);
        match self.inner.claims.call(to, command).await? {
            ClaimReply::Listed(found) => Ok(found),
            _ => Err(Error::damaged("a reply")),
        }
    }

    /// Disconnects a group's readers of a partition after a change of owner. A claim
    /// with a version is recorded.
    pub(crate) async fn owner_changed(
        &self,
        known: &Known,
        group: &str,
        partition: u32,
        (version, owner): (Option<u64>, &str),
    ) {
        let spot = self.spot(known, group, partition);
        let words = format!(
            "partition {partition} of '{}' was claimed by '{owner}' for group '{group}', so \
             the receiver that was there is getting disconnected.",
            known.hub.name
        );
        let claim = version.map(|version| (version, owner));
        let why = Error::new(Kind::Displaced, words);
        self.cut_off(known, &spot, claim, &why).await;
    }

    /// Disconnects a group's readers of a partition, at any node.
    async fn cut_off(&self, known: &Known, spot: &Spot, claim: Option<(u64, &str)>, why: &Error) {
        if self.inner.router.is_alone() {
            return self.inner.live.claimed(spot, claim, why);
        }
        let usher = self.usher(known, spot.partition);
        let told = tokio::time::timeout(limits::NODE_TELL, usher.claimed(spot, claim, why));
        // An unreachable owner has lost its readers, or will.
        if !told.await.is_ok_and(|told| told.is_ok()) {
            let (hub, partition) = (known.hub.name.as_str(), spot.partition);
            tracing::debug!(event = "events.claim_untold", hub, partition);
        }
    }

    /// Moves a group's checkpoint to `position`, forwards or back, and restarts the
    /// partition's reader from there. Returns the sequence number of the next event.
    pub async fn reset(
        &self,
        hub: &str,
        group: &str,
        partition: u32,
        position: Position,
    ) -> Result<i64> {
        let known = self.known_group(hub, group).await?;
        let (next, offset) = self.find(&known, partition, position).await?;
        let to = (next - 1, offset);
        self.advance(hub, group, partition, to, Condition::Always)
            .await?;
        let spot = self.spot(&known, group, partition);
        let words = "the checkpoint was moved; reading starts again from there";
        let why = Error::new(Kind::CheckpointMoved, words);
        self.cut_off(&known, &spot, None, &why).await;
        Ok(next)
    }

    /// Has the processor that owns the partition retry the dead letters; returns
    /// whether this node runs one.
    pub async fn replay_parked(&self, hub: &str, group: &str, partition: u32) -> Result<bool> {
        let known = self.known_group(hub, group).await?;
        known.check(partition)?;
        let spot = self.spot(&known, group, partition);
        Ok(self.inner.live.ring(&spot))
    }

    /// The checkpoint of a group in a partition.
    pub async fn checkpoint(
        &self,
        hub: &str,
        group: &str,
        partition: u32,
    ) -> Result<Option<Checkpoint>> {
        let known = self.known_group(hub, group).await?;
        self.checkpoint_of(&known, group, partition).await
    }

    pub(crate) async fn checkpoint_of(
        &self,
        known: &Known,
        group: &str,
        partition: u32,
    ) -> Result<Option<Checkpoint>> {
        known.check(partition)?;
        let command = SlotCommand::Checkpoint {
            hub: known.hub.id,
            group: folded(group),
        };
        match self.tell(known, partition, command).await? {
            SlotReply::Checkpoint(found) => Ok(found),
            _ => Err(Error::damaged("a reply")),
        }
    }

    /// The checkpoints of a group, by partition.
    pub async fn checkpoints(&self, hub: &str, group: &str) -> Result<Vec<Option<Checkpoint>>> {
        let partitions = self.known(hub).await?.hub.partitions;
        let all = (0..partitions).map(|partition| self.checkpoint(hub, group, partition));
        futures_util::future::try_join_all(all).await
    }

    /// Moves a group's checkpoint.
    pub async fn advance(
        &self,
        hub: &str,
        group: &str,
        partition: u32,
        to: (i64, i64),
        condition: Condition,
    ) -> Result<Checkpoint> {
        let known = self.known_group(hub, group).await?;
        let command = advance(&known, group, to, condition);
        self.advance_of(&known, partition, command).await
    }

    pub(crate) async fn advance_of(
        &self,
        known: &Known,
        partition: u32,
        advance: Advance,
    ) -> Result<Checkpoint> {
        known.check(partition)?;
        let command = SlotCommand::Advance(advance);
        match self.tell(known, partition, command).await? {
            SlotReply::Checkpoint(Some(checkpoint)) => Ok(checkpoint),
            _ => Err(Error::damaged("a reply")),
        }
    }

    /// Dead letters of a group in a partition, from sequence number `from` on, in
    /// order.
    pub async fn parked(
        &self,
        hub: &str,
        group: &str,
        partition: u32,
        from: i64,
    ) -> Result<Vec<Parked>> {
        let known = self.known_group(hub, group).await?;
        known.check(partition)?;
        let window = self.window(&known, partition);
        let prefix = parked_prefix(known.hub.id, partition, &folded(group));
        let bound = |sequence: i64| {
            let mut key = prefix.clone();
            key.extend_from_slice(&sequence.to_be_bytes());
            Bound::Included(Bytes::from(key))
        };
        let rows = window.rows(PARKED, bound(from), bound(i64::MAX), limits::SCAN_ROWS);
        let rows = rows.await?;
        let read = |row: steadfast_partition::Row| {
            place::decode(&row.value).map_err(|_| Error::damaged("a dead letter"))
        };
        rows.into_iter().map(read).collect()
    }

    /// Stores a dead letter of a group.
    pub async fn park(&self, hub: &str, group: &str, partition: u32, parked: Parked) -> Result<()> {
        let known = self.known_group(hub, group).await?;
        let command = SlotCommand::Park {
            hub: known.hub.id,
            group: folded(group),
            parked,
        };
        self.tell(&known, partition, command).await.map(drop)
    }

    /// Removes a dead letter.
    pub async fn unpark(
        &self,
        hub: &str,
        group: &str,
        partition: u32,
        sequence: i64,
    ) -> Result<()> {
        let known = self.known_group(hub, group).await?;
        let command = SlotCommand::Unpark {
            hub: known.hub.id,
            group: folded(group),
            sequence,
        };
        match self.tell(&known, partition, command).await {
            Err(error) if error.kind() == Kind::CheckpointMoved => Ok(()),
            told => told.map(drop),
        }
    }

    pub(crate) async fn known_group(
        &self,
        hub: &str,
        group: &str,
    ) -> Result<std::sync::Arc<Known>> {
        let known = self.known(hub).await?;
        match known.hub.group(group) {
            Some(_) => Ok(known),
            None => Err(Error::group(&known.hub.name, group)),
        }
    }
}

/// The command that moves a checkpoint to an event, by sequence number and offset.
pub(crate) fn advance(
    known: &Known,
    group: &str,
    (sequence, offset): (i64, i64),
    condition: Condition,
) -> Advance {
    Advance {
        hub: known.hub.id,
        group: folded(group),
        checkpoint: Checkpoint {
            sequence,
            offset,
            modified: Timestamp(0),
        },
        condition,
    }
}
