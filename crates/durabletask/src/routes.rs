//! Dispatches gRPC methods to their handlers.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::Uri;
use axum::response::Response;
use axum::routing::any;
use steadfast_net::access::{Right, ended};
use steadfast_net::grpc::{GrpcResponseFuture, refuse, server_streaming, unary, unread, until};
use steadfast_net::http::defer;

use super::context::{Context, GrpcCaller};
use super::{clients, entities, history, status, stream, workers};

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
            tokio::select! {
                answer = answer(&method, Arc::new(caller), request) => answer,
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

/// Handles a unary method with a function of the caller and the message.
macro_rules! by {
    ($caller:ident, $request:ident, $answer:path) => {
        unary($request, move |message| {
            let caller = Arc::clone(&$caller);
            Box::pin(async move { $answer(&caller, message).await })
        })
    };
}

/// Handles a streaming method; the stream ends when the caller's proof is revoked.
macro_rules! streamed {
    ($caller:ident, $request:ident, $answer:path, $kind:literal) => {
        server_streaming($request, move |message| {
            let caller = Arc::clone(&$caller);
            Box::pin(async move {
                let messages = $answer(&caller, message).await?;
                let mut follow = caller.follow($kind);
                let end = async move { status::denied(&ended(&mut follow).await) };
                Ok(until(messages, end))
            })
        })
    };
}

fn answer(method: &str, caller: Arc<GrpcCaller>, request: Request) -> GrpcResponseFuture {
    match method {
        "Hello" => by!(caller, request, workers::hello),
        "GetWorkItems" => {
            streamed!(caller, request, stream::get_work_items, "worker stream")
        }
        "CompleteOrchestratorTask" => by!(caller, request, workers::complete_turn),
        "CompleteActivityTask" => by!(caller, request, workers::complete_activity),
        "CompleteEntityTask" => by!(caller, request, workers::complete_batch),
        "CompleteTasks" => by!(caller, request, workers::complete_many),
        "AbandonTaskOrchestratorWorkItem"
        | "AbandonTaskActivityWorkItem"
        | "AbandonTaskEntityWorkItem" => by!(caller, request, workers::abandon),
        "StreamInstanceHistory" => {
            streamed!(caller, request, history::stream, "history stream")
        }
        "StartInstance" => by!(caller, request, clients::start),
        "GetInstance" => by!(caller, request, clients::get),
        "WaitForInstanceStart" => by!(caller, request, clients::wait_for_start),
        "WaitForInstanceCompletion" => by!(caller, request, clients::wait_for_end),
        "RaiseEvent" => by!(caller, request, clients::raise),
        "TerminateInstance" => by!(caller, request, clients::terminate),
        "SuspendInstance" => by!(caller, request, clients::suspend),
        "ResumeInstance" => by!(caller, request, clients::resume),
        "RewindInstance" => by!(caller, request, clients::rewind),
        "RestartInstance" => by!(caller, request, clients::restart),
        "QueryInstances" => by!(caller, request, clients::query),
        "ListInstanceIds" => by!(caller, request, clients::list_ids),
        "PurgeInstances" => by!(caller, request, clients::purge),
        "SkipGracefulOrchestrationTerminations" => {
            by!(caller, request, clients::skip_graceful)
        }
        "CreateTaskHub" => by!(caller, request, clients::create_hub),
        "DeleteTaskHub" => by!(caller, request, clients::delete_hub),
        "SignalEntity" => by!(caller, request, entities::signal),
        "CallEntity" => {
            let extensions = request.extensions().clone();
            unary(request, move |message| {
                let (caller, read) = (Arc::clone(&caller), defer(&extensions));
                Box::pin(async move {
                    read.map_err(unread)?;
                    entities::call(&caller, message).await
                })
            })
        }
        "GetEntity" => by!(caller, request, entities::get),
        "QueryEntities" => by!(caller, request, entities::query),
        "CleanEntityStorage" => by!(caller, request, entities::clean),
        other => {
            let refused = refuse(status::unknown(other));
            Box::pin(std::future::ready(refused))
        }
    }
}
