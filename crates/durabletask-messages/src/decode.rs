//! Decodes history events that workers send.

use steadfast_durable::{
    EntityOperation, EventKind, ExecutionStart, InstanceEvent, LockRequest, Moment, Parent, Tags,
    Task, Trace, UnlockRequest,
};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::history_event::EventType;
use steadfast_wire::durabletask::well_known;

use super::error::{ConvertError, payload};
use super::failure::decode_failure;
use super::time::moment;
use super::view::decode_status;

/// The task that a client or worker starts.
pub fn task(
    name: String,
    version: Option<String>,
    input: Option<String>,
    trace: Option<wire::TraceContext>,
    tags: Tags,
) -> Result<Task, ConvertError> {
    Ok(Task {
        name,
        version,
        input: payload("the input", input)?,
        trace: trace.map(decode_trace),
        tags,
    })
}

pub(super) fn decode_trace(trace: wire::TraceContext) -> Trace {
    Trace {
        parent: trace.trace_parent,
        span: trace.span_id,
        state: trace.trace_state,
    }
}

/// Decodes the events that a worker carries over.
pub(crate) fn decode_events(
    events: Vec<wire::HistoryEvent>,
) -> Result<Vec<InstanceEvent>, ConvertError> {
    events.into_iter().map(event_taken).collect()
}

fn event_taken(event: wire::HistoryEvent) -> Result<InstanceEvent, ConvertError> {
    let at = event.timestamp.map(moment).transpose()?;
    let kind = event.event_type;
    let kind = kind.ok_or_else(unknown_event)?;
    Ok(InstanceEvent {
        id: event.event_id,
        at: at.unwrap_or_default(),
        what: what_taken(kind)?,
    })
}

fn unknown_event() -> ConvertError {
    ConvertError::new("an event is of no kind that is known")
}

fn what_taken(kind: EventType) -> Result<EventKind, ConvertError> {
    let failure =
        |details: Option<wire::TaskFailureDetails>| details.map(decode_failure).unwrap_or_default();
    Ok(match kind {
        EventType::ExecutionStarted(start) => EventKind::Started(start_taken(*start)?),
        EventType::ExecutionCompleted(end) => EventKind::Completed {
            status: decode_status(end.orchestration_status)?
                .ok_or_else(|| ConvertError::new("an execution cannot end as ContinuedAsNew"))?,
            result: end.result,
            failure: end.failure_details.map(decode_failure),
        },
        EventType::ExecutionTerminated(end) => EventKind::Terminated {
            input: end.input,
            is_recursive: end.recurse,
        },
        EventType::TaskScheduled(wanted) => EventKind::TaskScheduled(task(
            wanted.name,
            wanted.version,
            wanted.input,
            wanted.parent_trace_context,
            wanted.tags,
        )?),
        EventType::TaskCompleted(done) => EventKind::TaskCompleted {
            task: done.task_scheduled_id,
            result: done.result,
        },
        EventType::TaskFailed(failed) => EventKind::TaskFailed {
            task: failed.task_scheduled_id,
            failure: failure(failed.failure_details),
        },
        EventType::SubOrchestrationInstanceCreated(made) => EventKind::ChildCreated {
            instance: made.instance_id,
            task: task(
                made.name,
                made.version,
                made.input,
                made.parent_trace_context,
                made.tags,
            )?,
        },
        EventType::SubOrchestrationInstanceCompleted(done) => EventKind::ChildCompleted {
            task: done.task_scheduled_id,
            result: done.result,
        },
        EventType::SubOrchestrationInstanceFailed(failed) => EventKind::ChildFailed {
            task: failed.task_scheduled_id,
            failure: failure(failed.failure_details),
        },
        EventType::TimerCreated(timer) => EventKind::TimerCreated(due(timer.fire_at)?),
        EventType::TimerFired(timer) => EventKind::TimerFired {
            timer: timer.timer_id,
            fire_at: due(timer.fire_at)?,
        },
        EventType::OrchestratorStarted(_) => EventKind::TurnStarted,
        EventType::OrchestratorCompleted(_) => EventKind::TurnCompleted,
        EventType::EventSent(sent) => EventKind::EventSent {
            instance: sent.instance_id,
            name: sent.name,
            input: sent.input,
        },
        EventType::EventRaised(raised) => EventKind::EventRaised {
            name: raised.name,
            input: payload("the event", raised.input)?,
        },
        EventType::GenericEvent(note) => EventKind::Generic(note.data),
        EventType::ExecutionSuspended(note) => EventKind::Suspended(note.input),
        EventType::ExecutionResumed(note) => EventKind::Resumed(note.input),
        EventType::ExecutionRewound(rewound) => EventKind::Rewound(rewound.reason),
        EventType::EntityOperationSignaled(signal) => {
            EventKind::EntitySignaled(decode_signal(signal)?)
        }
        EventType::EntityOperationCalled(call) => EventKind::EntityCalled(decode_call(call)?),
        EventType::EntityOperationCompleted(done) => EventKind::EntityCompleted {
            request: done.request_id,
            output: done.output,
            is_legacy: false,
        },
        EventType::EntityOperationFailed(failed) => EventKind::EntityFailed {
            request: failed.request_id,
            failure: failure(failed.failure_details),
            is_legacy: false,
        },
        EventType::EntityLockRequested(lock) => EventKind::LockRequested(decode_lock(lock)),
        EventType::EntityLockGranted(lock) => EventKind::LockGranted {
            section: lock.critical_section_id,
            is_legacy: false,
        },
        EventType::EntityUnlockSent(unlock) => EventKind::UnlockSent(decode_unlock(unlock)?),
        // Of the former protocol between a host and its extension.
        EventType::HistoryState(_) | EventType::ContinueAsNew(_) => return Err(unknown_event()),
    })
}

