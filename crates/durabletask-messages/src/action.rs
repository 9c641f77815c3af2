//! Decodes the actions of an orchestrator.

use steadfast_durable::{ActionKind, FailureDetails, InstanceStatus, TurnAction};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::orchestrator_action::OrchestratorActionType;
use steadfast_wire::durabletask::send_entity_message_action::EntityMessageType;

use super::decode::{
    decode_call, decode_events, decode_lock, decode_signal, decode_unlock, due, task,
};
use super::error::{ConvertError, payload};
use super::failure::decode_failure;
use super::legacy;
use super::view::decode_status;

/// Decodes an action of a worker.
pub fn action(action: wire::OrchestratorAction) -> Result<TurnAction, ConvertError> {
    let kind = action.orchestrator_action_type;
    let kind = kind.ok_or_else(|| ConvertError::new("an action is of no kind that is known"))?;
    Ok(TurnAction {
        id: action.id,
        kind: deed(kind)?,
    })
}

fn deed(kind: OrchestratorActionType) -> Result<ActionKind, ConvertError> {
    Ok(match kind {
        OrchestratorActionType::ScheduleTask(wanted) => ActionKind::Schedule(task(
            wanted.name,
            wanted.version,
            wanted.input,
            wanted.parent_trace_context,
            wanted.tags,
        )?),
        OrchestratorActionType::CreateSubOrchestration(wanted) => ActionKind::Child {
            instance: wanted.instance_id,
            task: task(
                wanted.name,
                wanted.version,
                wanted.input,
                wanted.parent_trace_context,
                wanted.tags,
            )?,
        },
        OrchestratorActionType::CreateTimer(timer) => ActionKind::Timer(due(timer.fire_at)?),
        OrchestratorActionType::SendEvent(event) => send(event)?,
        OrchestratorActionType::CompleteOrchestration(end) => complete(end)?,
        OrchestratorActionType::TerminateOrchestration(end) => ActionKind::Terminate {
            instance: end.instance_id,
            reason: end.reason,
            is_recursive: end.recurse,
        },
        OrchestratorActionType::SendEntityMessage(message) => entity_message(message)?,
        OrchestratorActionType::RewindOrchestration(rewind) => {
            ActionKind::Rewind(decode_events(rewind.new_history)?)
        }
    })
}

fn send(event: wire::SendEventAction) -> Result<ActionKind, ConvertError> {
    let instance = event.instance.unwrap_or_default().instance_id;
    match instance.as_str() {
        "" => Err(ConvertError::new("a send-event action has no target")),
        entity if entity.starts_with('@') => legacy::deed(instance, &event.name, event.data),
        _ => Ok(ActionKind::Send {
            instance,
            name: event.name,
            input: payload("the event", event.data)?,
        }),
    }
}

fn complete(end: wire::CompleteOrchestrationAction) -> Result<ActionKind, ConvertError> {
    // The engine fails a turn that is too large.
    let result = end.result;
    let Some(status) = decode_status(end.orchestration_status)? else {
        return Ok(ActionKind::ContinueAsNew {
            input: result,
            version: end.new_version,
            carry: decode_events(end.carryover_events)?,
            tags: Some(end.tags).filter(|tags| !tags.is_empty()),
        });
    };
    if !status.is_final() {
        let why = format!("an orchestration cannot end as {status:?}");
        return Err(ConvertError::new(why));
    }
    let failure = end.failure_details.map(decode_failure);
    // Older workers send a text instead of failure details.
    let text = end.details.filter(|_| status == InstanceStatus::Failed);
    let failure = failure.or_else(|| text.map(|text| FailureDetails::new("Unknown", text)));
    Ok(ActionKind::Complete {
        status,
        result,
        failure,
    })
}

fn entity_message(message: wire::SendEntityMessageAction) -> Result<ActionKind, ConvertError> {
    let kind = message.entity_message_type;
    let kind =
        kind.ok_or_else(|| ConvertError::new("a message to an entity is of no known kind"))?;
    Ok(match kind {
        EntityMessageType::EntityOperationSignaled(signal) => {
            ActionKind::Signal(decode_signal(signal)?)
        }
        EntityMessageType::EntityOperationCalled(call) => ActionKind::Call(decode_call(call)?),
        EntityMessageType::EntityLockRequested(lock) => ActionKind::Lock(decode_lock(lock)),
        EntityMessageType::EntityUnlockSent(unlock) => ActionKind::Unlock(decode_unlock(unlock)?),
    })
}
