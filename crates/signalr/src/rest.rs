//! The REST API of the management SDKs.
//!
//! Two versions: dated ones below `/api/hubs`, and `/api/v1/hubs`. A missing resource is
//! reported with a header that those SDKs require.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, routing::any};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use steadfast_core::limits;
use steadfast_net::access::{
    AccessError, AccessErrorKind, Demand, EntityScope, Proof, Right, ServiceArea,
};
use steadfast_net::http::{BodyError, Problem, RETRY_SECONDS, read};
use steadfast_realtime::gateway::Recipients;
use steadfast_realtime::{ClusterConnections, HubPayload, ProtocolSet, is_name};
use steadfast_wire::signalr::Protocol;
use steadfast_wire::signalr::pack::PackReader;
use steadfast_wire::signalr::service::{CloseConnections, ExistenceCheck};

use super::admit::bearer_token;
use super::context::Context;
use super::operations::{self, ApiVersion, HubRestOperation, MatchedOperation};
use super::query::QueryString;
use super::token;

/// Every path below these needs a token with its own URL as the audience.
pub const SENDS: [&str; 2] = ["/api/hubs/{*rest}", "/api/v1/hubs/{*rest}"];

/// The rights needed to learn that an operation does not exist.
const SEND: &[Right] = &[Right::Send];

/// The routes; health needs no token.
pub(super) fn routes(context: &Arc<Context>) -> Router {
    Router::new()
        .route("/api/health", any(health))
        .route("/api/v1/health", any(health))
        .route(SENDS[0], any(serve))
        .route(SENDS[1], any(serve))
        .with_state(Arc::clone(context))
}

async fn health(State(context): State<Arc<Context>>) -> StatusCode {
    if context.realtime.is_leaving() {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    }
}

async fn serve(State(context): State<Arc<Context>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    match operate(&context, &parts, body).await {
        Ok(done) => done.into_response(),
        Err(failure) => failure.into_response(),
    }
}

/// A parsed request.
struct HubRestRequest {
    /// The clients of the hub at all nodes.
    all: ClusterConnections,
    query: QueryString,
    version: ApiVersion,
}