fn start_taken(start: wire::ExecutionStartedEvent) -> Result<ExecutionStart, ConvertError> {
    let instance = start.orchestration_instance.unwrap_or_default();
    Ok(ExecutionStart {
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

/// When a timer is due, which is mandatory.
pub(super) fn due(time: Option<well_known::Timestamp>) -> Result<Moment, ConvertError> {
    let time = time.ok_or_else(|| ConvertError::new("a timer does not say when it fires"))?;
    moment(time)
}

pub(super) fn decode_signal(
    signal: wire::EntityOperationSignaledEvent,
) -> Result<EntityOperation, ConvertError> {
    Ok(EntityOperation {
        request: signal.request_id,
        name: signal.operation,
        input: payload("the input", signal.input)?,
        scheduled: signal.scheduled_time.map(moment).transpose()?,
        target: target(signal.target_instance_id)?,
        ..EntityOperation::default()
    })
}

pub(super) fn decode_call(
    call: wire::EntityOperationCalledEvent,
) -> Result<EntityOperation, ConvertError> {
    Ok(EntityOperation {
        request: call.request_id,
        name: call.operation,
        input: payload("the input", call.input)?,
        scheduled: call.scheduled_time.map(moment).transpose()?,
        target: target(call.target_instance_id)?,
        parent: call.parent_instance_id,
        parent_execution: call.parent_execution_id,
        ..EntityOperation::default()
    })
}

pub(super) fn decode_lock(lock: wire::EntityLockRequestedEvent) -> LockRequest {
    LockRequest {
        section: lock.critical_section_id,
        set: lock.lock_set,
        position: lock.position,
        parent: lock.parent_instance_id,
        legacy: None,
    }
}

pub(super) fn decode_unlock(
    unlock: wire::EntityUnlockSentEvent,
) -> Result<UnlockRequest, ConvertError> {
    Ok(UnlockRequest {
        section: unlock.critical_section_id,
        target: target(unlock.target_instance_id)?,
        parent: unlock.parent_instance_id,
        legacy: None,
    })
}

fn target(entity: Option<String>) -> Result<String, ConvertError> {
    entity.ok_or_else(|| ConvertError::new("a message to an entity does not name it"))
}
