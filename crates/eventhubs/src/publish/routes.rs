//! The routes that publish events.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::routing::post;
use steadfast_core::limits;
use steadfast_net::access::{
    AccessError, AccessErrorKind, Demand, EntityScope, Proof, Right, ServiceArea,
};
use steadfast_net::http::read;

use super::body;
use super::error::PublishError;
use super::headers;
use crate::amqp::{Context, verify};

/// A JSON batch is longer than its events: texts are escaped.
const BODY_BYTES: usize = 4 * limits::PUBLICATION_BYTES;

type PublishState = State<Arc<Context>>;

/// The `POST` routes that publish events; all need the right to send to the event hub.
pub const ROUTES: [&str; 3] = [
    "/{hub}/messages",
    "/{hub}/partitions/{partition}/messages",
    "/{hub}/publishers/{publisher}/messages",
];

/// `POST /{hub}/messages`, to a partition, or as a publisher.
pub fn routes(context: Arc<Context>) -> Router {
    let [hub, partition, publisher] = ROUTES;
    Router::new()
        .route(hub, post(to_hub))
        .route(partition, post(to_partition))
        .route(publisher, post(as_publisher))
        .with_state(context)
}

async fn to_hub(
    State(context): PublishState,
    Path(hub): Path<String>,
    request: Request,
) -> Result<StatusCode, PublishError> {
    publish(&context, &hub, None, None, request).await
}

async fn to_partition(
    State(context): PublishState,
    Path((hub, partition)): Path<(String, String)>,
    request: Request,
) -> Result<StatusCode, PublishError> {
    let Ok(number) = partition.parse() else {
        return Err(PublishError::malformed("a partition is a number"));
    };
    publish(&context, &hub, Some(number), None, request).await
}

async fn as_publisher(
    State(context): PublishState,
    Path((hub, publisher)): Path<(String, String)>,
    request: Request,
) -> Result<StatusCode, PublishError> {
    publish(&context, &hub, None, Some(&publisher), request).await
}

async fn publish(
    context: &Context,
    hub: &str,
    partition: Option<u32>,
    publisher: Option<&str>,
    request: Request<Body>,
) -> Result<StatusCode, PublishError> {
    let (parts, body) = request.into_parts();
    let allowed = allow(context, hub, &parts).await;
    allowed.inspect_err(|denied| context.refused(denied))?;
    let sender = context.hubs.sender(hub, partition).await?;
    let body = read(&parts.extensions, body, BODY_BYTES).await?;
    let batch = body::publication(&parts.headers, &body, publisher)?;
    sender.send(batch).await?;
    Ok(StatusCode::CREATED)
}

/// Whether the request may send to the event hub.
async fn allow(context: &Context, hub: &str, parts: &Parts) -> Result<(), AccessError> {
    let Some(access) = &context.access else {
        steadfast_net::listen::proven();
        return Ok(());
    };
    let header = headers::text(&parts.headers, "authorization");
    let path = percent_decoded(parts.uri.path());
    match header {
        Some(token) if token.starts_with("SharedAccessSignature ") => {
            let permit = verify(context, "", token, &path).await?;
            permit.allows(Right::Send, hub)
        }
        Some(_) => {
            let demand = Demand::new(
                &[Right::Send],
                ServiceArea::Events,
                EntityScope::Entity(hub),
            );
            let resource = &path;
            let proof = Proof::Header { header, resource };
            access.authorize(proof, &demand).map(drop)
        }
        None => Err(AccessError::new(
            AccessErrorKind::Missing,
            "no token was given: send 'Authorization: SharedAccessSignature ..'",
        )),
    }
}

fn percent_decoded(path: &str) -> String {
    percent_encoding::percent_decode_str(path)
        .decode_utf8_lossy()
        .into_owned()
}
