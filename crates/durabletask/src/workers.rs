//! The methods by which workers report results.
//!
//! A stale result succeeds and changes nothing: workers report twice when they lose the
//! first response.

use futures_util::future::join_all;
use steadfast_core::limits;
use steadfast_durable::{
    ActionKind, Error, FailureDetails, InstanceStatus as State, TurnAction, TurnResult,
};
use steadfast_durabletask_messages::{
    ConvertError, action, batch_result, decode_failure, decode_token, span,
};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::completed_task::Result as Completed;
use tonic::Status;

use super::context::GrpcCaller;
use super::status::{malformed, refused};

type Outcome<T> = Result<T, Status>;

/// The id of a completion action that the server has added.
const OWN_ACTION: i32 = -1;

pub(super) async fn hello(_: &GrpcCaller, (): ()) -> Outcome<()> {
    Ok(())
}

pub(super) async fn complete_turn(
    caller: &GrpcCaller,
    response: wire::OrchestratorResponse,
) -> Outcome<wire::CompleteTaskResponse> {
    let (token, instance) = (
        response.completion_token.clone(),
        response.instance_id.clone(),
    );
    let (is_partial, index) = (response.is_partial, response.chunk_index);
    let result = turn_result(response);
    if !is_partial {
        return taken(
            caller,
            caller.hub.complete_turn(&token, &instance, result).await,
        );
    }
    let index = index.and_then(|index| u32::try_from(index).ok());
    let index = index.ok_or_else(|| malformed("a part of a result has no chunk index"))?;
    let chunk = caller.hub.complete_chunk(&token, &instance, index, result);
    taken(caller, chunk.await)
}

/// Decodes the result of a turn. A malformed action fails the instance: a retry would
/// repeat it endlessly.
fn turn_result(response: wire::OrchestratorResponse) -> TurnResult {
    // A chunked result counts processed events differently.
    let is_whole = !response.is_partial && response.chunk_index.is_none();
    let processed = response.num_events_processed.filter(|_| is_whole);
    let needs_history = response.requires_history;
    let span = response.orchestration_trace_context.map(span);
    let actions = response.actions.into_iter().map(action);
    let actions = actions.collect::<Result<Vec<_>, ConvertError>>();
    let actions =
        actions.and_then(|actions| Ok((actions, response.custom_status, span.transpose()?)));
    let (actions, custom_status, span) =
        actions.unwrap_or_else(|why| (vec![failed(why)], None, None));
    TurnResult {
        actions,
        custom_status,
        processed: processed.and_then(|count| u32::try_from(count).ok()),
        span,
        needs_history,
    }
}

fn failed(why: ConvertError) -> TurnAction {
    TurnAction {
        id: OWN_ACTION,
        kind: ActionKind::Complete {
            status: State::Failed,
            result: None,
            failure: Some(FailureDetails::lasting("InvalidAction", why.0)),
        },
    }
}

pub(super) async fn complete_activity(
    caller: &GrpcCaller,
    response: wire::ActivityResponse,
) -> Outcome<wire::CompleteTaskResponse> {
    let result = match response.failure_details.map(decode_failure) {
        Some(failure) => Err(failure),
        // The engine fails one that is too large.
        None => Ok(response.result),
    };
    let (token, instance) = (&response.completion_token, &response.instance_id);
    let done = caller
        .hub
        .complete_activity(token, instance, response.task_id, result);
    taken(caller, done.await)
}

pub(super) async fn complete_batch(
    caller: &GrpcCaller,
    result: wire::EntityBatchResult,
) -> Outcome<wire::CompleteTaskResponse> {
    let token = result.completion_token.clone();
    let (token, entity) = decode_token(&token);
    let done = caller
        .hub
        .complete_batch(token, entity, batch_result(result));
    taken(caller, done.await)
}

/// Steadfast's own method: several results, each accepted or refused by itself.
pub(super) async fn complete_many(
    caller: &GrpcCaller,
    request: wire::CompleteTasksRequest,
) -> Outcome<wire::CompleteTasksResponse> {
    if request.tasks.len() > limits::RESULTS_AT_ONCE {
        let most = limits::RESULTS_AT_ONCE;
        return Err(malformed(format_args!("more than {most} results at once")));
    }
    let answers = request.tasks.into_iter().map(|task| async move {
        let answer = match task.result {
            Some(Completed::Orchestrator(turn)) => complete_turn(caller, turn).await,
            Some(Completed::Activity(activity)) => complete_activity(caller, activity).await,
            Some(Completed::Entity(batch)) => complete_batch(caller, batch).await,
            None => Err(malformed("a result is missing")),
        };
        let status = answer.err().unwrap_or_else(|| Status::ok(""));
        wire::CompletedTaskStatus {
            code: status.code().into(),
            message: status.message().to_owned(),
        }
    });
    Ok(wire::CompleteTasksResponse {
        answers: join_all(answers).await,
    })
}

pub(super) async fn abandon_turn(
    caller: &GrpcCaller,
    request: wire::AbandonOrchestrationTaskRequest,
) -> Outcome<wire::AbandonOrchestrationTaskResponse> {
    abandon(caller, &request.completion_token).await
}

pub(super) async fn abandon_activity(
    caller: &GrpcCaller,
    request: wire::AbandonActivityTaskRequest,
) -> Outcome<wire::AbandonActivityTaskResponse> {
    abandon(caller, &request.completion_token).await
}

pub(super) async fn abandon_batch(
    caller: &GrpcCaller,
    request: wire::AbandonEntityTaskRequest,
) -> Outcome<wire::AbandonEntityTaskResponse> {
    abandon(caller, &request.completion_token).await
}

async fn abandon<A: Default>(caller: &GrpcCaller, token: &str) -> Outcome<A> {
    let (token, _) = decode_token(token);
    taken(caller, caller.hub.abandon(token).await)
}

fn taken<A: Default>(caller: &GrpcCaller, taken: Result<bool, Error>) -> Outcome<A> {
    let is_fresh = taken.map_err(|error| refused(&error))?;
    if !is_fresh {
        caller.context.counts.add_stale();
    }
    Ok(A::default())
}
