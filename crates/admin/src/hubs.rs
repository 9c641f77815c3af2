//! The routes of SignalR hubs and their clients.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query};
use axum::http::header::HOST;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};
use steadfast_core::clock::Clock;
use steadfast_net::access::{AccessControl, MARK, Principal, Right, ServiceArea};
use steadfast_net::access::{CLIENT_KEY, ClientTokenOptions, client_token};
use steadfast_net::http::Problem;
use steadfast_realtime::gateway::Recipients;
use steadfast_realtime::{
    AppServerStatus, ClientConnection, ClusterConnections, Error, HubConnections, HubPayload,
    ProtocolSet, Realtime,
};
use steadfast_wire::signalr::service::CloseConnections;

use super::events::queried;
use super::interface::{ApiOperation, Interface, on, read};
use super::page::{PageQuery, may, page};

/// The hubs of a node, and the keys that sign tokens for them.
#[derive(Clone)]
pub struct HubAdmin {
    pub realtime: Realtime,
    pub access: Arc<AccessControl>,
    pub clock: Arc<dyn Clock>,
}

/// Maximum lifetime of an issued token.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// A message to clients.
#[derive(Deserialize)]
struct ClientMessageRequest {
    target: String,
    #[serde(default)]
    arguments: Vec<Value>,
    user: Option<String>,
    group: Option<String>,
    connection: Option<String>,
}

/// A request for a client token.
#[derive(Deserialize)]
struct ClientTokenRequest {
    user: Option<String>,
    lifetime_s: Option<u64>,
}

/// Adds the routes below `/v1/hubs`.
pub fn hub_routes(interface: Interface, desk: &HubAdmin) -> Interface {
    let interface = list_route(interface, desk);
    let own = desk.clone();
    let list = async move |Path(hub): Path<String>| {
        let lobby = own.lobby(&hub)?;
        let clients: Vec<_> = lobby
            .clients()
            .iter()
            .map(|own| shown(&lobby, own))
            .collect();
        Ok::<_, Problem>(Json(json!({ "clients": clients })))
    };
    let own = desk.clone();
    let servers = async move |Path(hub): Path<String>| {
        let servers = own
            .realtime
            .servers(&hub)
            .map_err(|error| unknown(&error))?;
        let servers: Vec<_> = servers.iter().map(shown_server).collect();
        Ok::<_, Problem>(Json(json!({ "servers": servers })))
    };
    let own = desk.clone();
    let drain = async move |Path((hub, server)): Path<(String, String)>| {
        let clients = own
            .realtime
            .drain_server(&hub, &server)
            .map_err(|error| unknown(&error))?;
        let body = Json(json!({"server": server, "clients": clients}));
        Ok::<_, Problem>((StatusCode::ACCEPTED, body))
    };
    let own = desk.clone();
    let show = async move |Path((hub, id)): Path<(String, String)>| {
        let lobby = own.lobby(&hub)?;
        let client = lobby.client(&id).ok_or_else(|| absent(&id))?;
        Ok::<_, Problem>(Json(shown(&lobby, &client)))
    };
    let own = desk.clone();
    let close = async move |Path((hub, id)): Path<(String, String)>| {
        let lobby = own.lobby(&hub)?;
        let closing = lobby.cluster().close(CloseConnections {
            connection: Some(id.clone()),
            reason: "Closed by an operator.".to_owned(),
            ..CloseConnections::default()
        });
        match closing.await {
            0 => Err(absent(&id)),
            _ => Ok::<_, Problem>(StatusCode::NO_CONTENT),
        }
    };
    let own = desk.clone();
    let send = async move |Path(hub): Path<String>,
                           body: Result<Json<ClientMessageRequest>, JsonRejection>| {
        let lobby = own.lobby(&hub)?;
        send(&lobby.cluster(), read(body)?).await
    };
    let own = desk.clone();
    let make = async move |Path(hub): Path<String>,
                           Extension(pass): Extension<Principal>,
                           headers: HeaderMap,
                           body: Result<Json<ClientTokenRequest>, JsonRejection>| {
        own.token(&hub, &pass, &headers, read(body)?)
    };
    let get = |path, summary, success| operation(Method::GET, path, summary, success, None);
    interface
        .with(
            get(
                "/v1/hubs/{hub}/clients",
                "The clients of a hub",
                (200, "One object each"),
            ),
            on(&Method::GET, list),
        )
        .with(
            get(
                "/v1/hubs/{hub}/servers",
                "The servers of a hub",
                (200, "One object each"),
            ),
            on(&Method::GET, servers),
        )
        .with(
            operation(
                Method::POST,
                "/v1/hubs/{hub}/servers/{server}/drain",
                "Drain an app server: take away its clients and route no new ones to it",
                (202, "The number of its clients"),
                None,
            ),
            on(&Method::POST, drain),
        )
        .with(
            get(
                "/v1/hubs/{hub}/clients/{id}",
                "One client",
                (200, "The client"),
            ),
            on(&Method::GET, show),
        )
        .with(
            operation(
                Method::DELETE,
                "/v1/hubs/{hub}/clients/{id}",
                "Close a client; it does not reconnect automatically",
                (204, "The client is closed"),
                None,
            ),
            on(&Method::DELETE, close),
        )
        .with(
            ApiOperation {
                rights: &[Right::Send],
                ..operation(
                    Method::POST,
                    "/v1/hubs/{hub}/send",
                    "Invoke a method of all clients, or of those of a user, group or connection",
                    (202, "The message is in their queues"),
                    Some(
                        json!({"type": "object", "required": ["target"], "properties": {
                            "target": {"type": "string"}, "arguments": {"type": "array"},
                            "user": {"type": "string"}, "group": {"type": "string"},
                            "connection": {"type": "string"},
                        }}),
                    ),
                )
            },
            on(&Method::POST, send),
        )
        .with(
            operation(
                Method::POST,
                "/v1/hubs/{hub}/tokens",
                "Issue a token for a client of this hub only",
                (200, "The token"),
                Some(json!({"type": "object", "properties": {
                    "user": {"type": "string"}, "lifetime_s": {"type": "integer"},
                }})),
            ),
            on(&Method::POST, make),
        )
}

