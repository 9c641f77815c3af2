//! Actions that an orchestrator returns.

use std::collections::BTreeMap;

use super::event::{
    EntityLockRequestedEvent, EntityOperationCalledEvent, EntityOperationSignaledEvent,
    EntityUnlockSentEvent, HistoryEvent,
};
use super::shared::{OrchestrationInstance, OrchestrationStatus, TaskFailureDetails, TraceContext};
use super::well_known::ProtoTimestamp;

/// One action of an orchestrator.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OrchestratorAction {
    #[prost(int32, tag = "1")]
    pub id: i32,
    #[prost(oneof = "action_type::ActionType", tags = "2, 3, 4, 5, 6, 7, 8, 9")]
    pub action_type: Option<action_type::ActionType>,
}

/// The kinds of [`OrchestratorAction`].
pub mod action_type {
    use super::*;

    /// The action.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum ActionType {
        #[prost(message, tag = "2")]
        ScheduleTask(ScheduleTaskAction),
        #[prost(message, tag = "3")]
        CreateSubOrchestration(CreateSubOrchestrationAction),
        #[prost(message, tag = "4")]
        CreateTimer(CreateTimerAction),
        #[prost(message, tag = "5")]
        SendEvent(SendEventAction),
        #[prost(message, tag = "6")]
        CompleteOrchestration(CompleteOrchestrationAction),
        #[prost(message, tag = "7")]
        TerminateOrchestration(TerminateOrchestrationAction),
        #[prost(message, tag = "8")]
        SendEntityMessage(SendEntityMessageAction),
        #[prost(message, tag = "9")]
        RewindOrchestration(RewindOrchestrationAction),
    }
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ScheduleTaskAction {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub version: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub input: Option<String>,
    #[prost(btree_map = "string, string", tag = "4")]
    pub tags: BTreeMap<String, String>,
    #[prost(message, optional, tag = "5")]
    pub parent_trace_context: Option<TraceContext>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CreateSubOrchestrationAction {
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
pub struct CreateTimerAction {
    #[prost(message, optional, tag = "1")]
    pub fire_at: Option<ProtoTimestamp>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SendEventAction {
    #[prost(message, optional, tag = "1")]
    pub instance: Option<OrchestrationInstance>,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, optional, tag = "3")]
    pub data: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct CompleteOrchestrationAction {
    #[prost(enumeration = "OrchestrationStatus", tag = "1")]
    pub orchestration_status: i32,
    #[prost(message, optional, tag = "2")]
    pub result: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub details: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub new_version: Option<String>,
    #[prost(message, repeated, tag = "5")]
    pub carryover_events: Vec<HistoryEvent>,
    #[prost(message, optional, tag = "6")]
    pub failure_details: Option<TaskFailureDetails>,
    #[prost(btree_map = "string, string", tag = "7")]
    pub tags: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TerminateOrchestrationAction {
    #[prost(string, tag = "1")]
    pub instance_id: String,
    #[prost(message, optional, tag = "2")]
    pub reason: Option<String>,
    #[prost(bool, tag = "3")]
    pub recurse: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SendEntityMessageAction {
    #[prost(oneof = "entity_message_type::EntityMessageType", tags = "1, 2, 3, 4")]
    pub entity_message_type: Option<entity_message_type::EntityMessageType>,
}

/// The kinds of [`SendEntityMessageAction`].
pub mod entity_message_type {
    use super::*;

    /// The message to an entity.
    #[derive(Clone, PartialEq, Eq, prost::Oneof)]
    pub enum EntityMessageType {
        #[prost(message, tag = "1")]
        EntityOperationSignaled(EntityOperationSignaledEvent),
        #[prost(message, tag = "2")]
        EntityOperationCalled(EntityOperationCalledEvent),
        #[prost(message, tag = "3")]
        EntityLockRequested(EntityLockRequestedEvent),
        #[prost(message, tag = "4")]
        EntityUnlockSent(EntityUnlockSentEvent),
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct RewindOrchestrationAction {
    #[prost(message, repeated, tag = "1")]
    pub new_history: Vec<HistoryEvent>,
}
