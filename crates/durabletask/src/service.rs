//! The methods of the service, for one caller.
//!
//! The caller is proven before its message is read, so each request has a service of its
//! own.

use steadfast_net::access::ended;
use steadfast_net::grpc::{GrpcStream, unread, until};
use steadfast_net::http::defer;
use steadfast_wire::durabletask as wire;
use tonic::{Request, Response, Status};

use super::context::GrpcCaller;
use super::generated::task_hub_sidecar_service_server::TaskHubSidecarService;
use super::{clients, entities, history, status, stream, workers};

impl GrpcCaller {
    /// A stream that ends when the proof of its caller is revoked.
    fn followed<A: Send + 'static>(
        &self,
        messages: GrpcStream<A>,
        kind: &'static str,
    ) -> Response<GrpcStream<A>> {
        let mut follow = self.follow(kind);
        let end = async move { status::denied(&ended(&mut follow).await) };
        Response::new(until(messages, end))
    }
}

/// Implements the trait: unary methods by functions of the caller and the message.
macro_rules! service {
    (
        unary { $($method:ident: $request:ty => $response:ty = $answer:path;)* }
        $($other:tt)*
    ) => {
        #[tonic::async_trait]
        impl TaskHubSidecarService for GrpcCaller {
            $(
                async fn $method(
                    &self,
                    request: Request<$request>,
                ) -> Result<Response<$response>, Status> {
                    $answer(self, request.into_inner()).await.map(Response::new)
                }
            )*
            $($other)*
        }
    };
}

service! {
    unary {
        hello: () => () = workers::hello;
        complete_orchestrator_task: wire::OrchestratorResponse => wire::CompleteTaskResponse
            = workers::complete_turn;
        complete_activity_task: wire::ActivityResponse => wire::CompleteTaskResponse
            = workers::complete_activity;
        complete_entity_task: wire::EntityBatchResult => wire::CompleteTaskResponse
            = workers::complete_batch;
        complete_tasks: wire::CompleteTasksRequest => wire::CompleteTasksResponse
            = workers::complete_many;
        abandon_task_orchestrator_work_item:
            wire::AbandonOrchestrationTaskRequest => wire::AbandonOrchestrationTaskResponse
            = workers::abandon_turn;
        abandon_task_activity_work_item:
            wire::AbandonActivityTaskRequest => wire::AbandonActivityTaskResponse
            = workers::abandon_activity;
        abandon_task_entity_work_item:
            wire::AbandonEntityTaskRequest => wire::AbandonEntityTaskResponse
            = workers::abandon_batch;
        start_instance: wire::CreateInstanceRequest => wire::CreateInstanceResponse = clients::start;
        get_instance: wire::GetInstanceRequest => wire::GetInstanceResponse = clients::get;
        wait_for_instance_start: wire::GetInstanceRequest => wire::GetInstanceResponse
            = clients::wait_for_start;
        wait_for_instance_completion: wire::GetInstanceRequest => wire::GetInstanceResponse
            = clients::wait_for_end;
        raise_event: wire::RaiseEventRequest => wire::RaiseEventResponse = clients::raise;
        terminate_instance: wire::TerminateRequest => wire::TerminateResponse = clients::terminate;
        suspend_instance: wire::SuspendRequest => wire::SuspendResponse = clients::suspend;
        resume_instance: wire::ResumeRequest => wire::ResumeResponse = clients::resume;
        rewind_instance: wire::RewindInstanceRequest => wire::RewindInstanceResponse
            = clients::rewind;
        restart_instance: wire::RestartInstanceRequest => wire::RestartInstanceResponse
            = clients::restart;
        query_instances: wire::QueryInstancesRequest => wire::QueryInstancesResponse
            = clients::query;
        list_instance_ids: wire::ListInstanceIdsRequest => wire::ListInstanceIdsResponse
            = clients::list_ids;
        purge_instances: wire::PurgeInstancesRequest => wire::PurgeInstancesResponse
            = clients::purge;
        skip_graceful_orchestration_terminations:
            wire::SkipGracefulOrchestrationTerminationsRequest
            => wire::SkipGracefulOrchestrationTerminationsResponse
            = clients::skip_graceful;
        create_task_hub: wire::CreateTaskHubRequest => wire::CreateTaskHubResponse
            = clients::create_hub;
        delete_task_hub: wire::DeleteTaskHubRequest => wire::DeleteTaskHubResponse
            = clients::delete_hub;
        signal_entity: wire::SignalEntityRequest => wire::SignalEntityResponse = entities::signal;
        get_entity: wire::GetEntityRequest => wire::GetEntityResponse = entities::get;
        query_entities: wire::QueryEntitiesRequest => wire::QueryEntitiesResponse = entities::query;
        clean_entity_storage: wire::CleanEntityStorageRequest => wire::CleanEntityStorageResponse
            = entities::clean;
    }

    type GetWorkItemsStream = GrpcStream<wire::WorkItem>;
    type StreamInstanceHistoryStream = GrpcStream<wire::HistoryChunk>;

    async fn get_work_items(
        &self,
        request: Request<wire::GetWorkItemsRequest>,
    ) -> Result<Response<GrpcStream<wire::WorkItem>>, Status> {
        let items = stream::get_work_items(self, request.into_inner()).await?;
        Ok(self.followed(items, "worker stream"))
    }

    async fn stream_instance_history(
        &self,
        request: Request<wire::StreamInstanceHistoryRequest>,
    ) -> Result<Response<GrpcStream<wire::HistoryChunk>>, Status> {
        let chunks = history::stream(self, request.into_inner()).await?;
        Ok(self.followed(chunks, "history stream"))
    }

    async fn call_entity(
        &self,
        request: Request<wire::SignalEntityRequest>,
    ) -> Result<Response<wire::CallEntityResponse>, Status> {
        // It is read, and waits for the work of others.
        defer(request.extensions()).map_err(unread)?;
        let answer = entities::call(self, request.into_inner()).await?;
        Ok(Response::new(answer))
    }
}
