//! The route of transactions with effects.
//!
//! One request is one transaction in one partition of a service: steps over its collections,
//! and messages to every other service, which leave after the commit. Each effect needs the
//! right that its own route needs.

use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use steadfast_core::limits;
use steadfast_durable::{EntityId, raise, signal, start};
use steadfast_events::publish;
use steadfast_net::access::{Demand, EntityScope, Principal, Right, ServiceArea};
use steadfast_net::http::Problem;
use steadfast_realtime::gateway::Recipients;
use steadfast_realtime::push;

use super::collections::{
    CollectionsBackend, IdempotencyKey, JobPath, PartitionAddress, TransactionCommit,
    TransactionStep,
};
use super::event_json::EventRequest;
use super::interface::{ApiOperation, Interface, on, read};
use super::outgoing::encoded;
use super::state::{STEPS, check_steps, step_schema};

/// Maximum effects of one transaction.
const EFFECTS: usize = 1000;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Says that a response is the stored one of an earlier request.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommitRequest {
    service: String,
    partition: Option<String>,
    #[serde(default)]
    steps: Vec<TransactionStep>,
    #[serde(default)]
    effects: Vec<TransactionEffect>,
}

/// A message to another service, sent with the commit.
#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum TransactionEffect {
    Publish {
        hub: String,
        partition: Option<u32>,
        key: Option<String>,
        events: Vec<EventRequest>,
    },
    Signal {
        task_hub: Option<String>,
        /// `@name@key`
        entity: String,
        operation: String,
        #[serde(default)]
        input: Value,
    },
    Start {
        task_hub: Option<String>,
        orchestration: String,
        /// New if there is none.
        instance: Option<String>,
        #[serde(default)]
        input: Value,
    },
    Raise {
        task_hub: Option<String>,
        instance: String,
        event: String,
        #[serde(default)]
        input: Value,
    },
    CreateJob {
        subscription: Option<String>,
        resource_group: Option<String>,
        collection: String,
        job: String,
        /// As the Scheduler's interface has them.
        properties: Value,
    },
    CancelJob {
        subscription: Option<String>,
        resource_group: Option<String>,
        collection: String,
        job: String,
    },
    Push {
        hub: String,
        target: String,
        #[serde(default)]
        arguments: Vec<Value>,
        user: Option<String>,
        group: Option<String>,
        connection: Option<String>,
    },
}

/// Adds the route of transactions.
pub fn transaction_routes(
    interface: Interface,
    collections: &Arc<dyn CollectionsBackend>,
) -> Interface {
    let own = Arc::clone(collections);
    let commit = async move |Extension(caller): Extension<Principal>,
                             headers: HeaderMap,
                             body: Result<Json<Value>, JsonRejection>| {
        commit(&own, &caller, &headers, read(body)?).await
    };
    interface.with(
        ApiOperation {
            method: Method::POST,
            path: "/v1/transactions",
            summary: "Commit steps over collections and messages to other services in one \
                      transaction; the header Idempotency-Key makes a repetition harmless. \
                      Each effect needs the right of its own route",
            rights: &[Right::Send, Right::Listen, Right::Read],
            area: ServiceArea::State,
            body: Some(schema()),
            success: (200, "The result of each step and effect"),
        },
        on(&Method::POST, commit),
    )
}

