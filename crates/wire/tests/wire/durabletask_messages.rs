//! Messages of Durable Task against the bytes of an SDK.
//!
//! `golden/durabletask.txt` holds every message with all its fields set, written by
//! `interop/durable-python/golden.py` with the messages of the Python SDK 1.12. Texts
//! are the names of their fields.

use std::collections::BTreeSet;
use std::fmt::Debug;

use prost::Message;
use steadfast_wire::durabletask::*;

const GOLDEN: &str = include_str!("../golden/durabletask.txt");

/// Fields that have another name with us: an alternative is named after all of them.
const RENAMED: &[(&str, &str)] = &[("request", "instance_id")];

/// Reads bytes and writes them again: what is not known would be lost.
fn again<M: Message + Default + Debug>(bytes: &[u8]) -> Option<(Vec<u8>, String)> {
    let message = M::decode(bytes).ok()?;
    Some((message.encode_to_vec(), format!("{message:#?}")))
}

type Again = fn(&[u8]) -> Option<(Vec<u8>, String)>;

/// The type of a message.
fn find(name: &str) -> Option<Again> {
    macro_rules! known {
        ($($message:ident)*) => {
            match name {
                $(stringify!($message) => again::<$message>,)*
                _ => return None,
            }
        };
    }
    Some(known! {
        AbandonActivityTaskRequest
        AbandonActivityTaskResponse
        AbandonEntityTaskRequest
        AbandonEntityTaskResponse
        AbandonOrchestrationTaskRequest
        AbandonOrchestrationTaskResponse
        ActivityFilter
        ActivityRequest
        ActivityResponse
        CleanEntityStorageRequest
        CleanEntityStorageResponse
        CompleteOrchestrationAction
        CompleteTaskResponse
        CreateInstanceRequest
        CreateInstanceResponse
        CreateSubOrchestrationAction
        CreateTaskHubRequest
        CreateTaskHubResponse
        CreateTimerAction
        DeleteTaskHubRequest
        DeleteTaskHubResponse
        EntityBatchResult
        EntityFilter
        EntityLockGrantedEvent
        EntityLockRequestedEvent
        EntityMetadata
        EntityOperationCalledEvent
        EntityOperationCompletedEvent
        EntityOperationFailedEvent
        EntityOperationSignaledEvent
        EntityQuery
        EntityRequest
        EntityUnlockSentEvent
        EventRaisedEvent
        EventSentEvent
        ExecutionCompletedEvent
        ExecutionResumedEvent
        ExecutionRewoundEvent
        ExecutionStartedEvent
        ExecutionSuspendedEvent
        ExecutionTerminatedEvent
        GenericEvent
        GetEntityRequest
        GetEntityResponse
        GetInstanceRequest
        GetInstanceResponse
        GetWorkItemsRequest
        HealthPing
        HistoryChunk
        HistoryEvent
        InstanceBatch
        InstanceQuery
        ListInstanceIdsRequest
        ListInstanceIdsResponse
        OperationAction
        OperationInfo
        OperationResult
        OperationResultFailure
        OperationResultSuccess
        OrchestrationFilter
        OrchestrationIdReusePolicy
        OrchestrationInstance
        OrchestrationState
        OrchestrationTraceContext
        OrchestratorAction
        OrchestratorCompletedEvent
        OrchestratorEntityParameters
        OrchestratorRequest
        OrchestratorResponse
        OrchestratorStartedEvent
        ParentInstanceInfo
        PurgeInstanceFilter
        PurgeInstancesRequest
        PurgeInstancesResponse
        QueryEntitiesRequest
        QueryEntitiesResponse
        QueryInstancesRequest
        QueryInstancesResponse
        RaiseEventRequest
        RaiseEventResponse
        RestartInstanceRequest
        RestartInstanceResponse
        ResumeRequest
        ResumeResponse
        RewindInstanceRequest
        RewindInstanceResponse
        RewindOrchestrationAction
        ScheduleTaskAction
        SendEntityMessageAction
        SendEventAction
        SendSignalAction
        SignalEntityRequest
        SignalEntityResponse
        SkipGracefulOrchestrationTerminationsRequest
        SkipGracefulOrchestrationTerminationsResponse
        StartNewOrchestrationAction
        StreamInstanceHistoryRequest
        SubOrchestrationInstanceCompletedEvent
        SubOrchestrationInstanceCreatedEvent
        SubOrchestrationInstanceFailedEvent
        SuspendRequest
        SuspendResponse
        TaskCompletedEvent
        TaskFailedEvent
        TaskFailureDetails
        TaskScheduledEvent
        TerminateOrchestrationAction
        TerminateRequest
        TerminateResponse
        TimerCreatedEvent
        TimerFiredEvent
        TraceContext
        WorkItem
        WorkItemFilters
    })
}

