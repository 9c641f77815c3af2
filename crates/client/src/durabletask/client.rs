//! A Rust client of a remote task hub.

use steadfast_durable::native::{BoxFuture, EntityCaller};
use steadfast_durable::{
    EntityListQuery, EntityOperation, EntityView, FailureDetails, InstanceListQuery, InstanceView,
    NewInstance, Result, ResultPage, ReusePolicy,
};
use steadfast_durabletask_messages::{
    decode_entity, decode_failure, decode_overview, encode_trace, status, timestamp,
};
use steadfast_wire::durabletask as wire;
use tonic::{Code, Response, Status};
use uuid::Uuid;

use super::channel::{TaskHubService, connect, method};
use super::error::{bad_response, from_status, is_transient, rest, retry_backoff};
use super::target::Target;

/// A client of a remote task hub. Clones share one connection, which is opened on first
/// use and reopened when it is lost.
#[derive(Clone)]
pub struct TaskHubClient {
    service: TaskHubService,
}

/// The attempts for a request that is safe to retry.
const ATTEMPTS: u32 = 10;

impl TaskHubClient {
    /// A client of the task hub that a connection string names:
    /// `Endpoint=http://localhost:4001;TaskHub=default`, with `AccessKey=..` if the
    /// server requires one, and with `Certificates=ca.pem` if a private authority has
    /// issued its certificate.
    pub fn connect(connection: &str) -> Result<Self> {
        let service = connect(Target::parse(connection)?, None);
        Ok(Self {
            service: service.map_err(from_status)?,
        })
    }

    /// Sends an idempotent request, with retries.
    async fn surely<Q, A, F>(
        &self,
        request: Q,
        method: impl Fn(TaskHubService, Q) -> F,
    ) -> Result<A>
    where
        Q: Clone,
        F: Future<Output = std::result::Result<Response<A>, Status>>,
    {
        let mut backoff = retry_backoff();
        let mut attempt = 0;
        loop {
            attempt += 1;
            match method(self.service.clone(), request.clone()).await {
                Err(status) if is_transient(&status) && attempt < ATTEMPTS => {
                    rest(&mut backoff).await
                }
                answer => return answer.map(Response::into_inner).map_err(from_status),
            }
        }
    }

    /// Starts an orchestration; returns its id.
    pub async fn start(&self, new: NewInstance) -> Result<String> {
        let fresh = || Uuid::new_v4().simple().to_string();
        let task = new.task;
        let policy = new
            .replaceable
            .map(|listed| wire::OrchestrationIdReusePolicy {
                replaceable_status: listed.into_iter().map(|own| status(own).into()).collect(),
                action: action(new.reuse).into(),
            });
        let instance = Some(new.instance).filter(|id| !id.is_empty());
        let request = wire::CreateInstanceRequest {
            instance_id: instance.unwrap_or_else(fresh),
            name: task.name,
            version: task.version,
            input: task.input,
            scheduled_start_timestamp: new.scheduled.map(timestamp),
            orchestration_id_reuse_policy: policy,
            // The execution id makes a retry idempotent.
            execution_id: Some(new.execution.unwrap_or_else(fresh)),
            tags: task.tags,
            parent_trace_context: task.trace.as_ref().map(encode_trace),
            request_time: None,
        };
        let made = self.surely(request, method!(start_instance)).await?;
        Ok(made.instance_id)
    }

    /// An instance as it was last committed; `None` if there is none.
    pub async fn get(&self, instance: &str, has_payloads: bool) -> Result<Option<InstanceView>> {
        let request = wire::GetInstanceRequest {
            instance_id: instance.to_owned(),
            get_inputs_and_outputs: has_payloads,
        };
        shown(self.surely(request, method!(get_instance)).await?)
    }

    /// Waits until an instance has begun.
    pub async fn started(&self, instance: &str, has_payloads: bool) -> Result<InstanceView> {
        let method = method!(wait_for_instance_start);
        self.wait(instance, has_payloads, method).await
    }

    /// Waits until an instance has ended.
    pub async fn ended(&self, instance: &str, has_payloads: bool) -> Result<InstanceView> {
        let method = method!(wait_for_instance_completion);
        self.wait(instance, has_payloads, method).await
    }

