//! Writes a node's record, and reads those of others.

use std::sync::atomic::Ordering;

use steadfast_core::id::{Epoch, Partition};
use steadfast_storage::engine::CasOutcome;

use super::member_record::{MemberRecord, PREFIX};
use super::membership::Inner;
use crate::error::{Error, ErrorKind, Result};

impl Inner {
    /// Writes this node's record.
    pub(super) async fn publish(&self) -> Result<()> {
        if *self.is_superseded.lock() {
            return Ok(());
        }
        let member = MemberRecord {
            identity: self.setup.identity.clone(),
            owner: self.owner,
            state: *self.state.lock(),
            serves: self.serves(),
            missed: self.probes.missed(),
            is_isolated: self.is_isolated.load(Ordering::Relaxed),
        };
        let key = MemberRecord::key(&member.identity.name);
        for _ in 0..3 {
            let version = self.version.load(Ordering::Acquire);
            match self
                .setup
                .engine
                .cas(&key, version, member.encode())
                .await?
            {
                CasOutcome::Done(version) => {
                    self.version.store(version, Ordering::Release);
                    return Ok(());
                }
                CasOutcome::Conflict { version, value } => {
                    let found = value.and_then(|value| MemberRecord::decode(value).ok());
                    self.version.store(version, Ordering::Release);
                    // The response to the last write was lost.
                    if found.is_none_or(|found| found.owner == self.owner) {
                        continue;
                    }
                    self.supersede();
                    return Ok(());
                }
            }
        }
        Err(Error::new(ErrorKind::Unreachable {
            partition: Partition::new(self.space(), 0),
        }))
    }

    /// Another node took this node's name: it replaces this node.
    fn supersede(&self) {
        *self.is_superseded.lock() = true;
        self.lose_all();
        tracing::error!(
            event = "cluster.superseded",
            name = self.setup.identity.name,
            "another node has taken the name of this node; this node stops serving",
        );
    }

    /// The partitions that this node serves, with epochs.
    pub(super) fn serves(&self) -> Vec<(u16, Epoch)> {
        let Some(runtime) = self.runtime.upgrade() else {
            return Vec::new();
        };
        let space = runtime.space().number;
        let doors = runtime.router().mailboxes();
        let own = doors
            .iter()
            .filter(|door| door.partition().space() == space);
        own.map(|door| (door.partition().index(), door.ledger().epoch()))
            .collect()
    }

    pub(super) async fn tell(&self) {
        if self.publish().await.is_err() {
            self.bell.notify_one();
        }
    }

    pub(super) async fn look(&self) -> Result<()> {
        let asked = self.now();
        let records = self.setup.engine.list(PREFIX).await?;
        self.setup.members.learn(&records, asked);
        Ok(())
    }
}
