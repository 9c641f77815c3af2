//! Events of a history.

use std::collections::BTreeMap;

use super::shared::{
    Empty, OrchestrationInstance, OrchestrationStatus, ParentInstanceInfo, TaskFailureDetails,
    TraceContext,
};
use super::well_known::ProtoTimestamp;

/// One event of a history. Its time is always set, because workers read it unchecked.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HistoryEvent {
    #[prost(int32, tag = "1")]
    pub event_id: i32,
    #[prost(message, optional, tag = "2")]
    pub timestamp: Option<ProtoTimestamp>,
    #[prost(
        oneof = "event_type::EventType",
        tags = "3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30"
    )]
    pub event_type: Option<event_type::EventType>,
}

/// The kinds of [`HistoryEvent`].
pub mod event_type {
    use super::*;

    /// The content of an event.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum EventType {
        #[prost(message, tag = "3")]
        ExecutionStarted(ExecutionStartedEvent),
        #[prost(message, tag = "4")]
        ExecutionCompleted(ExecutionCompletedEvent),
        #[prost(message, tag = "5")]
        ExecutionTerminated(ExecutionTerminatedEvent),
        #[prost(message, tag = "6")]
        TaskScheduled(TaskScheduledEvent),
        #[prost(message, tag = "7")]
        TaskCompleted(TaskCompletedEvent),
        #[prost(message, tag = "8")]
        TaskFailed(TaskFailedEvent),
        #[prost(message, tag = "9")]
        SubOrchestrationInstanceCreated(SubOrchestrationInstanceCreatedEvent),
        #[prost(message, tag = "10")]
        SubOrchestrationInstanceCompleted(TaskCompletedEvent),
        #[prost(message, tag = "11")]
        SubOrchestrationInstanceFailed(TaskFailedEvent),
        #[prost(message, tag = "12")]
        TimerCreated(TimerCreatedEvent),
        #[prost(message, tag = "13")]
        TimerFired(TimerFiredEvent),
        #[prost(message, tag = "14")]
        OrchestratorStarted(Empty),
        #[prost(message, tag = "15")]
        OrchestratorCompleted(Empty),
        #[prost(message, tag = "16")]
        EventSent(EventSentEvent),
        #[prost(message, tag = "17")]
        EventRaised(EventRaisedEvent),
        #[prost(message, tag = "18")]
        Generic(NoteEvent),
        #[prost(message, tag = "21")]
        ExecutionSuspended(NoteEvent),
        #[prost(message, tag = "22")]
        ExecutionResumed(NoteEvent),
        #[prost(message, tag = "23")]
        EntityOperationSignaled(EntityOperationSignaledEvent),
        #[prost(message, tag = "24")]
        EntityOperationCalled(EntityOperationCalledEvent),
        #[prost(message, tag = "25")]
        EntityOperationCompleted(EntityOperationCompletedEvent),
        #[prost(message, tag = "26")]
        EntityOperationFailed(EntityOperationFailedEvent),
        #[prost(message, tag = "27")]
        EntityLockRequested(EntityLockRequestedEvent),
        #[prost(message, tag = "28")]
        EntityLockGranted(EntityLockGrantedEvent),
        #[prost(message, tag = "29")]
        EntityUnlockSent(EntityUnlockSentEvent),
        #[prost(message, tag = "30")]
        ExecutionRewound(ExecutionRewoundEvent),
    }
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExecutionStartedEvent {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub version: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub input: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub orchestration_instance: Option<OrchestrationInstance>,
    #[prost(message, optional, tag = "5")]
    pub parent_instance: Option<ParentInstanceInfo>,
    #[prost(message, optional, tag = "6")]
    pub scheduled_start_timestamp: Option<ProtoTimestamp>,
    #[prost(message, optional, tag = "7")]
    pub parent_trace_context: Option<TraceContext>,
    #[prost(message, optional, tag = "8")]
    pub orchestration_span_id: Option<String>,
    #[prost(btree_map = "string, string", tag = "9")]
    pub tags: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ExecutionCompletedEvent {
    #[prost(enumeration = "OrchestrationStatus", tag = "1")]
    pub orchestration_status: i32,
    #[prost(message, optional, tag = "2")]
    pub result: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub failure_details: Option<TaskFailureDetails>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExecutionTerminatedEvent {
    #[prost(message, optional, tag = "1")]
    pub input: Option<String>,
    #[prost(bool, tag = "2")]
    pub recurse: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TaskScheduledEvent {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub version: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub input: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub parent_trace_context: Option<TraceContext>,
    #[prost(btree_map = "string, string", tag = "5")]
    pub tags: BTreeMap<String, String>,
}

/// For activities and sub-orchestrations alike.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TaskCompletedEvent {
    #[prost(int32, tag = "1")]
    pub task_scheduled_id: i32,
    #[prost(message, optional, tag = "2")]
    pub result: Option<String>,
}

/// For activities and sub-orchestrations alike.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TaskFailedEvent {
    #[prost(int32, tag = "1")]
    pub task_scheduled_id: i32,
    #[prost(message, optional, tag = "2")]
    pub failure_details: Option<TaskFailureDetails>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SubOrchestrationInstanceCreatedEvent {
    #[prost(string, tag = "1")]
    pub instance_id: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, optional, tag = "3")]
    pub version: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub input: Option<String>,
    #[prost(message, optional, tag = "5")]
    pub parent_trace_context: Option<TraceContext>,
    #[prost(btree_map = "string, string", tag = "6")]
    pub tags: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TimerCreatedEvent {
    #[prost(message, optional, tag = "1")]
    pub fire_at: Option<ProtoTimestamp>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TimerFiredEvent {
    #[prost(message, optional, tag = "1")]
    pub fire_at: Option<ProtoTimestamp>,
    #[prost(int32, tag = "2")]
    pub timer_id: i32,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EventSentEvent {
    #[prost(string, tag = "1")]
    pub instance_id: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, optional, tag = "3")]
    pub input: Option<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EventRaisedEvent {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub input: Option<String>,
}

/// Events with one text: generic, suspended and resumed.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NoteEvent {
    #[prost(message, optional, tag = "1")]
    pub input: Option<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EntityOperationSignaledEvent {
    #[prost(string, tag = "1")]
    pub request_id: String,
    #[prost(string, tag = "2")]
    pub operation: String,
    #[prost(message, optional, tag = "3")]
    pub scheduled_time: Option<ProtoTimestamp>,
    #[prost(message, optional, tag = "4")]
    pub input: Option<String>,
    #[prost(message, optional, tag = "5")]
    pub target_instance_id: Option<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EntityOperationCalledEvent {
    #[prost(string, tag = "1")]
    pub request_id: String,
    #[prost(string, tag = "2")]
    pub operation: String,
    #[prost(message, optional, tag = "3")]
    pub scheduled_time: Option<ProtoTimestamp>,
    #[prost(message, optional, tag = "4")]
    pub input: Option<String>,
    #[prost(message, optional, tag = "5")]
    pub parent_instance_id: Option<String>,
    #[prost(message, optional, tag = "6")]
    pub parent_execution_id: Option<String>,
    #[prost(message, optional, tag = "7")]
    pub target_instance_id: Option<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EntityOperationCompletedEvent {
    #[prost(string, tag = "1")]
    pub request_id: String,
    #[prost(message, optional, tag = "2")]
    pub output: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct EntityOperationFailedEvent {
    #[prost(string, tag = "1")]
    pub request_id: String,
    #[prost(message, optional, tag = "2")]
    pub failure_details: Option<TaskFailureDetails>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EntityLockRequestedEvent {
    #[prost(string, tag = "1")]
    pub critical_section_id: String,
    #[prost(string, repeated, tag = "2")]
    pub lock_set: Vec<String>,
    #[prost(int32, tag = "3")]
    pub position: i32,
    #[prost(message, optional, tag = "4")]
    pub parent_instance_id: Option<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EntityLockGrantedEvent {
    #[prost(string, tag = "1")]
    pub critical_section_id: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EntityUnlockSentEvent {
    #[prost(string, tag = "1")]
    pub critical_section_id: String,
    #[prost(message, optional, tag = "2")]
    pub parent_instance_id: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub target_instance_id: Option<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExecutionRewoundEvent {
    #[prost(message, optional, tag = "1")]
    pub reason: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub parent_execution_id: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub instance_id: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub parent_trace_context: Option<TraceContext>,
    #[prost(message, optional, tag = "5")]
    pub name: Option<String>,
    #[prost(message, optional, tag = "6")]
    pub version: Option<String>,
    #[prost(message, optional, tag = "7")]
    pub input: Option<String>,
    #[prost(message, optional, tag = "8")]
    pub parent_instance: Option<ParentInstanceInfo>,
    #[prost(btree_map = "string, string", tag = "9")]
    pub tags: BTreeMap<String, String>,
}
