//! From a method's name to what answers it.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::Uri;
use axum::response::Response;
use axum::routing::any;

use super::context::{Caller, Context};
use super::{clients, entities, history, refused, stream, workers};
use crate::access::Right;
use crate::grpc::{Answered, many, one, refuse};

/// All methods of `TaskHubSidecarService`.
pub fn routes(context: Arc<Context>) -> Router {
    Router::new()
        .route("/TaskHubSidecarService/{method}", any(handle))
        .with_state(context)
}

/// Answers whoever asks for another service.
pub async fn no_service(uri: Uri) -> Response {
    refuse(refused::unknown(uri.path()))
}

async fn handle(
    State(context): State<Arc<Context>>,
    Path(method): Path<String>,
    request: Request,
) -> Response {
    let Some(right) = right(&method) else {
        return refuse(refused::unknown(&method));
    };
    match Caller::new(&context, request.headers(), right) {
        Ok(caller) => answer(&method, Arc::new(caller), request).await,
        Err(status) => {
            let why = status.message();
            tracing::debug!(event = "durable.refused", method, why);
            refuse(status)
        }
    }
}

/// What whoever calls a method must be allowed to do.
fn right(method: &str) -> Option<Right> {
    Some(match method {
        "Hello"
        | "GetInstance"
        | "WaitForInstanceStart"
        | "WaitForInstanceCompletion"
        | "QueryInstances"
        | "ListInstanceIds"
        | "StreamInstanceHistory"
        | "GetEntity"
        | "QueryEntities"
        | "GetWorkItems"
        | "CompleteOrchestratorTask"
        | "CompleteActivityTask"
        | "CompleteEntityTask"
        | "CompleteTasks"
        | "AbandonTaskOrchestratorWorkItem"
        | "AbandonTaskActivityWorkItem"
        | "AbandonTaskEntityWorkItem" => Right::Listen,
        "StartInstance" | "RaiseEvent" | "SignalEntity" | "CallEntity" => Right::Send,
        "TerminateInstance"
        | "SuspendInstance"
        | "ResumeInstance"
        | "RewindInstance"
        | "RestartInstance"
        | "PurgeInstances"
        | "CleanEntityStorage"
        | "CreateTaskHub"
        | "DeleteTaskHub"
        | "SkipGracefulOrchestrationTerminations" => Right::Manage,
        _ => return None,
    })
}

/// Has a function answer a method: it gets the caller and the message.
macro_rules! by {
    ($how:ident, $caller:ident, $request:ident, $answer:path) => {
        $how($request, move |message| {
            let caller = Arc::clone(&$caller);
            Box::pin(async move { $answer(&caller, message).await })
        })
    };
}

fn answer(method: &str, caller: Arc<Caller>, request: Request) -> Answered {
    match method {
        "Hello" => by!(one, caller, request, workers::hello),
        "GetWorkItems" => by!(many, caller, request, stream::get_work_items),
        "CompleteOrchestratorTask" => by!(one, caller, request, workers::complete_turn),
        "CompleteActivityTask" => by!(one, caller, request, workers::complete_activity),
        "CompleteEntityTask" => by!(one, caller, request, workers::complete_batch),
        "CompleteTasks" => by!(one, caller, request, workers::complete_many),
        "AbandonTaskOrchestratorWorkItem"
        | "AbandonTaskActivityWorkItem"
        | "AbandonTaskEntityWorkItem" => by!(one, caller, request, workers::abandon),
        "StreamInstanceHistory" => by!(many, caller, request, history::stream),
        "StartInstance" => by!(one, caller, request, clients::start),
        "GetInstance" => by!(one, caller, request, clients::get),
        "WaitForInstanceStart" => by!(one, caller, request, clients::wait_for_start),
        "WaitForInstanceCompletion" => by!(one, caller, request, clients::wait_for_end),
        "RaiseEvent" => by!(one, caller, request, clients::raise),
        "TerminateInstance" => by!(one, caller, request, clients::terminate),
        "SuspendInstance" => by!(one, caller, request, clients::suspend),
        "ResumeInstance" => by!(one, caller, request, clients::resume),
        "RewindInstance" => by!(one, caller, request, clients::rewind),
        "RestartInstance" => by!(one, caller, request, clients::restart),
        "QueryInstances" => by!(one, caller, request, clients::query),
        "ListInstanceIds" => by!(one, caller, request, clients::list_ids),
        "PurgeInstances" => by!(one, caller, request, clients::purge),
        "SkipGracefulOrchestrationTerminations" => {
            by!(one, caller, request, clients::skip_graceful)
        }
        "CreateTaskHub" => by!(one, caller, request, clients::create_hub),
        "DeleteTaskHub" => by!(one, caller, request, clients::delete_hub),
        "SignalEntity" => by!(one, caller, request, entities::signal),
        "CallEntity" => by!(one, caller, request, entities::call),
        "GetEntity" => by!(one, caller, request, entities::get),
        "QueryEntities" => by!(one, caller, request, entities::query),
        "CleanEntityStorage" => by!(one, caller, request, entities::clean),
        other => {
            let refused = refuse(refused::unknown(other));
            Box::pin(std::future::ready(refused))
        }
    }
}
