//! Entry of requests, and their authentication.
//!
//! Paths are matched without regard to case, which a router cannot do; so one handler
//! serves everything below `/subscriptions`.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use axum::routing::any;
use steadfast_jobs::Precondition;
use steadfast_net::access::{
    AccessErrorKind, Demand, EntityScope, Grant, Proof, ServiceArea, is_for_area,
};
use steadfast_net::http::{ForwardedClient, read};

use super::authorization::LOOK;
use super::context::{Auth, Context, JobPlacement};
use super::dispatch::{JobSource, operate};
use super::error::SchedulerError;
use super::forwarding::ForwardedRequest;
use super::operations::rights;
use super::pair;
use super::path::ResourcePath;
use super::response::finish;

/// All routes of the interface.
pub fn routes(context: Arc<Context>) -> Router {
    let mut routes = Router::new();
    // The router matches the first segment, in the spellings that occur.
    for word in ["subscriptions", "Subscriptions", "SUBSCRIPTIONS"] {
        routes = routes.route(&format!("/{word}/{{*rest}}"), any(handle));
    }
    routes.with_state(context)
}

/// A body may be larger than a job, so that the error is about the job.
const MOST_BYTES: usize = 4 * 1024 * 1024;

async fn handle(State(context): State<Arc<Context>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let client = parts.extensions.get::<ForwardedClient>().cloned();
    let grants = match check_access(&context, &parts.method, &parts.uri, &parts.headers) {
        Ok(grants) => grants,
        Err(fault) => return finish(&parts.headers, Err(fault)),
    };
    let body = match read(&parts.extensions, body, MOST_BYTES).await {
        Ok(body) => body,
        Err(why) => return finish(&parts.headers, Err(SchedulerError::unread(why, MOST_BYTES))),
    };
    let base = base(&context, &parts.uri, &parts.headers, client.as_ref());
    let wanted = ForwardedRequest {
        method: parts.method,
        uri: parts.uri,
        headers: parts.headers,
        base,
        body,
        grants,
    };
    match &context.keeping {
        JobPlacement::Pair(both) => pair::answer(&context, both, &wanted).await,
        JobPlacement::Alone(jobs) => {
            let source = JobSource {
                jobs,
                home: None,
                makes: Some(Precondition::Nothing),
            };
            let result = operate(&context, source, &wanted).await;
            finish(&wanted.headers, result)
        }
    }
}

/// Scheme and host, as seen by the client.
fn base(
    context: &Context,
    uri: &Uri,
    headers: &HeaderMap,
    client: Option<&ForwardedClient>,
) -> String {
    let scheme = client.and_then(|client| client.scheme.clone());
    let host = client.and_then(|client| client.host.clone());
    let named = headers.get(HOST).and_then(|value| value.to_str().ok());
    let host = host.or_else(|| named.map(Into::into));
    let host = host.or_else(|| uri.authority().map(ToString::to_string));
    format!(
        "{}://{}",
        scheme.as_deref().unwrap_or(context.settings.scheme),
        host.unwrap_or_default()
    )
}

/// Authorizes the caller for the collection that the path names. Returns the grants of
/// its key, because the targets of a job are limited to them; `None` without
/// authentication.
fn check_access(
    context: &Context,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Option<Vec<Grant>>, SchedulerError> {
    let Auth::Keys(access) = &context.auth else {
        steadfast_net::listen::proven();
        return Ok(None);
    };
    let place = ResourcePath::read(uri.path());
    let collection = place.as_ref().and_then(ResourcePath::collection);
    let scope = collection.map_or(EntityScope::AnyEntity, |id| EntityScope::Entity(&id.name));
    let is_ours = |audience: &str| is_for_area(ServiceArea::Jobs, audience);
    let rights = place.as_ref().and_then(|place| rights(method, place));
    // An unknown operation is rejected later, and reveals nothing.
    let demand = Demand::new(rights.unwrap_or(LOOK), ServiceArea::Jobs, scope);
    let header = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let resource = uri.path();
    let proof = Proof::Header { header, resource };
    let pass = access.authorize(proof, &demand.or_token(&is_ours));
    let pass = pass.inspect_err(|denied| access.audit().refused(denied));
    match pass {
        Ok(pass) => Ok(Some(pass.grants().to_vec())),
        Err(denied) if denied.reason == AccessErrorKind::Forbidden => {
            Err(SchedulerError::forbidden(denied.to_string()))
        }
        Err(denied) => Err(SchedulerError::unauthenticated(denied.to_string())),
    }
}
