//! The routes of clients.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{ACCEPT, ALLOW, UPGRADE};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use steadfast_core::limits;
use steadfast_net::access::ended;
use steadfast_net::http::{BodyError, Problem, audited, read};
use steadfast_realtime::{ClientTransport, ConnectionTicket};

use super::admit::admit;
use super::context::Context;
use super::error::ClientRequestError;
use super::query::QueryString;
use super::remote_poll::{RemotePollAction, RemotePollRequest};
use super::{negotiate, polling, remote_poll, rest, server, sse, websocket};

/// A client path and its hub; without one the query names the hub.
#[derive(Clone)]
struct ClientRoute {
    context: Arc<Context>,
    hub: Option<String>,
}

/// Where app servers open their links.
pub const SERVERS: [&str; 2] = ["/server", "/server/"];

/// The paths of clients of all hubs: negotiation and connection.
pub const CLIENTS: [&str; 3] = ["/client/negotiate", "/client/", "/client"];

/// `/client` for all hubs, and a path for each hub that has its own.
pub fn routes(context: &Arc<Context>, paths: &[(String, String)]) -> Router {
    let all = ClientRoute {
        context: Arc::clone(context),
        hub: None,
    };
    let mut routes = client_router("/client", all);
    for (path, hub) in paths {
        let own = ClientRoute {
            context: Arc::clone(context),
            hub: Some(hub.clone()),
        };
        routes = routes.merge(client_router(path, own));
    }
    let access = Arc::clone(&context.access);
    let servers = Router::new()
        .route(SERVERS[0], any(server::serve))
        .route(SERVERS[1], any(server::serve))
        .with_state(Arc::clone(context));
    routes
        .merge(servers)
        .merge(rest::routes(context))
        .layer(DefaultBodyLimit::max(limits::CLIENT_POST_BYTES))
        .layer(middleware::from_fn_with_state(access, audited))
}

/// The client paths below a path: negotiation and connection.
pub fn client_paths(path: &str) -> [String; 3] {
    let path = path.trim_end_matches('/');
    let whole = if path.is_empty() { "/{$}" } else { path };
    [
        format!("{path}/negotiate"),
        format!("{path}/"),
        whole.to_owned(),
    ]
}

fn client_router(path: &str, door: ClientRoute) -> Router {
    let [meets, talks, whole] = client_paths(path);
    Router::new()
        .route(&meets, any(meet))
        .route(&talks, any(talk))
        .route(&whole, any(talk))
        .with_state(door)
}

impl ClientRoute {
    fn hub(&self, query: &QueryString) -> Result<String, ClientRequestError> {
        let named = self.hub.as_deref().or_else(|| query.get("hub"));
        let named = named.filter(|name| !name.is_empty());
        let missing = || ClientRequestError::new(StatusCode::BAD_REQUEST, "The query names no hub");
        let name = named.ok_or_else(missing)?;
        Ok(name.to_ascii_lowercase())
    }

    /// The ticket of a token, if this node has it.
    fn ticket(&self, hub: &str, token: &str) -> Option<Arc<ConnectionTicket>> {
        let ticket = self.context.realtime.ticket(token);
        ticket.filter(|own| own.hub.name().eq_ignore_ascii_case(hub))
    }
}

async fn meet(State(door): State<ClientRoute>, request: Request) -> Response {
    if request.method() != Method::POST {
        return no_method("POST");
    }
    let (parts, _) = request.into_parts();
    let query = QueryString::read(parts.uri.query());
    let met = door.hub(&query);
    let met = met.and_then(|hub| negotiate::negotiate(&door.context, &hub, &parts, &query));
    met.unwrap_or_else(IntoResponse::into_response)
}

async fn talk(State(door): State<ClientRoute>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let query = QueryString::read(parts.uri.query());
    let talked = match parts.method {
        Method::GET if is_upgrade(&parts) => match door.hub(&query) {
            Ok(hub) => websocket::open(&door.context, &hub, parts, &query).await,
            Err(refusal) => Err(refusal),
        },
        Method::GET => get(&door, &parts, &query).await,
        Method::POST => post(&door, &parts, &query, body).await,
        Method::DELETE => delete(&door, &parts, &query).await,
        _ => return no_method("GET, POST, DELETE"),
    };
    talked.unwrap_or_else(IntoResponse::into_response)
}

