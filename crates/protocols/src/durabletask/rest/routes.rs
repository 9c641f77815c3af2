//! From a request to what answers it.
//!
//! A known route that is asked in another way than it can be is not found, as
//! Durable Functions has it; so one handler takes everything below the base.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use steadfast_core::limits;

use super::asked::{Asked, BASE};
use super::fault::Fault;
use super::place::Place;
use super::{entities, instances};
use crate::access::{Right, ended};
use crate::durabletask::context::Context;
use crate::http::{Client, read};

/// What all requests share.
#[derive(Clone)]
struct Face {
    context: Arc<Context>,
    /// Which scheme our addresses have, unless a trusted proxy says so.
    scheme: &'static str,
}

/// Everything below `/runtime/webhooks/durabletask`.
pub fn routes(context: Arc<Context>, scheme: &'static str) -> Router {
    Router::new()
        .route(&format!("{BASE}/{{*rest}}"), any(handle))
        .with_state(Face { context, scheme })
}

async fn handle(State(face): State<Face>, Path(_): Path<String>, request: Request) -> Response {
    match answer(&face, request).await {
        Ok(response) => response,
        Err(fault) => fault.into_response(),
    }
}

async fn answer(face: &Face, request: Request) -> Result<Response, Fault> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().strip_prefix(BASE).unwrap_or_default();
    let place = Place::read(path.trim_start_matches('/'));
    let place = place.filter(|place| is_asked_so(place, &parts.method));
    let place = place.ok_or_else(|| Fault::missing("there is no such route"))?;
    let client = parts.extensions.get::<Client>();
    let right = right(&place, &parts.method);
    let mut asked = Asked::new(
        &face.context,
        face.scheme,
        right,
        &parts.uri,
        parts.headers,
        client,
    )?;
    asked.body = read(&parts.extensions, body, limits::PAYLOAD_BYTES).await?;
    let waits = asked.get("timeout").is_some() || matches!(place, Place::Call { .. });
    let mut follow = asked.follow().filter(|_| waits);
    tokio::select! {
        answer = operate(&asked, &parts.method, place) => answer,
        denied = ended(&mut follow) => Err(denied.into()),
    }
}

/// Whether a resource can be asked by this method.
fn is_asked_so(place: &Place, method: &Method) -> bool {
    let methods: &[Method] = match place {
        Place::Start { .. } | Place::Raise { .. } | Place::Verb { .. } | Place::Call { .. } => {
            &[Method::POST]
        }
        Place::Instances | Place::Instance(_) => &[Method::GET, Method::DELETE],
        Place::Entities { .. } | Place::Why(_) | Place::Locks => &[Method::GET],
        Place::Lock { .. } => &[Method::DELETE],
        Place::Entity { .. } => &[Method::GET, Method::POST, Method::DELETE],
    };
    methods.contains(method)
}

/// What whoever asks must be allowed to do.
fn right(place: &Place, method: &Method) -> Right {
    match place {
        Place::Start { .. } | Place::Raise { .. } | Place::Call { .. } => Right::Send,
        Place::Entity { .. } if method != Method::GET => Right::Send,
        Place::Verb { .. } | Place::Lock { .. } => Right::Manage,
        Place::Instances | Place::Instance(_) if method == Method::DELETE => Right::Manage,
        _ => Right::Listen,
    }
}

async fn operate(asked: &Asked, method: &Method, place: Place) -> Result<Response, Fault> {
    let is_delete = method == Method::DELETE;
    let is_post = method == Method::POST;
    match place {
        Place::Start { name, instance } => instances::start(asked, name, instance).await,
        Place::Instances if is_delete => instances::purge_all(asked).await,
        Place::Instances => instances::list(asked).await,
        Place::Instance(id) if is_delete => instances::purge(asked, &id).await,
        Place::Instance(id) => instances::show(asked, &id).await,
        Place::Raise { instance, event } => instances::raise(asked, &instance, &event).await,
        Place::Verb { instance, verb } => instances::act(asked, &instance, verb).await,
        Place::Why(instance) => instances::why(asked, &instance).await,
        Place::Locks => entities::locks(asked).await,
        Place::Lock { name, key } => entities::release(asked, &name, &key).await,
        Place::Entities { name } => entities::list(asked, name.as_deref()).await,
        Place::Entity { name, key } if is_post => entities::signal(asked, &name, &key).await,
        Place::Entity { name, key } if is_delete => entities::delete(asked, &name, &key).await,
        Place::Entity { name, key } => entities::show(asked, &name, &key).await,
        Place::Call { name, key } => entities::call(asked, &name, &key).await,
    }
}
