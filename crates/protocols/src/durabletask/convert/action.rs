//! Decodes the actions of an orchestrator.

use steadfast_durable::{Action, Deed, Failure, Status};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::action_type::ActionType;
use steadfast_wire::durabletask::entity_message_type::EntityMessageType;

use super::failure::failure_taken;
use super::legacy;
use super::malformed::{Malformed, payload};
use super::taken::{call_taken, due, events_taken, lock_taken, signal_taken, task, unlock_taken};
use super::view::status_taken;

/// Decodes an action of a worker.
pub(crate) fn action(action: wire::OrchestratorAction) -> Result<Action, Malformed> {
    let kind = action.action_type;
    let kind = kind.ok_or_else(|| Malformed::new("an action is of no kind that is known"))?;
    Ok(Action {
        id: action.id,
        deed: deed(kind)?,
    })
}

fn deed(kind: ActionType) -> Result<Deed, Malformed> {
    Ok(match kind {
        ActionType::ScheduleTask(wanted) => Deed::Schedule(task(
            wanted.name,
            wanted.version,
            wanted.input,
            wanted.parent_trace_context,
            wanted.tags,
        )?),
        ActionType::CreateSubOrchestration(wanted) => Deed::Child {
            instance: wanted.instance_id,
            task: task(
                wanted.name,
                wanted.version,
                wanted.input,
                wanted.parent_trace_context,
                wanted.tags,
            )?,
        },
        ActionType::CreateTimer(timer) => Deed::Timer(due(timer.fire_at)?),
        ActionType::SendEvent(event) => send(event)?,
        ActionType::CompleteOrchestration(end) => complete(end)?,
        ActionType::TerminateOrchestration(end) => Deed::Terminate {
            instance: end.instance_id,
            reason: end.reason,
            is_recursive: end.recurse,
        },
        ActionType::SendEntityMessage(message) => entity_message(message)?,
        ActionType::RewindOrchestration(rewind) => Deed::Rewind(events_taken(rewind.new_history)?),
    })
}

fn send(event: wire::SendEventAction) -> Result<Deed, Malformed> {
    let instance = event.instance.unwrap_or_default().instance_id;
    match instance.as_str() {
        "" => Err(Malformed::new("a send-event action has no target")),
        entity if entity.starts_with('@') => legacy::deed(instance, &event.name, event.data),
        _ => Ok(Deed::Send {
            instance,
            name: event.name,
            input: payload("the event", event.data)?,
        }),
    }
}

fn complete(end: wire::CompleteOrchestrationAction) -> Result<Deed, Malformed> {
    // The engine fails a turn that is too large.
    let result = end.result;
    let Some(status) = status_taken(end.orchestration_status)? else {
        return Ok(Deed::ContinueAsNew {
            input: result,
            version: end.new_version,
            carry: events_taken(end.carryover_events)?,
            tags: Some(end.tags).filter(|tags| !tags.is_empty()),
        });
    };
    if !status.is_final() {
        let why = format!("an orchestration cannot end as {status:?}");
        return Err(Malformed::new(why));
    }
    let failure = end.failure_details.map(failure_taken);
    // Older workers send a text instead of failure details.
    let text = end.details.filter(|_| status == Status::Failed);
    let failure = failure.or_else(|| text.map(|text| Failure::new("Unknown", text)));
    Ok(Deed::Complete {
        status,
        result,
        failure,
    })
}

fn entity_message(message: wire::SendEntityMessageAction) -> Result<Deed, Malformed> {
    let kind = message.entity_message_type;
    let kind = kind.ok_or_else(|| Malformed::new("a message to an entity is of no known kind"))?;
    Ok(match kind {
        EntityMessageType::EntityOperationSignaled(signal) => Deed::Signal(signal_taken(signal)?),
        EntityMessageType::EntityOperationCalled(call) => Deed::Call(call_taken(call)?),
        EntityMessageType::EntityLockRequested(lock) => Deed::Lock(lock_taken(lock)),
        EntityMessageType::EntityUnlockSent(unlock) => Deed::Unlock(unlock_taken(unlock)?),
    })
}
