//! Ownerships and checkpoints of consumer groups.

use std::ops::Bound;

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::limits;

use crate::checkpoint::{Checkpoint, CheckpointCondition};
use crate::dead_letter::DeadLetter;
use crate::error::{Error, ErrorKind, Result};
use crate::hub_partition_command::{AdvanceCommand, HubPartitionCommand, HubPartitionResponse};
use crate::hub_partition_groups::parked_prefix;
use crate::hubs::{CachedHub, EventHubs};
use crate::keys::{self, PARKED, folded};
use crate::ownership::{Ownership, OwnershipCommand, OwnershipResponse};
use crate::position::EventPosition;
use crate::reader_registry::ReaderKey;

/// The outcome of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The record is written.
    Written(Ownership),
    /// Another write came first; the current version of the record.
    Conflict(u64),
}

/// Ownership, checkpoint and backlog of a group in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPartitionStatus {
    pub partition: u32,
    pub ownership: Option<Ownership>,
    pub checkpoint: Option<Checkpoint>,
    pub last_sequence: i64,
    /// Stored events after the group's checkpoint.
    pub lag: i64,
}

impl EventHubs {
    /// Ownership, checkpoint and backlog of a group, by partition.
    pub async fn group_status(&self, hub: &str, group: &str) -> Result<Vec<GroupPartitionStatus>> {
        let ownerships = self.ownerships(hub, group).await?;
        let checkpoints = self.checkpoints(hub, group).await?;
        let mut standings = Vec::with_capacity(checkpoints.len());
        for (partition, checkpoint) in (0..).zip(checkpoints) {
            let now = self.partition(hub, partition).await?;
            let done = checkpoint.map_or(-1, |checkpoint| checkpoint.sequence);
            let ownership = ownerships.iter().find(|one| one.partition == partition);
            standings.push(GroupPartitionStatus {
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
    ) -> Result<ClaimOutcome> {
        let known = self.known_group(hub, group).await?;
        known.check(partition)?;
        let command = OwnershipCommand::Claim {
            partition,
            version: expected,
            owner: owner.to_owned(),
        };
        let to = keys::ownership_address(known.hub.id, &folded(group));
        match self.inner.claims.call(to, command).await? {
            OwnershipResponse::Claimed { ownership, before } => {
                if before != ownership.owner {
                    let claim = (Some(ownership.version), owner);
                    self.owner_changed(&known, group, partition, claim).await;
                }
                Ok(ClaimOutcome::Written(ownership))
            }
            OwnershipResponse::Conflict(version) => Ok(ClaimOutcome::Conflict(version)),
            OwnershipResponse::Listed(_) => Err(Error::damaged("a reply")),
        }
    }

    /// The owners of a group's partitions; those without a record are left out.
    pub async fn ownerships(&self, hub: &str, group: &str) -> Result<Vec<Ownership>> {
        let known = self.known_group(hub, group).await?;
        let to = keys::ownership_address(known.hub.id, &folded(group));
        let command = OwnershipCommand::List(known.hub.partitions);
        match self.inner.claims.call(to, command).await? {
            OwnershipResponse::Listed(found) => Ok(found),
            _ => Err(Error::damaged("a reply")),
        }
    }

    /// Disconnects a group's readers of a partition after a change of owner. A claim
    /// with a version is recorded.
    pub(crate) async fn owner_changed(
        &self,
        known: &CachedHub,
        group: &str,
        partition: u32,
        (version, owner): (Option<u64>, &str),
    ) {
        let spot = self.reader_key(known, group, partition);
        let words = format!(
            "partition {partition} of '{}' was claimed by '{owner}' for group '{group}', so \
             the receiver that was there is getting disconnected.",
            known.hub.name
        );
        let claim = version.map(|version| (version, owner));
        let why = Error::new(ErrorKind::Displaced, words);
        self.disconnect_reader(known, &spot, claim, &why).await;
    }

    /// Disconnects a group's readers of a partition, at any node.
    async fn disconnect_reader(
        &self,
        known: &CachedHub,
        spot: &ReaderKey,
        claim: Option<(u64, &str)>,
        why: &Error,
    ) {
        if self.inner.router.is_single_node() {
            return self.inner.live.owner_changed(spot, claim, why);
        }
        let usher = self.reader_lease_client(known, spot.partition);
        let told = tokio::time::timeout(limits::NODE_TELL, usher.owner_changed(spot, claim, why));
        // An unreachable owner has lost its readers, or is about to.
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
        position: EventPosition,
    ) -> Result<i64> {
        let known = self.known_group(hub, group).await?;
        let (next, offset) = self.find(&known, partition, position).await?;
        let to = (next - 1, offset);
        self.advance(hub, group, partition, to, CheckpointCondition::Always)
            .await?;
        let spot = self.reader_key(&known, group, partition);
        let words = "the checkpoint was moved; reading starts again from there";
        let why = Error::new(ErrorKind::CheckpointMoved, words);
        self.disconnect_reader(&known, &spot, None, &why).await;
        Ok(next)
    }

    /// Has the processor that owns the partition retry the dead letters; returns
    /// whether this node runs one.
    pub async fn replay_dead_letters(
        &self,
        hub: &str,
        group: &str,
        partition: u32,
    ) -> Result<bool> {
        let known = self.known_group(hub, group).await?;
        known.check(partition)?;
        let spot = self.reader_key(&known, group, partition);
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
        known: &CachedHub,
        group: &str,
        partition: u32,
    ) -> Result<Option<Checkpoint>> {
        known.check(partition)?;
        let command = HubPartitionCommand::Checkpoint {
            hub: known.hub.id,
            group: folded(group),
        };
        match self.send_command(known, partition, command).await? {
            HubPartitionResponse::Checkpoint(found) => Ok(found),
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
        condition: CheckpointCondition,
    ) -> Result<Checkpoint> {
        let known = self.known_group(hub, group).await?;
        let command = advance(&known, group, to, condition);
        self.advance_of(&known, partition, command).await
    }

    pub(crate) async fn advance_of(
        &self,
        known: &CachedHub,
        partition: u32,
        advance: AdvanceCommand,
    ) -> Result<Checkpoint> {
        known.check(partition)?;
        let command = HubPartitionCommand::Advance(advance);
        match self.send_command(known, partition, command).await? {
            HubPartitionResponse::Checkpoint(Some(checkpoint)) => Ok(checkpoint),
            _ => Err(Error::damaged("a reply")),
        }
    }

    /// At most `limit` dead letters of a group in a partition, from sequence number `from`
    /// on, in order.
    pub async fn dead_letters(
        &self,
        hub: &str,
        group: &str,
        partition: u32,
        from: i64,
        limit: usize,
    ) -> Result<Vec<DeadLetter>> {
        let known = self.known_group(hub, group).await?;
        known.check(partition)?;
        let window = self.remote_reader(&known, partition);
        let prefix = parked_prefix(known.hub.id, partition, &folded(group));
        let bound = |sequence: i64| {
            let mut key = prefix.clone();
            key.extend_from_slice(&sequence.to_be_bytes());
            Bound::Included(Bytes::from(key))
        };
        let rows = window.rows(PARKED, bound(from), bound(i64::MAX), limit);
        let rows = rows.await?;
        let read = |row: steadfast_partition::TableRow| {
            keys::decode(&row.value).map_err(|_| Error::damaged("a dead letter"))
        };
        rows.into_iter().map(read).collect()
    }

    /// Stores a dead letter of a group.
    pub async fn add_dead_letter(
        &self,
        hub: &str,
        group: &str,
        partition: u32,
        parked: DeadLetter,
    ) -> Result<()> {
        let known = self.known_group(hub, group).await?;
        let command = HubPartitionCommand::AddDeadLetter {
            hub: known.hub.id,
            group: folded(group),
            parked,
        };
        self.send_command(&known, partition, command)
            .await
            .map(drop)
    }

    /// Removes a dead letter.
    pub async fn remove_dead_letter(
        &self,
        hub: &str,
        group: &str,
        partition: u32,
        sequence: i64,
    ) -> Result<()> {
        let known = self.known_group(hub, group).await?;
        let command = HubPartitionCommand::RemoveDeadLetter {
            hub: known.hub.id,
            group: folded(group),
            sequence,
        };
        match self.send_command(&known, partition, command).await {
            Err(error) if error.kind() == ErrorKind::CheckpointMoved => Ok(()),
            told => told.map(drop),
        }
    }

    pub(crate) async fn known_group(
        &self,
        hub: &str,
        group: &str,
    ) -> Result<std::sync::Arc<CachedHub>> {
        let known = self.known(hub).await?;
        match known.hub.group(group) {
            Some(_) => Ok(known),
            None => Err(Error::group(&known.hub.name, group)),
        }
    }
}

/// The command that moves a checkpoint to an event, by sequence number and offset.
pub(crate) fn advance(
    known: &CachedHub,
    group: &str,
    (sequence, offset): (i64, i64),
    condition: CheckpointCondition,
) -> AdvanceCommand {
    AdvanceCommand {
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
