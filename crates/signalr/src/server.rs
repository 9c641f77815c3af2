//! The links of app servers to the service.
//!
//! WebSocket message boundaries have no meaning here, in either direction.

use std::sync::Arc;

use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Map, Value};
use steadfast_core::limits;
use steadfast_net::access::{
    AccessError, AccessErrorKind, Demand, EntityScope, Proof, ProofWatch, Right, ServiceArea,
};
use steadfast_realtime::{AppServerLink, AppServerSession, LentLink, LentLinkOutput, Realtime};

use super::admit::bearer_token;
use super::context::Context;
use super::error::ClientRequestError;
use super::query::QueryString;
use super::token;

/// The user agent of app servers of this library.
pub(super) const AGENT: &str = "steadfast";

/// The kind of the revoked resource in the audit log.
const KIND: &str = "app server link";

/// The rights that app servers need.
const RIGHTS: &[Right] = &[Right::Send];

/// Opens the link of a server.
pub(super) async fn serve(State(context): State<Arc<Context>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let query = QueryString::read(parts.uri.query());
    let opened = open(&context, parts, &query).await;
    opened.unwrap_or_else(IntoResponse::into_response)
}

async fn open(
    context: &Context,
    mut parts: Parts,
    query: &QueryString,
) -> Result<Response, ClientRequestError> {
    let missing = || {
        ClientRequestError::new(
            axum::http::StatusCode::BAD_REQUEST,
            "The query names no hub",
        )
    };
    let hub = query.get("hub").filter(|own| !own.is_empty());
    let hub = hub.ok_or_else(missing)?.to_ascii_lowercase();
    let (claims, follow) = verify(context, &hub, &parts, query)?;
    let named = claims.get("nameid").and_then(Value::as_str);
    let server = header(&parts.headers, "x-asrs-server-id").or(named);
    let server = server.filter(|own| own.len() <= limits::GROUP_NAME);
    let server = server.unwrap_or("unnamed").to_owned();
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
    let upgrade = upgrade.map_err(|no| ClientRequestError::new(no.status(), no.body_text()))?;
    let agent = header(&parts.headers, "asrs-user-agent").unwrap_or_default();
    let is_ours = agent.starts_with(AGENT);
    let upgrade = upgrade
        .write_buffer_size(0)
        .max_write_buffer_size(2 * limits::SERVER_OUT_BYTES)
        .max_message_size(limits::SERVER_MESSAGE_BYTES)
        .max_frame_size(limits::SERVER_MESSAGE_BYTES);
    let realtime = context.realtime.clone();
    // Another node has requested this link: forward its bytes there.
    let lent = query
        .get("target")
        .and_then(|node| realtime.lend(node, &hub, &server, is_ours));
    if let Some((lent, words)) = lent {
        return Ok(upgrade.on_upgrade(move |socket| carry(socket, lent, words, follow)));
    }
    let link = realtime.server(&hub, &server, is_ours)?;
    Ok(upgrade.on_upgrade(move |socket| run(socket, link, realtime, follow)))
}

fn verify(
    context: &Context,
    hub: &str,
    parts: &Parts,
    query: &QueryString,
) -> Result<(Map<String, Value>, ProofWatch), ClientRequestError> {
    let Some(shown) = bearer_token(parts, query) else {
        let words = "no token was given: send 'Authorization: Bearer <token>'";
        return Err(AccessError::new(AccessErrorKind::Missing, words).into());
    };
    let host = token::host(parts);
    let is_ours = |audience: &str| token::is_for_server(audience, hub, host);
    let demand = Demand::new(RIGHTS, ServiceArea::Realtime, EntityScope::Entity(hub));
    let proof = Proof::Token(shown);
    let (pass, claims) = context
        .access
        .authorize_claims(proof, &demand.or_token(&is_ours))?;
    let (access, area) = (&context.access, ServiceArea::Realtime);
    let follow = access.watch_proof(KIND, &pass, RIGHTS, area, Some(hub));
    Ok((claims, follow))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|own| own.to_str().ok())
}

/// Carries bytes both ways until one side ends.
async fn run(
    socket: WebSocket,
    mut server: AppServerSession,
    realtime: Realtime,
    mut follow: ProofWatch,
) {
    let (mut sink, mut stream) = socket.split();
    let link = Arc::clone(server.link());
    let reading = async {
        while let Some(Ok(message)) = stream.next().await {
            let bytes = match message {
                Message::Binary(bytes) => bytes,
                Message::Ping(_) | Message::Pong(_) => continue,
                Message::Text(_) | Message::Close(_) => return,
            };
            if server.take(bytes).is_err() {
                return;
            }
            // Backpressure for a server that sends faster than other nodes receive.
            realtime.room().await;
        }
    };
    let writing = write(&mut sink, &link);
    tokio::pin!(reading, writing);
    tokio::select! {
        () = &mut reading => {
            // A refusal may still be in the outbox.
            let _ = tokio::time::timeout(limits::CLIENT_STALL, drain(&link, writing)).await;
        }
        _ = follow.proof_ended() => {
            let _ = tokio::time::timeout(limits::CLIENT_STALL, drain(&link, writing)).await;
        }
        () = &mut writing => {}
    }
}

/// Forwards bytes between a server and the node that uses its link.
async fn carry(
    socket: WebSocket,
    lent: LentLink,
    mut words: LentLinkOutput,
    mut follow: ProofWatch,
) {
    let (mut sink, mut stream) = socket.split();
    let reading = async {
        while let Some(Ok(message)) = stream.next().await {
            let bytes = match message {
                Message::Binary(bytes) => bytes,
                Message::Ping(_) | Message::Pong(_) => continue,
                Message::Text(_) | Message::Close(_) => return,
            };
            if lent.take(bytes).await.is_err() {
                return;
            }
        }
    };
    let writing = async {
        while let Some(bytes) = words.outgoing().await {
            let sending = sink.send(Message::Binary(bytes));
            match tokio::time::timeout(limits::CLIENT_STALL, sending).await {
                Ok(Ok(())) => {}
                _ => return,
            }
        }
        let _ = tokio::time::timeout(limits::CLIENT_STALL, sink.close()).await;
    };
    tokio::select! {
        () = reading => {}
        () = writing => {}
        _ = follow.proof_ended() => {}
    }
}

async fn drain(link: &AppServerLink, writing: impl Future<Output = ()>) {
    link.end();
    writing.await;
}

async fn write(sink: &mut (impl futures_util::Sink<Message> + Unpin), link: &AppServerLink) {
    while let Some(bytes) = link.outgoing().await {
        let sending = sink.send(Message::Binary(bytes));
        match tokio::time::timeout(limits::CLIENT_STALL, sending).await {
            Ok(Ok(())) => {}
            _ => return,
        }
    }
    let _ = tokio::time::timeout(limits::CLIENT_STALL, sink.close()).await;
}
