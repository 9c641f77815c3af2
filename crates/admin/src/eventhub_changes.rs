//! The routes that change event hubs.
//!
//! Each changes only the retention, group or policy that it names.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use steadfast_core::iso::format_time;
use steadfast_events::{Error, ErrorKind, EventHubChange, EventRetention};
use steadfast_net::access::Right;
use steadfast_net::http::Problem;

use super::eventhubs::{EventHubContext, ONE, PolicyRequest, facts, on, operation, policy};
use super::interface::{Interface, read};

/// `None` leaves a bound unchanged, null removes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UpdateEventHubRequest {
    #[serde(default, deserialize_with = "given")]
    retention_s: Option<Option<u64>>,
    #[serde(default, deserialize_with = "given")]
    retention_bytes: Option<Option<u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyRightsRequest {
    rights: Vec<String>,
}

fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(from).map(Some)
}

const GROUP: &str = "/v1/eventhubs/{hub}/groups/{group}";
const POLICY: &str = "/v1/eventhubs/{hub}/policies/{policy}";

type HubChildPath = Path<(String, String)>;

/// Adds the routes that change event hubs.
pub(super) fn routes(interface: Interface, hubs: &Arc<EventHubContext>) -> Interface {
    let (put, gone, patch) = (&Method::PUT, &Method::DELETE, &Method::PATCH);
    let manage: &[Right] = &[Right::Manage];
    let bound = json!({"type": ["integer", "null"]});
    let retention = json!({"type": "object", "properties": {
        "retention_s": bound,
        "retention_bytes": bound,
    }});
    let rights = json!({"type": "object", "required": ["rights"], "properties": {
        "rights": {"type": "array", "items": {"enum": ["send", "listen", "manage"]}},
    }});
    interface
        .with(
            operation(
                patch,
                ONE,
                "Change the retention of an event hub; an omitted bound stays, null removes it",
                manage,
                (200, "The event hub, with connection strings"),
                Some(retention),
            ),
            on(patch, update, hubs),
        )
        .with(
            operation(
                put,
                GROUP,
                "Create a consumer group; nothing changes if it exists",
                manage,
                (200, "The group; 201 if it is new"),
                None,
            ),
            on(put, add_group, hubs),
        )
        .with(
            operation(
                gone,
                GROUP,
                "Delete a consumer group with its ownerships and checkpoints",
                manage,
                (204, "Deleted"),
                None,
            ),
            on(gone, remove_group, hubs),
        )
        .with(
            operation(
                put,
                POLICY,
                "Create a policy, or change the rights of an existing one; its keys stay",
                manage,
                (
                    200,
                    "The policy, with its connection string; 201 if it is new",
                ),
                Some(rights),
            ),
            on(put, put_policy, hubs),
        )
        .with(
            operation(
                gone,
                POLICY,
                "Delete a policy and revoke its keys",
                manage,
                (204, "Deleted"),
                None,
            ),
            on(gone, remove_policy, hubs),
        )
}

async fn update(
    State(own): State<Arc<EventHubContext>>,
    Path(name): Path<String>,
    body: Result<Json<UpdateEventHubRequest>, JsonRejection>,
) -> Result<Json<Value>, Problem> {
    let order = read(body)?;
    let former = own.hubs.get(&name).await?.retention;
    let age = order.retention_s.map(|age| age.map(Duration::from_secs));
    let retention = EventRetention {
        age: age.unwrap_or(former.age),
        bytes: order.retention_bytes.unwrap_or(former.bytes),
    };
    let hub = own
        .hubs
        .change(&name, EventHubChange::Retention(retention))
        .await?;
    let mut shown = facts(&hub);
    shown.insert("connection_strings".to_owned(), own.strings(&hub));
    Ok(Json(Value::Object(shown)))
}

async fn add_group(
    State(own): State<Arc<EventHubContext>>,
    Path((name, group)): HubChildPath,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let change = EventHubChange::AddGroup(group.clone());
    let (status, hub) = match own.hubs.change(&name, change).await {
        Ok(hub) => (StatusCode::CREATED, hub),
        Err(error) if error.kind() == ErrorKind::Exists => {
            (StatusCode::OK, own.hubs.get(&name).await?)
        }
        Err(error) => return Err(error.into()),
    };
    let created = hub.group(&group).map(|found| format_time(found.created));
    Ok((status, Json(json!({"name": group, "created": created}))))
}

async fn remove_group(
    State(own): State<Arc<EventHubContext>>,
    Path((name, group)): HubChildPath,
) -> Result<StatusCode, Problem> {
    // In a task, so that both run also if the client disconnects: a retry would not find
    // the group, and stop there.
    let removing = tokio::spawn(async move {
        let change = EventHubChange::RemoveGroup(group.clone());
        own.hubs.change(&name, change).await?;
        own.blobs.forget_group(&name, &group).await
    });
    let ended = |_| {
        Err(Error::new(
            ErrorKind::Unavailable,
            "the node is shutting down; retry",
        ))
    };
    removing.await.unwrap_or_else(ended)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn put_policy(
    State(own): State<Arc<EventHubContext>>,
    Path((name, wanted)): HubChildPath,
    body: Result<Json<PolicyRightsRequest>, JsonRejection>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let rights = read(body)?.rights;
    let mut made = policy(PolicyRequest {
        name: wanted.clone(),
        rights,
    })?;
    let former = own.hubs.get(&name).await?;
    let former = former.policy(&wanted);
    if let Some(former) = former {
        made.primary.clone_from(&former.primary);
        made.secondary.clone_from(&former.secondary);
    }
    let status = match former {
        Some(_) => StatusCode::OK,
        None => StatusCode::CREATED,
    };
    let hub = own
        .hubs
        .change(&name, EventHubChange::PutPolicy(made))
        .await?;
    let shown = facts(&hub)["policies"].clone();
    let mut shown = shown.as_array().cloned().unwrap_or_default();
    shown.retain(|policy| policy["name"] == json!(wanted));
    let mut shown = shown.pop().unwrap_or_default();
    shown["connection_string"] = own.strings(&hub)[&wanted].clone();
    Ok((status, Json(shown)))
}

async fn remove_policy(
    State(own): State<Arc<EventHubContext>>,
    Path((name, policy)): HubChildPath,
) -> Result<StatusCode, Problem> {
    let change = EventHubChange::RemovePolicy(policy);
    own.hubs.change(&name, change).await?;
    Ok(StatusCode::NO_CONTENT)
}
