//! Decodes what a server sends to our worker or client.

use std::sync::Arc;

use steadfast_durable::{
    ActivityWork, BatchWork, EntityView, EventKind, HistoryPosition, InstanceView,
    OrchestrationSpan, Parent, QueuedOperation, TurnWork, WorkPayload,
};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::well_known;
use steadfast_wire::durabletask::work_item::Request;

use super::decode::{decode_events, task};
use super::error::ConvertError;
use super::failure::decode_failure;
use super::time::moment;
use super::view::decode_status;
use super::work::span;

/// Decodes a work item; `None` is a ping, or a batch in its former form, which only other
/// servers send. The past events are those fetched separately, or those in the item.
pub fn decode_work(
    request: Request,
    fetched: Option<Vec<wire::HistoryEvent>>,
) -> Result<Option<WorkPayload>, ConvertError> {
    Ok(Some(match request {
        Request::HealthPing(_) | Request::EntityRequest(_) => return Ok(None),
        Request::OrchestratorRequest(turn) => {
            WorkPayload::Turn(Box::new(turn_received(turn, fetched)?))
        }
        Request::ActivityRequest(activity) => {
            WorkPayload::Activity(Box::new(activity_received(activity)?))
        }
        Request::EntityRequestV2(batch) => WorkPayload::Batch(Box::new(batch_received(batch)?)),
    }))
}

fn turn_received(
    turn: wire::OrchestratorRequest,
    fetched: Option<Vec<wire::HistoryEvent>>,
) -> Result<TurnWork, ConvertError> {
    let kept: Option<Result<OrchestrationSpan, _>> = turn.orchestration_trace_context.map(span);
    let past = decode_events(fetched.unwrap_or(turn.past_events))?;
    let remembered = turn.remembered.map(past_received).transpose()?;
    Ok(TurnWork {
        instance: turn.instance_id,
        execution: turn.execution_id.unwrap_or_default(),
        past: vec![Arc::new(past)],
        past_bytes: 0,
        new: decode_events(turn.new_events)?,
        span: kept.transpose()?,
        is_whole: false,
        remembered,
    })
}

/// How much of an instance the server assumes that this worker has cached.
fn past_received(past: wire::RememberedPast) -> Result<HistoryPosition, ConvertError> {
    Ok(HistoryPosition {
        events: past.events,
        turn: moment(past.turn.unwrap_or_default())?,
    })
}

fn activity_received(activity: wire::ActivityRequest) -> Result<ActivityWork, ConvertError> {
    let instance = activity.orchestration_instance.unwrap_or_default();
    Ok(ActivityWork {
        instance: instance.instance_id,
        execution: instance.execution_id.unwrap_or_default(),
        id: activity.task_id,
        task: task(
            activity.name,
            activity.version,
            activity.input,
            activity.parent_trace_context,
            activity.tags,
        )?,
    })
}

fn batch_received(batch: wire::EntityRequest) -> Result<BatchWork, ConvertError> {
    let mut operations = Vec::with_capacity(batch.operation_requests.len());
    for event in decode_events(batch.operation_requests)? {
        let (operation, is_signal) = match event.what {
            EventKind::EntitySignaled(operation) => (operation, true),
            EventKind::EntityCalled(operation) => (operation, false),
            other => {
                let why = format!("an entity is asked for something else: {other:?}");
                return Err(ConvertError::new(why));
            }
        };
        operations.push(QueuedOperation {
            operation,
            is_signal,
        });
    }
    Ok(BatchWork {
        entity: batch.instance_id,
        execution: batch.execution_id,
        state: batch.entity_state,
        operations,
    })
}

/// Decodes an instance.
pub fn decode_overview(state: wire::OrchestrationState) -> Result<InstanceView, ConvertError> {
    let time = |time: Option<well_known::Timestamp>| time.map(moment).transpose();
    let status = decode_status(state.orchestration_status)?;
    let parent = state.parent_instance_id.map(|instance| Parent {
        instance,
        ..Parent::default()
    });
    Ok(InstanceView {
        instance: state.instance_id,
        execution: state.execution_id.unwrap_or_default(),
        name: state.name,
        version: state.version,
        status: status
            .ok_or_else(|| ConvertError::new("no instance has the status ContinuedAsNew"))?,
        scheduled: time(state.scheduled_start_timestamp)?,
        created: time(state.created_timestamp)?.unwrap_or_default(),
        updated: time(state.last_updated_timestamp)?.unwrap_or_default(),
        completed: time(state.completed_timestamp)?,
        input: state.input,
        output: state.output,
        custom_status: state.custom_status,
        failure: state.failure_details.map(decode_failure),
        parent,
        tags: state.tags,
    })
}

/// Decodes an entity.
pub fn decode_entity(entity: wire::EntityMetadata) -> Result<EntityView, ConvertError> {
    let modified = entity.last_modified_time.map(moment).transpose()?;
    Ok(EntityView {
        entity: entity.instance_id,
        modified: modified.unwrap_or_default(),
        backlog: entity.backlog_queue_size.unsigned_abs().into(),
        locked_by: entity.locked_by,
        exists: true,
        state: entity.serialized_state,
    })
}
