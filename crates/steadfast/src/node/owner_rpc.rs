//! Requests for collections, executed at their owner.

use std::sync::Weak;

use async_trait::async_trait;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_admin::{
    EntryPage, EntryRange, PartitionScheme, QueuePage, StepResult, TransactionStep,
};
use steadfast_collections::{Scheme, ServiceDefinition, partition_of};
use steadfast_core::id::Partition;
use steadfast_net::http::Problem;
use steadfast_partition::{
    Error as PartitionError, ErrorKind, NodeTransport as _, OwnerHandler, OwnerRequest,
    ServiceError, ServiceKind,
};

use super::inner::Inner;
use super::rest_collections::{self, CommitOrder};
use crate::inspect::{InspectRequest, InspectTable};

/// The kind of the owner handler of collections; no service has it.
pub(super) const CLERK: ServiceKind = ServiceKind(96);

/// A request to the owner of a partition. On the wire the number of a service's partition
/// has its former name, `slot`.
#[derive(Serialize, Deserialize)]
pub(super) enum CollectionsRequest {
    /// Create a service, or return the existing one. Its first partition is on the owner.
    Create {
        name: String,
        scheme: PartitionScheme,
    },
    /// Return the scheme of a service, if it exists. Its first partition is on the owner.
    Describe { name: String },
    /// Run all steps in one transaction in a partition of the owner.
    Transact {
        name: String,
        scheme: PartitionScheme,
        #[serde(rename = "slot")]
        number: u32,
        steps: Vec<TransactionStep>,
    },
    /// Run all steps in one transaction in a partition of the owner, and send messages.
    Commit {
        name: String,
        scheme: PartitionScheme,
        #[serde(rename = "slot")]
        number: u32,
        order: CommitOrder,
    },
    /// Read a page of a partition of the owner.
    Scan {
        name: String,
        scheme: PartitionScheme,
        #[serde(rename = "slot")]
        number: u32,
        collection: String,
        range: EntryRange,
    },
    /// Read the first entries of a queue in a partition of the owner.
    Peek {
        name: String,
        scheme: PartitionScheme,
        #[serde(rename = "slot")]
        number: u32,
        collection: String,
        after: Option<u64>,
        limit: usize,
    },
    /// Return the incarnation of a partition of a volatile service.
    Life {
        name: String,
        scheme: PartitionScheme,
        #[serde(rename = "slot")]
        number: u32,
    },
    /// Run the request for a volatile service. A node without volatile services rejects it.
    Volatile(Box<CollectionsRequest>),
    /// Inspect a store partition of the owner.
    Look {
        partition: u16,
        question: InspectRequest,
    },
}

impl CollectionsRequest {
    /// Wraps the request if its service is volatile.
    pub(super) fn of(self, is_volatile: bool) -> Self {
        if is_volatile {
            Self::Volatile(Box::new(self))
        } else {
            self
        }
    }

    /// Whether the request is idempotent.
    fn is_repeatable(&self) -> bool {
        match self {
            Self::Volatile(errand) => errand.is_repeatable(),
            Self::Describe { .. }
            | Self::Scan { .. }
            | Self::Peek { .. }
            | Self::Life { .. }
            | Self::Look { .. } => true,
            // A repetition finds the key of the first one.
            Self::Commit { order, .. } => order.idempotency.is_some(),
            Self::Create { .. } | Self::Transact { .. } => false,
        }
    }
}

/// The response to a [`CollectionsRequest`].
#[derive(Serialize, Deserialize)]
pub(super) enum CollectionsResponse {
    Service(Option<PartitionScheme>),
    /// The service is volatile.
    Volatile(PartitionScheme),
    Life {
        incarnation: u64,
        copies: usize,
    },
    Steps(Vec<StepResult>),
    Committed {
        response: Value,
        is_replayed: bool,
    },
    Page(EntryPage),
    Queue(QueuePage),
    Sheet(InspectTable),
}

/// Converts a scheme to its wire form.
pub(super) fn to_partition_scheme(scheme: &Scheme) -> PartitionScheme {
    match scheme.clone() {
        Scheme::Singleton => PartitionScheme::Singleton,
        Scheme::Named(names) => PartitionScheme::Named(names),
        Scheme::Int64Range { low, high, count } => PartitionScheme::Range { low, high, count },
    }
}

/// Converts a scheme from its wire form.
pub(super) fn to_scheme(scheme: PartitionScheme) -> Scheme {
    match scheme {
        PartitionScheme::Singleton => Scheme::Singleton,
        PartitionScheme::Named(names) => Scheme::Named(names),
        PartitionScheme::Range { low, high, count } => Scheme::Int64Range { low, high, count },
    }
}

/// The definition of a service from its wire form.
pub(super) fn service(
    name: String,
    scheme: PartitionScheme,
    is_volatile: bool,
) -> ServiceDefinition {
    ServiceDefinition {
        name,
        scheme: to_scheme(scheme),
        is_volatile,
    }
}

/// The response that describes a service.
fn described(service: Option<&ServiceDefinition>) -> CollectionsResponse {
    match service {
        Some(service) if service.is_volatile => {
            CollectionsResponse::Volatile(to_partition_scheme(&service.scheme))
        }
        found => {
            CollectionsResponse::Service(found.map(|service| to_partition_scheme(&service.scheme)))
        }
    }
}

