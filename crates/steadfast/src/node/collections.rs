//! The REST backend of collections on all nodes.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use steadfast_admin::{
    CollectionsBackend, CommitResponse, EntryPage, EntryRange, IdempotencyKey, JobPath,
    PartitionAddress, PartitionScheme, QueuePage, ServiceDescription, ServiceListing, ServicePage,
    StepResult, TransactionCommit, TransactionStep, VisibilityFilter,
};
use steadfast_collections::{OutgoingMessage as _, PartitionKey, Scheme, ServiceDefinition};
use steadfast_core::hex;
use steadfast_core::task::name_task;
use steadfast_jobs::{CollectionId, JobId, JobMessage};
use steadfast_net::access::Principal;
use steadfast_net::http::Problem;
use tokio::task::JoinSet;

use super::inner::Inner;
use super::owner_rpc::{CollectionsRequest, CollectionsResponse, service, to_partition_scheme};
use super::rest_collections::CommitOrder;
use super::{idempotency, scheduler};

/// Routes REST requests for collections to their owner.
pub(super) struct RestCollections(pub(super) Arc<Inner>);

#[async_trait]
impl CollectionsBackend for RestCollections {
    async fn create_service(
        &self,
        name: &str,
        scheme: PartitionScheme,
        is_volatile: bool,
    ) -> Result<(), Problem> {
        let name = name.to_owned();
        let home = self.0.definition_partition(&name);
        let errand = CollectionsRequest::Create { name, scheme }.of(is_volatile);
        self.0.run_at_owner(home, errand).await.map(drop)
    }

    async fn services(
        &self,
        after: &str,
        limit: usize,
        is_visible: VisibilityFilter<'_>,
    ) -> Result<ServicePage, Problem> {
        let mut page = ServicePage::default();
        let mut after = after.to_owned();
        loop {
            let found = self.services_after(&after, limit + 1).await?;
            let is_end = found.len() <= limit;
            for service in found {
                after.clone_from(&service.name);
                if !is_visible(&service.name) {
                    continue;
                }
                if page.services.len() == limit {
                    page.next = page.services.last().map(|last| last.name.clone());
                    return Ok(page);
                }
                page.services.push(ServiceListing {
                    scheme: to_partition_scheme(&service.scheme),
                    name: service.name,
                    is_volatile: service.is_volatile,
                });
            }
            if is_end {
                return Ok(page);
            }
        }
    }

    async fn describe(&self, place: PartitionAddress) -> Result<ServiceDescription, Problem> {
        let found = self.find(&place.service).await?;
        let service = found.ok_or_else(|| missing(&place))?;
        let mut described = ServiceDescription {
            scheme: to_partition_scheme(&service.scheme),
            volatile: service.is_volatile,
            incarnation: None,
            copies: None,
        };
        let is_one = place.partition.is_some() || service.scheme == Scheme::Singleton;
        if service.is_volatile && is_one {
            let number = partition_number(&service, place.partition.as_deref())?;
            let errand = CollectionsRequest::Life {
                name: service.name.clone(),
                scheme: described.scheme.clone(),
                number,
            };
            let CollectionsResponse::Life {
                incarnation,
                copies,
            } = self.run(&service, number, errand).await?
            else {
                return Err(unexpected_response());
            };
            described.incarnation = Some(incarnation);
            described.copies = Some(copies);
        }
        Ok(described)
    }

    async fn transact(
        &self,
        place: PartitionAddress,
        steps: Vec<TransactionStep>,
    ) -> Result<Vec<StepResult>, Problem> {
        let service = self.find_or_create(&place, writes(&steps)).await?;
        let number = partition_number(&service, place.partition.as_deref())?;
        let errand = CollectionsRequest::Transact {
            scheme: to_partition_scheme(&service.scheme),
            name: service.name.clone(),
            number,
            steps,
        };
        match self.run(&service, number, errand).await? {
            CollectionsResponse::Steps(found) => Ok(found),
            _ => Err(unexpected_response()),
        }
    }

