//! Finds the owner of a partition: here, or beyond.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::RwLock;
use steadfast_core::id::Partition;

use crate::address::Envelope;
use crate::door::Door;
use crate::error::{Error, Kind, Result};
use crate::transport::{Parcel, Transport};

/// The partitions of all spaces that this node serves, and the way to the others.
pub struct Router {
    doors: RwLock<BTreeMap<Partition, Door>>,
    beyond: Arc<dyn Transport>,
}

impl Router {
    /// Serves nothing yet.
    pub fn new(beyond: Arc<dyn Transport>) -> Self {
        Self {
            doors: RwLock::new(BTreeMap::new()),
            beyond,
        }
    }

    /// The partition, if this node serves it.
    pub fn door(&self, partition: Partition) -> Option<Door> {
        self.doors.read().get(&partition).cloned()
    }

    /// All partitions that this node serves.
    pub fn doors(&self) -> Vec<Door> {
        self.doors.read().values().cloned().collect()
    }

    /// Handles a call of another node. It is never sent on: nodes that disagree
    /// about an owner would send it round for ever.
    pub async fn serve(&self, to: Partition, envelope: Envelope) -> Result<Bytes> {
        match self.door(to) {
            Some(door) => door.serve(envelope).await,
            None => Err(Error::new(Kind::NotOwner { partition: to })),
        }
    }

    /// Takes a parcel of another node.
    pub async fn receive(&self, to: Partition, parcel: Parcel) -> Result<u64> {
        match self.door(to) {
            Some(door) => door.receive(parcel).await,
            None => Err(Error::new(Kind::NotOwner { partition: to })),
        }
    }

    pub(crate) fn open(&self, door: Door) {
        self.doors.write().insert(door.partition(), door);
    }

    pub(crate) fn close(&self, partition: Partition) {
        self.doors.write().remove(&partition);
    }
}

#[async_trait]
impl Transport for Router {
    async fn call(&self, to: Partition, envelope: Envelope) -> Result<Bytes> {
        match self.door(to) {
            Some(door) => door.serve(envelope).await,
            None => self.beyond.call(to, envelope).await,
        }
    }

    async fn deliver(&self, to: Partition, parcel: Parcel) -> Result<u64> {
        match self.door(to) {
            Some(door) => door.receive(parcel).await,
            None => self.beyond.deliver(to, parcel).await,
        }
    }
}
