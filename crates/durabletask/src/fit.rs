//! Fits work items into the worker's message limit.
//!
//! A worker that receives a message over its limit ends its stream and loses all its work
//! items. So a turn or a batch is cut to the limit and the rest follows later; an item
//! that cannot be cut fails.

use prost::Message;
use steadfast_durable::{
    ActionKind, BatchResult, FailureDetails, InstanceStatus, NO_ACTION, TaskHub, TurnAction,
    TurnResult, WorkDelivery, WorkPayload,
};
use steadfast_durabletask_messages::encode_event;
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::work_item::Request;

/// How much of an item fits into a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fit {
    Whole,
    /// The first events or operations fit. The others were removed.
    Part(usize),
    /// The first `count` operations cannot be sent.
    Nothing {
        count: usize,
    },
}

/// Cuts an item to `most` bytes.
pub(super) fn fit(item: &mut wire::WorkItem, most: usize) -> Fit {
    let bytes = item.encoded_len();
    if bytes <= most {
        return Fit::Whole;
    }
    let (events, first) = match &mut item.request {
        // The first event starts the turn and must stay.
        Some(Request::OrchestratorRequest(turn)) => (&mut turn.new_events, 1),
        Some(Request::EntityRequestV2(batch)) => (&mut batch.operation_requests, 0),
        _ => return Fit::Nothing { count: 1 },
    };
    let sizes: Vec<_> = events.iter().skip(first).map(placed).collect();
    // Shorter length prefixes make the envelope shorter, never longer.
    let around = bytes - sizes.iter().sum::<usize>();
    let mut room = match most.checked_sub(around) {
        Some(room) => room,
        None => return Fit::Nothing { count: sizes.len() },
    };
    let mut count = 0;
    for size in sizes {
        match room.checked_sub(size) {
            Some(rest) => room = rest,
            None => break,
        }
        count += 1;
    }
    match count {
        0 => Fit::Nothing { count: 1 },
        count => {
            events.truncate(first + count);
            Fit::Part(count)
        }
    }
}

/// The encoded size of an event in its message, with length and tag.
fn placed(event: &wire::HistoryEvent) -> usize {
    let bytes = event.encoded_len();
    bytes + prost::length_delimiter_len(bytes) + 1
}

/// Whether every event of a history that the worker must fetch fits into a message.
pub(super) fn is_fetchable(item: &WorkDelivery, message: &wire::WorkItem, most: usize) -> bool {
    let (WorkPayload::Turn(turn), Some(Request::OrchestratorRequest(sent))) =
        (&item.work, &message.request)
    else {
        return true;
    };
    let mut events = turn.past.iter().flat_map(|events| events.iter());
    // Only long events need to be measured.
    let fits = |event: &steadfast_durable::InstanceEvent| {
        event.size() < most / 4 || placed(&encode_event(event)) <= most
    };
    !sent.requires_history_streaming || events.all(fits)
}

/// The instance or entity of an item.
pub(super) fn instance(work: &WorkPayload) -> &str {
    match work {
        WorkPayload::Turn(turn) => &turn.instance,
        WorkPayload::Activity(activity) => &activity.instance,
        WorkPayload::Batch(batch) => &batch.entity,
    }
}

/// A work item over the worker's limit, which is failed instead of sent.
pub(super) struct OversizedItem {
    hub: TaskHub,
    token: String,
    instance: String,
    /// The number of an activity.
    id: i32,
    /// How many operations fail.
    count: usize,
    kind: Kind,
    most: usize,
}

#[derive(Clone, Copy)]
enum Kind {
    Turn,
    Activity,
    Batch,
}

impl OversizedItem {
    pub(super) fn new(hub: TaskHub, item: &WorkDelivery, count: usize, most: usize) -> Self {
        let (kind, id) = match &item.work {
            WorkPayload::Turn(_) => (Kind::Turn, 0),
            WorkPayload::Activity(activity) => (Kind::Activity, activity.id),
            WorkPayload::Batch(_) => (Kind::Batch, 0),
        };
        Self {
            hub,
            token: item.token.clone(),
            instance: instance(&item.work).to_owned(),
            id,
            count,
            kind,
            most,
        }
    }

