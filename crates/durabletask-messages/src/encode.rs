//! Encodes the results of our worker.

use steadfast_durable::{ActionKind, BatchResult, EntityAction, FailureDetails, Task, TurnAction};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::OrchestrationStatus;
use steadfast_wire::durabletask::operation_action::OperationActionType;
use steadfast_wire::durabletask::operation_result::ResultType;
use steadfast_wire::durabletask::orchestrator_action::OrchestratorActionType;
use steadfast_wire::durabletask::send_entity_message_action::EntityMessageType;

use super::event::{called, encode_event, encode_trace, locked, signaled, unlocked};
use super::failure::encode_failure;
use super::time::timestamp;
use super::view::status;

/// Encodes the actions of an orchestration.
pub fn encode_actions(actions: &[TurnAction]) -> Vec<wire::OrchestratorAction> {
    let sent = |action: &TurnAction| wire::OrchestratorAction {
        id: action.id,
        orchestrator_action_type: Some(deed_sent(&action.kind)),
    };
    actions.iter().map(sent).collect()
}

fn deed_sent(deed: &ActionKind) -> OrchestratorActionType {
    match deed {
        ActionKind::Schedule(task) => {
            OrchestratorActionType::ScheduleTask(wire::ScheduleTaskAction {
                name: task.name.clone(),
                version: task.version.clone(),
                input: task.input.clone(),
                tags: task.tags.clone(),
                parent_trace_context: task.trace.as_ref().map(encode_trace),
            })
        }
        ActionKind::Child { instance, task } => child_sent(instance, task),
        ActionKind::Timer(moment) => OrchestratorActionType::CreateTimer(wire::CreateTimerAction {
            fire_at: Some(timestamp(*moment)),
        }),
        ActionKind::Send {
            instance,
            name,
            input,
        } => OrchestratorActionType::SendEvent(wire::SendEventAction {
            instance: Some(wire::OrchestrationInstance {
                instance_id: instance.clone(),
                execution_id: None,
            }),
            name: name.clone(),
            data: input.clone(),
        }),
        ActionKind::Signal(operation) => message(EntityMessageType::EntityOperationSignaled(
            signaled(operation),
        )),
        ActionKind::Call(operation) => {
            message(EntityMessageType::EntityOperationCalled(called(operation)))
        }
        ActionKind::Lock(lock) => message(EntityMessageType::EntityLockRequested(locked(lock))),
        ActionKind::Unlock(unlock) => {
            message(EntityMessageType::EntityUnlockSent(unlocked(unlock)))
        }
        ActionKind::Terminate {
            instance,
            reason,
            is_recursive,
        } => OrchestratorActionType::TerminateOrchestration(wire::TerminateOrchestrationAction {
            instance_id: instance.clone(),
            reason: reason.clone(),
            recurse: *is_recursive,
        }),
        ActionKind::Complete { .. } | ActionKind::ContinueAsNew { .. } => {
            OrchestratorActionType::CompleteOrchestration(end_sent(deed))
        }
        ActionKind::Rewind(history) => {
            OrchestratorActionType::RewindOrchestration(wire::RewindOrchestrationAction {
                new_history: history.iter().map(encode_event).collect(),
            })
        }
    }
}

fn child_sent(instance: &str, task: &Task) -> OrchestratorActionType {
    OrchestratorActionType::CreateSubOrchestration(wire::CreateSubOrchestrationAction {
        instance_id: instance.to_owned(),
        name: task.name.clone(),
        version: task.version.clone(),
        input: task.input.clone(),
        parent_trace_context: task.trace.as_ref().map(encode_trace),
        tags: task.tags.clone(),
    })
}

fn message(kind: EntityMessageType) -> OrchestratorActionType {
    OrchestratorActionType::SendEntityMessage(wire::SendEntityMessageAction {
        entity_message_type: Some(kind),
    })
}

/// Encodes the end of an execution, or continue-as-new.
fn end_sent(deed: &ActionKind) -> wire::CompleteOrchestrationAction {
    let end = wire::CompleteOrchestrationAction::default();
    match deed {
        ActionKind::Complete {
            status: ended,
            result,
            failure,
        } => wire::CompleteOrchestrationAction {
            orchestration_status: status(*ended).into(),
            result: result.clone(),
            failure_details: failure.as_ref().map(encode_failure),
            ..end
        },
        ActionKind::ContinueAsNew {
            input,
            version,
            carry,
            tags,
        } => wire::CompleteOrchestrationAction {
            orchestration_status: OrchestrationStatus::ContinuedAsNew.into(),
            result: input.clone(),
            new_version: version.clone(),
            carryover_events: carry.iter().map(encode_event).collect(),
            tags: tags.clone().unwrap_or_default(),
            ..end
        },
        _ => end,
    }
}