/// The result of an operation.
enum Outcome {
    Status(u16),
    /// Not found, with the error code that the SDKs expect.
    Absent(&'static str),
}

/// Why an operation failed.
enum HubRestError {
    Denied(AccessError),
    Wrong(StatusCode, &'static str, String),
}

impl From<AccessError> for HubRestError {
    fn from(denied: AccessError) -> Self {
        Self::Denied(denied)
    }
}

impl HubRestError {
    fn bad(why: impl Into<String>) -> Self {
        Self::Wrong(StatusCode::BAD_REQUEST, "BadRequest", why.into())
    }
}

impl IntoResponse for Outcome {
    fn into_response(self) -> Response {
        match self {
            Self::Status(status) => {
                let status = StatusCode::from_u16(status);
                status.unwrap_or(StatusCode::OK).into_response()
            }
            Self::Absent(code) => {
                let mut response = StatusCode::NOT_FOUND.into_response();
                let code = HeaderValue::from_static(code);
                response.headers_mut().insert("x-ms-error-code", code);
                response
            }
        }
    }
}

impl IntoResponse for HubRestError {
    fn into_response(self) -> Response {
        match self {
            Self::Denied(denied) => Problem::from(denied).into_response(),
            Self::Wrong(status, code, message) => {
                let body = json!({"code": code, "message": message, "target": null});
                let mut response = (status, Json(body)).into_response();
                if status == StatusCode::SERVICE_UNAVAILABLE {
                    let later = HeaderValue::from_static(RETRY_SECONDS);
                    response.headers_mut().insert(RETRY_AFTER, later);
                }
                response
            }
        }
    }
}

async fn operate(context: &Context, parts: &Parts, body: Body) -> Result<Outcome, HubRestError> {
    let path = parts.uri.path();
    let (rest, version) = match path.strip_prefix(ApiVersion::First.root()) {
        Some(rest) => (rest, ApiVersion::First),
        None => {
            let rest = path.strip_prefix(ApiVersion::Dated.root());
            (rest.unwrap_or_default(), ApiVersion::Dated)
        }
    };
    let query = QueryString::read(parts.uri.query());
    let mut segments: Vec<_> = rest.trim_end_matches('/').split('/').map(decoded).collect();
    let name = segments.remove(0);
    let hub = match query.get("application").filter(|own| !own.is_empty()) {
        Some(application) => format!("{application}_{name}"),
        None => name.clone(),
    };
    let segments: Vec<_> = segments.iter().map(String::as_str).collect();
    let named = operations::find(version, &parts.method, &segments);
    let rights = named.map_or(SEND, |named| named.operation.rights());
    verify(context, &hub, parts, &query, rights)?;
    if !is_hub_name(&name) {
        return Err(HubRestError::bad(format!("'{name}' is no name of a hub")));
    }
    let named = named.ok_or_else(|| not_offered(version, &segments))?;
    if let Some(group) = named.group {
        group_name(group)?;
    }
    let lobby = context.realtime.hub(&hub);
    let lobby = lobby.map_err(|error| HubRestError::bad(error.to_string()))?;
    let asked = HubRestRequest {
        all: lobby.cluster(),
        query,
        version,
    };
    asked.run(&named, parts, body).await
}

fn not_offered(version: ApiVersion, segments: &[&str]) -> HubRestError {
    let is_user_in_group = segments.contains(&"users") && segments.contains(&"groups");
    if is_user_in_group && operations::is_known(version, segments) {
        HubRestError::Wrong(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "PUT, DELETE and HEAD are known here.".to_owned(),
        )
    } else {
        HubRestError::Wrong(
            StatusCode::NOT_FOUND,
            "NotFound",
            "There is no such operation.".to_owned(),
        )
    }
}

fn decoded(segment: &str) -> String {
    percent_decode_str(segment).decode_utf8_lossy().into_owned()
}

fn is_hub_name(name: &str) -> bool {
    let is_first = name.starts_with(|own: char| own.is_ascii_alphabetic());
    let is_rest = |own: char| own.is_ascii_alphanumeric() || "_`,.[]".contains(own);
    is_first && name.len() <= limits::HUB_NAME && name.chars().all(is_rest)
}

/// The token's audience is the URL without port and query. The right is checked on the
/// effective hub, whose name includes the application's prefix.
fn verify(
    context: &Context,
    hub: &str,
    parts: &Parts,
    query: &QueryString,
    rights: &[Right],
) -> Result<(), AccessError> {
    let Some(shown) = bearer_token(parts, query) else {
        let words = "no token was given: send 'Authorization: Bearer <token>'";
        return Err(AccessError::new(AccessErrorKind::Missing, words));
    };
    let host = token::host(parts);
    let path = parts.uri.path();
    let is_ours = |audience: &str| token::is_for_path(audience, path, host);
    let demand = Demand::new(rights, ServiceArea::Realtime, EntityScope::Entity(hub));
    let proof = Proof::Token(shown);
    context
        .access
        .authorize(proof, &demand.or_token(&is_ours))?;
    Ok(())
}

impl HubRestRequest {
    async fn send(
        &self,
        to: Recipients,
        parts: &Parts,
        body: Body,
    ) -> Result<Outcome, HubRestError> {
        let payload = payload(parts, body).await?;
        self.all.room().await;
        self.all.send(&to, &payload);
        Ok(Outcome::Status(202))
    }