    /// Submits the failure as a worker would. If that fails, the item is dispatched again.
    pub(super) async fn submit_failure(self) {
        let instance = &self.instance;
        tracing::error!(
            event = "durable.item_too_large",
            instance,
            most = self.most,
            "a work item fails: it is larger than the messages that its worker accepts",
        );
        let brought = match self.kind {
            Kind::Turn => self.turn().await,
            Kind::Activity => {
                let failed = Err(self.failure("WorkItemTooLarge"));
                let hub = &self.hub;
                hub.complete_activity(&self.token, instance, self.id, failed)
                    .await
            }
            Kind::Batch => self.batch().await,
        };
        if let Err(error) = brought {
            tracing::warn!(
                event = "durable.result_not_in",
                %error,
                "the failure of a work item could not be brought in",
            );
            let _ = self.hub.abandon(&self.token).await;
        }
    }

    async fn turn(&self) -> steadfast_durable::Result<bool> {
        let end = ActionKind::Complete {
            status: InstanceStatus::Failed,
            result: None,
            failure: Some(self.failure("HistoryTooLarge")),
        };
        let result = TurnResult {
            actions: vec![TurnAction {
                id: NO_ACTION,
                kind: end,
            }],
            ..TurnResult::default()
        };
        let hub = &self.hub;
        hub.complete_turn(&self.token, &self.instance, result).await
    }

    /// Operations fail without a change of the state; later ones are dispatched again.
    async fn batch(&self) -> steadfast_durable::Result<bool> {
        let hub = &self.hub;
        if !hub.cut(&self.token, &self.instance, self.count).await? {
            return Ok(false);
        }
        let result = BatchResult {
            failure: Some(self.failure("WorkItemTooLarge")),
            ..BatchResult::default()
        };
        hub.complete_batch(&self.token, &self.instance, result)
            .await
    }

    fn failure(&self, kind: &str) -> FailureDetails {
        let most = self.most;
        FailureDetails::lasting(
            kind,
            format!(
                "the worker takes messages of {most} bytes, and this work item has more; keep \
                 large payloads elsewhere, continue as new more often, or use a worker that \
                 streams histories or takes longer messages"
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use steadfast_wire::durabletask::history_event::EventType;

    use super::*;

    fn event(bytes: usize) -> wire::HistoryEvent {
        let kind = wire::EventRaisedEvent {
            name: "e".into(),
            input: Some("x".repeat(bytes)),
        };
        wire::HistoryEvent {
            event_type: Some(EventType::EventRaised(kind)),
            ..wire::HistoryEvent::default()
        }
    }

    fn turn(past: &[usize], new: &[usize]) -> wire::WorkItem {
        let events = |sizes: &[usize]| sizes.iter().map(|size| event(*size)).collect();
        let turn = wire::OrchestratorRequest {
            past_events: events(past),
            new_events: events(new),
            ..wire::OrchestratorRequest::default()
        };
        wire::WorkItem {
            request: Some(Request::OrchestratorRequest(turn)),
            completion_token: "token".into(),
        }
    }

    #[test]
    fn an_item_is_cut_to_the_longest_message_that_fits() {
        for most in (300..2_000).chain([5_000, 70_000]) {
            for sizes in [
                [10, 100, 200, 300, 400, 500],
                [0, 60, 120, 130, 16_383, 16_384],
            ] {
                let mut item = turn(&[200], &sizes);
                let whole = item.clone();
                let longer = |count: usize| {
                    let mut item = whole.clone();
                    if let Some(Request::OrchestratorRequest(turn)) = &mut item.request {
                        turn.new_events.truncate(1 + count);
                    }
                    item.encoded_len()
                };
                match fit(&mut item, most) {
                    Fit::Whole => assert_eq!(item, whole),
                    Fit::Part(count) => {
                        assert_eq!(item.encoded_len(), longer(count));
                        assert!(longer(count) <= most);
                        // The length prefixes around it may have been shorter.
                        assert!(longer(count + 1) + 4 > most);
                    }
                    Fit::Nothing { count } => {
                        assert_eq!(count, 1);
                        assert!(longer(1) + 4 > most);
                    }
                }
            }
        }
        let mut item = turn(&[2_000], &[0, 1, 2]);
        assert_eq!(fit(&mut item, 1_000), Fit::Nothing { count: 2 });
    }
}
