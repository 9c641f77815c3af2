//! Authenticates gRPC calls and hands them to the service.
//!
//! A method without rights here does not exist, even if the interface has it.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::Uri;
use axum::response::Response;
use axum::routing::any;
use steadfast_core::limits;
use steadfast_net::access::{Right, ended};
use steadfast_net::grpc::{call, refuse};

use super::context::{Context, GrpcCaller};
use super::generated::task_hub_sidecar_service_server::TaskHubSidecarServiceServer;
use super::status;

/// All methods of `TaskHubSidecarService`.
pub fn routes(context: Arc<Context>) -> Router {
    Router::new()
        .route("/TaskHubSidecarService/{method}", any(handle))
        .with_state(context)
}

/// The response to a call of an unknown service.
pub async fn no_service(uri: Uri) -> Response {
    refuse(status::unknown(uri.path()))
}

async fn handle(
    State(context): State<Arc<Context>>,
    Path(method): Path<String>,
    request: Request,
) -> Response {
    let Some(rights) = rights(&method) else {
        return refuse(status::unknown(&method));
    };
    match GrpcCaller::new(&context, request.headers(), rights) {
        Ok(caller) => {
            let mut follow = match method.as_str() {
                "WaitForInstanceStart" | "WaitForInstanceCompletion" | "CallEntity" => {
                    caller.follow("gRPC wait")
                }
                _ => None,
            };
            let service = TaskHubSidecarServiceServer::new(caller)
                .max_decoding_message_size(limits::GRPC_MESSAGE_BYTES);
            tokio::select! {
                answer = call(request, service) => answer,
                why = ended(&mut follow) => refuse(status::denied(&why)),
            }
        }
        Err(status) => {
            let why = status.message();
            tracing::debug!(event = "durable.refused", method, why);
            refuse(status)
        }
    }
}

const LOOK: &[Right] = &[Right::Listen, Right::Read];
const WORK: &[Right] = &[Right::Listen];
const SEND: &[Right] = &[Right::Send];
const MANAGE: &[Right] = &[Right::Manage];

/// Every method with its rights: the caller needs one of them. Other methods are
/// unknown.
pub const METHODS: [(&str, &[Right]); 31] = [
    ("Hello", LOOK),
    ("GetInstance", LOOK),
    ("WaitForInstanceStart", LOOK),
    ("WaitForInstanceCompletion", LOOK),
    ("QueryInstances", LOOK),
    ("ListInstanceIds", LOOK),
    ("StreamInstanceHistory", LOOK),
    ("GetEntity", LOOK),
    ("QueryEntities", LOOK),
    ("GetWorkItems", WORK),
    ("CompleteOrchestratorTask", WORK),
    ("CompleteActivityTask", WORK),
    ("CompleteEntityTask", WORK),
    ("CompleteTasks", WORK),
    ("AbandonTaskOrchestratorWorkItem", WORK),
    ("AbandonTaskActivityWorkItem", WORK),
    ("AbandonTaskEntityWorkItem", WORK),
    ("StartInstance", SEND),
    ("RaiseEvent", SEND),
    ("SignalEntity", SEND),
    ("CallEntity", SEND),
    ("TerminateInstance", MANAGE),
    ("SuspendInstance", MANAGE),
    ("ResumeInstance", MANAGE),
    ("RewindInstance", MANAGE),
    ("RestartInstance", MANAGE),
    ("PurgeInstances", MANAGE),
    ("CleanEntityStorage", MANAGE),
    ("CreateTaskHub", MANAGE),
    ("DeleteTaskHub", MANAGE),
    ("SkipGracefulOrchestrationTerminations", MANAGE),
];

fn rights(method: &str) -> Option<&'static [Right]> {
    let found = METHODS.iter().find(|(name, _)| *name == method);
    found.map(|(_, rights)| *rights)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENERATED: &str = include_str!("generated.rs");

    #[test]
    fn every_method_of_the_interface_has_rights() {
        let mut published: Vec<_> = GENERATED
            .split("\"/TaskHubSidecarService/")
            .skip(1)
            .filter_map(|rest| rest.split_once('"'))
            .map(|(name, _)| name)
            .collect();
        let mut known = METHODS.map(|(name, _)| name).to_vec();
        published.sort_unstable();
        known.sort_unstable();
        assert_eq!(published, known);
    }
}