    async fn run(
        &self,
        named: &MatchedOperation<'_>,
        parts: &Parts,
        body: Body,
    ) -> Result<Outcome, HubRestError> {
        let (user, id) = (named.user, named.connection);
        let group = named.group.unwrap_or_default();
        let owned = str::to_owned;
        let is_old = self.version == ApiVersion::First;
        match named.operation {
            HubRestOperation::SendToAll => {
                let except = self.query.all("excluded");
                self.send(Recipients::All { except }, parts, body).await
            }
            HubRestOperation::SendToUser => {
                let to = Recipients::Users(vec![owned(user)]);
                self.send(to, parts, body).await
            }
            HubRestOperation::SendToGroup => {
                let (name, except) = (owned(group), self.query.all("excluded"));
                self.send(Recipients::Group { name, except }, parts, body)
                    .await
            }
            HubRestOperation::SendToConnection => {
                let to = Recipients::Connections(vec![owned(id)]);
                self.send(to, parts, body).await
            }
            HubRestOperation::CloseAll
            | HubRestOperation::CloseGroup
            | HubRestOperation::CloseUser => self.close(named).await,
            HubRestOperation::CloseConnection => self.close_one(id).await,
            HubRestOperation::FindConnection => {
                let absent = "Warning.Connection.NotExisted";
                self.find(ExistenceCheck::Connection(owned(id)), absent)
                    .await
            }
            HubRestOperation::FindUser => {
                let absent = "Warning.User.NotExisted";
                self.find(ExistenceCheck::User(owned(user)), absent).await
            }
            HubRestOperation::FindGroup => {
                let absent = "Warning.Group.NotExisted";
                self.find(ExistenceCheck::Group(owned(group)), absent).await
            }
            HubRestOperation::FindUserInGroup => {
                let (user, group) = (owned(user), owned(group));
                let of = ExistenceCheck::UserInGroup { user, group };
                self.find(of, "Info.User.NotInGroup").await
            }
            HubRestOperation::AddConnection => {
                let is_in = self.all.join(id, group).await.is_ok();
                Ok(known(is_in, "Error.Connection.NotExisted"))
            }
            // A missing connection is in no group: the SDK expects success.
            HubRestOperation::RemoveConnection => {
                self.all.leave(id, Some(group)).await;
                Ok(Outcome::Status(200))
            }
            HubRestOperation::RemoveConnectionFromAll => {
                self.all.leave(id, None).await;
                Ok(Outcome::Status(200))
            }
            HubRestOperation::RemoveUserFromAll => {
                self.all.leave_user(user, None);
                Ok(Outcome::Status(if is_old { 200 } else { 204 }))
            }
            HubRestOperation::AddUser => self.add_user(user, group),
            HubRestOperation::RemoveUser => {
                self.all.leave_user(user, Some(group));
                Ok(Outcome::Status(if is_old { 202 } else { 204 }))
            }
        }
    }

    async fn find(
        &self,
        of: ExistenceCheck,
        absent: &'static str,
    ) -> Result<Outcome, HubRestError> {
        Ok(known(self.all.check(of).await, absent))
    }

    async fn close(&self, named: &MatchedOperation<'_>) -> Result<Outcome, HubRestError> {
        let is_user = named.operation == HubRestOperation::CloseUser;
        let closing = self.all.close(CloseConnections {
            user: is_user.then(|| named.user.to_owned()),
            group: named.group.map(str::to_owned),
            reason: self.reason(),
            except: self.query.all("excluded"),
            ..CloseConnections::default()
        });
        closing.await;
        Ok(Outcome::Status(204))
    }

    fn reason(&self) -> String {
        self.query.get("reason").unwrap_or_default().to_owned()
    }

    async fn close_one(&self, id: &str) -> Result<Outcome, HubRestError> {
        let closing = self.all.close(CloseConnections {
            connection: Some(id.to_owned()),
            reason: self.reason(),
            ..CloseConnections::default()
        });
        closing.await;
        let is_old = self.version == ApiVersion::First;
        Ok(Outcome::Status(if is_old { 202 } else { 200 }))
    }

