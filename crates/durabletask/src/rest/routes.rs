//! Dispatches requests to their handlers.
//!
//! A known route with an unsupported method is 404, as in Durable Functions; so one
//! handler serves everything below the base path.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use steadfast_core::limits;
use steadfast_net::access::{Right, ended};
use steadfast_net::http::{ForwardedClient, defer, read};

use super::error::DurableHttpError;
use super::request::{BASE, DurableHttpRequest};
use super::resource::DurableResource;
use super::{entities, instances};
use crate::context::Context;

/// State shared by all requests.
#[derive(Clone)]
struct DurableHttpState {
    context: Arc<Context>,
    /// The scheme of links, unless a trusted proxy reports another one.
    scheme: &'static str,
}

/// Everything below `/runtime/webhooks/durabletask`.
pub fn routes(context: Arc<Context>, scheme: &'static str) -> Router {
    Router::new()
        .route(&format!("{BASE}/{{*rest}}"), any(handle))
        .with_state(DurableHttpState { context, scheme })
}

async fn handle(
    State(face): State<DurableHttpState>,
    Path(_): Path<String>,
    request: Request,
) -> Response {
    match answer(&face, request).await {
        Ok(response) => response,
        Err(fault) => fault.into_response(),
    }
}

async fn answer(face: &DurableHttpState, request: Request) -> Result<Response, DurableHttpError> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().strip_prefix(BASE).unwrap_or_default();
    let place = DurableResource::read(path.trim_start_matches('/'));
    let found = place.and_then(|place| Some((rights(&place, &parts.method)?, place)));
    let (rights, place) =
        found.ok_or_else(|| DurableHttpError::missing("there is no such route"))?;
    let client = parts.extensions.get::<ForwardedClient>();
    let mut asked = DurableHttpRequest::new(
        &face.context,
        face.scheme,
        rights,
        &parts.uri,
        parts.headers,
        client,
    )?;
    asked.body = read(&parts.extensions, body, limits::PAYLOAD_BYTES).await?;
    let waits = asked.get("timeout").is_some() || matches!(place, DurableResource::Call { .. });
    if waits {
        defer(&parts.extensions)?;
    }
    let mut follow = asked.follow().filter(|_| waits);
    tokio::select! {
        answer = operate(&asked, &parts.method, place) => answer,
        denied = ended(&mut follow) => Err(denied.into()),
    }
}

const LOOK: &[Right] = &[Right::Listen, Right::Read];
const SEND: &[Right] = &[Right::Send];
const MANAGE: &[Right] = &[Right::Manage];

/// Every route below the base path with its rights: the caller needs one of them. Other
/// routes are not offered.
pub static ROUTES: [(Method, &str, &[Right]); 21] = [
    (Method::POST, "orchestrators/{name}", SEND),
    (Method::POST, "orchestrators/{name}/{id}", SEND),
    (Method::GET, "instances", LOOK),
    (Method::DELETE, "instances", MANAGE),
    (Method::GET, "instances/{id}", LOOK),
    (Method::DELETE, "instances/{id}", MANAGE),
    (Method::POST, "instances/{id}/raiseEvent/{event}", SEND),
    (Method::POST, "instances/{id}/terminate", MANAGE),
    (Method::POST, "instances/{id}/suspend", MANAGE),
    (Method::POST, "instances/{id}/resume", MANAGE),
    (Method::POST, "instances/{id}/rewind", MANAGE),
    (Method::POST, "instances/{id}/restart", MANAGE),
    (Method::GET, "instances/{id}/why", LOOK),
    (Method::GET, "locks", LOOK),
    (Method::DELETE, "locks/{name}/{key}", MANAGE),
    (Method::GET, "entities", LOOK),
    (Method::GET, "entities/{name}", LOOK),
    (Method::GET, "entities/{name}/{key}", LOOK),
    (Method::POST, "entities/{name}/{key}", SEND),
    (Method::DELETE, "entities/{name}/{key}", SEND),
    (Method::POST, "entities/{name}/{key}/call", SEND),
];

fn rights(place: &DurableResource, method: &Method) -> Option<&'static [Right]> {
    let path = place.described();
    let mut routes = ROUTES.iter();
    let found = routes.find(|(own, known, _)| own == method && *known == path);
    found.map(|(_, _, rights)| *rights)
}

async fn operate(
    asked: &DurableHttpRequest,
    method: &Method,
    place: DurableResource,
) -> Result<Response, DurableHttpError> {
    let is_delete = method == Method::DELETE;
    let is_post = method == Method::POST;
    match place {
        DurableResource::Start { name, instance } => instances::start(asked, name, instance).await,
        DurableResource::Instances if is_delete => instances::purge_all(asked).await,
        DurableResource::Instances => instances::list(asked).await,
        DurableResource::Instance(id) if is_delete => instances::purge(asked, &id).await,
        DurableResource::Instance(id) => instances::show(asked, &id).await,
        DurableResource::Raise { instance, event } => {
            instances::raise(asked, &instance, &event).await
        }
        DurableResource::Verb { instance, verb } => instances::act(asked, &instance, verb).await,
        DurableResource::Why(instance) => instances::why(asked, &instance).await,
        DurableResource::Locks => entities::locks(asked).await,
        DurableResource::Lock { name, key } => entities::release(asked, &name, &key).await,
        DurableResource::Entities { name } => entities::list(asked, name.as_deref()).await,
        DurableResource::Entity { name, key } if is_post => {
            entities::signal(asked, &name, &key).await
        }
        DurableResource::Entity { name, key } if is_delete => {
            entities::delete(asked, &name, &key).await
        }
        DurableResource::Entity { name, key } => entities::show(asked, &name, &key).await,
        DurableResource::Call { name, key } => entities::call(asked, &name, &key).await,
    }
}
