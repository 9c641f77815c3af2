//! Encodes the events of a history.

use steadfast_durable::{
    EntityOperation, EventKind, ExecutionStart, InstanceEvent, LockRequest, Parent, Trace,
    UnlockRequest,
};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::history_event::EventType;

use super::failure::encode_failure;
use super::legacy;
use super::time::timestamp;
use super::view::status;

/// Encodes an event.
pub fn encode_event(event: &InstanceEvent) -> wire::HistoryEvent {
    wire::HistoryEvent {
        event_id: event.id,
        timestamp: Some(timestamp(event.at)),
        event_type: Some(what_sent(&event.what)),
    }
}

fn what_sent(what: &EventKind) -> EventType {
    match what {
        EventKind::Started(start) => EventType::ExecutionStarted(Box::new(started(start))),
        EventKind::Completed {
            status: ended,
            result,
            failure,
        } => EventType::ExecutionCompleted(wire::ExecutionCompletedEvent {
            orchestration_status: status(*ended).into(),
            result: result.clone(),
            failure_details: failure.as_ref().map(encode_failure),
        }),
        EventKind::Terminated {
            input,
            is_recursive,
        } => EventType::ExecutionTerminated(wire::ExecutionTerminatedEvent {
            input: input.clone(),
            recurse: *is_recursive,
        }),
        EventKind::TaskScheduled(task) => EventType::TaskScheduled(wire::TaskScheduledEvent {
            name: task.name.clone(),
            version: task.version.clone(),
            input: task.input.clone(),
            parent_trace_context: task.trace.as_ref().map(encode_trace),
            tags: task.tags.clone(),
        }),
        EventKind::TaskCompleted { task, result } => {
            EventType::TaskCompleted(wire::TaskCompletedEvent {
                task_scheduled_id: *task,
                result: result.clone(),
            })
        }
        EventKind::TaskFailed { task, failure } => EventType::TaskFailed(wire::TaskFailedEvent {
            task_scheduled_id: *task,
            failure_details: Some(encode_failure(failure)),
        }),
        EventKind::ChildCreated { instance, task } => {
            EventType::SubOrchestrationInstanceCreated(wire::SubOrchestrationInstanceCreatedEvent {
                instance_id: instance.clone(),
                name: task.name.clone(),
                version: task.version.clone(),
                input: task.input.clone(),
                parent_trace_context: task.trace.as_ref().map(encode_trace),
                tags: task.tags.clone(),
            })
        }
        EventKind::ChildCompleted { task, result } => EventType::SubOrchestrationInstanceCompleted(
            wire::SubOrchestrationInstanceCompletedEvent {
                task_scheduled_id: *task,
                result: result.clone(),
            },
        ),
        EventKind::ChildFailed { task, failure } => {
            EventType::SubOrchestrationInstanceFailed(wire::SubOrchestrationInstanceFailedEvent {
                task_scheduled_id: *task,
                failure_details: Some(encode_failure(failure)),
            })
        }
        EventKind::TimerCreated(at) => EventType::TimerCreated(wire::TimerCreatedEvent {
            fire_at: Some(timestamp(*at)),
        }),
        EventKind::TimerFired { timer, fire_at } => EventType::TimerFired(wire::TimerFiredEvent {
            fire_at: Some(timestamp(*fire_at)),
            timer_id: *timer,
        }),
        EventKind::TurnStarted => EventType::OrchestratorStarted(wire::OrchestratorStartedEvent {}),
        EventKind::TurnCompleted => {
            EventType::OrchestratorCompleted(wire::OrchestratorCompletedEvent {})
        }
        EventKind::EventSent {
            instance,
            name,
            input,
        } => EventType::EventSent(wire::EventSentEvent {
            instance_id: instance.clone(),
            name: name.clone(),
            input: input.clone(),
        }),
        EventKind::EventRaised { name, input } => EventType::EventRaised(wire::EventRaisedEvent {
            name: name.clone(),
            input: input.clone(),
        }),
        EventKind::Suspended(reason) => {
            EventType::ExecutionSuspended(wire::ExecutionSuspendedEvent {
                input: reason.clone(),
            })
        }
        EventKind::Resumed(reason) => EventType::ExecutionResumed(wire::ExecutionResumedEvent {
            input: reason.clone(),
        }),
        EventKind::Generic(data) => {
            EventType::GenericEvent(wire::GenericEvent { data: data.clone() })
        }
        EventKind::Rewound(reason) => {
            EventType::ExecutionRewound(Box::new(wire::ExecutionRewoundEvent {
                reason: reason.clone(),
                ..wire::ExecutionRewoundEvent::default()
            }))
        }
        EventKind::EntitySignaled(_)
        | EventKind::EntityCalled(_)
        | EventKind::EntityCompleted { .. }
        | EventKind::EntityFailed { .. }
        | EventKind::LockRequested(_)
        | EventKind::LockGranted { .. }
        | EventKind::UnlockSent(_) => entity_sent(what),
    }
}

