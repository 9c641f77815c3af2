//! Authenticates and authorises clients of a hub.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderName;
use axum::http::header::{
    AUTHORIZATION, CONNECTION, COOKIE, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use axum::http::request::Parts;
use serde_json::{Map, Value};
use steadfast_net::access::{
    AccessError, AccessErrorKind, Demand, EntityScope, Principal, Proof, ProofWatch, Right,
    ServiceArea, ended,
};
use steadfast_net::http::ForwardedClient as Forwarded;
use steadfast_realtime::{ClientConnection, ClientIdentity, ClientOptions, ClientTransport};

use super::context::Context;
use super::error::ClientRequestError;
use super::query::QueryString;
use super::token;

/// A client that is authorised for a hub.
pub(super) struct AuthorizedClient {
    pub(super) caller: ClientIdentity,
    pub(super) wishes: ClientOptions,
    /// Watches the key that has signed the token; none if the hub is open.
    pub(super) follow: Option<ProofWatch>,
    /// A bit per transport: 1, 2, 4.
    transports: u64,
}

impl AuthorizedClient {
    pub(super) fn may_use(&self, transport: ClientTransport) -> bool {
        let bit = match transport {
            ClientTransport::WebSockets => 1,
            ClientTransport::ServerSentEvents => 2,
            ClientTransport::LongPolling => 4,
        };
        self.transports & bit != 0
    }
}

/// The kind of the revoked resource in the audit log.
const KIND: &str = "hub client";

/// The rights that clients of hubs need.
const RIGHTS: &[Right] = &[Right::Listen];

/// The close message of a revoked client, which may reconnect with a valid token.
const REVOKED: &str = "Connection closed: the key behind its token no longer counts.";

/// Closes a client when its key is revoked. Never completes.
pub(super) async fn close_revoked(client: &Arc<ClientConnection>, follow: &mut Option<ProofWatch>) {
    ended(follow).await;
    client.close(Some(REVOKED), true);
    std::future::pending().await
}

/// Verifies the token of a request, unless the hub is open.
pub(super) fn admit(
    context: &Context,
    hub: &str,
    parts: &Parts,
    query: &QueryString,
) -> Result<AuthorizedClient, ClientRequestError> {
    let is_open = context.realtime.options(hub).is_open;
    let (claims, pass) = match bearer_token(parts, query) {
        Some(shown) => {
            let (claims, pass) = verify(context, hub, parts, shown)?;
            (claims, Some(pass))
        }
        None if is_open => {
            steadfast_net::listen::proven();
            (Map::new(), None)
        }
        None => {
            let words = "no token was given: send 'Authorization: Bearer <token>', or access_token";
            return Err(AccessError::new(AccessErrorKind::Missing, words).into());
        }
    };
    let number = |name: &str| number(&claims, name);
    let user = ["asrs.s.uid", "nameid", "sub"]
        .iter()
        .find_map(|name| claims.get(*name).and_then(Value::as_str));
    let is_stateful = query.get("useStatefulReconnect");
    Ok(AuthorizedClient {
        wishes: ClientOptions {
            is_stateful: is_stateful.is_some_and(|own| own.eq_ignore_ascii_case("true")),
            expires: expires(context, &claims),
            handshake: number("asrs.s.cht").map(|own| Duration::from_secs(own.clamp(1, 30))),
        },
        transports: number("asrs.s.htt").unwrap_or(7),
        follow: pass.map(|pass| {
            let (access, area) = (&context.access, ServiceArea::Realtime);
            access.watch_proof(KIND, &pass, RIGHTS, area, Some(hub))
        }),
        caller: ClientIdentity {
            user: user.map(str::to_owned),
            claims: token::texts(&claims),
            headers: headers(parts),
            query: query.rest().to_owned(),
        },
    })
}

/// The bearer token from the header, or from the query, which is all browsers can set.
pub(super) fn bearer_token<'a>(parts: &'a Parts, query: &'a QueryString) -> Option<&'a str> {
    let header = parts.headers.get(AUTHORIZATION);
    let header = header.and_then(|own| own.to_str().ok());
    let bearer = header.and_then(|own| own.split_once(' '));
    let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    match bearer {
        Some((_, token)) => Some(token.trim()),
        None => query.get("access_token").filter(|own| !own.is_empty()),
    }
}

fn verify(
    context: &Context,
    hub: &str,
    parts: &Parts,
    shown: &str,
) -> Result<(Map<String, Value>, Principal), ClientRequestError> {
    let host = token::host(parts);
    let path = parts.uri.path();
    let is_ours = |audience: &str| token::is_for(audience, hub, path, host);
    let demand = Demand::new(RIGHTS, ServiceArea::Realtime, EntityScope::Entity(hub));
    let proof = Proof::Token(shown);
    let admitted = context
        .access
        .authorize_claims(proof, &demand.or_token(&is_ours));
    Ok(admitted.map(|(pass, claims)| (claims, pass))?)
}

/// A number claim, which may be a string.
fn number(claims: &Map<String, Value>, name: &str) -> Option<u64> {
    let value = claims.get(name)?;
    let text = value.as_str().map(str::parse);
    value.as_u64().or_else(|| text.and_then(Result::ok))
}

/// How long the connection may last, if it closes on expiry of authentication.
fn expires(context: &Context, claims: &Map<String, Value>) -> Option<Duration> {
    let is_asked = claims.get("asrs.s.coae")?;
    let is_asked = is_asked.as_bool() == Some(true)
        || is_asked
            .as_str()
            .is_some_and(|own| own.eq_ignore_ascii_case("true"));
    let ends = number(claims, "asrs.s.aeo").filter(|_| is_asked)?;
    let now = context.clock.now().0.max(0) as u64;
    Some(Duration::from_millis(
        ends.saturating_mul(1000).saturating_sub(now),
    ))
}

/// Headers of the transport, and secrets of the client.
const HIDDEN: [HeaderName; 6] = [
    AUTHORIZATION,
    COOKIE,
    CONNECTION,
    UPGRADE,
    SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION,
];

/// The headers that the application may see.
fn headers(parts: &Parts) -> Vec<(String, String)> {
    let shown = parts.headers.iter();
    let shown = shown.filter(|(name, _)| !HIDDEN.contains(name));
    let mut headers: Vec<_> = shown
        .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
        .collect();
    if let Some(forwarded) = parts.extensions.get::<Forwarded>() {
        headers.retain(|(name, _)| name != "x-forwarded-for");
        headers.push(("X-Forwarded-For".to_owned(), forwarded.address.to_string()));
    }
    // They are kept as long as the client is.
    headers.shrink_to_fit();
    headers
}
