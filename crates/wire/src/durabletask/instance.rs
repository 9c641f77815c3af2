//! Instances: client requests and responses.

use std::collections::BTreeMap;

use super::shared::{OrchestrationStatus, TaskFailureDetails, TraceContext};
use super::well_known::{ProtoDuration, ProtoTimestamp};

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CreateInstanceRequest {
    #[prost(string, tag = "1")]
    pub instance_id: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, optional, tag = "3")]
    pub version: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub input: Option<String>,
    #[prost(message, optional, tag = "5")]
    pub scheduled_start_timestamp: Option<ProtoTimestamp>,
    #[prost(message, optional, tag = "6")]
    pub orchestration_id_reuse_policy: Option<OrchestrationIdReusePolicy>,
    #[prost(message, optional, tag = "7")]
    pub execution_id: Option<String>,
    #[prost(btree_map = "string, string", tag = "8")]
    pub tags: BTreeMap<String, String>,
    #[prost(message, optional, tag = "9")]
    pub parent_trace_context: Option<TraceContext>,
    #[prost(message, optional, tag = "10")]
    pub request_time: Option<ProtoTimestamp>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct OrchestrationIdReusePolicy {
    #[prost(enumeration = "OrchestrationStatus", repeated, tag = "1")]
    pub replaceable_status: Vec<i32>,
    /// Set by older SDKs: the action for an instance in one of these states. Newer
    /// SDKs omit it and mean that the instance is replaced.
    #[prost(enumeration = "CreateOrchestrationAction", tag = "2")]
    pub action: i32,
}

