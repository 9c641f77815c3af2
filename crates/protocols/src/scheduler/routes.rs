//! From a request to its operation.
//!
//! Paths are matched without regard to case, which a table of routes cannot do;
//! so one handler takes everything below `/subscriptions`.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, HeaderValue, IF_MATCH};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::Response;
use axum::routing::any;
use steadfast_jobs::{Jobs, SweepKind};

use super::answer::{Answer, finish};
use super::context::{Auth, Context};
use super::fault::Fault;
use super::operate::{Asked, Manner};
use super::path::Place;
use super::query::Parameters;
use super::regional::{self, Forwarded, Regional, pack, unpack};
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
    let Ok(body) = axum::body::to_bytes(body, MOST_BYTES).await else {
        let fault = Fault::bad("the body is too large or was cut off");
        return finish(&parts.headers, Err(fault));
    };
    if let Err(fault) = check_access(&context, &parts.method, &parts.uri, &parts.headers) {
        return finish(&parts.headers, Err(fault));
    }
    let base = base(&context, &parts.uri, &parts.headers, client.as_ref());
    let wanted = Forwarded {
        method: parts.method,
        uri: parts.uri,
        headers: parts.headers,
        base,
        body,
    };
    match &context.regional {
        Some(regional) if !regional.is_owner() => elsewhere(&context, &**regional, &wanted).await,
        _ => here(&context, &wanted).await,
    }
}

/// Answers what another region was asked; it has looked at who asks.
pub async fn proxied(context: &Context, request: Bytes) -> Bytes {
    let response = match Forwarded::decode(request) {
        // Never sent on: regions that disagree would send it round for ever.
        Ok(_) if context.regional.as_ref().is_none_or(|own| !own.is_owner()) => {
            finish(&HeaderMap::new(), Err(not_owned()))
        }
        Ok(wanted) => here(context, &wanted).await,
        Err(_) => finish(
            &HeaderMap::new(),
            Err(Fault::bad("the request is malformed")),
        ),
    };
    pack(response).await
}

/// This server has the jobs.
async fn here(context: &Context, wanted: &Forwarded) -> Response {
    let allowed = match &context.regional {
        Some(regional) => regional::check(&**regional, &wanted.method),
        None => Ok(()),
    };
    let result = match allowed {
        Ok(()) => answer(context, &context.jobs, wanted).await,
        Err(fault) => Err(fault),
    };
    // The other region may have been lost since.
    let confirmed = match (&result, &context.regional) {
        (Ok(_), Some(regional)) => regional::confirm(&**regional, &wanted.method),
        _ => Ok(()),
    };
    let result = confirmed.and(result);
    let mut response = finish(&wanted.headers, result);
    let mode = context.regional.as_ref().map(|own| own.replication().mode);
    if mode.is_some_and(|mode| mode == "degraded") {
        let headers = response.headers_mut();
        headers.insert(
            "x-steadfast-replication",
            HeaderValue::from_static("degraded"),
        );
    }
    response
}

/// The other region has the jobs, or nobody.
async fn elsewhere(context: &Context, regional: &dyn Regional, wanted: &Forwarded) -> Response {
    let is_read = wanted.method == Method::GET;
    if let Some(answer) = regional.forward(wanted.encode(), is_read).await
        && let Ok(response) = unpack(answer)
        && (!is_read || response.status() != StatusCode::SERVICE_UNAVAILABLE)
    {
        return response;
    }
    let Some(copies) = regional.copies().filter(|_| is_read) else {
        return finish(&wanted.headers, Err(not_owned()));
    };
    let result = answer(context, &copies, wanted).await;
    let mut response = finish(&wanted.headers, result);
    let headers = response.headers_mut();
    headers.insert("x-steadfast-stale", HeaderValue::from_static("true"));
    response
}

fn not_owned() -> Fault {
    Fault::unavailable("STF-7033: no region that can be reached owns the jobs now; try again soon")
}

/// Scheme and host, as the client knows them.
fn base(context: &Context, uri: &Uri, headers: &HeaderMap, client: Option<&Client>) -> String {
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

async fn answer(context: &Context, jobs: &Jobs, wanted: &Forwarded) -> Result<Answer, Fault> {
    let query = Parameters::read(&wanted.uri)?;
    let place = Place::read(wanted.uri.path());
    let place = place.ok_or_else(|| Fault::not_found("there is no such resource"))?;
    let text = |name: &str| {
        let value = wanted.headers.get(name)?;
        value.to_str().ok()
    };
    let asked = Asked {
        context,
        jobs,
        query: &query,
        body: &wanted.body,
        base: wanted.base.clone(),
        if_match: text(IF_MATCH.as_str()).map(Into::into),
        request: text("x-ms-client-request-id").map(Into::into),
    };
    operate(&asked, &wanted.method, place).await
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
