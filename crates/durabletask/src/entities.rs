//! The entity methods of clients.

use steadfast_durable::{EntityListQuery, EntityOperation, Error};
use steadfast_durabletask_messages::{encode_entity, encode_failure, moment, payload};
use steadfast_wire::durabletask as wire;
use tonic::Status;

use super::clients::{limit, patience, shorter};
use super::context::GrpcCaller;
use super::status::{late, leaving, malformed, refused};

type Outcome<T> = Result<T, Status>;

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn to_status(error: Error) -> Status {
    refused(&error)
}

pub(super) async fn signal(
    caller: &GrpcCaller,
    request: wire::SignalEntityRequest,
) -> Outcome<wire::SignalEntityResponse> {
    caller
        .hub
        .signal(operation(request)?)
        .await
        .map_err(to_status)?;
    Ok(wire::SignalEntityResponse {})
}

/// A call by a client, which waits for the response until its deadline or until the
/// node drains.
pub(super) async fn call(
    caller: &GrpcCaller,
    request: wire::SignalEntityRequest,
) -> Outcome<wire::CallEntityResponse> {
    let called = caller.hub.call(operation(request)?);
    let answer = tokio::select! {
        answer = called => answer.map_err(to_status)?,
        () = caller.context.leaving.cancelled() => return Err(leaving()),
        () = patience(caller.patience) => return Err(late()),
    };
    let (output, failure) = match answer {
        Ok(output) => (output, None),
        Err(failure) => (None, Some(encode_failure(&failure))),
    };
    Ok(wire::CallEntityResponse {
        output,
        failure_details: failure,
    })
}

fn operation(request: wire::SignalEntityRequest) -> Outcome<EntityOperation> {
    Ok(EntityOperation {
        request: request.request_id,
        name: request.name,
        input: payload("the input", request.input).map_err(malformed)?,
        scheduled: request
            .scheduled_time
            .map(moment)
            .transpose()
            .map_err(malformed)?,
        target: request.instance_id,
        ..EntityOperation::default()
    })
}

pub(super) async fn get(
    caller: &GrpcCaller,
    request: wire::GetEntityRequest,
) -> Outcome<wire::GetEntityResponse> {
    let found = caller
        .hub
        .entity(&request.instance_id, request.include_state);
    let found = found.await.map_err(to_status)?.filter(|view| view.exists);
    Ok(wire::GetEntityResponse {
        exists: found.is_some(),
        entity: found.map(encode_entity),
    })
}

pub(super) async fn query(
    caller: &GrpcCaller,
    request: wire::QueryEntitiesRequest,
) -> Outcome<wire::QueryEntitiesResponse> {
    let query = request.query.unwrap_or_default();
    let mut query = EntityListQuery {
        prefix: query.instance_id_starts_with.unwrap_or_default(),
        from: query
            .last_modified_from
            .map(moment)
            .transpose()
            .map_err(malformed)?,
        to: query
            .last_modified_to
            .map(moment)
            .transpose()
            .map_err(malformed)?,
        has_state: query.include_state,
        is_transient_wanted: query.include_transient,
        limit: limit(query.page_size.unwrap_or_default())?,
        cursor: query.continuation_token.filter(|token| !token.is_empty()),
    };
    loop {
        let page = caller.hub.entities(&query).await.map_err(to_status)?;
        let count = page.items.len();
        let response = wire::QueryEntitiesResponse {
            entities: page.items.into_iter().map(encode_entity).collect(),
            continuation_token: page.next,
        };
        match shorter(count, &response) {
            Some(limit) => query.limit = limit,
            None => return Ok(response),
        }
    }
}

pub(super) async fn clean(
    caller: &GrpcCaller,
    _: wire::CleanEntityStorageRequest,
) -> Outcome<wire::CleanEntityStorageResponse> {
    let (empty, orphaned) = caller.hub.clean().await.map_err(to_status)?;
    let count = |number: u64| i32::try_from(number).unwrap_or(i32::MAX);
    Ok(wire::CleanEntityStorageResponse {
        continuation_token: None,
        empty_entities_removed: count(empty),
        orphaned_locks_released: count(orphaned),
    })
}