    /// Waits, and reconnects when the connection is lost.
    async fn wait<F>(
        &self,
        instance: &str,
        has_payloads: bool,
        method: impl Fn(TaskHubService, wire::GetInstanceRequest) -> F,
    ) -> Result<InstanceView>
    where
        F: Future<Output = std::result::Result<Response<wire::GetInstanceResponse>, Status>>,
    {
        let mut backoff = retry_backoff();
        loop {
            let request = wire::GetInstanceRequest {
                instance_id: instance.to_owned(),
                get_inputs_and_outputs: has_payloads,
            };
            match method(self.service.clone(), request).await {
                Ok(answer) => match shown(answer.into_inner())? {
                    Some(found) => return Ok(found),
                    None => rest(&mut backoff).await,
                },
                Err(status) if is_transient(&status) => rest(&mut backoff).await,
                Err(status) => return Err(from_status(status)),
            }
        }
    }

    /// Raises an event, without retries: every attempt would raise another event.
    pub async fn raise(&self, instance: &str, name: &str, input: Option<String>) -> Result<()> {
        let request = wire::RaiseEventRequest {
            instance_id: instance.to_owned(),
            name: name.to_owned(),
            input,
        };
        let sent = self.service.clone().raise_event(request).await;
        sent.map(drop).map_err(from_status)
    }

    /// Ends an instance.
    pub async fn terminate(
        &self,
        instance: &str,
        output: Option<String>,
        is_recursive: bool,
    ) -> Result<()> {
        let request = wire::TerminateRequest {
            instance_id: instance.to_owned(),
            output,
            recursive: is_recursive,
        };
        self.surely(request, method!(terminate_instance)).await?;
        Ok(())
    }

    /// Suspends an instance.
    pub async fn suspend(&self, instance: &str, reason: Option<String>) -> Result<()> {
        let instance_id = instance.to_owned();
        let request = wire::SuspendRequest {
            instance_id,
            reason,
        };
        self.surely(request, method!(suspend_instance)).await?;
        Ok(())
    }

    /// Resumes an instance.
    pub async fn resume(&self, instance: &str, reason: Option<String>) -> Result<()> {
        let instance_id = instance.to_owned();
        let request = wire::ResumeRequest {
            instance_id,
            reason,
        };
        self.surely(request, method!(resume_instance)).await?;
        Ok(())
    }

    /// Rewinds a failed instance to before its failures.
    pub async fn rewind(&self, instance: &str, reason: Option<String>) -> Result<()> {
        let instance_id = instance.to_owned();
        let request = wire::RewindInstanceRequest {
            instance_id,
            reason,
        };
        self.surely(request, method!(rewind_instance)).await?;
        Ok(())
    }

    /// Purges an instance that has ended; returns how many were purged.
    pub async fn purge(&self, instance: &str, is_recursive: bool) -> Result<u64> {
        let request = wire::PurgeInstancesRequest {
            request: Some(wire::purge_instances_request::Request::InstanceId(
                instance.into(),
            )),
            recursive: is_recursive,
            is_orchestration: true,
        };
        let purged = self.surely(request, method!(purge_instances)).await?;
        Ok(purged.deleted_instance_count.unsigned_abs().into())
    }

    /// One page of the instances that match a query.
    pub async fn list(&self, query: &InstanceListQuery) -> Result<ResultPage<InstanceView>> {
        let statuses = query.statuses.iter();
        let request = wire::InstanceQuery {
            runtime_status: statuses.map(|own| status(*own).into()).collect(),
            created_time_from: query.from.map(timestamp),
            created_time_to: query.to.map(timestamp),
            max_instance_count: i32::try_from(query.limit).unwrap_or(i32::MAX),
            continuation_token: query.cursor.clone(),
            instance_id_prefix: Some(query.prefix.clone()).filter(|prefix| !prefix.is_empty()),
            fetch_inputs_and_outputs: query.has_payloads,
            ..wire::InstanceQuery::default()
        };
        let request = wire::QueryInstancesRequest {
            query: Some(request),
        };
        let page = self.surely(request, method!(query_instances)).await?;
        let items = page.orchestration_state.into_iter().map(decode_overview);
        Ok(ResultPage {
            items: items
                .collect::<std::result::Result<_, _>>()
                .map_err(bad_response)?,
            next: page.continuation_token,
        })
    }

