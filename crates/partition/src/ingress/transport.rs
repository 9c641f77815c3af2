//! Transport of messages between partitions.

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::Partition;

use crate::error::{Error, ErrorKind, Result};
use crate::ingress::address::Envelope;
use crate::ingress::owner_handler::OwnerRequest;
use crate::reads::read_request::{ReadRequest, ReadResponse};

/// One direction between two partitions. Numbers on a link ascend from 1; a
/// source that was restored or lost starts a new link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PartitionLink {
    pub source: Partition,
    /// The incarnation of the source's space.
    pub incarnation: u128,
}

/// A batch of messages of one link, with dense numbers from `first`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessageBatch {
    pub link: PartitionLink,
    pub first: u64,
    /// Encoded envelopes.
    pub messages: Vec<Bytes>,
}

/// The transport between nodes.
#[async_trait]
pub trait NodeTransport: Send + Sync + 'static {
    /// Sends a command to the owner of `to` and returns its reply.
    async fn call(&self, to: Partition, envelope: Envelope) -> Result<Bytes>;

    /// Sends a batch to the owner of `to`. Answers the last number of the link that is
    /// durably handled there. May be repeated, late and in any order.
    async fn deliver(&self, to: Partition, parcel: MessageBatch) -> Result<u64>;

    /// Commits commands to instances of one partition at its owner: all or nothing.
    async fn commit(&self, to: Partition, _: Vec<Envelope>) -> Result<()> {
        Err(Error::new(ErrorKind::NotOwner { partition: to }))
    }

    /// Reads what is durable at the owner of `to`.
    async fn read(&self, to: Partition, _: ReadRequest) -> Result<ReadResponse> {
        Err(Error::new(ErrorKind::NotOwner { partition: to }))
    }

    /// Sends a request to an owner handler at the owner of `to`.
    async fn request(&self, to: Partition, _: OwnerRequest) -> Result<Bytes> {
        Err(Error::new(ErrorKind::NotOwner { partition: to }))
    }

    /// Whether this is the only node.
    fn is_single_node(&self) -> bool {
        false
    }
}

/// The transport of a single node: there is no other one.
pub struct SingleNode;

#[async_trait]
impl NodeTransport for SingleNode {
    async fn call(&self, to: Partition, _: Envelope) -> Result<Bytes> {
        Err(Error::new(ErrorKind::NotOwner { partition: to }))
    }

    async fn deliver(&self, to: Partition, _: MessageBatch) -> Result<u64> {
        Err(Error::new(ErrorKind::NotOwner { partition: to }))
    }

    fn is_single_node(&self) -> bool {
        true
    }
}