    fn add_user(&self, user: &str, group: &str) -> Result<Outcome, HubRestError> {
        let ttl = self.query.get("ttl").map(str::parse::<u64>).transpose();
        let most = limits::GROUP_SECONDS;
        let ttl = ttl.ok().filter(|ttl| ttl.is_none_or(|s| s <= most));
        let bad = || format!("ttl is a number of seconds, {most} at most");
        let ttl = ttl.ok_or_else(|| HubRestError::bad(bad()))?;
        let ttl = ttl.map(Duration::from_secs);
        let joined = self.all.join_user(user, group, ttl);
        joined.map_err(|error| HubRestError::bad(error.to_string()))?;
        let is_old = self.version == ApiVersion::First;
        Ok(Outcome::Status(if is_old { 202 } else { 200 }))
    }
}

fn known(is_there: bool, absent: &'static str) -> Outcome {
    if is_there {
        Outcome::Status(200)
    } else {
        Outcome::Absent(absent)
    }
}

fn group_name(name: &str) -> Result<(), HubRestError> {
    if is_name(name) {
        Ok(())
    } else {
        Err(HubRestError::bad(
            "the name of a group has 1 to 1024 characters, and is not blank",
        ))
    }
}

/// The payload of a message: JSON that is encoded per protocol, or encoded already.
async fn payload(parts: &Parts, body: Body) -> Result<HubPayload, HubRestError> {
    let most = limits::CLIENT_POST_BYTES;
    let read = read(&parts.extensions, body, most).await;
    let bytes = read.map_err(|why| match why {
        BodyError::TooLarge => {
            let words = format!("a message has {most} bytes at most");
            HubRestError::Wrong(StatusCode::PAYLOAD_TOO_LARGE, "PayloadTooLarge", words)
        }
        BodyError::TooSlow => {
            let words = "the body did not come in time".to_owned();
            HubRestError::Wrong(StatusCode::REQUEST_TIMEOUT, "Timeout", words)
        }
        BodyError::Busy => {
            let words = "the server has no room for the body; try again later".to_owned();
            HubRestError::Wrong(StatusCode::SERVICE_UNAVAILABLE, "ServerBusy", words)
        }
        BodyError::Broken => HubRestError::bad("the body broke off"),
    })?;
    let kind = parts.headers.get(CONTENT_TYPE);
    let kind = kind.and_then(|own| own.to_str().ok()).unwrap_or_default();
    if kind.starts_with("application/octet-stream") || kind.starts_with("application/x-msgpack") {
        return forms(&bytes).ok_or_else(|| HubRestError::bad("the body is no map of payloads"));
    }
    let (target, arguments) = call(&bytes)?;
    let payload = HubPayload::call(ProtocolSet::BOTH, None, &target, &arguments);
    payload.map_err(|error| HubRestError::bad(error.to_string()))
}

/// Parses a call from JSON. SDKs differ in the case of its member names.
fn call(bytes: &[u8]) -> Result<(String, Vec<Value>), HubRestError> {
    let mut body: Map<String, Value> = serde_json::from_slice(bytes)
        .map_err(|error| HubRestError::bad(format!("the body needs a target: {error}")))?;
    let mut take = |name: &str| {
        let key = body.keys().find(|own| own.eq_ignore_ascii_case(name));
        key.cloned().and_then(|key| body.remove(&key))
    };
    let Some(Value::String(target)) = take("target") else {
        return Err(HubRestError::bad(
            "the body needs a target, which is a text",
        ));
    };
    match take("arguments") {
        None | Some(Value::Null) => Ok((target, Vec::new())),
        Some(Value::Array(arguments)) => Ok((target, arguments)),
        Some(_) => Err(HubRestError::bad("the arguments are a list")),
    }
}

/// Parses a map from protocols to framed messages.
fn forms(bytes: &bytes::Bytes) -> Option<HubPayload> {
    let mut reader = PackReader::new(bytes);
    let count = reader.map().ok()?;
    let mut forms = Vec::new();
    for _ in 0..count {
        let name = reader.text().ok()??;
        let message = reader.bin().ok()?;
        if let Some(protocol) = Protocol::named(name) {
            forms.push((protocol, bytes.slice_ref(message)));
        }
    }
    Some(HubPayload::of(forms))
}
