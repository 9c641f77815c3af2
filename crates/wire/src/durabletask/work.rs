//! Work items for workers, and their results.

use std::collections::BTreeMap;

use super::action::OrchestratorAction;
use super::entity::{EntityBatchResult, EntityRequest};
use super::event::HistoryEvent;
use super::shared::{
    Empty, OrchestrationInstance, OrchestrationTraceContext, TaskFailureDetails, TraceContext,
    WorkerCapability,
};
use super::well_known::{ProtoDuration, ProtoTimestamp, ProtoValue};

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetWorkItemsRequest {
    #[prost(int32, tag = "1")]
    pub max_concurrent_orchestration_work_items: i32,
    #[prost(int32, tag = "2")]
    pub max_concurrent_activity_work_items: i32,
    #[prost(int32, tag = "3")]
    pub max_concurrent_entity_work_items: i32,
    #[prost(enumeration = "WorkerCapability", repeated, tag = "10")]
    pub capabilities: Vec<i32>,
    #[prost(message, optional, tag = "11")]
    pub work_item_filters: Option<WorkItemFilters>,
    #[prost(string, tag = "12")]
    pub worker_instance_id: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WorkItemFilters {
    #[prost(message, repeated, tag = "1")]
    pub orchestrations: Vec<VersionFilter>,
    #[prost(message, repeated, tag = "2")]
    pub activities: Vec<VersionFilter>,
    #[prost(message, repeated, tag = "3")]
    pub entities: Vec<NameFilter>,
}

/// For orchestrations and activities.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct VersionFilter {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, repeated, tag = "2")]
    pub versions: Vec<String>,
}

/// For entities.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NameFilter {
    #[prost(string, tag = "1")]
    pub name: String,
}

/// One message of the work item stream.
#[derive(Clone, PartialEq, prost::Message)]
pub struct WorkItem {
    #[prost(oneof = "work_item_request::Request", tags = "1, 2, 4, 5")]
    pub request: Option<work_item_request::Request>,
    #[prost(string, tag = "10")]
    pub completion_token: String,
}

/// The kinds of [`WorkItem`]. The first form of entity work (3) is not sent.
pub mod work_item_request {
    use super::*;

    /// The work.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Request {
        #[prost(message, tag = "1")]
        Orchestrator(OrchestratorRequest),
        #[prost(message, tag = "2")]
        Activity(ActivityRequest),
        #[prost(message, tag = "4")]
        HealthPing(Empty),
        #[prost(message, tag = "5")]
        Entity(EntityRequest),
    }
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ActivityRequest {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub version: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub input: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub orchestration_instance: Option<OrchestrationInstance>,
    #[prost(int32, tag = "5")]
    pub task_id: i32,
    #[prost(message, optional, tag = "6")]
    pub parent_trace_context: Option<TraceContext>,
    #[prost(btree_map = "string, string", tag = "7")]
    pub tags: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ActivityResponse {
    #[prost(string, tag = "1")]
    pub instance_id: String,
    #[prost(int32, tag = "2")]
    pub task_id: i32,
    #[prost(message, optional, tag = "3")]
    pub result: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub failure_details: Option<TaskFailureDetails>,
    #[prost(string, tag = "5")]
    pub completion_token: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct OrchestratorRequest {
    #[prost(string, tag = "1")]
    pub instance_id: String,
    #[prost(message, optional, tag = "2")]
    pub execution_id: Option<String>,
    #[prost(message, repeated, tag = "3")]
    pub past_events: Vec<HistoryEvent>,
    #[prost(message, repeated, tag = "4")]
    pub new_events: Vec<HistoryEvent>,
    #[prost(message, optional, tag = "5")]
    pub entity_parameters: Option<OrchestratorEntityParameters>,
    #[prost(bool, tag = "6")]
    pub requires_history_streaming: bool,
    #[prost(btree_map = "string, message", tag = "7")]
    pub properties: BTreeMap<String, ProtoValue>,
    #[prost(message, optional, tag = "8")]
    pub orchestration_trace_context: Option<OrchestrationTraceContext>,
    /// A Steadfast extension: replaces the history for workers that cache it.
    #[prost(message, optional, tag = "1001")]
    pub remembered: Option<RememberedPast>,
}

/// The history that a worker must have cached.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RememberedPast {
    #[prost(uint64, tag = "1")]
    pub events: u64,
    /// The time of the last turn.
    #[prost(message, optional, tag = "2")]
    pub turn: Option<ProtoTimestamp>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct OrchestratorEntityParameters {
    #[prost(message, optional, tag = "1")]
    pub entity_message_reorder_window: Option<ProtoDuration>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct OrchestratorResponse {
    #[prost(string, tag = "1")]
    pub instance_id: String,
    #[prost(message, repeated, tag = "2")]
    pub actions: Vec<OrchestratorAction>,
    #[prost(message, optional, tag = "3")]
    pub custom_status: Option<String>,
    #[prost(string, tag = "4")]
    pub completion_token: String,
    #[prost(message, optional, tag = "5")]
    pub num_events_processed: Option<i32>,
    #[prost(message, optional, tag = "6")]
    pub orchestration_trace_context: Option<OrchestrationTraceContext>,
    #[prost(bool, tag = "7")]
    pub requires_history: bool,
    #[prost(bool, tag = "8")]
    pub is_partial: bool,
    #[prost(message, optional, tag = "9")]
    pub chunk_index: Option<i32>,
}

/// A Steadfast extension: results of several items at once.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CompleteTasksRequest {
    #[prost(message, repeated, tag = "1")]
    pub tasks: Vec<CompletedTask>,
}

/// The result of one item.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CompletedTask {
    #[prost(oneof = "completed_task::Result", tags = "1, 2, 3")]
    pub result: Option<completed_task::Result>,
}

/// The kinds of [`CompletedTask`].
pub mod completed_task {
    use super::*;

    /// The same message as when sent alone.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Result {
        #[prost(message, tag = "1")]
        Orchestrator(OrchestratorResponse),
        #[prost(message, tag = "2")]
        Activity(ActivityResponse),
        #[prost(message, tag = "3")]
        Entity(EntityBatchResult),
    }
}

/// The statuses of all results, in their order.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CompleteTasksResponse {
    #[prost(message, repeated, tag = "1")]
    pub answers: Vec<CompletedTaskStatus>,
}

/// A gRPC status.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CompletedTaskStatus {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
}

/// For turns, activities and entity batches alike.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AbandonRequest {
    #[prost(string, tag = "1")]
    pub completion_token: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StreamInstanceHistoryRequest {
    #[prost(string, tag = "1")]
    pub instance_id: String,
    #[prost(message, optional, tag = "2")]
    pub execution_id: Option<String>,
    #[prost(bool, tag = "3")]
    pub for_work_item_processing: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct HistoryChunk {
    #[prost(message, repeated, tag = "1")]
    pub events: Vec<HistoryEvent>,
}
