//! The orchestration methods of clients.

use std::time::Duration;

use steadfast_core::limits;
use steadfast_durable::{
    Error, ErrorKind, FinishedListQuery, InstanceListQuery, InstanceView, NewInstance,
    PurgeOutcome, PurgeQuery, ReusePolicy,
};
use steadfast_durabletask_messages::{
    decode_statuses, encode_failure, encode_overview, moment, span_of_time, task,
};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::purge_instances_request::Request as PurgeRequest;
use tonic::Status;

use super::context::GrpcCaller;
use super::status::{late, leaving, malformed, refused};

type Outcome<T> = Result<T, Status>;

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn to_status(error: Error) -> Status {
    refused(&error)
}

pub(super) async fn start(
    caller: &GrpcCaller,
    request: wire::CreateInstanceRequest,
) -> Outcome<wire::CreateInstanceResponse> {
    let policy = request.orchestration_id_reuse_policy;
    let action = policy.as_ref().map_or(0, |policy| policy.action);
    let policy = policy.map(|policy| decode_statuses(&policy.replaceable_status));
    let new = NewInstance {
        instance: request.instance_id,
        execution: request.execution_id.filter(|id| !id.is_empty()),
        task: task(
            request.name,
            request.version,
            request.input,
            request.parent_trace_context,
            request.tags,
        )
        .map_err(malformed)?,
        scheduled: request
            .scheduled_start_timestamp
            .map(moment)
            .transpose()
            .map_err(malformed)?,
        replaceable: policy
            .transpose()
            .map_err(malformed)?
            .map(Option::unwrap_or_default),
        reuse: reuse(action)?,
    };
    let instance_id = caller.hub.start(new).await.map_err(to_status)?;
    Ok(wire::CreateInstanceResponse { instance_id })
}

/// The reuse policy of an older SDK for an existing instance id. Newer SDKs send only
/// the replaceable states.
fn reuse(action: i32) -> Outcome<ReusePolicy> {
    match wire::CreateOrchestrationAction::try_from(action) {
        Ok(wire::CreateOrchestrationAction::Error) => Ok(ReusePolicy::Replace),
        Ok(wire::CreateOrchestrationAction::Ignore) => Ok(ReusePolicy::Ignore),
        Ok(wire::CreateOrchestrationAction::Terminate) => Ok(ReusePolicy::Terminate),
        Err(_) => Err(malformed(format_args!("there is no reuse action {action}"))),
    }
}

pub(super) async fn get(
    caller: &GrpcCaller,
    request: wire::GetInstanceRequest,
) -> Outcome<wire::GetInstanceResponse> {
    let has_payloads = request.get_inputs_and_outputs;
    let found = caller.hub.get(&request.instance_id, has_payloads).await;
    Ok(shown(found.map_err(to_status)?, has_payloads))
}

/// A failure counts as output: requests without payloads do not get it.
fn shown(found: Option<InstanceView>, has_payloads: bool) -> wire::GetInstanceResponse {
    let state = found.map(|found| wire::OrchestrationState {
        failure_details: if has_payloads {
            found.failure.as_ref().map(encode_failure)
        } else {
            None
        },
        ..encode_overview(found)
    });
    wire::GetInstanceResponse {
        exists: state.is_some(),
        orchestration_state: state,
    }
}

pub(super) async fn wait_for_start(
    caller: &GrpcCaller,
    request: wire::GetInstanceRequest,
) -> Outcome<wire::GetInstanceResponse> {
    let (instance, has_payloads) = (&request.instance_id, request.get_inputs_and_outputs);
    let started = caller.hub.started(instance, has_payloads);
    wait(caller, instance, started, has_payloads).await
}

pub(super) async fn wait_for_end(
    caller: &GrpcCaller,
    request: wire::GetInstanceRequest,
) -> Outcome<wire::GetInstanceResponse> {
    let (instance, has_payloads) = (&request.instance_id, request.get_inputs_and_outputs);
    let ended = caller.hub.ended(instance, has_payloads);
    wait(caller, instance, ended, has_payloads).await
}

/// Waits for an instance until the client's deadline, or until the node drains.
async fn wait(
    caller: &GrpcCaller,
    instance: &str,
    state: impl Future<Output = Result<InstanceView, Error>>,
    has_payloads: bool,
) -> Outcome<wire::GetInstanceResponse> {
    tokio::select! {
        found = state => Ok(shown(Some(found.map_err(to_status)?), has_payloads)),
        () = caller.context.leaving.cancelled() => Err(leaving()),
        () = patience(caller.patience) => {
            // A wait for an unknown instance returns "does not exist".
            match caller.hub.get(instance, false).await.map_err(to_status)? {
                Some(_) => Err(late()),
                None => Ok(shown(None, has_payloads)),
            }
        }
    }
}

