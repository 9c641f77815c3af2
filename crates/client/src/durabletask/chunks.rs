//! Splits turn results that exceed one message.

use prost::Message;
use steadfast_wire::durabletask as wire;

/// The longest message for a result: the default limit of servers.
const LONGEST: usize = 3_900_000;

/// A result in parts; all but the last are marked as such.
pub(super) fn chunks(whole: wire::OrchestratorResponse) -> Vec<wire::OrchestratorResponse> {
    split(whole, LONGEST)
}

fn split(mut whole: wire::OrchestratorResponse, longest: usize) -> Vec<wire::OrchestratorResponse> {
    if whole.encoded_len() <= longest {
        return vec![whole];
    }
    let actions = std::mem::take(&mut whole.actions);
    // The common fields take room in every part.
    let room = longest.saturating_sub(whole.encoded_len() + 16);
    let (mut parts, mut bytes) = (vec![Vec::new()], 0);
    for action in actions {
        // Tag and length precede an action.
        let size = action.encoded_len() + 6;
        if bytes + size > room && bytes > 0 {
            parts.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        if let Some(part) = parts.last_mut() {
            part.push(action);
        }
    }
    let last = parts.len() - 1;
    let part = |(index, actions)| wire::OrchestratorResponse {
        actions,
        is_partial: index < last,
        chunk_index: i32::try_from(index).ok(),
        // The first part omits this field.
        num_events_processed: (index > 0).then_some(0),
        ..whole.clone()
    };
    parts.into_iter().enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use steadfast_wire::durabletask::orchestrator_action::OrchestratorActionType;

    use super::*;

    fn action(id: i32, bytes: usize) -> wire::OrchestratorAction {
        let task = wire::ScheduleTaskAction {
            input: Some("x".repeat(bytes)),
            ..wire::ScheduleTaskAction::default()
        };
        wire::OrchestratorAction {
            id,
            orchestrator_action_type: Some(OrchestratorActionType::ScheduleTask(task)),
        }
    }

    #[test]
    fn parts_are_short_and_lose_nothing() {
        let sizes = [10, 400, 30, 2000, 5, 5, 900, 1];
        let whole = wire::OrchestratorResponse {
            instance_id: "i".into(),
            completion_token: "t".into(),
            custom_status: Some("s".into()),
            actions: (0..)
                .zip(sizes)
                .map(|(id, size)| action(id, size))
                .collect(),
            ..wire::OrchestratorResponse::default()
        };
        let alone = std::slice::from_ref(&whole);
        assert_eq!(split(whole.clone(), 1_000_000), alone);
        let parts = split(whole.clone(), 1000);
        assert_eq!(parts.len(), 3);
        let last = parts.len() - 1;
        let mut actions = Vec::new();
        for (index, part) in parts.into_iter().enumerate() {
            assert!(part.encoded_len() <= 1000 || part.actions.len() == 1);
            assert_eq!(part.chunk_index, Some(index as i32));
            assert_eq!(
                (part.is_partial, part.num_events_processed.is_none()),
                (index < last, index == 0)
            );
            assert_eq!(part.custom_status.as_deref(), Some("s"));
            actions.extend(part.actions);
        }
        assert_eq!(actions, whole.actions);
    }
}
