//! The routes that create, show and delete event hubs.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::routing::{MethodFilter, MethodRouter};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use steadfast_core::clock::Timestamp;
use steadfast_core::iso::format_time;
use steadfast_events::{
    AccessPolicy, Blobs, Error, ErrorKind, EventHub, EventHubDefinition, EventHubs, EventRetention,
    Rights,
};
use steadfast_net::access::{Demand, EntityScope, Principal, Right, Secret, ServiceArea};
use steadfast_net::connection_string::Endpoint;
use steadfast_net::http::Problem;
use tokio_util::sync::CancellationToken;

use super::interface::{ApiOperation, Interface, LOOK, read};
use super::node_admin::NodeAdmin;

/// The default policy of a new event hub.
const POLICY: &str = "clients";

/// The dependencies of the routes of event hubs.
pub struct EventHubContext {
    pub hubs: EventHubs,
    pub blobs: Blobs,
    /// Knows where the node listens.
    pub operator: Arc<dyn NodeAdmin>,
    /// Ends pending waits for events at shutdown.
    pub leaving: CancellationToken,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateEventHubRequest {
    name: String,
    partitions: u32,
    #[serde(default)]
    groups: Vec<String>,
    retention_s: Option<u64>,
    retention_bytes: Option<u64>,
    policies: Option<Vec<PolicyRequest>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyRequest {
    pub(super) name: String,
    pub(super) rights: Vec<String>,
}

/// A handler for one method.
pub(super) fn on<H, T>(method: &Method, handler: H, hubs: &Arc<EventHubContext>) -> MethodRouter
where
    H: axum::handler::Handler<T, Arc<EventHubContext>>,
    T: 'static,
{
    let filter = MethodFilter::try_from(method.clone()).expect("a standard method");
    axum::routing::on(filter, handler).with_state(Arc::clone(hubs))
}

/// A route of event hubs.
pub(super) fn operation(
    method: &Method,
    path: &'static str,
    summary: &'static str,
    rights: &'static [Right],
    success: (u16, &'static str),
    body: Option<Value>,
) -> ApiOperation {
    ApiOperation {
        method: method.clone(),
        path,
        summary,
        rights,
        area: ServiceArea::Events,
        body,
        success,
    }
}

const ALL: &str = "/v1/eventhubs";
/// One event hub.
pub(super) const ONE: &str = "/v1/eventhubs/{hub}";

/// Adds the routes of event hubs themselves.
pub(super) fn routes(interface: Interface, hubs: &Arc<EventHubContext>) -> Interface {
    let (get, post, gone) = (&Method::GET, &Method::POST, &Method::DELETE);
    let body = json!({"type": "object", "required": ["name", "partitions"], "properties": {
        "name": {"type": "string"},
        "partitions": {"type": "integer"},
        "groups": {"type": "array", "items": {"type": "string"}},
        "retention_s": {"type": "integer"},
        "retention_bytes": {"type": "integer"},
        "policies": {"type": "array", "items": {"type": "object", "required": ["name", "rights"],
            "properties": {
                "name": {"type": "string"},
                "rights": {"type": "array", "items": {"enum": ["send", "listen", "manage"]}},
            }}},
    }});
    interface
        .with(
            operation(
                get,
                ALL,
                "All event hubs that the key may read",
                LOOK,
                (200, "The event hubs"),
                None,
            ),
            on(get, list, hubs),
        )
        .with(
            operation(
                post,
                ALL,
                "Create an event hub",
                &[Right::Manage],
                (201, "The event hub, with connection strings"),
                Some(body),
            ),
            on(post, create, hubs),
        )
        .with(
            operation(
                get,
                ONE,
                "An event hub and its partitions; connection strings require manage",
                LOOK,
                (200, "The event hub"),
                None,
            ),
            on(get, show, hubs),
        )
        .with(
            operation(
                gone,
                ONE,
                "Delete an event hub with its events, groups and checkpoints",
                &[Right::Manage],
                (204, "Deleted"),
                None,
            ),
            on(gone, delete, hubs),
        )
}

async fn list(
    State(own): State<Arc<EventHubContext>>,
    Extension(pass): Extension<Principal>,
) -> Result<Json<Value>, Problem> {
    let mut hubs = own.hubs.list().await?;
    hubs.retain(|hub: &EventHub| {
        let demand = Demand::new(LOOK, ServiceArea::Events, EntityScope::Entity(&hub.name));
        pass.meets(&demand).is_ok()
    });
    let shown: Vec<_> = hubs.iter().map(|hub| Value::Object(facts(hub))).collect();
    Ok(Json(json!({"eventhubs": shown})))
}

async fn create(
    State(own): State<Arc<EventHubContext>>,
    Extension(pass): Extension<Principal>,
    body: Result<Json<CreateEventHubRequest>, JsonRejection>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let order = read(body)?;
    pass.allows(Right::Manage, ServiceArea::Events, Some(&order.name))?;
    let mut definition =
        EventHubDefinition::new(order.name, order.partitions).retention(EventRetention {
            age: order.retention_s.map(Duration::from_secs),
            bytes: order.retention_bytes,
        });
    definition.groups = order.groups;
    definition.policies = match order.policies {
        Some(orders) => orders.into_iter().map(policy).collect::<Result<_, _>>()?,
        None => vec![policy(PolicyRequest {
            name: POLICY.to_owned(),
            rights: vec!["send".to_owned(), "listen".to_owned()],
        })?],
    };
    let hub = own.hubs.create(definition).await?;
    let mut shown = facts(&hub);
    shown.insert("connection_strings".to_owned(), own.strings(&hub));
    Ok((StatusCode::CREATED, Json(Value::Object(shown))))
}

async fn show(
    State(own): State<Arc<EventHubContext>>,
    Extension(pass): Extension<Principal>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    let hub = own.hubs.get(&name).await?;
    let mut shown = facts(&hub);
    let mut states = Vec::with_capacity(hub.partitions as usize);
    for partition in 0..hub.partitions {
        let state = own.hubs.partition(&name, partition).await?;
        states.push(json!({
            "partition": partition,
            "first_sequence": state.first_sequence,
            "last_sequence": state.last_sequence,
            "last_offset": state.last_offset,
            "last_time": (!state.is_empty).then(|| format_time(state.last_time)),
            "events": state.last_sequence + 1 - state.first_sequence,
        }));
    }
    shown.insert("partition_states".to_owned(), json!(states));
    if pass
        .allows(Right::Manage, ServiceArea::Events, Some(&name))
        .is_ok()
    {
        shown.insert("connection_strings".to_owned(), own.strings(&hub));
    }
    Ok(Json(Value::Object(shown)))
}

async fn delete(
    State(own): State<Arc<EventHubContext>>,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    // In a task, so that both run also if the client disconnects: a retry would not find
    // the event hub, and stop there.
    let deleting = tokio::spawn(async move {
        own.hubs.delete(&name).await?;
        own.blobs.forget_event_hub(&name).await
    });
    let ended = |_| {
        Err(Error::new(
            ErrorKind::Unavailable,
            "the node is shutting down; retry",
        ))
    };
    deleting.await.unwrap_or_else(ended)?;
    Ok(StatusCode::NO_CONTENT)
}

/// A policy with new keys.
pub(super) fn policy(order: PolicyRequest) -> Result<AccessPolicy, Problem> {
    let mut rights = Rights::default();
    for right in &order.rights {
        match right.as_str() {
            "send" => rights.send = true,
            "listen" => rights.listen = true,
            "manage" => {
                rights = Rights {
                    send: true,
                    listen: true,
                    manage: true,
                }
            }
            other => {
                let words = format!("'{other}' is no right: use send, listen and manage");
                return Err(Problem::bad_request(words));
            }
        }
    }
    Ok(AccessPolicy {
        name: order.name,
        rights,
        primary: secret()?,
        secondary: secret()?,
    })
}

fn secret() -> Result<String, Problem> {
    let secret = Secret::random();
    let secret = secret.ok_or_else(|| Problem::internal("the system has no random bytes"))?;
    Ok(secret.reveal().to_owned())
}

/// An event hub without its secrets.
pub(super) fn facts(hub: &EventHub) -> Map<String, Value> {
    let groups: Vec<_> = hub.groups.iter().map(|group| &group.name).collect();
    let policies = hub.policies.iter().map(|policy| {
        let rights = policy.rights;
        let all = [
            ("send", rights.send),
            ("listen", rights.listen),
            ("manage", rights.manage),
        ];
        let held: Vec<_> = all.iter().filter(|(_, is_held)| *is_held).collect();
        let held: Vec<_> = held.iter().map(|(name, _)| *name).collect();
        json!({"name": policy.name, "rights": held})
    });
    let policies: Vec<_> = policies.collect();
    let facts = json!({
        "name": hub.name,
        "partitions": hub.partitions,
        "created": format_time(hub.created),
        "retention_s": hub.retention.age.map(|age| age.as_secs()),
        "retention_bytes": hub.retention.bytes,
        "groups": groups,
        "policies": policies,
    });
    match facts {
        Value::Object(facts) => facts,
        _ => Map::new(),
    }
}

impl EventHubContext {
    /// Connection strings by policy. Empty if the name by which clients reach the node is
    /// not known.
    pub(super) fn strings(&self, hub: &EventHub) -> Value {
        let Some(endpoint) = Endpoint::of_addresses(&self.operator.addresses()) else {
            return json!({});
        };
        let strings = hub.policies.iter().filter_map(|policy| {
            let text = endpoint.events(&policy.name, &policy.primary, Some(&hub.name))?;
            Some((policy.name.clone(), json!(text)))
        });
        Value::Object(strings.collect())
    }
}

/// An optional time as JSON.
pub(super) fn time(time: Option<Timestamp>) -> Value {
    json!(time.map(format_time))
}
