//! Takes requests, and looks at who asks.
//!
//! Paths are matched without regard to case, which a table of routes cannot do;
//! so one handler takes everything below `/subscriptions`.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use axum::routing::any;
use steadfast_jobs::Expect;

use super::answer::finish;
use super::context::{Auth, Context, Keeping};
use super::dispatch::{Source, operate};
use super::fault::Fault;
use super::forwarded::Forwarded;
use super::pair;
use crate::access::{Area, Reason, Right};
use crate::http::{Client, read};

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
    if let Err(fault) = check_access(&context, &parts.method, &parts.uri, &parts.headers) {
        return finish(&parts.headers, Err(fault));
    }
    let body = match read(&parts.extensions, body, MOST_BYTES).await {
        Ok(body) => body,
        Err(why) => return finish(&parts.headers, Err(Fault::unread(why, MOST_BYTES))),
    };
    let base = base(&context, &parts.uri, &parts.headers, client.as_ref());
    let wanted = Forwarded {
        method: parts.method,
        uri: parts.uri,
        headers: parts.headers,
        base,
        body,
    };
    match &context.keeping {
        Keeping::Pair(both) => pair::answer(&context, both, &wanted).await,
        Keeping::Alone(jobs) => {
            let source = Source {
                jobs,
                home: None,
                makes: Some(Expect::Nothing),
            };
            let result = operate(&context, source, &wanted).await;
            finish(&wanted.headers, result)
        }
    }
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
    let allowed = allowed.inspect_err(|denied| access.audit().refused(denied));
    allowed.map_err(|denied| match denied.reason {
        Reason::Forbidden => Fault::forbidden(denied.to_string()),
        _ => Fault::unauthenticated(denied.to_string()),
    })
}
