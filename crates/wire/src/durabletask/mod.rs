//! Messages of the Durable Task protocol.
//!
//! The service `TaskHubSidecarService` has no package, so paths are
//! `/TaskHubSidecarService/<method>`. Fields and numbers are those of
//! `orchestrator_service.proto`; they are written as derives, because the build has
//! no compiler of `.proto` files. `Option<String>` is a `StringValue`: absent and
//! empty differ.

mod action;
mod entity;
mod event;
mod instance;
mod shared;
mod well_known;
mod work;

pub use action::{
    CompleteOrchestrationAction, CreateSubOrchestrationAction, CreateTimerAction,
    OrchestratorAction, RewindOrchestrationAction, ScheduleTaskAction, SendEntityMessageAction,
    SendEventAction, TerminateOrchestrationAction, action_type, entity_message_type,
};
pub use entity::{
    CallEntityResponse, CleanEntityStorageRequest, CleanEntityStorageResponse, EntityBatchResult,
    EntityMetadata, EntityQuery, EntityRequest, GetEntityRequest, GetEntityResponse,
    OperationAction, OperationInfo, OperationResult, OperationResultFailure,
    OperationResultSuccess, QueryEntitiesRequest, QueryEntitiesResponse, SendSignalAction,
    SignalEntityRequest, StartNewOrchestrationAction, operation_action_type, operation_result_type,
};
pub use event::{
    EntityLockGrantedEvent, EntityLockRequestedEvent, EntityOperationCalledEvent,
    EntityOperationCompletedEvent, EntityOperationFailedEvent, EntityOperationSignaledEvent,
    EntityUnlockSentEvent, EventRaisedEvent, EventSentEvent, ExecutionCompletedEvent,
    ExecutionRewoundEvent, ExecutionStartedEvent, ExecutionTerminatedEvent, HistoryEvent,
    NoteEvent, SubOrchestrationInstanceCreatedEvent, TaskCompletedEvent, TaskFailedEvent,
    TaskScheduledEvent, TimerCreatedEvent, TimerFiredEvent, event_type,
};
pub use instance::{
    CreateInstanceRequest, CreateInstanceResponse, CreateOrchestrationAction, CreateTaskHubRequest,
    GetInstanceRequest, GetInstanceResponse, InstanceBatch, InstanceQuery, ListInstanceIdsRequest,
    ListInstanceIdsResponse, OrchestrationIdReusePolicy, OrchestrationState, PurgeInstanceFilter,
    PurgeInstancesRequest, PurgeInstancesResponse, QueryInstancesRequest, QueryInstancesResponse,
    RaiseEventRequest, ReasonRequest, RestartInstanceRequest, RestartInstanceResponse,
    SkipGracefulOrchestrationTerminationsRequest, SkipGracefulOrchestrationTerminationsResponse,
    TerminateRequest, purge_request,
};
pub use shared::{
    Empty, OrchestrationInstance, OrchestrationStatus, OrchestrationTraceContext,
    ParentInstanceInfo, TaskFailureDetails, TraceContext, WorkerCapability,
};
pub use well_known::{ListValue, ProtoDuration, ProtoTimestamp, ProtoValue, Struct, value_kind};
pub use work::{
    AbandonRequest, ActivityRequest, ActivityResponse, CompleteTasksRequest, CompleteTasksResponse,
    CompletedTask, CompletedTaskStatus, GetWorkItemsRequest, HistoryChunk, NameFilter,
    OrchestratorEntityParameters, OrchestratorRequest, OrchestratorResponse, RememberedPast,
    StreamInstanceHistoryRequest, VersionFilter, WorkItem, WorkItemFilters, completed_task,
    work_item_request,
};

/// The metadata key for the longest message that a worker accepts.
pub const MESSAGE_BYTES: &str = "maxmessagebytes";
