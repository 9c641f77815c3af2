//! Decodes history events that workers send.

use steadfast_durable::{
    Event, LockRequest, Moment, Operation, Parent, Start, Tags, Task, Trace, Unlock, What,
};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::event_type::EventType;

use super::failure::failure_taken;
use super::malformed::{Malformed, payload};
use super::time::moment;
use super::view::status_taken;

/// The task that a client or worker starts.
pub(crate) fn task(
    name: String,
    version: Option<String>,
    input: Option<String>,
    trace: Option<wire::TraceContext>,
    tags: Tags,
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

/// Decodes the events that a worker carries over.
pub(crate) fn events_taken(events: Vec<wire::HistoryEvent>) -> Result<Vec<Event>, Malformed> {
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
                .ok_or_else(|| Malformed::new("an execution cannot end as ContinuedAsNew"))?,
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

/// When a timer is due, which is mandatory.
pub(super) fn due(time: Option<wire::Timestamp>) -> Result<Moment, Malformed> {
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
