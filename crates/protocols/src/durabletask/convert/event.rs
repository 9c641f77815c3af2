//! Encodes the events of a history.

use steadfast_durable::{Event, LockRequest, Operation, Parent, Start, Trace, Unlock, What};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::event_type::EventType;

use super::failure::failure_sent;
use super::legacy;
use super::time::timestamp;
use super::view::status;

/// Encodes an event.
pub(crate) fn event_sent(event: &Event) -> wire::HistoryEvent {
    wire::HistoryEvent {
        event_id: event.id,
        timestamp: Some(timestamp(event.at)),
        event_type: Some(what_sent(&event.what)),
    }
}

fn what_sent(what: &What) -> EventType {
    let note = |input: &Option<String>| wire::NoteEvent {
        input: input.clone(),
    };
    match what {
        What::Started(start) => EventType::ExecutionStarted(started(start)),
        What::Completed {
            status: ended,
            result,
            failure,
        } => EventType::ExecutionCompleted(wire::ExecutionCompletedEvent {
            orchestration_status: status(*ended).into(),
            result: result.clone(),
            failure_details: failure.as_ref().map(failure_sent),
        }),
        What::Terminated {
            input,
            is_recursive,
        } => EventType::ExecutionTerminated(wire::ExecutionTerminatedEvent {
            input: input.clone(),
            recurse: *is_recursive,
        }),
        What::TaskScheduled(task) => EventType::TaskScheduled(wire::TaskScheduledEvent {
            name: task.name.clone(),
            version: task.version.clone(),
            input: task.input.clone(),
            parent_trace_context: task.trace.as_ref().map(trace_sent),
            tags: task.tags.clone(),
        }),
        What::TaskCompleted { task, result } => EventType::TaskCompleted(completed(*task, result)),
        What::TaskFailed { task, failure } => EventType::TaskFailed(wire::TaskFailedEvent {
            task_scheduled_id: *task,
            failure_details: Some(failure_sent(failure)),
        }),
        What::ChildCreated { instance, task } => {
            EventType::SubOrchestrationInstanceCreated(wire::SubOrchestrationInstanceCreatedEvent {
                instance_id: instance.clone(),
                name: task.name.clone(),
                version: task.version.clone(),
                input: task.input.clone(),
                parent_trace_context: task.trace.as_ref().map(trace_sent),
                tags: task.tags.clone(),
            })
        }
        What::ChildCompleted { task, result } => {
            EventType::SubOrchestrationInstanceCompleted(completed(*task, result))
        }
        What::ChildFailed { task, failure } => {
            EventType::SubOrchestrationInstanceFailed(wire::TaskFailedEvent {
                task_scheduled_id: *task,
                failure_details: Some(failure_sent(failure)),
            })
        }
        What::TimerCreated(at) => EventType::TimerCreated(wire::TimerCreatedEvent {
            fire_at: Some(timestamp(*at)),
        }),
        What::TimerFired { timer, fire_at } => EventType::TimerFired(wire::TimerFiredEvent {
            fire_at: Some(timestamp(*fire_at)),
            timer_id: *timer,
        }),
        What::TurnStarted => EventType::OrchestratorStarted(wire::Empty {}),
        What::TurnCompleted => EventType::OrchestratorCompleted(wire::Empty {}),
        What::EventSent {
            instance,
            name,
            input,
        } => EventType::EventSent(wire::EventSentEvent {
            instance_id: instance.clone(),
            name: name.clone(),
            input: input.clone(),
        }),
        What::EventRaised { name, input } => EventType::EventRaised(wire::EventRaisedEvent {
            name: name.clone(),
            input: input.clone(),
        }),
        What::Suspended(reason) => EventType::ExecutionSuspended(note(reason)),
        What::Resumed(reason) => EventType::ExecutionResumed(note(reason)),
        What::Generic(data) => EventType::Generic(note(data)),
        What::Rewound(reason) => EventType::ExecutionRewound(wire::ExecutionRewoundEvent {
            reason: reason.clone(),
            ..wire::ExecutionRewoundEvent::default()
        }),
        What::EntitySignaled(_)
        | What::EntityCalled(_)
        | What::EntityCompleted { .. }
        | What::EntityFailed { .. }
        | What::LockRequested(_)
        | What::LockGranted { .. }
        | What::UnlockSent(_) => entity_sent(what),
    }
}