impl Inner {
    /// Executes a request at the owner of the partition, which may be this node.
    pub(super) async fn run_at_owner(
        &self,
        index: u16,
        errand: CollectionsRequest,
    ) -> Result<CollectionsResponse, Problem> {
        let partition = Partition::new(self.runtime.space().number, index);
        let router = self.runtime.router();
        if router.is_single_node() {
            return self.run_locally(errand).await;
        }
        let inquiry = OwnerRequest {
            kind: CLERK,
            body: write(&errand),
            is_repeatable: errand.is_repeatable(),
        };
        let answer = router.request(partition, inquiry).await;
        let answer = answer.map_err(|error| match error.kind() {
            ErrorKind::Refused(refusal) => Problem::new(refusal.code, refusal.message.clone()),
            _ => Problem::new(error.code(), error.to_string()),
        })?;
        read(&answer)
            .ok_or_else(|| Problem::internal("the owner sent a response that cannot be read"))
    }

    /// The store partition of a service's first partition, which holds its definition.
    pub(super) fn definition_partition(&self, name: &str) -> u16 {
        partition_of(name, 0, self.partitions())
    }

    /// Executes a request in partitions of this node.
    async fn run_locally(
        &self,
        errand: CollectionsRequest,
    ) -> Result<CollectionsResponse, Problem> {
        let (errand, is_volatile) = match errand {
            CollectionsRequest::Volatile(errand) => (*errand, true),
            errand => (errand, false),
        };
        match errand {
            CollectionsRequest::Create { name, scheme } => {
                let made =
                    rest_collections::create(self, service(name, scheme, is_volatile)).await?;
                Ok(described(Some(&made)))
            }
            CollectionsRequest::Describe { name } => {
                let found = rest_collections::find(self, &name).await?;
                Ok(described(found.as_ref()))
            }
            CollectionsRequest::Transact {
                name,
                scheme,
                number,
                steps,
            } => {
                let service = service(name, scheme, is_volatile);
                let state = rest_collections::partition(self, &service, number).await?;
                rest_collections::transact(&state, steps)
                    .await
                    .map(CollectionsResponse::Steps)
            }
            CollectionsRequest::Commit {
                name,
                scheme,
                number,
                order,
            } => {
                let service = service(name, scheme, is_volatile);
                let done = rest_collections::commit(self, &service, number, &order).await?;
                Ok(CollectionsResponse::Committed {
                    response: done.response,
                    is_replayed: done.is_replayed,
                })
            }
            CollectionsRequest::Scan {
                name,
                scheme,
                number,
                collection,
                range,
            } => {
                let service = service(name, scheme, is_volatile);
                let state = rest_collections::partition(self, &service, number).await?;
                rest_collections::scan(&state, &collection, range)
                    .await
                    .map(CollectionsResponse::Page)
            }
            CollectionsRequest::Peek {
                name,
                scheme,
                number,
                collection,
                after,
                limit,
            } => {
                let service = service(name, scheme, is_volatile);
                let state = rest_collections::partition(self, &service, number).await?;
                rest_collections::peek(&state, &collection, after, limit)
                    .await
                    .map(CollectionsResponse::Queue)
            }
            CollectionsRequest::Life {
                name,
                scheme,
                number,
            } => {
                let service = service(name, scheme, is_volatile);
                let index = service.store_partition(number, self.partitions());
                let partition = rest_collections::partition(self, &service, number).await?;
                Ok(CollectionsResponse::Life {
                    incarnation: partition.incarnation(),
                    copies: self.volatile.replica_count(index),
                })
            }
            CollectionsRequest::Volatile(_) => Err(Problem::bad_request(
                "a volatile request inside a volatile request",
            )),
            CollectionsRequest::Look {
                partition,
                question,
            } => {
                let here = |other: Partition| other.index() == partition;
                let sheet = self.inspect_local(here, &question).await?;
                Ok(CollectionsResponse::Sheet(sheet))
            }
        }
    }
}

/// Executes requests of other nodes.
pub(super) struct CollectionsOwnerHandler(pub(super) Weak<Inner>);

#[async_trait]
impl OwnerHandler for CollectionsOwnerHandler {
    async fn handle(&self, partition: Partition, request: Bytes) -> Result<Bytes, PartitionError> {
        let gone = || PartitionError::new(ErrorKind::NotOwner { partition });
        let inner = self.0.upgrade().ok_or_else(gone)?;
        let what = "a request for collections";
        let errand = read(&request);
        let errand = errand.ok_or_else(|| PartitionError::new(ErrorKind::Malformed { what }))?;
        let done = inner.run_locally(errand).await.map_err(|problem| {
            let words = problem.message().to_owned();
            let refusal = ServiceError::new(problem.code(), words);
            PartitionError::new(ErrorKind::Refused(refusal))
        })?;
        Ok(write(&done))
    }
}

fn write<T: Serialize>(value: &T) -> Bytes {
    // Strings and JSON values always serialize.
    serde_json::to_vec(value).unwrap_or_default().into()
}

fn read<T: DeserializeOwned>(bytes: &Bytes) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}