async fn commit(
    collections: &Arc<dyn CollectionsBackend>,
    caller: &Principal,
    headers: &HeaderMap,
    body: Value,
) -> Result<Response, Problem> {
    let idempotency = key(headers)?.map(|key| IdempotencyKey {
        key,
        request: body.to_string(),
    });
    let request: CommitRequest =
        serde_json::from_value(body).map_err(|error| Problem::bad_request(error.to_string()))?;
    let CommitRequest {
        service,
        partition,
        steps,
        effects,
    } = request;
    check_steps(caller, &service, &steps)?;
    if effects.len() > EFFECTS {
        let words = format!("a transaction has {EFFECTS} effects at most");
        return Err(Problem::bad_request(words));
    }
    if !effects.is_empty() || idempotency.is_some() {
        // Both write to the service's partition.
        demand(caller, Right::Send, ServiceArea::State, &service)?;
    }
    for effect in &effects {
        effect.check_rights(caller)?;
    }
    let place = PartitionAddress { service, partition };
    let done = match drafted(collections, caller, effects).await {
        Ok((messages, effects)) => {
            let order = TransactionCommit {
                steps,
                messages,
                effects,
                idempotency,
            };
            collections.commit(place, order).await?
        }
        // What an effect needs may be gone since the request was committed.
        Err(problem) => match idempotency {
            Some(key) => collections.recall(place, key).await?.ok_or(problem)?,
            None => return Err(problem),
        },
    };
    let mut response = Json(done.response).into_response();
    if done.is_replayed {
        let headers = response.headers_mut();
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// The messages of effects, and what the response says of each.
async fn drafted(
    collections: &Arc<dyn CollectionsBackend>,
    caller: &Principal,
    effects: Vec<TransactionEffect>,
) -> Result<(Vec<Bytes>, Vec<Value>), Problem> {
    let (mut messages, mut answers) = (Vec::new(), Vec::new());
    for effect in effects {
        let (message, answer) = effect.message(collections, caller).await?;
        messages.push(message);
        answers.push(answer);
    }
    Ok((messages, answers))
}

/// The idempotency key of a request.
fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else {
        return Ok(None);
    };
    let most = limits::IDEMPOTENCY_KEY_BYTES;
    let text = value.to_str().unwrap_or_default();
    if (1..=most).contains(&text.len()) {
        Ok(Some(text.to_owned()))
    } else {
        let words = format!("Idempotency-Key has 1 to {most} visible characters");
        Err(Problem::bad_request(words))
    }
}

fn demand(
    caller: &Principal,
    right: Right,
    area: ServiceArea,
    entity: &str,
) -> Result<(), Problem> {
    let rights = &[right];
    Ok(caller.meets(&Demand::new(rights, area, EntityScope::Entity(entity)))?)
}

fn task_hub(name: Option<&String>) -> &str {
    name.map_or("default", String::as_str)
}

impl TransactionEffect {
    /// The rights of the route that does the same.
    fn check_rights(&self, caller: &Principal) -> Result<(), Problem> {
        let (right, area, entity) = match self {
            Self::Publish { hub, .. } => (Right::Send, ServiceArea::Events, hub.as_str()),
            Self::Signal { task_hub: hub, .. }
            | Self::Start { task_hub: hub, .. }
            | Self::Raise { task_hub: hub, .. } => {
                (Right::Send, ServiceArea::Durable, task_hub(hub.as_ref()))
            }
            Self::CreateJob { collection, .. } | Self::CancelJob { collection, .. } => {
                (Right::Manage, ServiceArea::Jobs, collection.as_str())
            }
            Self::Push { hub, .. } => (Right::Send, ServiceArea::Realtime, hub.as_str()),
        };
        demand(caller, right, area, entity)
    }

    /// The message that is sent, and what the response says of it.
    async fn message(
        self,
        collections: &Arc<dyn CollectionsBackend>,
        caller: &Principal,
    ) -> Result<(Bytes, Value), Problem> {
        let nothing = json!({});
        Ok(match self {
            Self::Publish {
                hub,
                partition,
                key,
                events,
            } => {
                let mut message = publish(hub);
                for event in &events {
                    message = message.body(event.encode(key.as_deref())?);
                }
                if let Some(partition) = partition {
                    message = message.partition(partition);
                }
                if let Some(key) = key {
                    message = message.key(key);
                }
                (encoded(message)?, nothing)
            }
            Self::Signal {
                task_hub: hub,
                entity,
                operation,
                input,
            } => {
                let entity = EntityId::parse(&entity);
                let entity = entity.map_err(|error| Problem::bad_request(error.message()))?;
                let message = signal(entity.name(), entity.key(), &operation, &input);
                (encoded(message.task_hub(task_hub(hub.as_ref())))?, nothing)
            }
            Self::Start {
                task_hub: hub,
                orchestration,
                instance,
                input,
            } => {
                let mut message = start(&orchestration, &input).task_hub(task_hub(hub.as_ref()));
                if let Some(instance) = instance {
                    message = message.id(instance);
                }
                let answer = json!({"instance": message.instance()});
                (encoded(message)?, answer)
            }
            Self::Raise {
                task_hub: hub,
                instance,
                event,
                input,
            } => {
                let message = raise(&instance, &event, &input);
                (encoded(message.task_hub(task_hub(hub.as_ref())))?, nothing)
            }
            Self::CreateJob {
                subscription,
                resource_group,
                collection,
                job,
                properties,
            } => {
                let job = JobPath::new(subscription, resource_group, collection, job);
                let message = collections.create_job(caller, &job, properties).await?;
                (message, nothing)
            }
            Self::CancelJob {
                subscription,
                resource_group,
                collection,
                job,
            } => {
                let job = JobPath::new(subscription, resource_group, collection, job);
                (collections.cancel_job(&job)?, nothing)
            }
            Self::Push {
                hub,
                target,
                arguments,
                user,
                group,
                connection,
            } => {
                let to = recipients(user, group, connection)?;
                (encoded(push(&hub, to, &target, &arguments))?, nothing)
            }
        })
    }
}

fn recipients(
    user: Option<String>,
    group: Option<String>,
    connection: Option<String>,
) -> Result<Recipients, Problem> {
    match (user, group, connection) {
        (None, None, None) => Ok(Recipients::All { except: Vec::new() }),
        (Some(user), None, None) => Ok(Recipients::Users(vec![user])),
        (None, Some(group), None) => Ok(Recipients::Groups(vec![group])),
        (None, None, Some(id)) => Ok(Recipients::Connections(vec![id])),
        _ => Err(Problem::bad_request(
            "a push names one of 'user', 'group' and 'connection', or none of them for all",
        )),
    }
}

fn schema() -> Value {
    let effect = |name: &str, required: &[&str], members: Value| {
        let mut required = required.to_vec();
        required.insert(0, "op");
        let mut properties = members;
        properties["op"] = json!({"const": name});
        json!({"type": "object", "required": required, "properties": properties,
            "additionalProperties": false})
    };
    let (text, any) = (json!({"type": "string"}), json!({}));
    let job = json!({"subscription": text, "resource_group": text, "collection": text,
        "job": text});
    let mut made = job.clone();
    made["properties"] = json!({"type": "object",
        "description": "as in a PUT of the Scheduler's interface"});
    json!({"type": "object", "required": ["service"], "additionalProperties": false,
    "properties": {
        "service": text,
        "partition": text,
        "steps": {"type": "array", "maxItems": STEPS, "items": step_schema()},
        "effects": {"type": "array", "maxItems": EFFECTS, "items": {"oneOf": [
            effect("publish", &["hub", "events"], json!({"hub": text, "key": text,
                "partition": {"type": "integer"}, "events": {"type": "array"}})),
            effect("signal", &["entity", "operation"], json!({"task_hub": text,
                "entity": text, "operation": text, "input": any})),
            effect("start", &["orchestration"], json!({"task_hub": text,
                "orchestration": text, "instance": text, "input": any})),
            effect("raise", &["instance", "event"], json!({"task_hub": text,
                "instance": text, "event": text, "input": any})),
            effect("create_job", &["collection", "job", "properties"], made),
            effect("cancel_job", &["collection", "job"], job),
            effect("push", &["hub", "target"], json!({"hub": text, "target": text,
                "arguments": {"type": "array"}, "user": text, "group": text,
                "connection": text})),
        ]}},
    }})
}