/// Used by older SDKs. The error action is the default value and is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum CreateOrchestrationAction {
    Error = 0,
    Ignore = 1,
    Terminate = 2,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CreateInstanceResponse {
    #[prost(string, tag = "1")]
    pub instance_id: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetInstanceRequest {
    #[prost(string, tag = "1")]
    pub instance_id: String,
    #[prost(bool, tag = "2")]
    pub get_inputs_and_outputs: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GetInstanceResponse {
    #[prost(bool, tag = "1")]
    pub exists: bool,
    #[prost(message, optional, tag = "2")]
    pub orchestration_state: Option<OrchestrationState>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct OrchestrationState {
    #[prost(string, tag = "1")]
    pub instance_id: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, optional, tag = "3")]
    pub version: Option<String>,
    #[prost(enumeration = "OrchestrationStatus", tag = "4")]
    pub orchestration_status: i32,
    #[prost(message, optional, tag = "5")]
    pub scheduled_start_timestamp: Option<ProtoTimestamp>,
    #[prost(message, optional, tag = "6")]
    pub created_timestamp: Option<ProtoTimestamp>,
    #[prost(message, optional, tag = "7")]
    pub last_updated_timestamp: Option<ProtoTimestamp>,
    #[prost(message, optional, tag = "8")]
    pub input: Option<String>,
    #[prost(message, optional, tag = "9")]
    pub output: Option<String>,
    #[prost(message, optional, tag = "10")]
    pub custom_status: Option<String>,
    #[prost(message, optional, tag = "11")]
    pub failure_details: Option<TaskFailureDetails>,
    #[prost(message, optional, tag = "12")]
    pub execution_id: Option<String>,
    #[prost(message, optional, tag = "13")]
    pub completed_timestamp: Option<ProtoTimestamp>,
    #[prost(message, optional, tag = "14")]
    pub parent_instance_id: Option<String>,
    #[prost(btree_map = "string, string", tag = "15")]
    pub tags: BTreeMap<String, String>,
}

/// Requests that name an instance and a reason: suspend, resume and rewind.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReasonRequest {
    #[prost(string, tag = "1")]
    pub instance_id: String,
    #[prost(message, optional, tag = "2")]
    pub reason: Option<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RestartInstanceRequest {
    #[prost(string, tag = "1")]
    pub instance_id: String,
    #[prost(bool, tag = "2")]
    pub restart_with_new_instance_id: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RestartInstanceResponse {
    #[prost(string, tag = "1")]
    pub instance_id: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RaiseEventRequest {
    #[prost(string, tag = "1")]
    pub instance_id: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, optional, tag = "3")]
    pub input: Option<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TerminateRequest {
    #[prost(string, tag = "1")]
    pub instance_id: String,
    #[prost(message, optional, tag = "2")]
    pub output: Option<String>,
    #[prost(bool, tag = "3")]
    pub recursive: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct QueryInstancesRequest {
    #[prost(message, optional, tag = "1")]
    pub query: Option<InstanceQuery>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct InstanceQuery {
    #[prost(enumeration = "OrchestrationStatus", repeated, tag = "1")]
    pub runtime_status: Vec<i32>,
    #[prost(message, optional, tag = "2")]
    pub created_time_from: Option<ProtoTimestamp>,
    #[prost(message, optional, tag = "3")]
    pub created_time_to: Option<ProtoTimestamp>,
    #[prost(message, repeated, tag = "4")]
    pub task_hub_names: Vec<String>,
    #[prost(int32, tag = "5")]
    pub max_instance_count: i32,
    #[prost(message, optional, tag = "6")]
    pub continuation_token: Option<String>,
    #[prost(message, optional, tag = "7")]
    pub instance_id_prefix: Option<String>,
    #[prost(bool, tag = "8")]
    pub fetch_inputs_and_outputs: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct QueryInstancesResponse {
    #[prost(message, repeated, tag = "1")]
    pub orchestration_state: Vec<OrchestrationState>,
    #[prost(message, optional, tag = "2")]
    pub continuation_token: Option<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListInstanceIdsRequest {
    #[prost(enumeration = "OrchestrationStatus", repeated, tag = "1")]
    pub runtime_status: Vec<i32>,
    #[prost(message, optional, tag = "2")]
    pub completed_time_from: Option<ProtoTimestamp>,
    #[prost(message, optional, tag = "3")]
    pub completed_time_to: Option<ProtoTimestamp>,
    #[prost(int32, tag = "4")]
    pub page_size: i32,
    #[prost(message, optional, tag = "5")]
    pub last_instance_key: Option<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListInstanceIdsResponse {
    #[prost(string, repeated, tag = "1")]
    pub instance_ids: Vec<String>,
    #[prost(message, optional, tag = "2")]
    pub last_instance_key: Option<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PurgeInstancesRequest {
    #[prost(oneof = "purge_request::Request", tags = "1, 2, 4")]
    pub request: Option<purge_request::Request>,
    #[prost(bool, tag = "3")]
    pub recursive: bool,
    #[prost(bool, tag = "5")]
    pub is_orchestration: bool,
}

/// The kinds of [`PurgeInstancesRequest`].
pub mod purge_request {
    use super::{InstanceBatch, PurgeInstanceFilter};

    /// The instances to purge.
    #[derive(Clone, PartialEq, Eq, prost::Oneof)]
    pub enum Request {
        #[prost(string, tag = "1")]
        InstanceId(String),
        #[prost(message, tag = "2")]
        Filter(PurgeInstanceFilter),
        #[prost(message, tag = "4")]
        Batch(InstanceBatch),
    }
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PurgeInstanceFilter {
    #[prost(message, optional, tag = "1")]
    pub created_time_from: Option<ProtoTimestamp>,
    #[prost(message, optional, tag = "2")]
    pub created_time_to: Option<ProtoTimestamp>,
    #[prost(enumeration = "OrchestrationStatus", repeated, tag = "3")]
    pub runtime_status: Vec<i32>,
    #[prost(message, optional, tag = "4")]
    pub timeout: Option<ProtoDuration>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PurgeInstancesResponse {
    #[prost(int32, tag = "1")]
    pub deleted_instance_count: i32,
    #[prost(message, optional, tag = "2")]
    pub is_complete: Option<bool>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct InstanceBatch {
    #[prost(string, repeated, tag = "1")]
    pub instance_ids: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CreateTaskHubRequest {
    #[prost(bool, tag = "1")]
    pub recreate_if_exists: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SkipGracefulOrchestrationTerminationsRequest {
    #[prost(message, optional, tag = "1")]
    pub instance_batch: Option<InstanceBatch>,
    #[prost(message, optional, tag = "2")]
    pub reason: Option<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SkipGracefulOrchestrationTerminationsResponse {
    #[prost(string, repeated, tag = "1")]
    pub unterminated_instance_ids: Vec<String>,
}
