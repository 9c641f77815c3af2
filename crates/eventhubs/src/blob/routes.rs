//! Dispatches requests to operations.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use steadfast_net::access::AccessError;
use uuid::Uuid;

use super::context::Context;
use super::error::BlobError;
use super::operation::BlobOperation;
use super::permit::BlobPermit;
use super::request::BlobRequest;
use super::{block, container, lease, list, object};

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

async fn operate(context: &Context, parts: &Parts, body: Body) -> Result<Response, BlobError> {
    let ask = BlobRequest::new(parts)?;
    let refused = |denied: &AccessError| context.access.audit().refused(denied);
    let permit = BlobPermit::verify(context, &ask).inspect_err(refused)?;
    let operation = BlobOperation::of(&ask)?;
    permit.allow(operation, &ask).inspect_err(refused)?;
    match operation {
        BlobOperation::CreateContainer => container::create(context, &ask).await,
        BlobOperation::ReadContainer => container::show(context, &ask).await,
        BlobOperation::DeleteContainer => container::remove(context, &ask).await,
        BlobOperation::List => list::list(context, &ask).await,
        BlobOperation::Put => object::put(context, &ask, body, permit.is_for_new_only()).await,
        BlobOperation::Describe => object::describe(context, &ask).await,
        BlobOperation::Read => object::read(context, &ask).await,
        BlobOperation::Head => object::head(context, &ask).await,
        BlobOperation::Delete => object::remove(context, &ask).await,
        BlobOperation::PutBlock => block::put(context, &ask, body).await,
        BlobOperation::PutBlocks => {
            block::commit(context, &ask, body, permit.is_for_new_only()).await
        }
        BlobOperation::ReadBlocks => block::show(context, &ask).await,
        BlobOperation::Lease => lease::act(context, &ask).await,
    }
}
