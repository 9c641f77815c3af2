//! Converts work items and worker capabilities.

use steadfast_core::clock::Timestamp;
use steadfast_durable::{
    ActivityWork, BatchWork, NO_ACTION, OrchestrationSpan, QueuedOperation, TurnWork, WorkDelivery,
    WorkFilter, WorkFilters, WorkPayload, WorkerOptions,
};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::history_event::EventType;
use steadfast_wire::durabletask::well_known;
use steadfast_wire::durabletask::work_item::Request;

use super::error::ConvertError;
use super::event::{called, encode_event, encode_trace, signaled};
use super::time::{moment, timestamp};

/// Decodes the terms under which a worker takes work.
pub fn terms(name: String, request: wire::GetWorkItemsRequest) -> WorkerOptions {
    let window = |asked: i32| usize::try_from(asked).unwrap_or_default();
    let filter = |name, versions| WorkFilter { name, versions };
    WorkerOptions {
        name,
        address: None,
        turns: window(request.max_concurrent_orchestration_work_items),
        activities: window(request.max_concurrent_activity_work_items),
        batches: window(request.max_concurrent_entity_work_items),
        caches_instances: can(&request, wire::WorkerCapability::RememberedHistory),
        filters: request
            .work_item_filters
            .filter(|filters| !is_void(filters))
            .map(|filters| WorkFilters {
                orchestrations: filters
                    .orchestrations
                    .into_iter()
                    .map(|own| filter(own.name, own.versions))
                    .collect(),
                activities: filters
                    .activities
                    .into_iter()
                    .map(|own| filter(own.name, own.versions))
                    .collect(),
                entities: filters
                    .entities
                    .into_iter()
                    .map(|filter| filter.name.to_lowercase())
                    .collect(),
            }),
    }
}

/// Whether the filters are empty and so match everything: .NET always sends the message.
/// If one kind has filters, the empty kinds match nothing: activity-only workers rely on
/// that.
fn is_void(filters: &wire::WorkItemFilters) -> bool {
    let wire::WorkItemFilters {
        orchestrations,
        activities,
        entities,
    } = filters;
    orchestrations.is_empty() && activities.is_empty() && entities.is_empty()
}

/// Whether a worker announces a capability.
pub fn can(request: &wire::GetWorkItemsRequest, what: wire::WorkerCapability) -> bool {
    request.capabilities.contains(&i32::from(what))
}

/// Encodes a work item. With `is_past_left_out` the worker fetches the history itself.
pub fn encode_item(item: &WorkDelivery, now: Timestamp, is_past_left_out: bool) -> wire::WorkItem {
    let request = match &item.work {
        WorkPayload::Turn(turn) => Request::OrchestratorRequest(turn_sent(turn, is_past_left_out)),
        WorkPayload::Activity(activity) => Request::ActivityRequest(activity_sent(activity)),
        WorkPayload::Batch(batch) => Request::EntityRequestV2(batch_sent(batch, now)),
    };
    wire::WorkItem {
        request: Some(request),
        completion_token: token_sent(item),
    }
}

/// The result of a batch does not name its entity, so the token includes it.
fn token_sent(item: &WorkDelivery) -> String {
    match &item.work {
        WorkPayload::Batch(batch) => format!("{} {}", item.token, batch.entity),
        _ => item.token.clone(),
    }
}

/// Splits a returned token into the token and the entity of a batch.
pub fn decode_token(token: &str) -> (&str, &str) {
    token.split_once(' ').unwrap_or((token, ""))
}

fn turn_sent(turn: &TurnWork, is_past_left_out: bool) -> wire::OrchestratorRequest {
    let past = turn.past.iter().flat_map(|events| events.iter());
    let past: Vec<_> = if is_past_left_out {
        Vec::new()
    } else {
        past.map(encode_event).collect()
    };
    wire::OrchestratorRequest {
        instance_id: turn.instance.clone(),
        execution_id: Some(turn.execution.clone()),
        past_events: past,
        new_events: turn.new.iter().map(encode_event).collect(),
        // Entity messages arrive in order, so workers must not sort them.
        entity_parameters: Some(wire::OrchestratorEntityParameters {
            entity_message_reorder_window: Some(well_known::Duration::default()),
        }),
        requires_history_streaming: is_past_left_out,
        properties: std::collections::BTreeMap::new(),
        orchestration_trace_context: turn.span.as_ref().map(span_sent),
        remembered: turn.remembered.map(|past| wire::RememberedPast {
            events: past.events,
            turn: Some(timestamp(past.turn)),
        }),
    }
}

fn activity_sent(activity: &ActivityWork) -> wire::ActivityRequest {
    wire::ActivityRequest {
        name: activity.task.name.clone(),
        version: activity.task.version.clone(),
        input: activity.task.input.clone(),
        orchestration_instance: Some(wire::OrchestrationInstance {
            instance_id: activity.instance.clone(),
            execution_id: Some(activity.execution.clone()),
        }),
        task_id: activity.id,
        parent_trace_context: activity.task.trace.as_ref().map(encode_trace),
        tags: activity.task.tags.clone(),
    }
}

fn batch_sent(batch: &BatchWork, now: Timestamp) -> wire::EntityRequest {
    let operations = batch.operations.iter();
    wire::EntityRequest {
        instance_id: batch.entity.clone(),
        execution_id: batch.execution.clone(),
        entity_state: batch.state.clone(),
        operation_requests: operations.map(|asked| operation_sent(asked, now)).collect(),
    }
}

fn operation_sent(asked: &QueuedOperation, now: Timestamp) -> wire::HistoryEvent {
    let operation = &asked.operation;
    let kind = if asked.is_signal {
        EventType::EntityOperationSignaled(signaled(operation))
    } else {
        // Some workers require the name of the caller.
        EventType::EntityOperationCalled(wire::EntityOperationCalledEvent {
            parent_instance_id: Some(operation.parent.clone().unwrap_or_default()),
            ..called(operation)
        })
    };
    wire::HistoryEvent {
        event_id: NO_ACTION,
        timestamp: Some(timestamp(now.into())),
        event_type: Some(kind),
    }
}

fn span_sent(span: &OrchestrationSpan) -> wire::OrchestrationTraceContext {
    wire::OrchestrationTraceContext {
        span_id: span.id.clone(),
        span_start_time: span.started.map(timestamp),
    }
}

/// Decodes the span that a worker asks to store.
pub fn span(span: wire::OrchestrationTraceContext) -> Result<OrchestrationSpan, ConvertError> {
    Ok(OrchestrationSpan {
        id: span.span_id,
        started: span.span_start_time.map(moment).transpose()?,
    })
}
