//! Events of a history, both ways.

use steadfast_durable::{Event, LockRequest, Operation, Parent, Start, Task, Trace, Unlock, What};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::event_type::EventType;

use super::failure::{failure_sent, failure_taken};
use super::legacy;
use super::malformed::{Malformed, payload};
use super::time::{moment, timestamp};
use super::view::{status, status_taken};

/// An event as the protocol writes it.
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

/// What has to do with entities, in the style of whoever asked.
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
        What::LockRequested(lock) => {
            EventType::EntityLockRequested(wire::EntityLockRequestedEvent {
                critical_section_id: lock.section.clone(),
                lock_set: lock.set.clone(),
                position: lock.position,
                parent_instance_id: lock.parent.clone(),
            })
        }
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
        What::UnlockSent(unlock) => EventType::EntityUnlockSent(wire::EntityUnlockSentEvent {
            critical_section_id: unlock.section.clone(),
            parent_instance_id: unlock.parent.clone(),
            target_instance_id: Some(unlock.target.clone()),
        }),
        _ => unreachable!("the caller has sorted out what has to do with entities"),
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

/// A place in a trace as the protocol writes it.
pub(super) fn trace_sent(trace: &Trace) -> wire::TraceContext {
    wire::TraceContext {
        trace_parent: trace.parent.clone(),
        span_id: trace.span.clone(),
        trace_state: trace.state.clone(),
    }
}

/// A signal as it stands in a history.
pub(super) fn signaled(operation: &Operation) -> wire::EntityOperationSignaledEvent {
    wire::EntityOperationSignaledEvent {
        request_id: operation.request.clone(),
        operation: operation.name.clone(),
        scheduled_time: operation.scheduled.map(timestamp),
        input: operation.input.clone(),
        target_instance_id: Some(operation.target.clone()),
    }
}

/// A call as it stands in a history.
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

/// What a client or worker wants run.
pub(crate) fn task(
    name: String,
    version: Option<String>,
    input: Option<String>,
    trace: Option<wire::TraceContext>,
    tags: steadfast_durable::Tags,
) -> Result<Task, Malformed> {
    Ok(Task {
        name,
        version,
        input: payload("the input", input)?,
        trace: trace.map(trace_taken),
        tags,
    })
}

pub(super) fn trace_taken(trace: wire::TraceContext) -> Trace {
    Trace {
        parent: trace.trace_parent,
        span: trace.span_id,
        state: trace.trace_state,
    }
}

/// Events that a worker hands on.
pub(super) fn events_taken(events: Vec<wire::HistoryEvent>) -> Result<Vec<Event>, Malformed> {
    events.into_iter().map(event_taken).collect()
}

fn event_taken(event: wire::HistoryEvent) -> Result<Event, Malformed> {
    let at = event.timestamp.map(moment).transpose()?;
    let kind = event.event_type;
    let kind = kind.ok_or_else(|| Malformed::new("an event is of no kind that is known"))?;
    Ok(Event {
        id: event.event_id,
        at: at.unwrap_or_default(),
        what: what_taken(kind)?,
    })
}

