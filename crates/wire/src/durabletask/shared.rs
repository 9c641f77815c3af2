//! Messages shared by instances, events and work items.

use std::collections::BTreeMap;

use super::well_known::{ProtoTimestamp, ProtoValue};

/// Any message without fields.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Empty {}

/// An instance, and optionally one of its executions.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct OrchestrationInstance {
    #[prost(string, tag = "1")]
    pub instance_id: String,
    #[prost(message, optional, tag = "2")]
    pub execution_id: Option<String>,
}

/// The parent that started an instance.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ParentInstanceInfo {
    #[prost(int32, tag = "1")]
    pub task_scheduled_id: i32,
    #[prost(message, optional, tag = "2")]
    pub name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub version: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub orchestration_instance: Option<OrchestrationInstance>,
}

/// The position in a distributed trace.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TraceContext {
    #[prost(string, tag = "1")]
    pub trace_parent: String,
    #[prost(string, tag = "2")]
    pub span_id: String,
    #[prost(message, optional, tag = "3")]
    pub trace_state: Option<String>,
}

/// The span of an orchestration.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct OrchestrationTraceContext {
    #[prost(message, optional, tag = "1")]
    pub span_id: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub span_start_time: Option<ProtoTimestamp>,
}

/// The failure of a task in a worker.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TaskFailureDetails {
    #[prost(string, tag = "1")]
    pub error_type: String,
    #[prost(string, tag = "2")]
    pub error_message: String,
    #[prost(message, optional, tag = "3")]
    pub stack_trace: Option<String>,
    #[prost(message, optional, boxed, tag = "4")]
    pub inner_failure: Option<Box<TaskFailureDetails>>,
    #[prost(bool, tag = "5")]
    pub is_non_retriable: bool,
    #[prost(btree_map = "string, message", tag = "6")]
    pub properties: BTreeMap<String, ProtoValue>,
}

/// The states of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum OrchestrationStatus {
    Running = 0,
    Completed = 1,
    ContinuedAsNew = 2,
    Failed = 3,
    Canceled = 4,
    Terminated = 5,
    Pending = 6,
    Suspended = 7,
}

/// Capabilities of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum WorkerCapability {
    Unspecified = 0,
    HistoryStreaming = 1,
    ScheduledTasks = 2,
    LargePayloads = 3,
    /// A Steadfast extension: it caches instances, and accepts turns without their
    /// history.
    RememberedHistory = 1001,
}
