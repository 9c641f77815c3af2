//! Entities: work items, results and client views.

use super::event::HistoryEvent;
use super::shared::{OrchestrationInstance, TaskFailureDetails, TraceContext};
use super::well_known::ProtoTimestamp;

/// Operations for a worker. Without a state the entity does not exist yet.
#[derive(Clone, PartialEq, prost::Message)]
pub struct EntityRequest {
    #[prost(string, tag = "1")]
    pub instance_id: String,
    #[prost(string, tag = "2")]
    pub execution_id: String,
    #[prost(message, optional, tag = "3")]
    pub entity_state: Option<String>,
    #[prost(message, repeated, tag = "4")]
    pub operation_requests: Vec<HistoryEvent>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct EntityBatchResult {
    #[prost(message, repeated, tag = "1")]
    pub results: Vec<OperationResult>,
    #[prost(message, repeated, tag = "2")]
    pub actions: Vec<OperationAction>,
    #[prost(message, optional, tag = "3")]
    pub entity_state: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub failure_details: Option<TaskFailureDetails>,
    #[prost(string, tag = "5")]
    pub completion_token: String,
    #[prost(message, repeated, tag = "6")]
    pub operation_infos: Vec<OperationInfo>,
    #[prost(bool, tag = "7")]
    pub requires_state: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct OperationResult {
    #[prost(oneof = "operation_result_type::ResultType", tags = "1, 2")]
    pub result_type: Option<operation_result_type::ResultType>,
}

/// The kinds of [`OperationResult`].
pub mod operation_result_type {
    use super::*;

    /// The result of an operation.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum ResultType {
        #[prost(message, tag = "1")]
        Success(OperationResultSuccess),
        #[prost(message, tag = "2")]
        Failure(OperationResultFailure),
    }
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct OperationResultSuccess {
    #[prost(message, optional, tag = "1")]
    pub result: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub start_time_utc: Option<ProtoTimestamp>,
    #[prost(message, optional, tag = "3")]
    pub end_time_utc: Option<ProtoTimestamp>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct OperationResultFailure {
    #[prost(message, optional, tag = "1")]
    pub failure_details: Option<TaskFailureDetails>,
    #[prost(message, optional, tag = "2")]
    pub start_time_utc: Option<ProtoTimestamp>,
    #[prost(message, optional, tag = "3")]
    pub end_time_utc: Option<ProtoTimestamp>,
}

/// The caller of an operation, as a worker echoes it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct OperationInfo {
    #[prost(string, tag = "1")]
    pub request_id: String,
    #[prost(message, optional, tag = "2")]
    pub response_destination: Option<OrchestrationInstance>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct OperationAction {
    #[prost(int32, tag = "1")]
    pub id: i32,
    #[prost(oneof = "operation_action_type::OperationActionType", tags = "2, 3")]
    pub operation_action_type: Option<operation_action_type::OperationActionType>,
}

/// The kinds of [`OperationAction`].
pub mod operation_action_type {
    use super::*;

    /// An action of an operation.
    #[derive(Clone, PartialEq, Eq, prost::Oneof)]
    pub enum OperationActionType {
        #[prost(message, tag = "2")]
        SendSignal(SendSignalAction),
        #[prost(message, tag = "3")]
        StartNewOrchestration(StartNewOrchestrationAction),
    }
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SendSignalAction {
    #[prost(string, tag = "1")]
    pub instance_id: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, optional, tag = "3")]
    pub input: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub scheduled_time: Option<ProtoTimestamp>,
    #[prost(message, optional, tag = "5")]
    pub request_time: Option<ProtoTimestamp>,
    #[prost(message, optional, tag = "6")]
    pub parent_trace_context: Option<TraceContext>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StartNewOrchestrationAction {
    #[prost(string, tag = "1")]
    pub instance_id: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, optional, tag = "3")]
    pub version: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub input: Option<String>,
    #[prost(message, optional, tag = "5")]
    pub scheduled_time: Option<ProtoTimestamp>,
    #[prost(message, optional, tag = "6")]
    pub request_time: Option<ProtoTimestamp>,
    #[prost(message, optional, tag = "7")]
    pub parent_trace_context: Option<TraceContext>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SignalEntityRequest {
    #[prost(string, tag = "1")]
    pub instance_id: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, optional, tag = "3")]
    pub input: Option<String>,
    #[prost(string, tag = "4")]
    pub request_id: String,
    #[prost(message, optional, tag = "5")]
    pub scheduled_time: Option<ProtoTimestamp>,
    #[prost(message, optional, tag = "6")]
    pub parent_trace_context: Option<TraceContext>,
    #[prost(message, optional, tag = "7")]
    pub request_time: Option<ProtoTimestamp>,
}

/// The result of a client's call. This method is a Steadfast extension: SDKs do not
/// know it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CallEntityResponse {
    #[prost(message, optional, tag = "1")]
    pub output: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub failure_details: Option<TaskFailureDetails>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetEntityRequest {
    #[prost(string, tag = "1")]
    pub instance_id: String,
    #[prost(bool, tag = "2")]
    pub include_state: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetEntityResponse {
    #[prost(bool, tag = "1")]
    pub exists: bool,
    #[prost(message, optional, tag = "2")]
    pub entity: Option<EntityMetadata>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EntityMetadata {
    #[prost(string, tag = "1")]
    pub instance_id: String,
    #[prost(message, optional, tag = "2")]
    pub last_modified_time: Option<ProtoTimestamp>,
    #[prost(int32, tag = "3")]
    pub backlog_queue_size: i32,
    #[prost(message, optional, tag = "4")]
    pub locked_by: Option<String>,
    #[prost(message, optional, tag = "5")]
    pub serialized_state: Option<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct QueryEntitiesRequest {
    #[prost(message, optional, tag = "1")]
    pub query: Option<EntityQuery>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EntityQuery {
    #[prost(message, optional, tag = "1")]
    pub instance_id_starts_with: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub last_modified_from: Option<ProtoTimestamp>,
    #[prost(message, optional, tag = "3")]
    pub last_modified_to: Option<ProtoTimestamp>,
    #[prost(bool, tag = "4")]
    pub include_state: bool,
    #[prost(bool, tag = "5")]
    pub include_transient: bool,
    #[prost(message, optional, tag = "6")]
    pub page_size: Option<i32>,
    #[prost(message, optional, tag = "7")]
    pub continuation_token: Option<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct QueryEntitiesResponse {
    #[prost(message, repeated, tag = "1")]
    pub entities: Vec<EntityMetadata>,
    #[prost(message, optional, tag = "2")]
    pub continuation_token: Option<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CleanEntityStorageRequest {
    #[prost(message, optional, tag = "1")]
    pub continuation_token: Option<String>,
    #[prost(bool, tag = "2")]
    pub remove_empty_entities: bool,
    #[prost(bool, tag = "3")]
    pub release_orphaned_locks: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CleanEntityStorageResponse {
    #[prost(message, optional, tag = "1")]
    pub continuation_token: Option<String>,
    #[prost(int32, tag = "2")]
    pub empty_entities_removed: i32,
    #[prost(int32, tag = "3")]
    pub orphaned_locks_released: i32,
}