fn is_upgrade(parts: &Parts) -> bool {
    let upgrade = parts.headers.get(UPGRADE).and_then(|own| own.to_str().ok());
    // HTTP/2 uses extended CONNECT instead, which no client sends.
    upgrade.is_some_and(|own| own.eq_ignore_ascii_case("websocket"))
}

async fn get(
    door: &ClientRoute,
    parts: &Parts,
    query: &QueryString,
) -> Result<Response, ClientRequestError> {
    let hub = door.hub(query)?;
    let admitted = admit(&door.context, &hub, parts, query)?;
    let accept = parts.headers.get(ACCEPT).and_then(|own| own.to_str().ok());
    let transport = if accept.is_some_and(|own| own.contains("text/event-stream")) {
        ClientTransport::ServerSentEvents
    } else {
        ClientTransport::LongPolling
    };
    if !admitted.may_use(transport) {
        return Err(ClientRequestError::new(
            StatusCode::NOT_FOUND,
            "The transport is not allowed",
        ));
    }
    let token = token(query)?;
    let (context, here, follow) = (&door.context, door.ticket(&hub, token), admitted.follow);
    match (transport, here) {
        (ClientTransport::ServerSentEvents, Some(ticket)) => sse::open(&ticket, follow),
        (ClientTransport::ServerSentEvents, None) => {
            let taken = remote_poll::claim(context, &hub, token).await;
            sse::open(&taken.ok_or_else(ClientRequestError::unknown)?, follow)
        }
        (_, Some(ticket)) => polling::poll(&ticket, None, follow).await,
        (_, None) => {
            let mut follow = follow;
            tokio::select! {
                polled = remote_poll::forward(context, wanted(&hub, token, RemotePollAction::Poll(None))) => polled,
                denied = ended(&mut follow) => Err(denied.into()),
            }
        }
    }
}

/// Handles posts, the send half of long polling and server-sent events.
async fn post(
    door: &ClientRoute,
    parts: &Parts,
    query: &QueryString,
    body: Body,
) -> Result<Response, ClientRequestError> {
    let hub = door.hub(query)?;
    let follow = admit(&door.context, &hub, parts, query)?.follow;
    let token = token(query)?;
    let here = door.ticket(&hub, token);
    let most = limits::CLIENT_POST_BYTES;
    let read = read(&parts.extensions, body, most).await;
    let bytes = read.map_err(|why| match why {
        BodyError::TooLarge => {
            let text = format!("A request has {most} bytes at most.");
            ClientRequestError::new(StatusCode::PAYLOAD_TOO_LARGE, text)
        }
        BodyError::TooSlow => {
            let text = "The body did not come in time.";
            ClientRequestError::new(StatusCode::REQUEST_TIMEOUT, text)
        }
        BodyError::Busy => ClientRequestError::Problem(Problem::no_room()),
        BodyError::Broken => {
            ClientRequestError::new(StatusCode::BAD_REQUEST, "The body broke off.")
        }
    })?;
    match here {
        Some(ticket) => polling::post(&ticket, bytes, follow).await,
        None => {
            remote_poll::forward(
                &door.context,
                wanted(&hub, token, RemotePollAction::Post(bytes)),
            )
            .await
        }
    }
}

/// The client closes the connection.
async fn delete(
    door: &ClientRoute,
    parts: &Parts,
    query: &QueryString,
) -> Result<Response, ClientRequestError> {
    let hub = door.hub(query)?;
    admit(&door.context, &hub, parts, query)?;
    let token = token(query)?;
    match door.ticket(&hub, token) {
        Some(ticket) => polling::end(&ticket),
        None => {
            remote_poll::forward(&door.context, wanted(&hub, token, RemotePollAction::End)).await
        }
    }
}

/// The client's connection token.
fn token(query: &QueryString) -> Result<&str, ClientRequestError> {
    let token = query.get("id").filter(|own| !own.is_empty());
    token.ok_or_else(ClientRequestError::no_id)
}

fn wanted(hub: &str, token: &str, what: RemotePollAction) -> RemotePollRequest {
    RemotePollRequest {
        hub: hub.to_owned(),
        token: token.to_owned(),
        what,
    }
}

fn no_method(allowed: &'static str) -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, allowed)]).into_response()
}
