//! Decodes what a server sends to our worker or client.

use std::sync::Arc;

use steadfast_durable::{
    ActivityWork, BatchWork, EntityView, Overview, Parent, Past, Requested, Span, TurnWork, What,
    Work,
};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::work_item_request::Request;

use super::failure::failure_taken;
use super::malformed::Malformed;
use super::taken::{events_taken, task};
use super::time::moment;
use super::view::status_taken;
use super::work::span;

/// Decodes a work item; `None` is a ping. The past events are those fetched separately,
/// or those in the item.
pub(crate) fn work_received(
    request: Request,
    fetched: Option<Vec<wire::HistoryEvent>>,
) -> Result<Option<Work>, Malformed> {
    Ok(Some(match request {
        Request::HealthPing(_) => return Ok(None),
        Request::Orchestrator(turn) => Work::Turn(Box::new(turn_received(turn, fetched)?)),
        Request::Activity(activity) => Work::Activity(Box::new(activity_received(activity)?)),
        Request::Entity(batch) => Work::Batch(Box::new(batch_received(batch)?)),
    }))
}

fn turn_received(
    turn: wire::OrchestratorRequest,
    fetched: Option<Vec<wire::HistoryEvent>>,
) -> Result<TurnWork, Malformed> {
    let kept: Option<Result<Span, _>> = turn.orchestration_trace_context.map(span);
    let past = events_taken(fetched.unwrap_or(turn.past_events))?;
    let remembered = turn.remembered.map(past_received).transpose()?;
    Ok(TurnWork {
        instance: turn.instance_id,
        execution: turn.execution_id.unwrap_or_default(),
        past: vec![Arc::new(past)],
        past_bytes: 0,
        new: events_taken(turn.new_events)?,
        span: kept.transpose()?,
        is_whole: false,
        remembered,
    })
}

/// How much of an instance the server assumes that this worker has cached.
fn past_received(past: wire::RememberedPast) -> Result<Past, Malformed> {
    Ok(Past {
        events: past.events,
        turn: moment(past.turn.unwrap_or_default())?,
    })
}

fn activity_received(activity: wire::ActivityRequest) -> Result<ActivityWork, Malformed> {
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

fn batch_received(batch: wire::EntityRequest) -> Result<BatchWork, Malformed> {
    let mut operations = Vec::with_capacity(batch.operation_requests.len());
    for event in events_taken(batch.operation_requests)? {
        let (operation, is_signal) = match event.what {
            What::EntitySignaled(operation) => (operation, true),
            What::EntityCalled(operation) => (operation, false),
            other => {
                let why = format!("an entity is asked for something else: {other:?}");
                return Err(Malformed::new(why));
            }
        };
        operations.push(Requested {
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
pub(crate) fn overview_received(state: wire::OrchestrationState) -> Result<Overview, Malformed> {
    let time = |time: Option<wire::Timestamp>| time.map(moment).transpose();
    let status = status_taken(state.orchestration_status)?;
    let parent = state.parent_instance_id.map(|instance| Parent {
        instance,
        ..Parent::default()
    });
    Ok(Overview {
        instance: state.instance_id,
        execution: state.execution_id.unwrap_or_default(),
        name: state.name,
        version: state.version,
        status: status
            .ok_or_else(|| Malformed::new("no instance has the status ContinuedAsNew"))?,
        scheduled: time(state.scheduled_start_timestamp)?,
        created: time(state.created_timestamp)?.unwrap_or_default(),
        updated: time(state.last_updated_timestamp)?.unwrap_or_default(),
        completed: time(state.completed_timestamp)?,
        input: state.input,
        output: state.output,
        custom_status: state.custom_status,
        failure: state.failure_details.map(failure_taken),
        parent,
        tags: state.tags,
    })
}

/// Decodes an entity.
pub(crate) fn entity_received(entity: wire::EntityMetadata) -> Result<EntityView, Malformed> {
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