/// Completes shortly before the client's deadline, so that it still gets the response.
pub(super) async fn patience(patience: Option<Duration>) {
    let Some(patience) = patience else {
        return std::future::pending().await;
    };
    let margin = (patience / 10).min(Duration::from_millis(100));
    tokio::time::sleep(patience.saturating_sub(margin)).await;
}

pub(super) async fn raise(
    caller: &GrpcCaller,
    request: wire::RaiseEventRequest,
) -> Outcome<wire::RaiseEventResponse> {
    let (instance, name) = (&request.instance_id, &request.name);
    let raised = caller.hub.raise(instance, name, request.input).await;
    raised.map(done).map_err(to_status)
}

pub(super) async fn terminate(
    caller: &GrpcCaller,
    request: wire::TerminateRequest,
) -> Outcome<wire::TerminateResponse> {
    let (instance, is_recursive) = (&request.instance_id, request.recursive);
    let ended = caller.hub.terminate(instance, request.output, is_recursive);
    known(ended.await).map(done)
}

pub(super) async fn suspend(
    caller: &GrpcCaller,
    request: wire::SuspendRequest,
) -> Outcome<wire::SuspendResponse> {
    let suspended = caller.hub.suspend(&request.instance_id, request.reason);
    suspended.await.map(done).map_err(to_status)
}

pub(super) async fn resume(
    caller: &GrpcCaller,
    request: wire::ResumeRequest,
) -> Outcome<wire::ResumeResponse> {
    let resumed = caller.hub.resume(&request.instance_id, request.reason);
    resumed.await.map(done).map_err(to_status)
}

pub(super) async fn rewind(
    caller: &GrpcCaller,
    request: wire::RewindInstanceRequest,
) -> Outcome<wire::RewindInstanceResponse> {
    let rewound = caller.hub.rewind(&request.instance_id, request.reason);
    rewound.await.map(done).map_err(to_status)
}

/// Terminating an unknown instance is not an error.
fn known(ended: Result<bool, Error>) -> Outcome<bool> {
    match ended {
        Err(error) if error.kind() == ErrorKind::NoInstance => Ok(false),
        ended => ended.map_err(to_status),
    }
}

/// Clients do not learn whether the call had an effect.
fn done<T, A: Default>(_: T) -> A {
    A::default()
}

pub(super) async fn restart(
    caller: &GrpcCaller,
    request: wire::RestartInstanceRequest,
) -> Outcome<wire::RestartInstanceResponse> {
    let is_new_id = request.restart_with_new_instance_id;
    let restarted = caller.hub.restart(&request.instance_id, is_new_id).await;
    let instance_id = restarted.map_err(to_status)?;
    Ok(wire::RestartInstanceResponse { instance_id })
}

pub(super) async fn query(
    caller: &GrpcCaller,
    request: wire::QueryInstancesRequest,
) -> Outcome<wire::QueryInstancesResponse> {
    let query = request.query.unwrap_or_default();
    let Some(wanted) = decode_statuses(&query.runtime_status).map_err(malformed)? else {
        return Ok(wire::QueryInstancesResponse::default());
    };
    let query = InstanceListQuery {
        statuses: wanted,
        from: query
            .created_time_from
            .map(moment)
            .transpose()
            .map_err(malformed)?,
        to: query
            .created_time_to
            .map(moment)
            .transpose()
            .map_err(malformed)?,
        prefix: query.instance_id_prefix.unwrap_or_default(),
        limit: limit(query.max_instance_count)?,
        cursor: query.continuation_token.filter(|token| !token.is_empty()),
        has_payloads: query.fetch_inputs_and_outputs,
    };
    let mut query = query;
    loop {
        let page = caller.hub.query(&query).await.map_err(to_status)?;
        let count = page.items.len();
        let response = wire::QueryInstancesResponse {
            orchestration_state: page.items.into_iter().map(encode_overview).collect(),
            continuation_token: page.next,
        };
        match shorter(count, &response) {
            Some(limit) => query.limit = limit,
            None => return Ok(response),
        }
    }
}

/// The page size.
pub(super) fn limit(number: i32) -> Outcome<usize> {
    let limit = usize::try_from(number);
    let limit = limit.map_err(|_| malformed("the size of a page is negative"))?;
    Ok(limit.min(limits::GRPC_PAGE))
}

/// The smaller page size to try if this page is too long for clients.
pub(super) fn shorter(count: usize, page: &impl prost::Message) -> Option<usize> {
    let is_too_long = page.encoded_len() > limits::GRPC_PAGE_BYTES && count > 1;
    is_too_long.then_some(count / 2)
}