    /// Sends an operation to an entity and waits until it is durable. A repeated request
    /// is deduplicated for ten minutes.
    pub async fn signal(&self, operation: EntityOperation) -> Result<()> {
        let request = requested(operation);
        self.surely(request, method!(signal_entity)).await?;
        Ok(())
    }

    /// Calls an operation of an entity and waits for its result: one turn, without an
    /// orchestration. A repeated request is deduplicated for ten minutes.
    pub async fn call(
        &self,
        operation: EntityOperation,
    ) -> Result<std::result::Result<Option<String>, FailureDetails>> {
        let request = requested(operation);
        let answer = self.surely(request, method!(call_entity)).await?;
        Ok(match answer.failure_details {
            Some(failure) => Err(decode_failure(failure)),
            None => Ok(answer.output),
        })
    }

    /// An entity as it was last committed; `None` if it does not exist.
    pub async fn entity(&self, entity: &str, has_state: bool) -> Result<Option<EntityView>> {
        let request = wire::GetEntityRequest {
            instance_id: entity.to_owned(),
            include_state: has_state,
        };
        let found = self.surely(request, method!(get_entity)).await?;
        let found = found.entity.filter(|_| found.exists);
        found.map(decode_entity).transpose().map_err(bad_response)
    }

    /// One page of the entities that match a query.
    pub async fn entities(&self, query: &EntityListQuery) -> Result<ResultPage<EntityView>> {
        let limit = i32::try_from(query.limit).unwrap_or(i32::MAX);
        let request = wire::EntityQuery {
            instance_id_starts_with: Some(query.prefix.clone()).filter(|text| !text.is_empty()),
            last_modified_from: query.from.map(timestamp),
            last_modified_to: query.to.map(timestamp),
            include_state: query.has_state,
            include_transient: query.is_transient_wanted,
            page_size: Some(limit).filter(|limit| *limit > 0),
            continuation_token: query.cursor.clone(),
        };
        let request = wire::QueryEntitiesRequest {
            query: Some(request),
        };
        let page = self.surely(request, method!(query_entities)).await?;
        let items = page.entities.into_iter().map(decode_entity);
        Ok(ResultPage {
            items: items
                .collect::<std::result::Result<_, _>>()
                .map_err(bad_response)?,
            next: page.continuation_token,
        })
    }

    /// Whether the server answers.
    pub async fn hello(&self) -> Result<()> {
        match self.service.clone().hello(()).await {
            Ok(_) => Ok(()),
            Err(status) if status.code() == Code::Unimplemented => Ok(()),
            Err(status) => Err(from_status(status)),
        }
    }
}

fn shown(answer: wire::GetInstanceResponse) -> Result<Option<InstanceView>> {
    let found = answer.orchestration_state.filter(|_| answer.exists);
    found.map(decode_overview).transpose().map_err(bad_response)
}

/// The reuse action for an existing instance. `Replace` has no action on the wire.
fn action(reuse: ReusePolicy) -> wire::CreateOrchestrationAction {
    match reuse {
        ReusePolicy::Replace => wire::CreateOrchestrationAction::Error,
        ReusePolicy::Ignore => wire::CreateOrchestrationAction::Ignore,
        ReusePolicy::Terminate => wire::CreateOrchestrationAction::Terminate,
    }
}

/// An idempotent request.
fn requested(operation: EntityOperation) -> wire::SignalEntityRequest {
    let request = Some(operation.request).filter(|id| !id.is_empty());
    wire::SignalEntityRequest {
        instance_id: operation.target,
        name: operation.name,
        input: operation.input,
        request_id: request.unwrap_or_else(|| Uuid::new_v4().to_string()),
        scheduled_time: operation.scheduled.map(timestamp),
        parent_trace_context: operation.trace.as_ref().map(encode_trace),
        request_time: None,
    }
}

impl EntityCaller for TaskHubClient {
    fn call_entity(
        &self,
        operation: EntityOperation,
    ) -> BoxFuture<'static, std::result::Result<Option<String>, FailureDetails>> {
        let client = self.clone();
        Box::pin(async move { client.call(operation).await? })
    }

    fn signal_entity(
        &self,
        operation: EntityOperation,
    ) -> BoxFuture<'static, std::result::Result<(), FailureDetails>> {
        let client = self.clone();
        Box::pin(async move { Ok(client.signal(operation).await?) })
    }
}
