//! Joining a cluster: admission and identity.
//!
//! Only a living node can reject a newcomer, and a node lives if its record changes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::clock::Clock;
use steadfast_core::id::Owner;
use steadfast_core::limits;
use steadfast_storage::engine::{CasOutcome, Record};
use steadfast_storage::{Engine, Error as StorageError};

use super::member_record::{JoinRejection, MemberRecord, NUMBERS, NodeIdentity, PREFIX, State};
use super::members::{Members, SeenMember};
use super::network::ClusterNetwork;

/// Dependencies of a cluster member.
pub struct ClusterSetup {
    pub identity: NodeIdentity,
    /// How long a node that does not renew its lease keeps its partitions.
    pub lease: Duration,
    pub clock: Arc<dyn Clock>,
    pub engine: Arc<dyn Engine>,
    pub members: Arc<Members>,
    pub network: Arc<dyn ClusterNetwork>,
    /// A network for probes only, so that they wait behind no other requests.
    pub probing: Arc<dyn ClusterNetwork>,
}

/// Joins the cluster: checks admission and assigns an identity.
pub async fn join(setup: &ClusterSetup) -> Result<Owner, JoinError> {
    let NodeIdentity { name, .. } = &setup.identity;
    loop {
        let asked = setup.clock.monotonic();
        let records = setup.engine.list(PREFIX).await?;
        if records.len() > limits::NODES {
            return Err(JoinRejection::Crowded.into());
        }
        setup.members.learn(&records, asked);
        match setup.obstacle() {
            None => break,
            // Only a living node blocks the join: its record changes with every beat.
            Some((seen, refused)) => {
                if setup.beats(&seen).await? {
                    return Err(refused.into());
                }
                setup.members.mark_dead(&seen.member.identity.name);
            }
        }
    }
    let number = match setup.members.get(name) {
        Some(seen) => seen.member.owner.node,
        None => setup.next_number().await?,
    };
    Ok(Owner {
        node: number,
        incarnation: fastrand::u128(..),
    })
}

/// Why a node did not join.
#[derive(Clone, Debug)]
pub enum JoinError {
    Refused(JoinRejection),
    Storage(StorageError),
}

impl From<JoinRejection> for JoinError {
    fn from(refused: JoinRejection) -> Self {
        Self::Refused(refused)
    }
}

impl From<StorageError> for JoinError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl ClusterSetup {
    /// A node that this one cannot work with.
    fn obstacle(&self) -> Option<(SeenMember, JoinRejection)> {
        let own = &self.identity;
        self.members.all().into_iter().find_map(|seen| {
            let other = &seen.member.identity;
            if self.members.is_dead(&seen) {
                return None;
            }
            // No other node can listen at this node's address.
            let is_own = other.address == own.address && !own.address.is_empty();
            let refused = if other.name != own.name {
                JoinRejection::between(own, other)
            } else if is_own {
                None
            } else {
                Some(JoinRejection::Name {
                    name: own.name.clone(),
                })
            };
            refused.map(|refused| (seen, refused))
        })
    }

    /// Whether a node's record changes before the time of a lease is over.
    async fn beats(&self, seen: &SeenMember) -> Result<bool, StorageError> {
        let key = MemberRecord::key(&seen.member.identity.name);
        let end = self.clock.monotonic() + self.lease;
        while self.clock.monotonic() < end {
            tokio::time::sleep(self.lease / 10).await;
            let asked = self.clock.monotonic();
            let now = self.engine.list(PREFIX).await?;
            self.members.learn(&now, asked);
            let is_it = |record: &&Record| record.key == key;
            let Some(now) = now.iter().find(is_it) else {
                return Ok(false);
            };
            if now.version > seen.version {
                let member = MemberRecord::decode(now.value.clone());
                return Ok(member.is_ok_and(|member| member.state != State::Gone));
            }
        }
        Ok(false)
    }

    /// A number that was never assigned to a node.
    async fn next_number(&self) -> Result<u32, StorageError> {
        let (mut version, mut last) = (0, 0u32);
        loop {
            let value = Bytes::copy_from_slice(&(last + 1).to_le_bytes());
            match self.engine.cas(NUMBERS, version, value).await? {
                CasOutcome::Done(_) => return Ok(last + 1),
                CasOutcome::Conflict {
                    version: found,
                    value,
                } => {
                    version = found;
                    let bytes = value.as_deref().and_then(|value| value.try_into().ok());
                    last = bytes.map_or(0, u32::from_le_bytes);
                }
            }
        }
    }
}
