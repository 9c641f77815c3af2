//! Converts entities, their metadata and batch results.

use steadfast_durable::{BatchResult, EntityAction, EntityOperation, EntityView, FailureDetails};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::operation_action::OperationActionType;
use steadfast_wire::durabletask::operation_result::ResultType;

use super::decode::{decode_trace, task};
use super::error::ConvertError;
use super::failure::decode_failure;
use super::time::{moment, timestamp};

/// Encodes an entity.
pub fn encode_entity(view: EntityView) -> wire::EntityMetadata {
    wire::EntityMetadata {
        instance_id: view.entity,
        last_modified_time: Some(timestamp(view.modified)),
        backlog_queue_size: i32::try_from(view.backlog).unwrap_or(i32::MAX),
        locked_by: view.locked_by,
        serialized_state: view.state,
    }
}

/// Decodes the result of a batch. If it is malformed, the whole batch fails.
pub fn batch_result(result: wire::EntityBatchResult) -> BatchResult {
    taken(result).unwrap_or_else(|malformed| BatchResult {
        failure: Some(FailureDetails::lasting("InvalidResult", malformed.0)),
        ..BatchResult::default()
    })
}

fn taken(result: wire::EntityBatchResult) -> Result<BatchResult, ConvertError> {
    let results = result.results.into_iter().map(operation_result);
    let actions = result.actions.into_iter().map(operation_action);
    Ok(BatchResult {
        results: results.collect::<Result<_, _>>()?,
        actions: actions.collect::<Result<_, _>>()?,
        // The engine fails the operation whose state or result is too long.
        state: result.entity_state,
        failure: result.failure_details.map(decode_failure),
        needs_state: result.requires_state,
    })
}

fn operation_result(
    result: wire::OperationResult,
) -> Result<Result<Option<String>, FailureDetails>, ConvertError> {
    match result.result_type {
        Some(ResultType::Success(done)) => Ok(Ok(done.result)),
        Some(ResultType::Failure(failed)) => {
            let details = failed.failure_details.map(decode_failure);
            Ok(Err(details.unwrap_or_default()))
        }
        None => Err(ConvertError::new(
            "an operation has neither result nor failure",
        )),
    }
}

fn operation_action(action: wire::OperationAction) -> Result<EntityAction, ConvertError> {
    match action.operation_action_type {
        Some(OperationActionType::SendSignal(signal)) => {
            Ok(EntityAction::Signal(EntityOperation {
                name: signal.name,
                input: signal.input,
                scheduled: signal.scheduled_time.map(moment).transpose()?,
                target: signal.instance_id,
                trace: signal.parent_trace_context.map(decode_trace),
                ..EntityOperation::default()
            }))
        }
        Some(OperationActionType::StartNewOrchestration(start)) => Ok(EntityAction::Start {
            instance: start.instance_id,
            task: task(
                start.name,
                start.version,
                start.input,
                start.parent_trace_context,
                steadfast_durable::Tags::new(),
            )?,
            scheduled: start.scheduled_time.map(moment).transpose()?,
        }),
        None => Err(ConvertError::new("an action is of no kind that is known")),
    }
}