/// Encodes an entity event in the style of the worker that sent the request.
fn entity_sent(what: &EventKind) -> EventType {
    match what {
        EventKind::EntitySignaled(operation) | EventKind::EntityCalled(operation)
            if operation.legacy.is_some() =>
        {
            legacy::sent(&operation.target, operation.legacy.as_ref())
        }
        EventKind::EntitySignaled(operation) => {
            EventType::EntityOperationSignaled(signaled(operation))
        }
        EventKind::EntityCalled(operation) => EventType::EntityOperationCalled(called(operation)),
        EventKind::EntityCompleted {
            request,
            output,
            is_legacy: true,
        } => legacy::completed(request, output.as_deref()),
        EventKind::EntityCompleted {
            request, output, ..
        } => EventType::EntityOperationCompleted(wire::EntityOperationCompletedEvent {
            request_id: request.clone(),
            output: output.clone(),
        }),
        EventKind::EntityFailed {
            request,
            failure,
            is_legacy: true,
        } => legacy::failed(request, failure),
        EventKind::EntityFailed {
            request, failure, ..
        } => EventType::EntityOperationFailed(wire::EntityOperationFailedEvent {
            request_id: request.clone(),
            failure_details: Some(encode_failure(failure)),
        }),
        EventKind::LockRequested(lock) if lock.legacy.is_some() => {
            let first = lock.set.first().map_or("", String::as_str);
            legacy::sent(first, lock.legacy.as_ref())
        }
        EventKind::LockRequested(lock) => EventType::EntityLockRequested(locked(lock)),
        EventKind::LockGranted {
            section,
            is_legacy: true,
        } => legacy::granted(section),
        EventKind::LockGranted { section, .. } => {
            EventType::EntityLockGranted(wire::EntityLockGrantedEvent {
                critical_section_id: section.clone(),
            })
        }
        EventKind::UnlockSent(unlock) if unlock.legacy.is_some() => {
            legacy::sent(&unlock.target, unlock.legacy.as_ref())
        }
        EventKind::UnlockSent(unlock) => EventType::EntityUnlockSent(unlocked(unlock)),
        _ => unreachable!("the caller passes entity events only"),
    }
}

fn started(start: &ExecutionStart) -> wire::ExecutionStartedEvent {
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
        parent_trace_context: start.task.trace.as_ref().map(encode_trace),
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
pub fn encode_trace(trace: &Trace) -> wire::TraceContext {
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
pub(super) fn unlocked(unlock: &UnlockRequest) -> wire::EntityUnlockSentEvent {
    wire::EntityUnlockSentEvent {
        critical_section_id: unlock.section.clone(),
        parent_instance_id: unlock.parent.clone(),
        target_instance_id: Some(unlock.target.clone()),
    }
}

/// Encodes a signal as a history event.
pub(super) fn signaled(operation: &EntityOperation) -> wire::EntityOperationSignaledEvent {
    wire::EntityOperationSignaledEvent {
        request_id: operation.request.clone(),
        operation: operation.name.clone(),
        scheduled_time: operation.scheduled.map(timestamp),
        input: operation.input.clone(),
        target_instance_id: Some(operation.target.clone()),
    }
}

/// Encodes a call as a history event.
pub(super) fn called(operation: &EntityOperation) -> wire::EntityOperationCalledEvent {
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