pub(super) async fn list_ids(
    caller: &GrpcCaller,
    request: wire::ListInstanceIdsRequest,
) -> Outcome<wire::ListInstanceIdsResponse> {
    let Some(wanted) = decode_statuses(&request.runtime_status).map_err(malformed)? else {
        return Ok(wire::ListInstanceIdsResponse::default());
    };
    let query = FinishedListQuery {
        statuses: wanted,
        from: request
            .completed_time_from
            .map(moment)
            .transpose()
            .map_err(malformed)?,
        to: request
            .completed_time_to
            .map(moment)
            .transpose()
            .map_err(malformed)?,
        limit: limit(request.page_size)?,
        cursor: request.last_instance_key.filter(|key| !key.is_empty()),
    };
    let page = caller.hub.finished(&query).await.map_err(to_status)?;
    Ok(wire::ListInstanceIdsResponse {
        instance_ids: page.items,
        last_instance_key: page.next,
    })
}

pub(super) async fn purge(
    caller: &GrpcCaller,
    request: wire::PurgeInstancesRequest,
) -> Outcome<wire::PurgeInstancesResponse> {
    let is_recursive = request.recursive;
    let is_wanted = |id: &str| !(request.is_orchestration && id.starts_with('@'));
    let purged = match request.request {
        Some(PurgeRequest::InstanceId(id)) => {
            let count = if is_wanted(&id) {
                caller
                    .hub
                    .purge(&id, is_recursive)
                    .await
                    .map_err(to_status)?
            } else {
                0
            };
            whole(count)
        }
        Some(PurgeRequest::InstanceBatch(batch)) => {
            let mut count = 0;
            for id in batch_of(batch)?.iter().filter(|id| is_wanted(id)) {
                count += caller
                    .hub
                    .purge(id, is_recursive)
                    .await
                    .map_err(to_status)?;
            }
            whole(count)
        }
        Some(PurgeRequest::PurgeInstanceFilter(filter)) => {
            purge_all(caller, filter, is_recursive).await?
        }
        None => return Err(malformed("the request names nothing to purge")),
    };
    Ok(wire::PurgeInstancesResponse {
        deleted_instance_count: i32::try_from(purged.count).unwrap_or(i32::MAX),
        is_complete: Some(purged.is_complete),
    })
}

fn whole(count: u64) -> PurgeOutcome {
    PurgeOutcome {
        count,
        is_complete: true,
    }
}

async fn purge_all(
    caller: &GrpcCaller,
    filter: wire::PurgeInstanceFilter,
    is_recursive: bool,
) -> Outcome<PurgeOutcome> {
    let Some(wanted) = decode_statuses(&filter.runtime_status).map_err(malformed)? else {
        return Ok(whole(0));
    };
    let query = PurgeQuery {
        statuses: wanted,
        from: filter
            .created_time_from
            .map(moment)
            .transpose()
            .map_err(malformed)?,
        to: filter
            .created_time_to
            .map(moment)
            .transpose()
            .map_err(malformed)?,
    };
    let limit = filter
        .timeout
        .map(span_of_time)
        .transpose()
        .map_err(malformed)?;
    let purged = caller.hub.purge_all(&query, limit, is_recursive);
    purged.await.map_err(to_status)
}

/// Instances that a request names, if they are not too many.
fn batch_of(batch: wire::InstanceBatch) -> Outcome<Vec<String>> {
    if batch.instance_ids.len() <= limits::INSTANCE_BATCH {
        Ok(batch.instance_ids)
    } else {
        Err(malformed(format!(
            "a request names {} instances at most",
            limits::INSTANCE_BATCH
        )))
    }
}

pub(super) async fn skip_graceful(
    caller: &GrpcCaller,
    request: wire::SkipGracefulOrchestrationTerminationsRequest,
) -> Outcome<wire::SkipGracefulOrchestrationTerminationsResponse> {
    let mut unterminated_instance_ids = Vec::new();
    for id in batch_of(request.instance_batch.unwrap_or_default())? {
        let ended = caller.hub.skip_graceful(&id, request.reason.clone());
        if !known(ended.await)? {
            unterminated_instance_ids.push(id);
        }
    }
    Ok(wire::SkipGracefulOrchestrationTerminationsResponse {
        unterminated_instance_ids,
    })
}

pub(super) async fn create_hub(
    caller: &GrpcCaller,
    request: wire::CreateTaskHubRequest,
) -> Outcome<wire::CreateTaskHubResponse> {
    if request.recreate_if_exists {
        caller.hub.wipe().await.map_err(to_status)?;
    }
    Ok(wire::CreateTaskHubResponse {})
}

pub(super) async fn delete_hub(
    caller: &GrpcCaller,
    _: wire::DeleteTaskHubRequest,
) -> Outcome<wire::DeleteTaskHubResponse> {
    caller.hub.wipe().await.map(done).map_err(to_status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_a_bounded_number_of_instances() {
        let batch = |count: usize| {
            let instance_ids = vec!["i".to_owned(); count];
            batch_of(wire::InstanceBatch { instance_ids })
        };
        let most = limits::INSTANCE_BATCH;
        assert_eq!(batch(most).unwrap().len(), most);
        let refused = batch(most + 1).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    }
}
