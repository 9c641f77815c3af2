//! Requests to the owner of an instance or entity.
//!
//! Only the owner of an instance notifies its waiters. So a node that waits for an
//! instance of another node sends that node long-poll requests.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_collections::schema::Record;
use steadfast_core::id::Partition;
use steadfast_core::limits;
use steadfast_partition::{
    Error as PartitionError, ErrorKind, NodeTransport as _, OwnerHandler, OwnerRequest,
    ServiceError,
};

use super::entities::CallOutcome;
use super::peers::WorkerPeers;
use super::task_hub::{Inner, TaskHub, TaskHubs, unreadable};
use crate::command::{OperationRequest, Reply};
use crate::dispatch::RemoteResult;
use crate::error::{Error, Result};
use crate::id::KIND;
use crate::rows;
use crate::status::InstanceStatus;

/// The progress of an instance.
#[derive(Record, Clone, Copy, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(super) enum Milestone {
    /// Its first turn is committed.
    #[n(0)]
    Started,
    /// It is finished.
    #[n(1)]
    Ended,
}

impl Milestone {
    pub(super) fn is_reached(self, status: InstanceStatus) -> bool {
        match self {
            Self::Started => status != InstanceStatus::Pending,
            Self::Ended => status.is_final(),
        }
    }
}

/// A request to the owner of an instance.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
enum HubRequest {
    /// Whether an instance has reached a milestone; a long poll.
    #[n(0)]
    Reached {
        #[n(0)]
        hub: String,
        #[n(1)]
        instance: String,
        #[n(2)]
        stage: Milestone,
    },
    /// Call an entity.
    #[n(1)]
    Call {
        #[n(0)]
        hub: String,
        #[n(1)]
        request: OperationRequest,
    },
    /// Accept the result of a worker.
    #[n(2)]
    Result {
        #[n(0)]
        hub: String,
        #[n(1)]
        token: String,
        #[n(2)]
        instance: String,
        #[n(3)]
        brought: RemoteResult,
    },
}

/// Handles requests of other nodes.
struct HubOwnerHandler(Weak<Inner>);

impl TaskHubs {
    /// Connects the other nodes: they may wait here for instances of this node, and workers
    /// of this node get work of other nodes.
    pub fn connect_peers(&self, others: Arc<dyn WorkerPeers>) {
        let _ = self.inner.peers.set(others);
        let clerk = HubOwnerHandler(Arc::downgrade(&self.inner));
        self.inner.router.register(KIND, Arc::new(clerk));
    }
}

#[async_trait]
impl OwnerHandler for HubOwnerHandler {
    async fn handle(
        &self,
        partition: Partition,
        request: Bytes,
    ) -> std::result::Result<Bytes, PartitionError> {
        let gone = || PartitionError::new(ErrorKind::NotOwner { partition });
        let hubs = TaskHubs::from(self.0.upgrade().ok_or_else(gone)?);
        let what = "a request about an instance";
        let malformed = |_| PartitionError::new(ErrorKind::Malformed { what });
        match rows::decode(&request).map_err(malformed)? {
            HubRequest::Reached {
                hub,
                instance,
                stage,
            } => {
                let hub = hubs.hub(&hub).map_err(refused)?;
                let waiting = hub.reached(&instance, stage, false);
                let reached = tokio::time::timeout(limits::FOLLOW_TIME, waiting).await;
                match reached.unwrap_or(Ok(None)).map_err(refused)? {
                    Some(_) => Ok(Bytes::from_static(b"1")),
                    None => Ok(Bytes::new()),
                }
            }
            HubRequest::Result {
                hub,
                token,
                instance,
                brought,
            } => {
                let hub = hubs.hub(&hub).map_err(refused)?;
                let taken = hub.take_result(&token, &instance, brought).await;
                let is_fresh = taken.map_err(refused)?;
                Ok(Bytes::copy_from_slice(&[u8::from(is_fresh)]))
            }
            HubRequest::Call { hub, request } => {
                let hub = hubs.hub(&hub).map_err(refused)?;
                match hub.call_here(Box::new(request)).await.map_err(refused)? {
                    CallOutcome::Answered(outcome) => Ok(rows::encode(&Reply::Answered(outcome))),
                    // The caller retries at the next owner.
                    CallOutcome::Moved(request) if request.is_repeatable() => Err(gone()),
                    CallOutcome::Moved(_) => Err(PartitionError::unknown(partition, None)),
                }
            }
        }
    }
}

/// Converts an error, with its code, into a rejection for another node.
#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn refused(error: Error) -> PartitionError {
    let refusal = ServiceError::new(error.code(), error.message().to_owned());
    PartitionError::new(ErrorKind::Refused(refusal))
}

impl TaskHub {
    /// Waits for a while at the owner of an instance; returns whether it reached `stage`.
    pub(super) async fn reached_there(&self, instance: &str, stage: Milestone) -> Result<bool> {
        let wanted = HubRequest::Reached {
            hub: self.name().to_owned(),
            instance: instance.to_owned(),
            stage,
        };
        let answer = self.inquire(instance, &wanted, true).await?;
        Ok(!answer.is_empty())
    }

    /// Calls an entity at its owner.
    pub(super) async fn call_there(
        &self,
        request: OperationRequest,
    ) -> Result<crate::entity::Outcome> {
        let entity = request.requested.operation.target.clone();
        let is_repeatable = request.is_repeatable();
        let hub = self.name().to_owned();
        let wanted = HubRequest::Call { hub, request };
        let answer = self.inquire(&entity, &wanted, is_repeatable).await?;
        match rows::decode(&answer) {
            Ok(Reply::Answered(outcome)) => Ok(outcome),
            _ => Err(unreadable()),
        }
    }

    /// Sends the result of a worker to the owner of its instance.
    pub(super) async fn result_there(
        &self,
        token: &str,
        instance: &str,
        brought: RemoteResult,
    ) -> Result<bool> {
        let wanted = HubRequest::Result {
            hub: self.name().to_owned(),
            token: token.to_owned(),
            instance: instance.to_owned(),
            brought,
        };
        // Results are idempotent.
        let answer = self.inquire(instance, &wanted, true).await?;
        Ok(answer.first() == Some(&1))
    }

    async fn inquire(
        &self,
        instance: &str,
        wanted: &HubRequest,
        is_repeatable: bool,
    ) -> Result<Bytes> {
        let inquiry = OwnerRequest {
            kind: KIND,
            body: rows::encode(wanted),
            is_repeatable,
        };
        let router = Arc::clone(&self.inner.router);
        Ok(router.request(self.partition(instance), inquiry).await?)
    }
}