    async fn commit(
        &self,
        place: PartitionAddress,
        commit: TransactionCommit,
    ) -> Result<CommitResponse, Problem> {
        let TransactionCommit {
            steps,
            messages,
            effects,
            idempotency,
        } = commit;
        let is_write = writes(&steps) || !messages.is_empty() || idempotency.is_some();
        let service = self.find_or_create(&place, is_write).await?;
        let number = partition_number(&service, place.partition.as_deref())?;
        let order = CommitOrder {
            steps,
            messages: messages.iter().map(|one| hex::encode(one)).collect(),
            effects,
            idempotency: idempotency.as_ref().map(digested),
            recalls_only: false,
        };
        self.commit_at_owner(&service, number, order).await
    }

    async fn recall(
        &self,
        place: PartitionAddress,
        key: IdempotencyKey,
    ) -> Result<Option<CommitResponse>, Problem> {
        let Some(service) = self.find(&place.service).await? else {
            return Ok(None);
        };
        let number = partition_number(&service, place.partition.as_deref())?;
        let order = CommitOrder {
            steps: Vec::new(),
            messages: Vec::new(),
            effects: Vec::new(),
            idempotency: Some(digested(&key)),
            recalls_only: true,
        };
        let found = self.commit_at_owner(&service, number, order).await?;
        Ok(Some(found).filter(|found| found.is_replayed))
    }

    async fn create_job(
        &self,
        caller: &Principal,
        job: &JobPath,
        properties: Value,
    ) -> Result<Bytes, Problem> {
        let (id, grants) = (job_id(job)?, caller.grants().to_vec());
        let draft = scheduler::draft_job(&self.0, grants, &id, properties).await?;
        encoded(steadfast_jobs::create(draft))
    }

    fn cancel_job(&self, job: &JobPath) -> Result<Bytes, Problem> {
        encoded(steadfast_jobs::cancel(&job_id(job)?))
    }

    async fn peek(
        &self,
        place: PartitionAddress,
        collection: &str,
        after: Option<u64>,
        limit: usize,
    ) -> Result<QueuePage, Problem> {
        let found = self.find(&place.service).await?;
        let service = found.ok_or_else(|| missing(&place))?;
        let number = partition_number(&service, place.partition.as_deref())?;
        let request = CollectionsRequest::Peek {
            scheme: to_partition_scheme(&service.scheme),
            name: service.name.clone(),
            number,
            collection: collection.to_owned(),
            after,
            limit,
        };
        match self.run(&service, number, request).await? {
            CollectionsResponse::Queue(page) => Ok(page),
            _ => Err(unexpected_response()),
        }
    }

    async fn scan(
        &self,
        place: PartitionAddress,
        collection: &str,
        range: EntryRange,
    ) -> Result<EntryPage, Problem> {
        let found = self.find(&place.service).await?;
        let service = found.ok_or_else(|| missing(&place))?;
        let number = partition_number(&service, place.partition.as_deref())?;
        let errand = CollectionsRequest::Scan {
            scheme: to_partition_scheme(&service.scheme),
            name: service.name.clone(),
            number,
            collection: collection.to_owned(),
            range,
        };
        match self.run(&service, number, errand).await? {
            CollectionsResponse::Page(page) => Ok(page),
            _ => Err(unexpected_response()),
        }
    }
}

impl RestCollections {
    /// The service of a request. The first write creates a service with one partition, if
    /// none is named.
    async fn find_or_create(
        &self,
        place: &PartitionAddress,
        is_write: bool,
    ) -> Result<ServiceDefinition, Problem> {
        match self.find(&place.service).await? {
            Some(service) => Ok(service),
            None if is_write && place.partition.is_none() => {
                self.create_service(&place.service, PartitionScheme::Singleton, false)
                    .await?;
                let found = self.find(&place.service).await?;
                found.ok_or_else(|| missing(place))
            }
            None => Err(missing(place)),
        }
    }