/// Adds the list of hubs.
fn list_route(interface: Interface, desk: &HubAdmin) -> Interface {
    let own = desk.clone();
    let list = async move |Extension(pass): Extension<Principal>,
                           query: Result<Query<PageQuery>, QueryRejection>| {
        let query = queried(query)?;
        let after = query.cursor.as_deref().unwrap_or_default();
        let is_visible = |hub: &str| may(&pass, &[Right::Read], ServiceArea::Realtime, hub);
        let found = own.realtime.page(after, query.limit()?, is_visible).await;
        let hubs = found
            .hubs
            .iter()
            .map(|hub| json!({"name": hub.name, "clients": hub.clients, "servers": hub.servers}));
        let hubs = hubs.collect();
        Ok::<_, Problem>(Json(page("hubs", hubs, found.next, &found.missing)))
    };
    interface.with(
        operation(
            Method::GET,
            "/v1/hubs",
            "The hubs that the key may read, with clients and servers of all nodes: \
             ?limit, ?cursor",
            (200, "A page of hubs"),
            None,
        ),
        on(&Method::GET, list),
    )
}

fn operation(
    method: Method,
    path: &'static str,
    summary: &'static str,
    success: (u16, &'static str),
    body: Option<Value>,
) -> ApiOperation {
    ApiOperation {
        path,
        summary,
        rights: match method {
            Method::GET => &[Right::Read],
            _ => &[Right::Manage],
        },
        method,
        area: ServiceArea::Realtime,
        body,
        success,
    }
}

impl HubAdmin {
    fn lobby(&self, hub: &str) -> Result<Arc<HubConnections>, Problem> {
        let lobby = self.realtime.reachable(hub);
        lobby.map_err(|error| unknown(&error))
    }

    fn token(
        &self,
        hub: &str,
        pass: &Principal,
        headers: &HeaderMap,
        wanted: ClientTokenRequest,
    ) -> Result<Json<Value>, Problem> {
        let ring = self.access.ring();
        let key = ring.get(CLIENT_KEY);
        let key = key.ok_or_else(|| Problem::not_found("this server makes no tokens"))?;
        let host = headers.get(HOST).and_then(|own| own.to_str().ok());
        let host = host.unwrap_or("localhost");
        let host = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let lifetime = Duration::from_secs(wanted.lifetime_s.unwrap_or(3600)).min(LIFETIME);
        let mark = pass.mark(&key.primary);
        let wish = ClientTokenOptions {
            hub: hub.to_owned(),
            user: wanted.user,
            claims: mark
                .map(|mark| (MARK.to_owned(), mark))
                .into_iter()
                .collect(),
            lifetime,
        };
        let token = client_token(&wish, host, key.primary.reveal(), self.clock.now());
        Ok(Json(
            json!({"token": token, "lifetime_s": lifetime.as_secs()}),
        ))
    }
}

async fn send(
    all: &ClusterConnections,
    sending: ClientMessageRequest,
) -> Result<StatusCode, Problem> {
    let ClientMessageRequest {
        target,
        arguments,
        user,
        group,
        connection,
    } = sending;
    let to = match (user, group, connection) {
        (None, None, None) => Recipients::All { except: Vec::new() },
        (Some(user), None, None) => Recipients::Users(vec![user]),
        (None, Some(name), None) => Recipients::Group {
            name,
            except: Vec::new(),
        },
        (None, None, Some(id)) => Recipients::Connections(vec![id]),
        _ => {
            let words = "name one of user, group and connection, or none for all clients";
            return Err(Problem::bad_request(words));
        }
    };
    let payload = HubPayload::call(ProtocolSet::BOTH, None, &target, &arguments);
    let payload = payload.map_err(|error| Problem::bad_request(error.to_string()))?;
    all.room().await;
    all.send(&to, &payload);
    Ok(StatusCode::ACCEPTED)
}

fn shown(lobby: &HubConnections, client: &Arc<ClientConnection>) -> Value {
    json!({
        "id": &**client.id(),
        "user": client.caller().user,
        "server": client.server(),
        "protocol": client.protocol().map(|own| own.name()),
        "groups": lobby.groups_of(client.id()),
        "waiting_bytes": client.waiting_bytes(),
    })
}

fn shown_server(server: &AppServerStatus) -> Value {
    json!({
        "server": server.name,
        "clients": server.clients,
        "links": server.links,
        "state": if server.is_offline { "offline" } else { "online" },
        "moves": server.may_move,
        "moved": server.moved,
    })
}

/// The problem that a caller of this interface gets.
fn unknown(error: &Error) -> Problem {
    Problem::new(error.code(), error.to_string())
}

fn absent(id: &str) -> Problem {
    Problem::not_found(format!("there is no client '{id}'"))
}
