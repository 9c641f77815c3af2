//! The routes of collections.

use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query};
use axum::http::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};
use steadfast_net::access::{Demand, EntityScope, Principal, Right, ServiceArea};
use steadfast_net::http::Problem;

use super::collections::{
    CollectionsBackend, EntryRange, PartitionAddress, PartitionScheme, StepResult, TransactionStep,
    WritePrecondition,
};
use super::events::queried;
use super::interface::{ApiOperation, Interface, LOOK, on, read};
use super::page::{PageQuery, foreign_cursor, may, page, page_limit};

/// Maximum steps of one transaction.
pub(super) const STEPS: usize = 1000;

#[derive(Deserialize)]
struct PartitionSelector {
    /// `slot` is its former name.
    #[serde(alias = "slot")]
    partition: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PeekQuery {
    limit: Option<usize>,
    cursor: Option<String>,
    #[serde(alias = "slot")]
    partition: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateServiceRequest {
    scheme: PartitionScheme,
    #[serde(default)]
    volatile: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TransactionRequest {
    #[serde(alias = "slot")]
    partition: Option<String>,
    steps: Vec<TransactionStep>,
}

type EntryPath = Path<(String, String, String)>;

const SERVICE: &str = "/v1/state/{service}";
const COLLECTION: &str = "/v1/state/{service}/{collection}";
const ENTRY: &str = "/v1/state/{service}/{collection}/{key}";

/// Adds the routes of collections.
pub fn state_routes(interface: Interface, collections: &Arc<dyn CollectionsBackend>) -> Interface {
    let interface = list(interface, collections);
    let interface = services(interface, collections);
    let interface = batches(interface, collections);
    let interface = entries(interface, collections);
    peek(interface, collections)
}

/// Adds the list of services.
fn list(interface: Interface, collections: &Arc<dyn CollectionsBackend>) -> Interface {
    let own = Arc::clone(collections);
    let list = async move |Extension(pass): Extension<Principal>,
                           query: Result<Query<PageQuery>, QueryRejection>| {
        let query = queried(query)?;
        let after = query.cursor.as_deref().unwrap_or_default();
        let is_visible = |service: &str| may(&pass, LOOK, ServiceArea::State, service);
        let found = own.services(after, query.limit()?, &is_visible).await?;
        let services = found.services.iter().map(|service| {
            json!({
                "name": service.name,
                "scheme": service.scheme,
                "partitions": service.scheme.partitions(),
                "volatile": service.is_volatile,
            })
        });
        let services = services.collect();
        Ok::<_, Problem>(Json(page("services", services, found.next, &[])))
    };
    interface.with(
        ApiOperation {
            method: Method::GET,
            path: "/v1/state",
            summary: "The services that the key may read: ?limit, ?cursor",
            rights: LOOK,
            area: ServiceArea::State,
            body: None,
            success: (200, "A page of services"),
        },
        on(&Method::GET, list),
    )
}

/// Adds the view of a queue. Its path has one segment more than that of a key, so it hides
/// no key of a dictionary.
fn peek(interface: Interface, collections: &Arc<dyn CollectionsBackend>) -> Interface {
    let own = Arc::clone(collections);
    let peek = async move |Path((service, collection)): Path<(String, String)>,
                           query: Result<Query<PeekQuery>, QueryRejection>| {
        let query = queried(query)?;
        let limit = page_limit(query.limit)?;
        let after = query.cursor.as_deref().map(str::parse).transpose();
        let after = after.map_err(|_| foreign_cursor())?;
        let partition = query.partition;
        let place = PartitionAddress { service, partition };
        let found = own.peek(place, &collection, after, limit).await?;
        let entries = found.entries.iter().map(|entry| json!(entry)).collect();
        let next = found.next.map(|number| number.to_string());
        Ok::<_, Problem>(Json(page("entries", entries, next, &[])))
    };
    interface.with(
        ApiOperation {
            method: Method::GET,
            path: "/v1/state/{service}/{collection}/queue/peek",
            summary: "The first entries of a queue, which stay in it: ?limit, ?cursor, ?partition",
            rights: LOOK,
            area: ServiceArea::State,
            body: None,
            success: (200, "A page of entries"),
        },
        on(&Method::GET, peek),
    )
}

fn services(interface: Interface, collections: &Arc<dyn CollectionsBackend>) -> Interface {
    let own = Arc::clone(collections);
    let create =
        async move |Path(service): Path<String>,
                    body: Result<Json<CreateServiceRequest>, JsonRejection>| {
            let CreateServiceRequest { scheme, volatile } = read(body)?;
            own.create_service(&service, scheme, volatile).await?;
            Ok::<_, Problem>(StatusCode::NO_CONTENT)
        };
    let body = json!({"type": "object", "required": ["scheme"], "properties": {
        "scheme": {
            "description": "\"singleton\", {\"named\": [..]} or {\"range\": {\"low\", \"high\", \"count\"}}",
        },
        "volatile": {"type": "boolean", "description": "in memory only; cannot be changed"},
    }});
    let own = Arc::clone(collections);
    let describe =
        async move |Path(service): Path<String>,
                    Query(PartitionSelector { partition }): Query<PartitionSelector>| {
            let described = own
                .describe(PartitionAddress { service, partition })
                .await?;
            Ok::<_, Problem>(Json(described))
        };
    let interface = interface.with(
        ApiOperation {
            method: Method::GET,
            path: SERVICE,
            summary: "The definition of a service, and incarnation and copies of a volatile partition",
            rights: LOOK,
            area: ServiceArea::State,
            body: None,
            success: (
                200,
                "Scheme, whether it is volatile, incarnation and copies",
            ),
        },
        on(&Method::GET, describe),
    );
    interface.with(
        ApiOperation {
            method: Method::PUT,
            path: SERVICE,
            summary: "Create a service; succeeds if an equal one exists",
            rights: &[Right::Manage],
            area: ServiceArea::State,
            body: Some(body),
            success: (204, "The service exists"),
        },
        on(&Method::PUT, create),
    )
}

fn batches(interface: Interface, collections: &Arc<dyn CollectionsBackend>) -> Interface {
    let own = Arc::clone(collections);
    let transact =
        async move |Extension(pass): Extension<Principal>,
                    Path(service): Path<String>,
                    body: Result<Json<TransactionRequest>, JsonRejection>| {
            let TransactionRequest { partition, steps } = read(body)?;
            check_steps(&pass, &service, &steps)?;
            let results = own
                .transact(PartitionAddress { service, partition }, steps)
                .await?;
            Ok::<_, Problem>(Json(json!({"results": results})))
        };
    let body = json!({"type": "object", "required": ["steps"], "properties": {
        "partition": {"type": "string"},
        "steps": {"type": "array", "maxItems": STEPS, "items": step_schema()},
    }});
    let own = Arc::clone(collections);
    let scan = async move |Path((service, collection)): Path<(String, String)>,
                           Query(range): Query<EntryRange>| {
        let place = PartitionAddress {
            service,
            partition: range.partition.clone(),
        };
        Ok::<_, Problem>(Json(own.scan(place, &collection, range).await?))
    };
    interface
        .with(
            ApiOperation {
                method: Method::POST,
                path: SERVICE,
                summary: "Execute several steps in one transaction",
                rights: &[Right::Send, Right::Listen, Right::Read],
                area: ServiceArea::State,
                body: Some(body),
                success: (200, "The result of each step"),
            },
            on(&Method::POST, transact),
        )
        .with(
            ApiOperation {
                method: Method::GET,
                path: COLLECTION,
                summary: "Entries of a dictionary: ?from, ?prefix, ?limit, ?partition",
                rights: LOOK,
                area: ServiceArea::State,
                body: None,
                success: (200, "A page of entries"),
            },
            on(&Method::GET, scan),
        )
}

fn entries(interface: Interface, collections: &Arc<dyn CollectionsBackend>) -> Interface {
    let own = Arc::clone(collections);
    let get =
        async move |Path((service, collection, key)): EntryPath,
                    Query(PartitionSelector { partition }): Query<PartitionSelector>| {
            let step = TransactionStep::Get {
                collection,
                key: key.clone(),
            };
            let found = one(&own, PartitionAddress { service, partition }, step).await?;
            match found.value.clone() {
                Some(value) => Ok(tagged(StatusCode::OK, &found, Some(value))),
                None => Err(Problem::not_found(format!("there is no key '{key}'"))),
            }
        };
    let own = Arc::clone(collections);
    let put = async move |Path((service, collection, key)): EntryPath,
                          Query(PartitionSelector { partition }): Query<PartitionSelector>,
                          headers: HeaderMap,
                          body: Result<Json<Value>, JsonRejection>| {
        let step = TransactionStep::Put {
            collection,
            key,
            value: read(body)?,
            condition: condition(&headers)?,
        };
        let found = one(&own, PartitionAddress { service, partition }, step).await?;
        let status = if found.found {
            StatusCode::NO_CONTENT
        } else {
            StatusCode::CREATED
        };
        Ok::<_, Problem>(tagged(status, &found, None))
    };
    let own = Arc::clone(collections);
    let delete = async move |Path((service, collection, key)): EntryPath,
                             Query(PartitionSelector { partition }): Query<PartitionSelector>,
                             headers: HeaderMap| {
        let step = TransactionStep::Delete {
            collection,
            key: key.clone(),
            condition: condition(&headers)?,
        };
        if one(&own, PartitionAddress { service, partition }, step)
            .await?
            .found
        {
            Ok(StatusCode::NO_CONTENT)
        } else {
            Err(Problem::not_found(format!("there is no key '{key}'")))
        }
    };
    let operation =
        |method: Method, summary, rights: &'static [Right], success, body| ApiOperation {
            method,
            path: ENTRY,
            summary,
            rights,
            area: ServiceArea::State,
            body,
            success,
        };
    interface
        .with(
            operation(
                Method::GET,
                "The value of a key",
                LOOK,
                (200, "The value, with its ETag"),
                None,
            ),
            on(&Method::GET, get),
        )
        .with(
            operation(
                Method::PUT,
                "Set a key; If-Match and If-None-Match: * make it conditional",
                &[Right::Send],
                (204, "The key is set; 201 if it is new"),
                Some(json!({})),
            ),
            on(&Method::PUT, put),
        )
        .with(
            operation(
                Method::DELETE,
                "Remove a key; If-Match makes it conditional",
                &[Right::Send],
                (204, "Removed"),
                None,
            ),
            on(&Method::DELETE, delete),
        )
}

/// Checks the number of steps, and whether the caller may take each of them.
pub(super) fn check_steps(
    caller: &Principal,
    service: &str,
    steps: &[TransactionStep],
) -> Result<(), Problem> {
    if steps.len() > STEPS {
        let words = format!("a transaction has {STEPS} steps at most");
        return Err(Problem::bad_request(words));
    }
    for step in steps {
        for rights in needs(step) {
            let scope = EntityScope::Entity(service);
            caller.meets(&Demand::new(rights, ServiceArea::State, scope))?;
        }
    }
    Ok(())
}

/// The description of a step.
pub(super) fn step_schema() -> Value {
    json!({"type": "object", "required": ["op", "collection"], "properties": {
        "op": {"enum": ["get", "put", "delete", "enqueue", "dequeue"]},
        "collection": {"type": "string"},
        "key": {"type": "string"},
        "value": {},
        "if": {"description": "\"absent\", \"present\" or {\"etag\": \"..\"}"},
    }})
}

/// The rights of a step: one of each list. A dequeue both reads and changes the queue.
fn needs(step: &TransactionStep) -> &'static [&'static [Right]] {
    match step {
        TransactionStep::Get { .. } => &[LOOK],
        TransactionStep::Dequeue { .. } => &[&[Right::Send], &[Right::Listen]],
        TransactionStep::Put { .. }
        | TransactionStep::Delete { .. }
        | TransactionStep::Enqueue { .. } => &[&[Right::Send]],
    }
}

async fn one(
    collections: &Arc<dyn CollectionsBackend>,
    place: PartitionAddress,
    step: TransactionStep,
) -> Result<StepResult, Problem> {
    let mut found = collections.transact(place, vec![step]).await?;
    Ok(found.pop().unwrap_or_default())
}

/// The condition in the headers of a request.
fn condition(headers: &HeaderMap) -> Result<Option<WritePrecondition>, Problem> {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str());
    match (text(IF_MATCH), text(IF_NONE_MATCH)) {
        (None, None) => Ok(None),
        (Some(Ok("*")), None) => Ok(Some(WritePrecondition::Present)),
        (Some(Ok(tag)), None) => Ok(Some(WritePrecondition::Etag(
            tag.trim_matches('"').to_owned(),
        ))),
        (None, Some(Ok("*"))) => Ok(Some(WritePrecondition::Absent)),
        _ => Err(Problem::bad_request(
            "send If-Match with one tag or *, or If-None-Match: *",
        )),
    }
}

fn tagged(status: StatusCode, found: &StepResult, value: Option<Value>) -> Response {
    let mut response = match value {
        Some(value) => (status, Json(value)).into_response(),
        None => status.into_response(),
    };
    let tag = found
        .etag
        .as_ref()
        .map(|tag| HeaderValue::from_str(&format!("\"{tag}\"")));
    if let Some(Ok(tag)) = tag {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}