/// Encodes an entity event in the style of the worker that sent the request.
fn entity_sent(what: &What) -> EventType {
    match what {
        What::EntitySignaled(operation) | What::EntityCalled(operation)
            if operation.legacy.is_some() =>
        {
            legacy::sent(&operation.target, operation.legacy.as_ref())
        }
        What::EntitySignaled(operation) => EventType::EntityOperationSignaled(signaled(operation)),
        What::EntityCalled(operation) => EventType::EntityOperationCalled(called(operation)),
        What::EntityCompleted {
            request,
            output,
            is_legacy: true,
        } => legacy::completed(request, output.as_deref()),
        What::EntityCompleted {
            request, output, ..
        } => EventType::EntityOperationCompleted(wire::EntityOperationCompletedEvent {
            request_id: request.clone(),
            output: output.clone(),
        }),
        What::EntityFailed {
            request,
            failure,
            is_legacy: true,
        } => legacy::failed(request, failure),
        What::EntityFailed {
            request, failure, ..
        } => EventType::EntityOperationFailed(wire::EntityOperationFailedEvent {
            request_id: request.clone(),
            failure_details: Some(failure_sent(failure)),
        }),
        What::LockRequested(lock) if lock.legacy.is_some() => {
            let first = lock.set.first().map_or("", String::as_str);
            legacy::sent(first, lock.legacy.as_ref())
        }
        What::LockRequested(lock) => EventType::EntityLockRequested(locked(lock)),
        What::LockGranted {
            section,
            is_legacy: true,
        } => legacy::granted(section),
        What::LockGranted { section, .. } => {
            EventType::EntityLockGranted(wire::EntityLockGrantedEvent {
                critical_section_id: section.clone(),
            })
        }
        What::UnlockSent(unlock) if unlock.legacy.is_some() => {
            legacy::sent(&unlock.target, unlock.legacy.as_ref())
        }
        What::UnlockSent(unlock) => EventType::EntityUnlockSent(unlocked(unlock)),
        _ => unreachable!("the caller passes entity events only"),
    }
}

fn completed(task: i32, result: &Option<String>) -> wire::TaskCompletedEvent {
    wire::TaskCompletedEvent {
        task_scheduled_id: task,
        result: result.clone(),
    }
}

fn started(start: &Start) -> wire::ExecutionStartedEvent {
    wire::ExecutionStartedEvent {
        name: start.task.name.clone(),
        version: start.task.version.clone(),
        input: start.task.input.clone(),
        orchestration_instance: Some(wire::OrchestrationInstance {
            instance_id: start.instance.clone(),
            execution_id: Some(start.execution.clone()),
        }),
        parent_instance: start.parent.as_ref().map(parent_sent),
        scheduled_start_timestamp: start.scheduled.map(timestamp),
        parent_trace_context: start.task.trace.as_ref().map(trace_sent),
        orchestration_span_id: None,
        tags: start.task.tags.clone(),
    }
}

fn parent_sent(parent: &Parent) -> wire::ParentInstanceInfo {
    wire::ParentInstanceInfo {
        task_scheduled_id: parent.task,
        name: parent.name.clone(),
        version: parent.version.clone(),
        orchestration_instance: Some(wire::OrchestrationInstance {
            instance_id: parent.instance.clone(),
            execution_id: parent.execution.clone(),
        }),
    }
}

/// Encodes a trace context.
pub(crate) fn trace_sent(trace: &Trace) -> wire::TraceContext {
    wire::TraceContext {
        trace_parent: trace.parent.clone(),
        span_id: trace.span.clone(),
        trace_state: trace.state.clone(),
    }
}

/// Encodes a lock request as a history event.
pub(super) fn locked(lock: &LockRequest) -> wire::EntityLockRequestedEvent {
    wire::EntityLockRequestedEvent {
        critical_section_id: lock.section.clone(),
        lock_set: lock.set.clone(),
        position: lock.position,
        parent_instance_id: lock.parent.clone(),
    }
}

/// Encodes the release of a lock as a history event.
pub(super) fn unlocked(unlock: &Unlock) -> wire::EntityUnlockSentEvent {
    wire::EntityUnlockSentEvent {
        critical_section_id: unlock.section.clone(),
        parent_instance_id: unlock.parent.clone(),
        target_instance_id: Some(unlock.target.clone()),
    }
}

/// Encodes a signal as a history event.
pub(super) fn signaled(operation: &Operation) -> wire::EntityOperationSignaledEvent {
    wire::EntityOperationSignaledEvent {
        request_id: operation.request.clone(),
        operation: operation.name.clone(),
        scheduled_time: operation.scheduled.map(timestamp),
        input: operation.input.clone(),
        target_instance_id: Some(operation.target.clone()),
    }
}

/// Encodes a call as a history event.
pub(super) fn called(operation: &Operation) -> wire::EntityOperationCalledEvent {
    wire::EntityOperationCalledEvent {
        request_id: operation.request.clone(),
        operation: operation.name.clone(),
        scheduled_time: operation.scheduled.map(timestamp),
        input: operation.input.clone(),
        parent_instance_id: operation.parent.clone(),
        parent_execution_id: operation.parent_execution.clone(),
        target_instance_id: Some(operation.target.clone()),
    }
}