/// Encodes the result of a batch.
pub fn encode_batch_result(token: String, mut result: BatchResult) -> wire::EntityBatchResult {
    let count = result.actions.len();
    let actions: Vec<_> = result.actions.drain(..).filter_map(action_sent).collect();
    if actions.len() < count {
        result.failure = Some(FailureDetails::lasting(
            "NotSupported",
            "an entity can send messages to other services only on an embedded node",
        ));
    }
    let actions = actions.into_iter().enumerate();
    wire::EntityBatchResult {
        results: result.results.into_iter().map(result_sent).collect(),
        actions: actions
            .map(|(id, action)| wire::OperationAction {
                id: i32::try_from(id).unwrap_or(i32::MAX),
                operation_action_type: Some(action),
            })
            .collect(),
        entity_state: result.state,
        failure_details: result.failure.as_ref().map(encode_failure),
        completion_token: token,
        operation_infos: Vec::new(),
        requires_state: result.needs_state,
    }
}

fn result_sent(result: Result<Option<String>, FailureDetails>) -> wire::OperationResult {
    let kind = match result {
        Ok(result) => ResultType::Success(wire::OperationResultSuccess {
            result,
            ..wire::OperationResultSuccess::default()
        }),
        Err(failure) => ResultType::Failure(wire::OperationResultFailure {
            failure_details: Some(encode_failure(&failure)),
            ..wire::OperationResultFailure::default()
        }),
    };
    wire::OperationResult {
        result_type: Some(kind),
    }
}

/// The protocol has no messages to other services.
fn action_sent(action: EntityAction) -> Option<OperationActionType> {
    let action = match action {
        EntityAction::Tell(_) => return None,
        EntityAction::Signal(operation) => {
            OperationActionType::SendSignal(wire::SendSignalAction {
                instance_id: operation.target,
                name: operation.name,
                input: operation.input,
                scheduled_time: operation.scheduled.map(timestamp),
                request_time: None,
                parent_trace_context: operation.trace.as_ref().map(encode_trace),
            })
        }
        EntityAction::Start {
            instance,
            task,
            scheduled,
        } => OperationActionType::StartNewOrchestration(wire::StartNewOrchestrationAction {
            instance_id: instance,
            name: task.name,
            version: task.version,
            input: task.input,
            scheduled_time: scheduled.map(timestamp),
            request_time: None,
            parent_trace_context: task.trace.as_ref().map(encode_trace),
        }),
    };
    Some(action)
}

#[cfg(test)]
mod tests {
    use steadfast_durable::{EntityOperation, InstanceStatus, LockRequest, Moment, UnlockRequest};

    use super::super::action::action;
    use super::super::entity::batch_result;
    use super::*;

    fn task() -> Task {
        Task {
            name: "f".into(),
            version: Some("2".into()),
            input: Some(String::new()),
            tags: [("a".into(), "b".into())].into(),
            ..Task::default()
        }
    }

    fn operation() -> EntityOperation {
        EntityOperation {
            request: "r".into(),
            name: "add".into(),
            input: Some("1".into()),
            target: "@counter@a".into(),
            scheduled: Some(Moment {
                seconds: 5,
                nanos: 7,
            }),
            ..EntityOperation::default()
        }
    }

    /// One end of the connection decodes what the other one encodes.
    #[test]
    fn what_is_asked_for_comes_back_as_it_was() {
        let moment = Moment {
            seconds: 9,
            nanos: 1,
        };
        let deeds = [
            ActionKind::Schedule(task()),
            ActionKind::Child {
                instance: "child".into(),
                task: task(),
            },
            ActionKind::Timer(moment),
            ActionKind::Send {
                instance: "other".into(),
                name: "go".into(),
                input: None,
            },
            ActionKind::Signal(operation()),
            ActionKind::Call(operation()),
            ActionKind::Lock(LockRequest {
                section: "s".into(),
                set: vec!["@a@1".into(), "@a@2".into()],
                ..LockRequest::default()
            }),
            ActionKind::Unlock(UnlockRequest {
                section: "s".into(),
                target: "@a@1".into(),
                ..UnlockRequest::default()
            }),
            ActionKind::Terminate {
                instance: "other".into(),
                reason: Some("late".into()),
                is_recursive: true,
            },
            ActionKind::Complete {
                status: InstanceStatus::Failed,
                result: None,
                failure: Some(FailureDetails::lasting("A", "b")),
            },
            ActionKind::ContinueAsNew {
                input: Some("2".into()),
                version: Some("3".into()),
                carry: Vec::new(),
                tags: None,
            },
        ];
        for (id, deed) in (0..).zip(deeds) {
            let asked = TurnAction { id, kind: deed };
            let mut sent = encode_actions(std::slice::from_ref(&asked));
            assert_eq!(action(sent.remove(0)).unwrap(), asked);
        }
    }

    #[test]
    fn results_of_a_batch_come_back_as_they_were() {
        let result = BatchResult {
            results: vec![
                Ok(Some(String::new())),
                Ok(None),
                Err(FailureDetails::new("A", "b")),
            ],
            actions: vec![
                EntityAction::Signal(EntityOperation {
                    request: String::new(),
                    ..operation()
                }),
                EntityAction::Start {
                    instance: "i".into(),
                    task: Task {
                        tags: steadfast_durable::Tags::new(),
                        ..task()
                    },
                    scheduled: None,
                },
            ],
            state: Some("7".into()),
            failure: None,
            needs_state: false,
        };
        let sent = encode_batch_result("token".into(), result.clone());
        assert_eq!(sent.completion_token, "token");
        assert_eq!(batch_result(sent), result);
    }
}
