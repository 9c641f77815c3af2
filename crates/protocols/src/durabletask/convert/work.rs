//! Converts work items and worker capabilities.

use steadfast_core::clock::Timestamp;
use steadfast_durable::{
    ActivityWork, BatchWork, Filter, Filters, Item, NO_ACTION, Requested, Span, Terms, TurnWork,
    Work,
};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::event_type::EventType;
use steadfast_wire::durabletask::work_item_request::Request;

use super::event::{called, event_sent, signaled, trace_sent};
use super::malformed::Malformed;
use super::time::{moment, timestamp};

/// Decodes the terms under which a worker takes work.
pub(crate) fn terms(name: String, request: wire::GetWorkItemsRequest) -> Terms {
    let window = |asked: i32| usize::try_from(asked).unwrap_or_default();
    let named = |filters: Vec<wire::VersionFilter>| {
        let filters = filters.into_iter();
        filters
            .map(|filter| Filter {
                name: filter.name,
                versions: filter.versions,
            })
            .collect()
    };
    Terms {
        name,
        turns: window(request.max_concurrent_orchestration_work_items),
        activities: window(request.max_concurrent_activity_work_items),
        batches: window(request.max_concurrent_entity_work_items),
        is_mindful: can(&request, wire::WorkerCapability::RememberedHistory),
        filters: request
            .work_item_filters
            .filter(|filters| !is_void(filters))
            .map(|filters| Filters {
                orchestrations: named(filters.orchestrations),
                activities: named(filters.activities),
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
pub(crate) fn can(request: &wire::GetWorkItemsRequest, what: wire::WorkerCapability) -> bool {
    request.capabilities.contains(&i32::from(what))
}

/// Encodes a work item. With `is_past_left_out` the worker fetches the history itself.
pub(crate) fn item_sent(item: &Item, now: Timestamp, is_past_left_out: bool) -> wire::WorkItem {
    let request = match &item.work {
        Work::Turn(turn) => Request::Orchestrator(turn_sent(turn, is_past_left_out)),
        Work::Activity(activity) => Request::Activity(activity_sent(activity)),
        Work::Batch(batch) => Request::Entity(batch_sent(batch, now)),
    };
    wire::WorkItem {
        request: Some(request),
        completion_token: token_sent(item),
    }
}

/// The result of a batch does not name its entity, so the token includes it.
fn token_sent(item: &Item) -> String {
    match &item.work {
        Work::Batch(batch) => format!("{} {}", item.token, batch.entity),
        _ => item.token.clone(),
    }
}

/// Splits a returned token into the token and the entity of a batch.
pub(crate) fn token_taken(token: &str) -> (&str, &str) {
    token.split_once(' ').unwrap_or((token, ""))
}

fn turn_sent(turn: &TurnWork, is_past_left_out: bool) -> wire::OrchestratorRequest {
    let past = turn.past.iter().flat_map(|events| events.iter());
    let past: Vec<_> = match is_past_left_out {
        true => Vec::new(),
        false => past.map(event_sent).collect(),
    };
    wire::OrchestratorRequest {
        instance_id: turn.instance.clone(),
        execution_id: Some(turn.execution.clone()),
        past_events: past,
        new_events: turn.new.iter().map(event_sent).collect(),
        // Entity messages arrive in order, so workers must not sort them.
        entity_parameters: Some(wire::OrchestratorEntityParameters {
            entity_message_reorder_window: Some(wire::Duration::default()),
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
        parent_trace_context: activity.task.trace.as_ref().map(trace_sent),
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

fn operation_sent(asked: &Requested, now: Timestamp) -> wire::HistoryEvent {
    let operation = &asked.operation;
    let kind = match asked.is_signal {
        true => EventType::EntityOperationSignaled(signaled(operation)),
        // Some workers require the name of the caller.
        false => EventType::EntityOperationCalled(wire::EntityOperationCalledEvent {
            parent_instance_id: Some(operation.parent.clone().unwrap_or_default()),
            ..called(operation)
        }),
    };
    wire::HistoryEvent {
        event_id: NO_ACTION,
        timestamp: Some(timestamp(now.into())),
        event_type: Some(kind),
    }
}

fn span_sent(span: &Span) -> wire::OrchestrationTraceContext {
    wire::OrchestrationTraceContext {
        span_id: span.id.clone(),
        span_start_time: span.started.map(timestamp),
    }
}

/// Decodes the span that a worker asks to store.
pub(crate) fn span(span: wire::OrchestrationTraceContext) -> Result<Span, Malformed> {
    Ok(Span {
        id: span.span_id,
        started: span.span_start_time.map(moment).transpose()?,
    })
}
