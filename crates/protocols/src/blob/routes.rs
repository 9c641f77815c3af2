//! Dispatches requests to operations.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use uuid::Uuid;

use super::ask::Ask;
use super::context::Context;
use super::fault::Fault;
use super::operation::Operation;
use super::permit::Permit;
use super::{block, container, lease, list, object};
use crate::access::Denied;

/// The version in responses to requests without one.
const VERSION: &str = "2021-12-02";

/// The longest header that is echoed to the client.
const ECHO_BYTES: usize = 1024;

/// Everything below `/{account}`.
pub fn routes(context: Arc<Context>) -> Router {
    Router::new().fallback(answer).with_state(context)
}

async fn answer(State(context): State<Arc<Context>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let answered = operate(&context, &parts, body).await;
    let mut answer = answered.unwrap_or_else(|fault| match parts.method {
        // A client would parse the announced XML body, and HEAD has none.
        Method::HEAD => fault.into_head(),
        _ => fault.into_response(),
    });
    let headers = answer.headers_mut();
    let id = HeaderValue::try_from(Uuid::new_v4().to_string());
    headers.insert("x-ms-request-id", id.expect("digits and hyphens"));
    let echo = |name: &str| {
        let value = parts.headers.get(name);
        value.filter(|value| value.len() <= ECHO_BYTES).cloned()
    };
    let version = echo("x-ms-version").unwrap_or_else(|| HeaderValue::from_static(VERSION));
    headers.insert("x-ms-version", version);
    if let Some(id) = echo("x-ms-client-request-id") {
        headers.insert("x-ms-client-request-id", id);
    }
    answer
}

async fn operate(context: &Context, parts: &Parts, body: Body) -> Result<Response, Fault> {
    let ask = Ask::new(parts)?;
    let refused = |denied: &Denied| context.access.audit().refused(denied);
    let permit = Permit::verify(context, &ask).inspect_err(refused)?;
    let operation = Operation::of(&ask)?;
    permit.allow(operation, &ask).inspect_err(refused)?;
    match operation {
        Operation::CreateContainer => container::create(context, &ask).await,
        Operation::ReadContainer => container::show(context, &ask).await,
        Operation::DeleteContainer => container::remove(context, &ask).await,
        Operation::List => list::list(context, &ask).await,
        Operation::Put => object::put(context, &ask, body, permit.is_for_new_only()).await,
        Operation::Describe => object::describe(context, &ask).await,
        Operation::Read => object::read(context, &ask).await,
        Operation::Head => object::head(context, &ask).await,
        Operation::Delete => object::remove(context, &ask).await,
        Operation::PutBlock => block::put(context, &ask, body).await,
        Operation::PutBlocks => block::commit(context, &ask, body, permit.is_for_new_only()).await,
        Operation::ReadBlocks => block::show(context, &ask).await,
        Operation::Lease => lease::act(context, &ask).await,
    }
}