fn golden() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let lines = GOLDEN.lines();
    lines.map(|line| {
        let mut words = line.split(' ');
        let (name, _, digits) = (words.next().unwrap(), words.next(), words.next().unwrap());
        let digits = digits.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        (name, digits.map(byte).collect())
    })
}

/// Texts in a message that do not say the name of their field.
fn mistaken(shown: &str) -> BTreeSet<(String, String)> {
    let mut field = "";
    let mut found = BTreeSet::new();
    for line in shown.lines().map(str::trim) {
        if let Some((name, _)) = line.split_once(':').filter(|_| !line.starts_with('"')) {
            field = name;
        }
        let text = line.split('"').nth(1).filter(|text| *text != field);
        let is_renamed = |text: &str| RENAMED.contains(&(field, text));
        // Maps hold the same key and value wherever they stand.
        if let Some(text) = text.filter(|text| !["k", "v"].contains(text) && !is_renamed(text)) {
            found.insert((field.to_owned(), text.to_owned()));
        }
    }
    found
}

#[test]
fn every_message_of_the_sdk_is_read_and_written_as_it_was() {
    let mut count = 0;
    for (name, bytes) in golden() {
        let again = find(name).unwrap_or_else(|| panic!("{name} is not known"));
        let (written, shown) = again(&bytes).unwrap();
        // Alternatives are written in front of fields with lower numbers, which is
        // allowed; nothing is lost and nothing added.
        let sorted = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes.sort_unstable();
            bytes
        };
        assert_eq!(sorted(&written), sorted(&bytes), "{name}: {shown}");
        assert_eq!(again(&written).unwrap().1, shown, "{name}");
        assert_eq!(mistaken(&shown), BTreeSet::new(), "{name}: {shown}");
        count += 1;
    }
    assert_eq!(count, 156);
}

#[test]
fn absent_and_empty_texts_differ() {
    let empty = ActivityResponse {
        result: Some(String::new()),
        ..ActivityResponse::default()
    };
    assert_eq!(empty.encode_to_vec(), [0x1a, 0x00]);
    assert_eq!(ActivityResponse::decode(&[0x1a, 0x00][..]).unwrap(), empty);
    assert!(ActivityResponse::default().encode_to_vec().is_empty());
}

#[test]
fn broken_bytes_are_refused_and_never_break_us() {
    for (name, bytes) in golden() {
        let again = find(name).unwrap();
        for end in 0..bytes.len() {
            drop(again(&bytes[..end]));
        }
        for place in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[place] ^= 0xff;
            drop(again(&bytes));
        }
    }
}

#[test]
fn events_of_a_history_are_small_in_memory() {
    let bytes = size_of::<HistoryEvent>();
    assert!(bytes <= 256, "{bytes}");
}

#[test]
fn failures_within_failures_are_bounded() {
    let mut inner = TaskFailureDetails::default();
    for _ in 0..200 {
        inner = TaskFailureDetails {
            inner_failure: Some(Box::new(inner)),
            ..TaskFailureDetails::default()
        };
    }
    assert!(TaskFailureDetails::decode(&inner.encode_to_vec()[..]).is_err());
}