    /// Commits in a partition of a service, at its owner.
    async fn commit_at_owner(
        &self,
        service: &ServiceDefinition,
        number: u32,
        order: CommitOrder,
    ) -> Result<CommitResponse, Problem> {
        let request = CollectionsRequest::Commit {
            scheme: to_partition_scheme(&service.scheme),
            name: service.name.clone(),
            number,
            order,
        };
        match self.run(service, number, request).await? {
            CollectionsResponse::Committed {
                response,
                is_replayed,
            } => Ok(CommitResponse {
                response,
                is_replayed,
            }),
            _ => Err(unexpected_response()),
        }
    }

    /// The first services after a name, of all partitions.
    async fn services_after(
        &self,
        after: &str,
        count: usize,
    ) -> Result<Vec<ServiceDefinition>, Problem> {
        let runtime = &self.0.runtime;
        let (table, range) = ServiceDefinition::rows_after(after, count);
        let mut scans = JoinSet::new();
        for partition in runtime.space().all() {
            let (router, range) = (Arc::clone(runtime.router()), range.clone());
            scans.spawn(name_task(async move {
                let view = router.reader(partition).view()?;
                view.scan(table, range).await
            }));
        }
        let mut rows = Vec::new();
        while let Some(scan) = scans.join_next().await {
            let scan = scan.map_err(|_| Problem::internal("a scan has ended early"))?;
            rows.extend(scan?);
        }
        rows.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        // Every partition has returned its first rows only.
        let services = rows.iter().take(count).map(ServiceDefinition::from_row);
        services
            .collect::<Result<_, _>>()
            .map_err(|error| Problem::new(error.code(), error.to_string()))
    }

    /// The service of this name, if there is one.
    async fn find(&self, name: &str) -> Result<Option<ServiceDefinition>, Problem> {
        let name = name.to_owned();
        let home = self.0.definition_partition(&name);
        match self
            .0
            .run_at_owner(home, CollectionsRequest::Describe { name: name.clone() })
            .await?
        {
            CollectionsResponse::Service(found) => {
                Ok(found.map(|scheme| service(name, scheme, false)))
            }
            CollectionsResponse::Volatile(scheme) => Ok(Some(service(name, scheme, true))),
            _ => Err(unexpected_response()),
        }
    }

    async fn run(
        &self,
        service: &ServiceDefinition,
        number: u32,
        errand: CollectionsRequest,
    ) -> Result<CollectionsResponse, Problem> {
        let store = service.store_partition(number, self.0.partitions());
        let errand = errand.of(service.is_volatile);
        self.0.run_at_owner(store, errand).await
    }
}

/// Whether steps change anything.
fn writes(steps: &[TransactionStep]) -> bool {
    let mut steps = steps.iter();
    steps.any(|step| !matches!(step, TransactionStep::Get { .. }))
}

/// A key, and the digest of its request.
fn digested(key: &IdempotencyKey) -> (String, String) {
    (key.key.clone(), idempotency::fingerprint(key))
}

fn job_id(job: &JobPath) -> Result<JobId, Problem> {
    let collection = CollectionId::new(&job.subscription, &job.resource_group, &job.collection);
    let id = collection.and_then(|collection| collection.job(&job.job));
    id.ok_or_else(|| Problem::bad_request("a part of a job's name is empty or too long"))
}

fn encoded(message: JobMessage) -> Result<Bytes, Problem> {
    let encoded = message.into_bytes();
    encoded.map_err(|error| Problem::new(error.code(), error.kind().to_string()))
}

/// Resolves the name of a partition according to the scheme of its service.
fn partition_number(service: &ServiceDefinition, text: Option<&str>) -> Result<u32, Problem> {
    let number = text.and_then(|text| text.parse().ok());
    let key = match (&service.scheme, text, number) {
        (Scheme::Int64Range { .. }, _, Some(number)) => PartitionKey::Number(number),
        (_, Some(name), _) => PartitionKey::Name(name),
        (_, None, _) => PartitionKey::Only,
    };
    let number = service.partition(key);
    number.map_err(|error| Problem::new(error.code(), error.to_string()))
}

fn missing(place: &PartitionAddress) -> Problem {
    Problem::not_found(format!("there is no service '{}'", place.service))
}

fn unexpected_response() -> Problem {
    Problem::internal("the owner sent a response that does not match the request")
}
