//! From a request to its operation.
//!
//! Paths are matched without regard to case, which a table of routes cannot do;
//! so one handler takes everything below `/subscriptions`.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, IF_MATCH};
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use axum::routing::any;
use steadfast_jobs::SweepKind;

use super::answer::{Answer, finish};
use super::context::{Auth, Context};
use super::fault::Fault;
use super::operate::{Asked, Manner};
use super::path::Place;
use super::query::Parameters;
use crate::access::{Area, Reason, Right};
use crate::http::Client;

/// All routes of the interface.
pub fn routes(context: Arc<Context>) -> Router {
    let mut routes = Router::new();
    // The first segment is matched by the table, in the spellings that occur.
    for word in ["subscriptions", "Subscriptions", "SUBSCRIPTIONS"] {
        routes = routes.route(&format!("/{word}/{{*rest}}"), any(handle));
    }
    routes.with_state(context)
}

/// A body may be larger than a job, so that the complaint is about the job.
const MOST_BYTES: usize = 4 * 1024 * 1024;

async fn handle(State(context): State<Arc<Context>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let client = parts.extensions.get::<Client>().cloned();
    let result = match axum::body::to_bytes(body, MOST_BYTES).await {
        Ok(body) => {
            answer(
                &context,
                &parts.method,
                &parts.uri,
                &parts.headers,
                client,
                &body,
            )
            .await
        }
        Err(_) => Err(Fault::bad("the body is too large or was cut off")),
    };
    finish(&parts.headers, result)
}

async fn answer(
    context: &Context,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    client: Option<Client>,
    body: &Bytes,
) -> Result<Answer, Fault> {
    check_access(context, method, uri, headers)?;
    let query = Parameters::read(uri)?;
    let place = Place::read(uri.path());
    let place = place.ok_or_else(|| Fault::not_found("there is no such resource"))?;
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let client = client.as_ref();
    let scheme = client.and_then(|client| client.scheme.clone());
    let host = client.and_then(|client| client.host.clone());
    let host = host.or_else(|| text(HOST.as_str()).map(Into::into));
    let host = host.or_else(|| uri.authority().map(ToString::to_string));
    let asked = Asked {
        context,
        query: &query,
        body,
        base: format!(
            "{}://{}",
            scheme.as_deref().unwrap_or(context.settings.scheme),
            host.unwrap_or_default()
        ),
        if_match: text(IF_MATCH.as_str()).map(Into::into),
        request: text("x-ms-client-request-id").map(Into::into),
    };
    operate(&asked, method, place).await
}

async fn operate(asked: &Asked<'_>, method: &Method, place: Place) -> Result<Answer, Fault> {
    match (method.as_str(), place) {
        ("POST", Place::Preview) => asked.preview(),
        (
            "GET",
            Place::Collections {
                subscription,
                group,
            },
        ) => asked.collections(&subscription, group.as_deref()).await,
        ("GET", Place::Collection(id)) => asked.get_collection(&id).await,
        ("PUT", Place::Collection(id)) => asked.put_collection(&id, Manner::Put).await,
        ("PATCH", Place::Collection(id)) => asked.put_collection(&id, Manner::Patch).await,
        ("DELETE", Place::Collection(id)) => asked.sweep(&id, SweepKind::Delete).await,
        ("POST", Place::CollectionVerb(id, verb)) => match verb.as_str() {
            "enable" => asked.sweep(&id, SweepKind::Enable).await,
            "disable" => asked.sweep(&id, SweepKind::Disable).await,
            "import" => asked.import(&id).await,
            _ => Err(Fault::not_found(
                "there is no such operation on a job collection",
            )),
        },
        ("GET", Place::Operation(id, number)) => asked.operation(&id, number).await,
        ("GET", Place::Jobs(id)) => asked.list(&id).await,
        ("GET", Place::Job(id)) => asked.get_job(&id).await,
        ("PUT", Place::Job(id)) => asked.put_job(&id, Manner::Put).await,
        ("PATCH", Place::Job(id)) => asked.put_job(&id, Manner::Patch).await,
        ("DELETE", Place::Job(id)) => asked.delete_job(&id).await,
        ("GET", Place::JobVerb(id, verb)) if verb == "history" => asked.history(&id).await,
        ("POST", Place::JobVerb(id, verb)) => match verb.as_str() {
            "run" => asked.run(&id).await,
            "backfill" => asked.backfill(&id).await,
            "pause" => asked.pause(&id).await,
            "resume" => asked.resume(&id).await,
            _ => Err(Fault::not_found("there is no such operation on a job")),
        },
        _ => Err(Fault::method("this resource does not know the method")),
    }
}

fn check_access(
    context: &Context,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), Fault> {
    let Auth::Keys(access) = &context.auth else {
        return Ok(());
    };
    let is_run = uri.path().to_ascii_lowercase().ends_with("/run");
    let right = match method.as_str() {
        "GET" | "HEAD" => Right::Listen,
        "POST" if is_run => Right::Send,
        _ => Right::Manage,
    };
    let header = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let mut pass = access.header(header, uri.path());
    let token = header
        .and_then(|header| header.split_once(' '))
        .map(|(_, token)| token.trim());
    if let (Err(_), Some(token)) = (&pass, token)
        && let Ok((_, signed)) = access.jwt(token, right, Area::Jobs)
    {
        pass = Ok(signed);
    }
    let allowed = pass.and_then(|pass| pass.allows_somewhere(right, Area::Jobs));
    allowed.map_err(|denied| match denied.reason {
        Reason::Forbidden => Fault::forbidden(denied.to_string()),
        _ => Fault::unauthenticated(denied.to_string()),
    })
}