fn what_taken(kind: EventType) -> Result<What, Malformed> {
    let failure =
        |details: Option<wire::TaskFailureDetails>| details.map(failure_taken).unwrap_or_default();
    Ok(match kind {
        EventType::ExecutionStarted(start) => What::Started(start_taken(start)?),
        EventType::ExecutionCompleted(end) => What::Completed {
            status: status_taken(end.orchestration_status)?
                .ok_or_else(|| Malformed::new("an execution has not ended as new"))?,
            result: end.result,
            failure: end.failure_details.map(failure_taken),
        },
        EventType::ExecutionTerminated(end) => What::Terminated {
            input: end.input,
            is_recursive: end.recurse,
        },
        EventType::TaskScheduled(wanted) => What::TaskScheduled(task(
            wanted.name,
            wanted.version,
            wanted.input,
            wanted.parent_trace_context,
            wanted.tags,
        )?),
        EventType::TaskCompleted(done) => What::TaskCompleted {
            task: done.task_scheduled_id,
            result: done.result,
        },
        EventType::TaskFailed(failed) => What::TaskFailed {
            task: failed.task_scheduled_id,
            failure: failure(failed.failure_details),
        },
        EventType::SubOrchestrationInstanceCreated(made) => What::ChildCreated {
            instance: made.instance_id,
            task: task(
                made.name,
                made.version,
                made.input,
                made.parent_trace_context,
                made.tags,
            )?,
        },
        EventType::SubOrchestrationInstanceCompleted(done) => What::ChildCompleted {
            task: done.task_scheduled_id,
            result: done.result,
        },
        EventType::SubOrchestrationInstanceFailed(failed) => What::ChildFailed {
            task: failed.task_scheduled_id,
            failure: failure(failed.failure_details),
        },
        EventType::TimerCreated(timer) => What::TimerCreated(due(timer.fire_at)?),
        EventType::TimerFired(timer) => What::TimerFired {
            timer: timer.timer_id,
            fire_at: due(timer.fire_at)?,
        },
        EventType::OrchestratorStarted(_) => What::TurnStarted,
        EventType::OrchestratorCompleted(_) => What::TurnCompleted,
        EventType::EventSent(sent) => What::EventSent {
            instance: sent.instance_id,
            name: sent.name,
            input: sent.input,
        },
        EventType::EventRaised(raised) => What::EventRaised {
            name: raised.name,
            input: payload("the event", raised.input)?,
        },
        EventType::Generic(note) => What::Generic(note.input),
        EventType::ExecutionSuspended(note) => What::Suspended(note.input),
        EventType::ExecutionResumed(note) => What::Resumed(note.input),
        EventType::ExecutionRewound(rewound) => What::Rewound(rewound.reason),
        EventType::EntityOperationSignaled(signal) => What::EntitySignaled(signal_taken(signal)?),
        EventType::EntityOperationCalled(call) => What::EntityCalled(call_taken(call)?),
        EventType::EntityOperationCompleted(done) => What::EntityCompleted {
            request: done.request_id,
            output: done.output,
            is_legacy: false,
        },
        EventType::EntityOperationFailed(failed) => What::EntityFailed {
            request: failed.request_id,
            failure: failure(failed.failure_details),
            is_legacy: false,
        },
        EventType::EntityLockRequested(lock) => What::LockRequested(lock_taken(lock)),
        EventType::EntityLockGranted(lock) => What::LockGranted {
            section: lock.critical_section_id,
            is_legacy: false,
        },
        EventType::EntityUnlockSent(unlock) => What::UnlockSent(unlock_taken(unlock)?),
    })
}

fn start_taken(start: wire::ExecutionStartedEvent) -> Result<Start, Malformed> {
    let instance = start.orchestration_instance.unwrap_or_default();
    Ok(Start {
        instance: instance.instance_id,
        execution: instance.execution_id.unwrap_or_default(),
        task: task(
            start.name,
            start.version,
            start.input,
            start.parent_trace_context,
            start.tags,
        )?,
        parent: start.parent_instance.map(parent_taken),
        scheduled: start.scheduled_start_timestamp.map(moment).transpose()?,
    })
}

fn parent_taken(parent: wire::ParentInstanceInfo) -> Parent {
    let instance = parent.orchestration_instance.unwrap_or_default();
    Parent {
        task: parent.task_scheduled_id,
        name: parent.name,
        version: parent.version,
        instance: instance.instance_id,
        execution: instance.execution_id,
    }
}

/// When a timer is due. It always says so.
pub(super) fn due(time: Option<wire::Timestamp>) -> Result<steadfast_durable::Moment, Malformed> {
    let time = time.ok_or_else(|| Malformed::new("a timer does not say when it fires"))?;
    moment(time)
}

pub(super) fn signal_taken(
    signal: wire::EntityOperationSignaledEvent,
) -> Result<Operation, Malformed> {
    Ok(Operation {
        request: signal.request_id,
        name: signal.operation,
        input: payload("the input", signal.input)?,
        scheduled: signal.scheduled_time.map(moment).transpose()?,
        target: target(signal.target_instance_id)?,
        ..Operation::default()
    })
}

pub(super) fn call_taken(call: wire::EntityOperationCalledEvent) -> Result<Operation, Malformed> {
    Ok(Operation {
        request: call.request_id,
        name: call.operation,
        input: payload("the input", call.input)?,
        scheduled: call.scheduled_time.map(moment).transpose()?,
        target: target(call.target_instance_id)?,
        parent: call.parent_instance_id,
        parent_execution: call.parent_execution_id,
        ..Operation::default()
    })
}

pub(super) fn lock_taken(lock: wire::EntityLockRequestedEvent) -> LockRequest {
    LockRequest {
        section: lock.critical_section_id,
        set: lock.lock_set,
        position: lock.position,
        parent: lock.parent_instance_id,
        legacy: None,
    }
}

pub(super) fn unlock_taken(unlock: wire::EntityUnlockSentEvent) -> Result<Unlock, Malformed> {
    Ok(Unlock {
        section: unlock.critical_section_id,
        target: target(unlock.target_instance_id)?,
        parent: unlock.parent_instance_id,
        legacy: None,
    })
}

fn target(entity: Option<String>) -> Result<String, Malformed> {
    entity.ok_or_else(|| Malformed::new("a message to an entity does not name it"))
}
